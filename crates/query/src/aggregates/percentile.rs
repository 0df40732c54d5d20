//! `approx_percentile_cont` and `approx_median` over bucket counts (see [`super::buckets`] for their accuracy).

use std::mem::size_of;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type, Schema};
use datafusion::common::types::{NativeType, logical_float64};
use datafusion::common::{ScalarValue, internal_datafusion_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{
    Accumulator, AggregateUDFImpl, Coercion, ColumnarValue, Signature, TypeSignature, TypeSignatureClass, Volatility,
};
use datafusion::physical_expr::PhysicalExpr;
use lakeserve_common::error::{Error, ErrorKind};

use super::buckets::Buckets;
use super::total::decode_bytes;
use crate::error::to_datafusion;

/// `approx_percentile_cont(p) WITHIN GROUP (ORDER BY x)`, `approx_percentile_cont(x, p)`, or `approx_median(x)`.
///
/// A third argument of `approx_percentile_cont`, the size of a t-digest elsewhere, is taken and changes nothing: the
/// accuracy is fixed.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct ApproxPercentile {
    median: bool,
    signature: Signature,
}

impl ApproxPercentile {
    pub(super) fn new(median: bool) -> Self {
        let number = |class, native| Coercion::new_implicit(class, vec![TypeSignatureClass::Numeric], native);
        let value = number(TypeSignatureClass::Float, NativeType::Float64);
        let quantile = number(TypeSignatureClass::Native(logical_float64()), NativeType::Float64);
        let size = number(TypeSignatureClass::Integer, NativeType::Int64);
        let forms = if median {
            vec![TypeSignature::Coercible(vec![value])]
        } else {
            vec![
                TypeSignature::Coercible(vec![value.clone(), quantile.clone()]),
                TypeSignature::Coercible(vec![value, quantile, size]),
            ]
        };
        Self { median, signature: Signature::one_of(forms, Volatility::Immutable) }
    }

    fn quantile(&self, args: &AccumulatorArgs) -> Result<f64> {
        if self.median {
            return Ok(0.5);
        }
        let quantile = match args.exprs.get(1).map(constant).transpose()? {
            Some(ScalarValue::Float64(Some(quantile))) if (0.0..=1.0).contains(&quantile) => quantile,
            Some(other) => return Err(mistake(format!("the percentile must be between 0 and 1, not {other}"))),
            None => return Err(internal_datafusion_err!("approx_percentile_cont got no percentile")),
        };
        if let Some(size) = args.exprs.get(2) {
            let size = constant(size)?.cast_to(&DataType::Int64)?;
            if !matches!(size, ScalarValue::Int64(Some(size)) if size > 0) {
                return Err(mistake(format!("the third argument must be above zero, not {size}")));
            }
        }
        let descending = args.order_bys.first().is_some_and(|order| order.options.descending);
        Ok(if descending { 1.0 - quantile } else { quantile })
    }
}

fn mistake(message: String) -> DataFusionError {
    to_datafusion(Error::new(ErrorKind::Plan, format!("approx_percentile_cont: {message}")))
}

/// The value of an argument that must not depend on rows.
fn constant(expression: &Arc<dyn PhysicalExpr>) -> Result<ScalarValue> {
    let no_columns = RecordBatch::new_empty(Arc::new(Schema::empty()));
    match expression.evaluate(&no_columns) {
        Ok(ColumnarValue::Scalar(value)) => Ok(value),
        _ => Err(mistake(format!("{expression} must be a constant"))),
    }
}

impl AggregateUDFImpl for ApproxPercentile {
    fn name(&self) -> &str {
        if self.median { "approx_median" } else { "approx_percentile_cont" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments.first() {
            Some(DataType::Float16) => Ok(DataType::Float16),
            Some(DataType::Float32) => Ok(DataType::Float32),
            _ => Ok(DataType::Float64),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        Ok(vec![Arc::new(Field::new(format_state_name(args.name, "buckets"), DataType::Binary, true))])
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if args.is_distinct {
            let message = format!("{}(DISTINCT …) is not supported", self.name());
            return Err(to_datafusion(Error::new(ErrorKind::Unsupported, message)));
        }
        let quantile = self.quantile(&args)?;
        Ok(Box::new(Percentile { quantile, result: args.return_type().clone(), buckets: Buckets::default() }))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        // The order names the value and the direction; rows may come in any.
        AggregateOrderSensitivity::Insensitive
    }

    fn supports_within_group_clause(&self) -> bool {
        !self.median
    }
}

#[derive(Debug)]
struct Percentile {
    quantile: f64,
    result: DataType,
    buckets: Buckets,
}

impl Percentile {
    fn each(&mut self, values: &[ArrayRef], change: impl Fn(&mut Buckets, f64)) -> Result<()> {
        let [values, ..] = values else { return Err(internal_datafusion_err!("an aggregate got no argument")) };
        let values = cast(values, &DataType::Float64)?;
        values.as_primitive::<Float64Type>().iter().flatten().for_each(|value| change(&mut self.buckets, value));
        Ok(())
    }
}

impl Accumulator for Percentile {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.each(values, Buckets::add)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.each(values, Buckets::subtract)
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let [states] = states else { return Err(internal_datafusion_err!("partial state has one column")) };
        decode_bytes(states.as_ref(), Buckets::from_bytes)?.iter().for_each(|other| self.buckets.merge(other));
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![ScalarValue::Binary(Some(self.buckets.to_bytes()))])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        ScalarValue::Float64(self.buckets.quantile(self.quantile)).cast_to(&self.result)
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.buckets.heap_size()
    }
}

/// `approx_percentile_cont_with_weight`, which is refused: weights that are doubles would need sums that depend on
/// nothing but the values, in every bucket.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct WeightedPercentile {
    signature: Signature,
}

impl WeightedPercentile {
    pub(super) fn new() -> Self {
        Self { signature: Signature::variadic_any(Volatility::Immutable) }
    }

    fn refuse<T>(&self) -> Result<T> {
        let error = Error::new(ErrorKind::Unsupported, format!("{} is not supported yet", self.name()));
        Err(to_datafusion(error.with_hint("approx_percentile_cont and percentile_cont are")))
    }
}

impl AggregateUDFImpl for WeightedPercentile {
    fn name(&self) -> &str {
        "approx_percentile_cont_with_weight"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        self.refuse()
    }

    fn accumulator(&self, _args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.refuse()
    }

    fn supports_within_group_clause(&self) -> bool {
        true
    }
}
