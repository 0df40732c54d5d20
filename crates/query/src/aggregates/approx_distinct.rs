//! `approx_distinct`: HyperLogLog with 2^14 registers, a standard error of 0.8 %.
//!
//! The estimate is the composite one, which reads the registers alone (and before there are registers, the number of
//! distinct hashes), never the order in which values came. A value hashes the same however it is encoded: whole
//! numbers of any width, strings plain or in a dictionary.

use std::mem::size_of;
use std::sync::Arc;

use arrow::array::{Array, ArrayBuilder, ArrayRef, AsArray, BinaryArray, BinaryBuilder, BooleanArray, UInt64Array};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Decimal128Type, Decimal256Type, Field, FieldRef, Float64Type, Int64Type, UInt64Type};
use datafusion::common::{ScalarValue, internal_datafusion_err};
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{
    Accumulator, AggregateUDFImpl, EmitTo, GroupsAccumulator, ReversedUDAF, Signature, Volatility,
};
use datasketches::hll::{HllSketch, HllType, HllUnion};

use super::accumulate::DistinctValue;
use crate::error::to_datafusion;
use crate::render::{RowEncoder, Spelling};

/// Registers as a power of two.
const LG_K: u8 = 14;

/// A sketch of distinct values.
struct Sketch(HllUnion);

impl Sketch {
    fn new() -> Result<Self> {
        HllUnion::new(LG_K).map(Self).map_err(|error| internal_datafusion_err!("{error}"))
    }

    fn add(&mut self, value: &[u8]) {
        self.0.update_value(value);
    }

    fn estimate(&self) -> u64 {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "estimates are whole numbers ≥ 0")]
        let estimate = self.0.composite_estimate().round() as u64;
        estimate
    }

    fn heap_size(&self) -> usize {
        self.0.estimated_size()
    }

    fn to_bytes(&self) -> Vec<u8> {
        self.0.to_sketch(HllType::Hll8).serialize()
    }

    fn merge_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        let other = HllSketch::deserialize(bytes)
            .map_err(|error| internal_datafusion_err!("a partial approx_distinct is malformed: {error}"))?;
        self.0.update(&other);
        Ok(())
    }
}

impl std::fmt::Debug for Sketch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Sketch").field(&self.estimate()).finish()
    }
}

/// Calls `visit` with each row that counts and the bytes that tell its value apart.
fn each_value(
    array: &ArrayRef,
    filter: Option<&BooleanArray>,
    mut visit: impl FnMut(usize, &[u8]) -> Result<()>,
) -> Result<()> {
    let array = plain(array)?;
    let valid = counted(array.as_ref(), filter);
    let rows = |visit: &mut dyn FnMut(usize) -> Result<()>| match &valid {
        None => (0..array.len()).try_for_each(visit),
        Some(valid) => valid.valid_indices().try_for_each(visit),
    };
    match array.data_type() {
        DataType::Int64 => {
            let values = array.as_primitive::<Int64Type>().values();
            rows(&mut |row| visit(row, &values[row].to_le_bytes()))
        }
        DataType::UInt64 => {
            let values = array.as_primitive::<UInt64Type>().values();
            rows(&mut |row| visit(row, &values[row].to_le_bytes()))
        }
        DataType::Float64 => {
            let values = array.as_primitive::<Float64Type>().values();
            rows(&mut |row| visit(row, &values[row].key().to_le_bytes()))
        }
        DataType::Decimal128(_, _) => {
            let values = array.as_primitive::<Decimal128Type>().values();
            rows(&mut |row| visit(row, &values[row].to_le_bytes()))
        }
        DataType::Decimal256(_, _) => {
            let values = array.as_primitive::<Decimal256Type>().values();
            rows(&mut |row| visit(row, &values[row].to_le_bytes()))
        }
        DataType::Utf8View => {
            let values = array.as_string_view();
            rows(&mut |row| visit(row, values.value(row).as_bytes()))
        }
        DataType::BinaryView => {
            let values = array.as_binary_view();
            rows(&mut |row| visit(row, values.value(row)))
        }
        _ => {
            let batch = arrow::array::RecordBatch::try_from_iter_with_nullable([("value", Arc::clone(&array), true)])?;
            let encoder = RowEncoder::arrays(&batch, Spelling::Canonical).map_err(to_datafusion)?;
            let mut text = Vec::new();
            rows(&mut |row| {
                text.clear();
                encoder.encode_row(row, &mut text);
                visit(row, &text)
            })
        }
    }
}

/// The array in the one encoding of its kind of values.
fn plain(array: &ArrayRef) -> Result<ArrayRef> {
    use DataType as T;
    let wanted = match array.data_type() {
        T::Int8 | T::Int16 | T::Int32 | T::UInt8 | T::UInt16 | T::UInt32 => T::Int64,
        T::Float16 | T::Float32 => T::Float64,
        T::Decimal32(precision, scale) | T::Decimal64(precision, scale) => T::Decimal128(*precision, *scale),
        T::Date32 | T::Timestamp(_, _) | T::Time64(_) | T::Duration(_) => T::Int64,
        T::Utf8 | T::LargeUtf8 => T::Utf8View,
        T::Binary | T::LargeBinary => T::BinaryView,
        T::Dictionary(_, value) => return plain(&cast(array, value)?),
        _ => return Ok(Arc::clone(array)),
    };
    Ok(cast(array, &wanted)?)
}

/// The rows that are not NULL and that the filter lets through.
fn counted(array: &dyn Array, filter: Option<&BooleanArray>) -> Option<NullBuffer> {
    let nulls = array.logical_nulls();
    match filter {
        None => nulls,
        Some(filter) => {
            let passed = super::accumulate::valid_rows(&BooleanArray::new(filter.values().clone(), None), Some(filter));
            NullBuffer::union(nulls.as_ref(), passed.as_ref())
        }
    }
}

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct ApproxDistinct {
    signature: Signature,
}

impl ApproxDistinct {
    pub(super) fn new() -> Self {
        Self { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl AggregateUDFImpl for ApproxDistinct {
    fn name(&self) -> &str {
        "approx_distinct"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(DataType::UInt64)
    }

    fn is_nullable(&self) -> bool {
        false
    }

    fn default_value(&self, _data_type: &DataType) -> Result<ScalarValue> {
        Ok(ScalarValue::UInt64(Some(0)))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        Ok(vec![Arc::new(Field::new(format_state_name(args.name, "sketch"), DataType::Binary, true))])
    }

    fn accumulator(&self, _args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(All(Sketch::new()?)))
    }

    fn groups_accumulator_supported(&self, _args: AccumulatorArgs) -> bool {
        true
    }

    fn create_groups_accumulator(&self, _args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(Groups { sketches: Vec::new(), heap: 0 }))
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

fn only(columns: &[ArrayRef]) -> Result<&ArrayRef> {
    columns.first().ok_or_else(|| internal_datafusion_err!("approx_distinct got no column"))
}

fn states(columns: &[ArrayRef]) -> Result<&BinaryArray> {
    let states = only(columns)?.as_binary_opt::<i32>();
    states.ok_or_else(|| internal_datafusion_err!("a partial approx_distinct is not binary"))
}

/// One sketch over all rows.
#[derive(Debug)]
struct All(Sketch);

impl Accumulator for All {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        each_value(only(values)?, None, |_, value| {
            self.0.add(value);
            Ok(())
        })
    }

    fn merge_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        states(columns)?.iter().flatten().try_for_each(|bytes| self.0.merge_bytes(bytes))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![ScalarValue::Binary(Some(self.0.to_bytes()))])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::UInt64(Some(self.0.estimate())))
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.0.heap_size()
    }
}

/// A sketch for each group.
struct Groups {
    sketches: Vec<Sketch>,
    /// What the sketches hold on the heap together.
    heap: usize,
}

impl Groups {
    fn resize(&mut self, groups: usize) -> Result<()> {
        while self.sketches.len() < groups {
            let sketch = Sketch::new()?;
            self.heap += sketch.heap_size();
            self.sketches.push(sketch);
        }
        Ok(())
    }

    fn change(&mut self, group: usize, change: impl FnOnce(&mut Sketch) -> Result<()>) -> Result<()> {
        let sketch = &mut self.sketches[group];
        let before = sketch.heap_size();
        change(sketch)?;
        self.heap = (self.heap + sketch.heap_size()).saturating_sub(before);
        Ok(())
    }

    fn take(&mut self, emit_to: EmitTo) -> Vec<Sketch> {
        let taken = emit_to.take_needed(&mut self.sketches);
        self.heap = self.heap.saturating_sub(taken.iter().map(Sketch::heap_size).sum());
        taken
    }
}

impl GroupsAccumulator for Groups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        opt_filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        self.resize(total_num_groups)?;
        each_value(only(values)?, opt_filter, |row, value| {
            self.change(group_indices[row], |sketch| {
                sketch.add(value);
                Ok(())
            })
        })
    }

    fn merge_batch(&mut self, values: &[ArrayRef], group_indices: &[usize], total_num_groups: usize) -> Result<()> {
        self.resize(total_num_groups)?;
        for (bytes, group) in states(values)?.iter().zip(group_indices) {
            if let Some(bytes) = bytes {
                self.change(*group, |sketch| sketch.merge_bytes(bytes))?;
            }
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let estimates = self.take(emit_to).iter().map(Sketch::estimate).collect::<Vec<_>>();
        Ok(Arc::new(UInt64Array::from(estimates)))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let sketches = self.take(emit_to);
        Ok(vec![Arc::new(BinaryArray::from_iter_values(sketches.iter().map(Sketch::to_bytes)))])
    }

    fn convert_to_state(&self, values: &[ArrayRef], opt_filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let values = only(values)?;
        let mut builder = BinaryBuilder::new();
        each_value(values, opt_filter, |row, value| {
            while builder.len() < row {
                builder.append_null();
            }
            let mut sketch = Sketch::new()?;
            sketch.add(value);
            builder.append_value(sketch.to_bytes());
            Ok(())
        })?;
        while builder.len() < values.len() {
            builder.append_null();
        }
        Ok(vec![Arc::new(builder.finish())])
    }

    fn size(&self) -> usize {
        self.sketches.capacity() * size_of::<Sketch>() + self.heap
    }
}
