//! Bounds and null counts of a Delta log as typed columns, made sound.
//!
//! What the log says is not always a bound: timestamps are cut to milliseconds, some writers pass
//! decimals through doubles, a long string may have been cut without the mark that keeps it an
//! upper bound. Each is widened where the error is bounded and dropped where it is not; a dropped
//! bound (null) means 'cannot prune'. NaN is never part of a bound, see [`ColumnStatistics`].

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, Float32Array, Float64Array, StringArray, StructArray,
    TimestampMicrosecondArray, UInt64Array, new_null_array,
};
use arrow::compute::{cast, concat, kernels::cmp, nullif, take};
use arrow::datatypes::{
    DataType, Decimal128Type, Float32Type, Float64Type, Int64Type, TimeUnit, TimestampMicrosecondType,
};
use arrow::error::ArrowError;

use crate::delta::schema::Columns;
use crate::snapshot::{ColumnStatistics, DataFile, TableStatistics};

/// The largest rest that cutting a timestamp to milliseconds drops, microseconds.
const CUT_MICROS: i64 = 999;
/// Decimals of up to this many digits survive the way through a double.
const DOUBLE_DIGITS: u8 = 15;
/// Lengths at which writers are known to cut strings.
const CUT_LENGTHS: [usize; 5] = [32, 64, 128, 255, 256];
/// Characters that writers append to a cut upper bound to keep it above what was cut.
const TIE_BREAKERS: [char; 2] = ['\u{10FFFF}', '\u{FFFD}'];

/// The columns whose bounds are asked for: indexes in `columns.fields`.
pub(crate) fn columns_with_bounds(columns: &Columns) -> Vec<usize> {
    let usable = |data_type: &DataType| !matches!(data_type, DataType::Null) && !data_type.is_nested();
    let all = 0..columns.fields.len();
    all.filter(|at| usable(columns.fields[*at].data_type()) && !columns.partitions.contains(at)).collect()
}

/// The parsed statistics of one batch of scan rows; any part may be missing.
pub(crate) struct StatisticsBatch {
    rows: usize,
    parsed: Option<StructArray>,
}

impl StatisticsBatch {
    pub(crate) fn new(rows: usize, parsed: Option<&ArrayRef>) -> Self {
        Self { rows, parsed: parsed.and_then(|array| array.as_struct_opt()).cloned() }
    }

    /// The number of records of the file in `row`.
    pub(crate) fn row_count(&self, row: usize) -> Option<u64> {
        let parsed = self.parsed.as_ref().filter(|parsed| !parsed.is_null(row))?;
        let counts = parsed.column_by_name("numRecords")?.as_primitive_opt::<Int64Type>()?;
        if counts.is_null(row) { None } else { u64::try_from(counts.value(row)).ok() }
    }

    /// One leaf of `group` (`minValues`, …), as `data_type`; nulls where it is missing.
    fn leaf(&self, group: &str, name: &str, data_type: &DataType) -> Result<ArrayRef, ArrowError> {
        let found = || -> Option<(&StructArray, &StructArray, &ArrayRef)> {
            let parsed = self.parsed.as_ref()?;
            let group = parsed.column_by_name(group)?.as_struct_opt()?;
            Some((parsed, group, group.column_by_name(name)?))
        };
        let Some((parsed, group, leaf)) = found() else { return Ok(new_null_array(data_type, self.rows)) };
        // A null struct hides whatever its children hold.
        let mut leaf = Arc::clone(leaf);
        for parent in [parsed.nulls(), group.nulls()].into_iter().flatten() {
            leaf = nullif(&leaf, &BooleanArray::new(!parent.inner(), None))?;
        }
        cast(&leaf, data_type)
    }

    /// Per row: whether bounds and counts are those of exactly the live rows.
    fn tight(&self) -> Vec<bool> {
        let tight = self.parsed.as_ref().and_then(|parsed| parsed.column_by_name("tightBounds")?.as_boolean_opt());
        (0..self.rows).map(|row| tight.is_none_or(|tight| tight.is_null(row) || tight.value(row))).collect()
    }
}

/// Builds the statistics of `files`, which are in the same order as the rows of `batches`.
pub(crate) fn table_statistics(
    columns: &Columns,
    batches: &[StatisticsBatch],
    files: &[DataFile],
) -> Result<TableStatistics, ArrowError> {
    let mut statistics = vec![None; columns.fields.len()];
    if files.is_empty() {
        return Ok(TableStatistics { columns: statistics });
    }
    let row_counts: Vec<_> = files.iter().map(|file| file.row_count).collect();
    let tight: Vec<bool> = batches.iter().flat_map(StatisticsBatch::tight).collect();
    for at in columns_with_bounds(columns) {
        let (data_type, name) = (columns.fields[at].data_type(), &columns.mappings[at].physical_name);
        let gather = |group: &str, data_type: &DataType| -> Result<ArrayRef, ArrowError> {
            let parts =
                batches.iter().map(|batch| batch.leaf(group, name, data_type)).collect::<Result<Vec<_>, _>>()?;
            concat(&parts.iter().map(AsRef::as_ref).collect::<Vec<_>>())
        };
        let (lower, upper) = (gather("minValues", data_type)?, gather("maxValues", data_type)?);
        let (lower, upper) = sound_bounds(lower, upper, columns.widened[at])?;
        let counts = gather("nullCount", &DataType::Int64)?;
        let null_count = sound_null_counts(counts.as_primitive::<Int64Type>(), &row_counts, &tight);
        statistics[at] = ColumnStatistics::if_any_is_known(lower, upper, null_count);
    }
    for (position, &at) in columns.partitions.iter().enumerate() {
        let values: Vec<&dyn Array> = files.iter().map(|file| file.constants[position].1.as_ref()).collect();
        let values = concat(&values)?;
        let nulls = files.iter().enumerate();
        let null_count = nulls.map(|(row, file)| if values.is_null(row) { file.row_count } else { Some(0) }).collect();
        let (lower, upper) = if values.data_type().is_floating() {
            sound_bounds(Arc::clone(&values), values, false)?
        } else {
            (Arc::clone(&values), values)
        };
        statistics[at] = ColumnStatistics::if_any_is_known(lower, upper, null_count);
    }
    Ok(TableStatistics { columns: statistics })
}

/// The same statistics with the files in another order.
pub(crate) fn reordered(statistics: &TableStatistics, order: &UInt64Array) -> Result<TableStatistics, ArrowError> {
    let columns = statistics.columns.iter().map(|column| {
        let Some(column) = column else { return Ok(None) };
        Ok(Some(ColumnStatistics {
            lower: take(&column.lower, order, None)?,
            upper: take(&column.upper, order, None)?,
            null_count: take(&column.null_count, order, None)?.as_primitive().clone(),
        }))
    });
    Ok(TableStatistics { columns: columns.collect::<Result<_, ArrowError>>()? })
}

impl ColumnStatistics {
    /// `None` where nothing is known of any file.
    pub(crate) fn if_any_is_known(lower: ArrayRef, upper: ArrayRef, null_count: UInt64Array) -> Option<Self> {
        let rows = lower.len();
        let nothing = lower.null_count() == rows && upper.null_count() == rows && null_count.null_count() == rows;
        (!nothing).then_some(Self { lower, upper, null_count })
    }
}

/// A count that is negative or above the row count says nothing. Under wide bounds only 'none' and
/// 'all' are reliable, says the protocol.
fn sound_null_counts(counts: &arrow::array::Int64Array, row_counts: &[Option<u64>], tight: &[bool]) -> UInt64Array {
    let sound = counts.iter().zip(row_counts).zip(tight).map(|((count, rows), tight)| {
        let count = u64::try_from(count?).ok()?;
        let rows = (*rows)?;
        (count <= rows && (*tight || count == 0 || count == rows)).then_some(count)
    });
    sound.collect()
}

/// Widens or drops bounds, see the module's words. Inverted bounds are dropped on both sides.
/// `widened`: the column's type was changed, so that old files may hold a narrower one.
fn sound_bounds(lower: ArrayRef, upper: ArrayRef, widened: bool) -> Result<(ArrayRef, ArrayRef), ArrowError> {
    let inverted = |lower: &ArrayRef, upper: &ArrayRef| cmp::gt(lower, upper);
    let (lower, upper): (ArrayRef, ArrayRef) = match lower.data_type() {
        DataType::Timestamp(TimeUnit::Microsecond, zone) => {
            let low = lower.as_primitive::<TimestampMicrosecondType>();
            let high = upper.as_primitive::<TimestampMicrosecondType>();
            // Cutting may round towards zero, which raises a time before the epoch.
            let cut = |micros: i64| if micros < 0 { micros.checked_sub(CUT_MICROS) } else { Some(micros) };
            let low: TimestampMicrosecondArray = low.iter().map(|value| cut(value?)).collect();
            let high: TimestampMicrosecondArray = high.iter().map(|value| value?.checked_add(CUT_MICROS)).collect();
            (Arc::new(low.with_timezone_opt(zone.clone())), Arc::new(high.with_timezone_opt(zone.clone())))
        }
        DataType::Decimal128(precision, scale) if *precision > DOUBLE_DIGITS => {
            let slack = |value: i128| (value.abs() >> 52) + 1;
            let shift = |array: &ArrayRef, sign: i128| {
                let values = array.as_primitive::<Decimal128Type>().iter();
                let values: Decimal128Array = values.map(|value| value?.checked_add(sign * slack(value?))).collect();
                values.with_precision_and_scale(*precision, *scale).map(|array| Arc::new(array) as ArrayRef)
            };
            (shift(&lower, -1)?, shift(&upper, 1)?)
        }
        DataType::Float32 => {
            let bound = |array: &ArrayRef, zero: f32| -> ArrayRef {
                let values = array.as_primitive::<Float32Type>().iter();
                let sound = |v: f32| if v == 0.0 { zero } else { v };
                Arc::new(values.map(|v| v.filter(|v| !v.is_nan()).map(sound)).collect::<Float32Array>())
            };
            (bound(&lower, -0.0), bound(&upper, 0.0))
        }
        DataType::Float64 => {
            // What a file of single precision holds as 3.4 is 3.4000000954 in double precision,
            // while its bound still reads 3.4.
            let slack = |v: f64, sign: f64| if widened { v + sign * v.abs() * f64::from(f32::EPSILON) } else { v };
            let bound = |array: &ArrayRef, zero: f64, sign: f64| -> ArrayRef {
                let values = array.as_primitive::<Float64Type>().iter();
                let sound = |v: f64| if v == 0.0 { zero } else { slack(v, sign) };
                Arc::new(values.map(|v| v.filter(|v| !v.is_nan()).map(sound)).collect::<Float64Array>())
            };
            (bound(&lower, -0.0, -1.0), bound(&upper, 0.0, 1.0))
        }
        DataType::Utf8 => {
            let high: StringArray =
                upper.as_string::<i32>().iter().map(|text| text.filter(|text| !may_be_cut(text))).collect();
            (lower, Arc::new(high))
        }
        DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::Date32
        | DataType::Decimal128(..)
        | DataType::Boolean => (lower, upper),
        other => {
            let nothing = new_null_array(other, lower.len());
            return Ok((Arc::clone(&nothing), nothing));
        }
    };
    let inverted = inverted(&lower, &upper)?;
    Ok((nullif(&lower, &inverted)?, nullif(&upper, &inverted)?))
}

/// Whether an upper bound may be the beginning of a longer string, and so below it.
fn may_be_cut(text: &str) -> bool {
    let mut count = 0;
    let mut last = None;
    for character in text.chars() {
        count += 1;
        last = Some(character);
    }
    let marked = last.is_some_and(|last| TIE_BREAKERS.contains(&last));
    !marked && (CUT_LENGTHS.contains(&count) || CUT_LENGTHS.contains(&text.len()))
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, TimestampMicrosecondArray};

    use super::*;

    #[test]
    fn timestamps_cut_to_milliseconds_still_hold_what_was_cut() {
        let zoned =
            |values: Vec<i64>| Arc::new(TimestampMicrosecondArray::from(values).with_timezone("UTC")) as ArrayRef;
        let (lower, upper) = sound_bounds(zoned(vec![456_000, -1_000]), zoned(vec![456_000, -1_000]), false).unwrap();
        assert_eq!(lower.as_primitive::<TimestampMicrosecondType>().values(), &[456_000, -1_999]);
        assert_eq!(upper.as_primitive::<TimestampMicrosecondType>().values(), &[456_999, -1]);
        assert_eq!(lower.data_type(), &DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())));
    }

    #[test]
    fn suspect_bounds_are_unknown() {
        let floats = |values: Vec<f64>| Arc::new(Float64Array::from(values)) as ArrayRef;
        let (lower, upper) =
            sound_bounds(floats(vec![f64::NAN, 5.0, 0.0]), floats(vec![1.0, 2.0, -0.0]), false).unwrap();
        assert!(lower.is_null(0) && lower.is_null(1) && upper.is_null(1));
        assert!(lower.as_primitive::<Float64Type>().value(2).is_sign_negative());
        let texts = |values: Vec<String>| Arc::new(StringArray::from(values)) as ArrayRef;
        let cut = "x".repeat(32);
        let marked = format!("{cut}\u{10FFFF}");
        let (lower, upper) =
            sound_bounds(texts(vec![cut.clone(), cut.clone()]), texts(vec![cut, marked]), false).unwrap();
        assert_eq!((lower.null_count(), upper.is_null(0), upper.is_null(1)), (0, true, false));
    }

    #[test]
    fn wide_bounds_tell_none_and_all_only() {
        let counts = Int64Array::from(vec![Some(3), Some(0), Some(10), Some(11), None, Some(-1)]);
        let rows = [Some(10); 6];
        let sound = |tight: bool| sound_null_counts(&counts, &rows, &[tight; 6]).iter().collect::<Vec<_>>();
        assert_eq!(sound(true), [Some(3), Some(0), Some(10), None, None, None]);
        assert_eq!(sound(false), [None, Some(0), Some(10), None, None, None]);
    }

    #[test]
    fn long_decimals_allow_for_a_way_through_a_double() {
        let exact = 123_456_789_012_345_678_i128;
        let array = Decimal128Array::from(vec![exact]).with_precision_and_scale(20, 0).unwrap();
        #[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "the loss is what is tested")]
        let through = exact as f64 as i128;
        let array: ArrayRef = Arc::new(array);
        let (lower, upper) = sound_bounds(Arc::clone(&array), array, false).unwrap();
        assert!(lower.as_primitive::<Decimal128Type>().value(0) <= through);
        assert!(upper.as_primitive::<Decimal128Type>().value(0) >= through);
    }

    #[test]
    fn a_double_column_that_was_single_holds_the_rounded_values() {
        let array: ArrayRef = Arc::new(Float64Array::from(vec![3.4, -3.4]));
        let (lower, upper) = sound_bounds(Arc::clone(&array), array, true).unwrap();
        for (row, single) in [3.4_f32, -3.4].into_iter().enumerate() {
            assert!(lower.as_primitive::<Float64Type>().value(row) <= f64::from(single));
            assert!(upper.as_primitive::<Float64Type>().value(row) >= f64::from(single));
        }
    }
}
