//! From totals to results: the one place where aggregates round and where overflow is found.

use std::sync::Arc;

use arrow::array::{ArrayRef, ArrowPrimitiveType, PrimitiveArray};
use arrow::datatypes::{DataType, Decimal128Type, Decimal256Type, DecimalType, Float64Type, Int64Type, UInt64Type};
use datafusion::error::Result;
use num_bigint::{BigInt, Sign};

use super::exact::{ExactSum, round};
use super::moments::Moments;
use super::overflow;
use super::total::{Whole, to_i256};

/// An array of what `result` makes of each total and count.
fn each<O: ArrowPrimitiveType, T>(
    data_type: DataType,
    totals: &[T],
    counts: &[u64],
    result: impl Fn(&T, u64) -> Result<Option<O::Native>>,
) -> Result<ArrayRef> {
    let values = totals.iter().zip(counts).map(|(total, count)| result(total, *count));
    let array = values.collect::<Result<PrimitiveArray<O>>>()?;
    Ok(Arc::new(array.with_data_type(data_type)))
}

/// As [`each`] for results that exist where there is a value at all.
fn each_nonempty<O: ArrowPrimitiveType, T>(
    data_type: DataType,
    totals: &[T],
    counts: &[u64],
    result: impl Fn(&T, u64) -> Result<O::Native>,
) -> Result<ArrayRef> {
    each::<O, T>(data_type, totals, counts, |total, count| (count > 0).then(|| result(total, count)).transpose())
}

/// Totals of BIGINT.
pub(super) fn sum_i64(totals: &[i128], counts: &[u64]) -> Result<ArrayRef> {
    each_nonempty::<Int64Type, _>(DataType::Int64, totals, counts, |total, _| {
        i64::try_from(*total).map_err(|_| overflow("sum", total, &DataType::Int64))
    })
}

/// Totals of unsigned BIGINT.
pub(super) fn sum_u64(totals: &[i128], counts: &[u64]) -> Result<ArrayRef> {
    each_nonempty::<UInt64Type, _>(DataType::UInt64, totals, counts, |total, _| {
        u64::try_from(*total).map_err(|_| overflow("sum", total, &DataType::UInt64))
    })
}

/// Totals of decimals, in the result type's scale.
pub(super) fn sum_decimal<T: Whole>(result: &DataType, totals: &[T], counts: &[u64]) -> Result<ArrayRef> {
    let DataType::Decimal128(precision, scale) = result else {
        return decimals("sum", result, totals, counts, |total, _| total);
    };
    each_nonempty::<Decimal128Type, _>(result.clone(), totals, counts, |total, _| {
        let value = total.to_i128().filter(|value| Decimal128Type::is_valid_decimal_precision(*value, *precision));
        value.ok_or_else(|| overflow("sum", scaled(&total.to_integer(), *scale), result))
    })
}

/// Totals of doubles, rounded once.
pub(super) fn sum_f64(totals: &[ExactSum], counts: &[u64]) -> Result<ArrayRef> {
    each_nonempty::<Float64Type, _>(DataType::Float64, totals, counts, |total, _| Ok(total.to_f64()))
}

/// Totals of durations, counted in the unit of their type.
pub(super) fn sum_duration(result: &DataType, totals: &[i128], counts: &[u64]) -> Result<ArrayRef> {
    let units = each_nonempty::<Int64Type, _>(DataType::Int64, totals, counts, |total, _| {
        i64::try_from(*total).map_err(|_| overflow("sum", total, result))
    })?;
    Ok(arrow::compute::cast(&units, result)?)
}

/// Means of whole numbers, rounded once.
pub(super) fn avg_whole(totals: &[i128], counts: &[u64]) -> Result<ArrayRef> {
    each_nonempty::<Float64Type, _>(DataType::Float64, totals, counts, |total, count| {
        Ok(round::ratio(*total < 0, total.unsigned_abs(), 0, count, false))
    })
}

/// Means of doubles, rounded once.
pub(super) fn avg_f64(totals: &[ExactSum], counts: &[u64]) -> Result<ArrayRef> {
    each_nonempty::<Float64Type, _>(DataType::Float64, totals, counts, |total, count| Ok(total.mean(count)))
}

/// Means of decimals with `more` more places than the arguments, rounded half away from zero.
pub(super) fn avg_decimal<T: Whole>(result: &DataType, more: u32, totals: &[T], counts: &[u64]) -> Result<ArrayRef> {
    let unit = BigInt::from(10u8).pow(more);
    decimals("avg", result, totals, counts, |total, count| half_away(&(total * &unit), count))
}

/// Means of durations, rounded half away from zero.
pub(super) fn avg_duration(result: &DataType, totals: &[i128], counts: &[u64]) -> Result<ArrayRef> {
    let units = each_nonempty::<Int64Type, _>(DataType::Int64, totals, counts, |total, count| {
        let mean = half_away(&BigInt::from(*total), count);
        i64::try_from(&mean).map_err(|_| overflow("avg", mean, result))
    })?;
    Ok(arrow::compute::cast(&units, result)?)
}

/// Variances or standard deviations.
pub(super) fn variance(sample: bool, root: bool, scale: i8, totals: &[Moments], counts: &[u64]) -> Result<ArrayRef> {
    each::<Float64Type, _>(DataType::Float64, totals, counts, |total, count| {
        Ok(total.variance(count, sample, root, scale))
    })
}

fn half_away(total: &BigInt, count: u64) -> BigInt {
    // (2·|t| + n) ÷ 2n, towards zero.
    let doubled: BigInt = BigInt::from(total.magnitude().clone()) * 2u8 + count;
    let rounded = doubled / (BigInt::from(count) * 2u8);
    if total.sign() == Sign::Minus { -rounded } else { rounded }
}

/// An array of a decimal type; a value with more digits than the type has is an overflow.
fn decimals<T: Whole>(
    function: &str,
    result: &DataType,
    totals: &[T],
    counts: &[u64],
    unscaled: impl Fn(BigInt, u64) -> BigInt,
) -> Result<ArrayRef> {
    match result {
        DataType::Decimal256(precision, scale) => {
            each_nonempty::<Decimal256Type, _>(result.clone(), totals, counts, |total, count| {
                let value = unscaled(total.to_integer(), count);
                to_i256(&value)
                    .filter(|value| Decimal256Type::is_valid_decimal_precision(*value, *precision))
                    .ok_or_else(|| overflow(function, scaled(&value, *scale), result))
            })
        }
        DataType::Decimal128(precision, scale) => {
            each_nonempty::<Decimal128Type, _>(result.clone(), totals, counts, |total, count| {
                let value = unscaled(total.to_integer(), count);
                i128::try_from(&value)
                    .ok()
                    .filter(|value| Decimal128Type::is_valid_decimal_precision(*value, *precision))
                    .ok_or_else(|| overflow(function, scaled(&value, *scale), result))
            })
        }
        other => Err(datafusion::common::internal_datafusion_err!("{function} of decimals cannot be {other}")),
    }
}

/// The value for an error message.
fn scaled(unscaled: &BigInt, scale: i8) -> String {
    let (sign, digits) = (unscaled.sign() == Sign::Minus, unscaled.magnitude().to_string());
    let mut text = String::from(if sign { "-" } else { "" });
    match usize::try_from(scale) {
        Ok(places) if places > 0 => {
            let digits = format!("{digits:0>width$}", width = places + 1);
            let (whole, fraction) = digits.split_at(digits.len() - places);
            text.push_str(&format!("{whole}.{fraction}"));
        }
        _ => text.push_str(&format!("{digits}{}", "0".repeat(usize::from(scale.unsigned_abs())))),
    }
    text
}
