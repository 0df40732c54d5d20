//! What is known about one column in every container, made fit for comparison.

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, PrimitiveArray, UInt64Array, new_null_array,
};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{CastOptions, cast_with_options, kernels::cmp, kernels::zip::zip, nullif};
use arrow::datatypes::{DataType, Float16Type, Float32Type, Float64Type};
use arrow::error::ArrowError;

/// A list of containers with what is known about their columns.
pub(crate) trait Containers {
    /// How many containers.
    fn len(&self) -> usize;
    /// Bounds of a top-level column of the table, one slot per container; `None` if nothing is
    /// known of it anywhere.
    fn column(&self, index: usize) -> Option<Bounds>;
}

/// Bounds of one column; a null slot in `lower` or `upper` means *not known*.
#[derive(Debug, Clone)]
pub(crate) struct Bounds {
    pub(super) lower: ArrayRef,
    pub(super) upper: ArrayRef,
    /// Containers that are known to hold no NULL.
    pub(super) no_nulls: BooleanBuffer,
    /// Containers that are known to hold nothing but NULL.
    pub(super) all_null: BooleanBuffer,
    /// Containers that may hold NaN.
    pub(super) maybe_nan: BooleanBuffer,
}

impl Bounds {
    /// From statistics: arrays of the column's type and counts, one slot per container.
    ///
    /// # Errors
    /// When the arrays do not fit together.
    pub(crate) fn from_statistics(
        lower: &ArrayRef,
        upper: &ArrayRef,
        null_count: &UInt64Array,
        row_count: &UInt64Array,
    ) -> Result<Self, ArrowError> {
        let (lower, upper) = sanitise(lower, upper)?;
        let length = lower.len();
        let counts = |test: fn(u64, Option<u64>) -> bool| {
            BooleanBuffer::collect_bool(length, |i| {
                let rows = row_count.is_valid(i).then(|| row_count.value(i));
                null_count.is_valid(i) && test(null_count.value(i), rows)
            })
        };
        let no_nulls = counts(|nulls, _| nulls == 0);
        // A count above the number of rows is nonsense, and an empty container says nothing.
        let all_null = counts(|nulls, rows| nulls > 0 && rows == Some(nulls));
        let maybe_nan = if lower.data_type().is_floating() {
            BooleanBuffer::new_set(length)
        } else {
            BooleanBuffer::new_unset(length)
        };
        Ok(Self { lower, upper, no_nulls, all_null, maybe_nan })
    }

    /// From values that hold for every row of their container (they may be NULL or NaN).
    pub(crate) fn from_constants(values: &ArrayRef) -> Self {
        let length = values.len();
        let no_nulls = BooleanBuffer::collect_bool(length, |i| values.is_valid(i));
        Self {
            lower: widen_zeros(values, true),
            upper: widen_zeros(values, false),
            all_null: !&no_nulls,
            no_nulls,
            maybe_nan: BooleanBuffer::new_unset(length),
        }
    }

    /// These bounds where `here` is set, elsewhere those of `other` (or nothing known).
    pub(crate) fn or_else(&self, here: &BooleanBuffer, other: Option<&Self>) -> Option<Self> {
        let length = here.len();
        let unknown = BooleanBuffer::new_unset(length);
        let missing = new_null_array(self.lower.data_type(), length);
        let mask = BooleanArray::new(here.clone(), None);
        let pick = |ours: &ArrayRef, theirs: &ArrayRef| zip(&mask, ours, theirs).ok();
        let bits = |ours: &BooleanBuffer, theirs: &BooleanBuffer| &(ours & here) | &(theirs & &!here);
        let nan = if self.lower.data_type().is_floating() { BooleanBuffer::new_set(length) } else { unknown.clone() };
        Some(Self {
            lower: pick(&self.lower, other.map_or(&missing, |other| &other.lower))?,
            upper: pick(&self.upper, other.map_or(&missing, |other| &other.upper))?,
            no_nulls: bits(&self.no_nulls, other.map_or(&unknown, |other| &other.no_nulls)),
            all_null: bits(&self.all_null, other.map_or(&unknown, |other| &other.all_null)),
            maybe_nan: bits(&self.maybe_nan, other.map_or(&nan, |other| &other.maybe_nan)),
        })
    }

    /// The same bounds as they are after a monotone cast of the column. `None` if arrow cannot
    /// cast so.
    pub(super) fn cast(&self, to: &DataType) -> Option<Self> {
        let options = CastOptions { safe: true, ..CastOptions::default() };
        let lower = cast_with_options(&self.lower, to, &options).ok()?;
        let upper = cast_with_options(&self.upper, to, &options).ok()?;
        Some(Self { lower, upper, ..self.clone() })
    }
}

/// Drops bounds that cannot be right and widens zeros (rules 2 and 4 of the module above).
fn sanitise(lower: &ArrayRef, upper: &ArrayRef) -> Result<(ArrayRef, ArrayRef), ArrowError> {
    let lower = widen_zeros(lower, true);
    let upper = widen_zeros(upper, false);
    let inverted = cmp::gt(&lower, &upper)?;
    let mut suspect = inverted;
    if let (Some(a), Some(b)) = (is_nan(&lower), is_nan(&upper)) {
        suspect = BooleanArray::new(
            BooleanBuffer::collect_bool(suspect.len(), |i| {
                (suspect.is_valid(i) && suspect.value(i)) || a.value(i) || b.value(i)
            }),
            None,
        );
    }
    Ok((nullif(&lower, &suspect)?, nullif(&upper, &suspect)?))
}

fn is_nan(values: &ArrayRef) -> Option<BooleanBuffer> {
    fn test<T: ArrowPrimitiveType>(values: &ArrayRef, nan: fn(T::Native) -> bool) -> BooleanBuffer {
        let values = values.as_primitive::<T>();
        BooleanBuffer::collect_bool(values.len(), |i| values.is_valid(i) && nan(values.value(i)))
    }
    match values.data_type() {
        DataType::Float16 => Some(test::<Float16Type>(values, |value| value.is_nan())),
        DataType::Float32 => Some(test::<Float32Type>(values, f32::is_nan)),
        DataType::Float64 => Some(test::<Float64Type>(values, f64::is_nan)),
        _ => None,
    }
}

/// Zeros of a float column with the sign that makes the bound the wider one.
fn widen_zeros(values: &ArrayRef, negative: bool) -> ArrayRef {
    fn widen<T: ArrowPrimitiveType>(values: &ArrayRef, zero: T::Native) -> ArrayRef
    where
        T::Native: PartialEq + Copy,
    {
        let values: &PrimitiveArray<T> = values.as_primitive::<T>();
        std::sync::Arc::new(values.unary::<_, T>(|value| if value == zero { zero } else { value }))
    }
    match values.data_type() {
        DataType::Float16 => {
            type Half = <Float16Type as ArrowPrimitiveType>::Native;
            widen::<Float16Type>(values, if negative { Half::NEG_ZERO } else { Half::ZERO })
        }
        DataType::Float32 => widen::<Float32Type>(values, if negative { -0.0 } else { 0.0 }),
        DataType::Float64 => widen::<Float64Type>(values, if negative { -0.0 } else { 0.0 }),
        _ => values.clone(),
    }
}
