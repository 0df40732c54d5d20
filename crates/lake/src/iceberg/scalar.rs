//! Single values in the three spellings of the Iceberg specification (binary bounds, Avro
//! partition values, JSON defaults), and arrow arrays of them.
//!
//! A type may have been promoted since a value was written (int to long, float to double, a wider
//! decimal, date to timestamp): values are read by the length or type that they have, then widened.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryBuilder, BooleanBuilder, Decimal128Builder, FixedSizeBinaryBuilder, Float32Builder, Float64Builder,
    PrimitiveBuilder, StringBuilder,
};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Int32Type, Int64Type, Time64MicrosecondType, TimeUnit,
    TimestampMicrosecondType, TimestampNanosecondType,
};
use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime, Timelike};
use lakeserve_common::{Error, ErrorKind, Result};
use serde_json::Value as Json;

use super::avro::Value;

/// A value of a primitive type, with integers, dates and times alike as integers.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Scalar {
    Boolean(bool),
    Integer(i64),
    Float(f64),
    Decimal(i128),
    Text(String),
    Bytes(Vec<u8>),
}

const DAY_MICROS: i64 = 86_400_000_000;

impl Scalar {
    /// Reads a bound of a column that is of type `kind` now. `None` when it cannot be understood,
    /// which means that it is not known.
    pub(super) fn from_bound(bytes: &[u8], kind: &DataType) -> Option<Self> {
        Some(match kind {
            DataType::Boolean => match bytes {
                [0] => Self::Boolean(false),
                [1] => Self::Boolean(true),
                _ => return None,
            },
            DataType::Int32 | DataType::Date32 => Self::Integer(i32::from_le_bytes(bytes.try_into().ok()?).into()),
            DataType::Int64 => Self::Integer(integer(bytes)?),
            DataType::Time64(_) => Self::Integer(i64::from_le_bytes(bytes.try_into().ok()?)),
            DataType::Timestamp(unit, _) => match bytes.len() {
                4 => Self::Integer(days(integer(bytes)?, *unit)?),
                _ => Self::Integer(i64::from_le_bytes(bytes.try_into().ok()?)),
            },
            DataType::Float32 => Self::Float(f32::from_le_bytes(bytes.try_into().ok()?).into()),
            DataType::Float64 => match bytes.len() {
                4 => Self::Float(f32::from_le_bytes(bytes.try_into().ok()?).into()),
                _ => Self::Float(f64::from_le_bytes(bytes.try_into().ok()?)),
            },
            DataType::Decimal128(..) => Self::Decimal(decimal(bytes)?),
            DataType::Utf8 => Self::Text(std::str::from_utf8(bytes).ok()?.to_owned()),
            DataType::Binary | DataType::FixedSizeBinary(_) => Self::Bytes(bytes.to_vec()),
            _ => return None,
        })
    }

    /// Reads an identity-partition value of a column that is of type `kind` now; `None` when the
    /// two do not fit. Null is not a scalar: ask before.
    pub(super) fn from_avro(value: &Value<'_>, kind: &DataType) -> Option<Self> {
        Some(match (kind, value) {
            (DataType::Boolean, Value::Boolean(value)) => Self::Boolean(*value),
            (DataType::Int32 | DataType::Date32 | DataType::Int64 | DataType::Time64(_), value) => {
                Self::Integer(value.integer()?)
            }
            (DataType::Timestamp(unit, _), Value::Int(date)) => Self::Integer(days(i64::from(*date), *unit)?),
            (DataType::Timestamp(..), Value::Long(value)) => Self::Integer(*value),
            (DataType::Float32 | DataType::Float64, Value::Float(value)) => Self::Float(f64::from(*value)),
            (DataType::Float64, Value::Double(value)) => Self::Float(*value),
            (DataType::Decimal128(..), Value::Bytes(bytes)) => Self::Decimal(decimal(bytes)?),
            (DataType::Utf8, Value::Text(text)) => Self::Text((*text).to_owned()),
            (DataType::FixedSizeBinary(16), Value::Text(text)) => {
                Self::Bytes(uuid::Uuid::parse_str(text).ok()?.into_bytes().to_vec())
            }
            (DataType::Binary | DataType::FixedSizeBinary(_), Value::Bytes(bytes)) => Self::Bytes(bytes.to_vec()),
            _ => return None,
        })
    }

    /// Reads a default value; `None` when it does not fit the type.
    pub(super) fn from_json(json: &Json, kind: &DataType) -> Option<Self> {
        let text = json.as_str();
        Some(match kind {
            DataType::Boolean => Self::Boolean(json.as_bool()?),
            DataType::Int32 => Self::Integer(i64::from(i32::try_from(json.as_i64()?).ok()?)),
            DataType::Int64 => Self::Integer(json.as_i64()?),
            DataType::Float32 | DataType::Float64 => Self::Float(json.as_f64()?),
            DataType::Decimal128(precision, scale) => Self::Decimal(decimal_text(text?, *precision, *scale)?),
            DataType::Date32 => {
                let date = NaiveDate::parse_from_str(text?, "%Y-%m-%d").ok()?;
                Self::Integer(date.signed_duration_since(NaiveDate::default()).num_days())
            }
            DataType::Time64(_) => {
                let time = NaiveTime::parse_from_str(text?, "%H:%M:%S%.f").ok()?;
                let micros = i64::from(time.nanosecond() / 1000);
                Self::Integer(i64::from(time.num_seconds_from_midnight()) * 1_000_000 + micros)
            }
            DataType::Timestamp(unit, zone) => {
                let time = match zone {
                    Some(_) => DateTime::parse_from_rfc3339(text?).ok()?.to_utc(),
                    None => NaiveDateTime::parse_from_str(text?, "%Y-%m-%dT%H:%M:%S%.f").ok()?.and_utc(),
                };
                Self::Integer(match unit {
                    TimeUnit::Nanosecond => time.timestamp_nanos_opt()?,
                    _ => time.timestamp_micros(),
                })
            }
            DataType::Utf8 => Self::Text(text?.to_owned()),
            DataType::FixedSizeBinary(16) if text?.contains('-') => {
                Self::Bytes(uuid::Uuid::parse_str(text?).ok()?.into_bytes().to_vec())
            }
            DataType::FixedSizeBinary(length) => {
                let bytes = hex(text?)?;
                (i32::try_from(bytes.len()) == Ok(*length)).then_some(Self::Bytes(bytes))?
            }
            DataType::Binary => Self::Bytes(hex(text?)?),
            _ => return None,
        })
    }

    /// Whether the value is a NaN, which is no bound.
    pub(super) fn is_nan(&self) -> bool {
        matches!(self, Self::Float(value) if value.is_nan())
    }
}

/// The order of bounds of one column: that of arrow's comparison kernels. `None` for values of
/// different kinds.
pub(super) fn is_inverted(lower: &Scalar, upper: &Scalar) -> bool {
    match (lower, upper) {
        (Scalar::Boolean(lower), Scalar::Boolean(upper)) => lower > upper,
        (Scalar::Integer(lower), Scalar::Integer(upper)) => lower > upper,
        (Scalar::Float(lower), Scalar::Float(upper)) => lower > upper,
        (Scalar::Decimal(lower), Scalar::Decimal(upper)) => lower > upper,
        (Scalar::Text(lower), Scalar::Text(upper)) => lower > upper,
        (Scalar::Bytes(lower), Scalar::Bytes(upper)) => lower > upper,
        _ => true,
    }
}

fn integer(bytes: &[u8]) -> Option<i64> {
    match bytes.len() {
        4 => Some(i32::from_le_bytes(bytes.try_into().ok()?).into()),
        _ => Some(i64::from_le_bytes(bytes.try_into().ok()?)),
    }
}

/// Days since the epoch as a timestamp of `unit`.
fn days(days: i64, unit: TimeUnit) -> Option<i64> {
    let micros = days.checked_mul(DAY_MICROS)?;
    match unit {
        TimeUnit::Microsecond => Some(micros),
        TimeUnit::Nanosecond => micros.checked_mul(1000),
        _ => None,
    }
}

/// A big-endian two's-complement integer of any length up to 16.
pub(super) fn decimal(bytes: &[u8]) -> Option<i128> {
    let first = *bytes.first()?;
    let mut wide = [if first & 0x80 == 0 { 0 } else { 0xff }; 16];
    let start = wide.len().checked_sub(bytes.len())?;
    wide.get_mut(start..)?.copy_from_slice(bytes);
    Some(i128::from_be_bytes(wide))
}

/// The unscaled value of a decimal's text at `scale`, when it is exact.
fn decimal_text(text: &str, precision: u8, scale: i8) -> Option<i128> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let scale = usize::try_from(scale).ok()?;
    let padding = scale.checked_sub(fraction.len())?;
    let all = format!("{whole}{fraction}{}", "0".repeat(padding));
    if (whole.is_empty() && fraction.is_empty()) || !all.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let value: i128 = all.parse().ok()?;
    let fits = value < 10_i128.checked_pow(precision.into()).unwrap_or(i128::MAX);
    fits.then_some(if negative { -value } else { value })
}

fn hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if !text.is_ascii() || !digits.len().is_multiple_of(2) {
        return None;
    }
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

/// An array of `kind` that holds `values`.
///
/// # Errors
/// `Corrupt` when a value does not fit the type.
pub(super) fn array(values: &[Option<Scalar>], kind: &DataType) -> Result<ArrayRef> {
    build(values, kind).ok_or_else(|| {
        Error::new(ErrorKind::Corrupt, format!("a single value in the table's metadata does not fit its type {kind}"))
    })
}

fn build(values: &[Option<Scalar>], kind: &DataType) -> Option<ArrayRef> {
    Some(match kind {
        DataType::Boolean => {
            let mut builder = BooleanBuilder::with_capacity(values.len());
            for value in values {
                builder.append_option(match value {
                    None => None,
                    Some(Scalar::Boolean(value)) => Some(*value),
                    Some(_) => return None,
                });
            }
            Arc::new(builder.finish())
        }
        DataType::Int32 => integers::<Int32Type>(values, kind)?,
        DataType::Int64 => integers::<Int64Type>(values, kind)?,
        DataType::Date32 => integers::<Date32Type>(values, kind)?,
        DataType::Time64(TimeUnit::Microsecond) => integers::<Time64MicrosecondType>(values, kind)?,
        DataType::Timestamp(TimeUnit::Microsecond, _) => integers::<TimestampMicrosecondType>(values, kind)?,
        DataType::Timestamp(TimeUnit::Nanosecond, _) => integers::<TimestampNanosecondType>(values, kind)?,
        DataType::Float32 => {
            let mut builder = Float32Builder::with_capacity(values.len());
            for value in floats(values) {
                builder.append_option(value?.map(single));
            }
            Arc::new(builder.finish())
        }
        DataType::Float64 => {
            let mut builder = Float64Builder::with_capacity(values.len());
            for value in floats(values) {
                builder.append_option(value?);
            }
            Arc::new(builder.finish())
        }
        DataType::Decimal128(precision, scale) => {
            let mut builder = Decimal128Builder::with_capacity(values.len());
            for value in values {
                builder.append_option(match value {
                    None => None,
                    Some(Scalar::Decimal(value)) => Some(*value),
                    Some(_) => return None,
                });
            }
            Arc::new(builder.finish().with_precision_and_scale(*precision, *scale).ok()?)
        }
        DataType::Utf8 => {
            let mut builder = StringBuilder::new();
            for value in values {
                builder.append_option(match value {
                    None => None,
                    Some(Scalar::Text(value)) => Some(value),
                    Some(_) => return None,
                });
            }
            Arc::new(builder.finish())
        }
        DataType::Binary => {
            let mut builder = BinaryBuilder::new();
            for value in byte_strings(values) {
                builder.append_option(value?);
            }
            Arc::new(builder.finish())
        }
        DataType::FixedSizeBinary(length) => {
            let mut builder = FixedSizeBinaryBuilder::with_capacity(values.len(), *length);
            for value in byte_strings(values) {
                match value? {
                    Some(bytes) => builder.append_value(bytes).ok()?,
                    None => builder.append_null(),
                }
            }
            Arc::new(builder.finish())
        }
        _ => return None,
    })
}

fn integers<T: ArrowPrimitiveType>(values: &[Option<Scalar>], kind: &DataType) -> Option<ArrayRef>
where
    T::Native: TryFrom<i64>,
{
    let mut builder = PrimitiveBuilder::<T>::with_capacity(values.len()).with_data_type(kind.clone());
    for value in values {
        builder.append_option(match value {
            None => None,
            Some(Scalar::Integer(value)) => Some(T::Native::try_from(*value).ok()?),
            Some(_) => return None,
        });
    }
    Some(Arc::new(builder.finish()))
}

/// Each value, or `None` where a value is no float.
fn floats(values: &[Option<Scalar>]) -> impl Iterator<Item = Option<Option<f64>>> {
    values.iter().map(|value| match value {
        None => Some(None),
        Some(Scalar::Float(value)) => Some(Some(*value)),
        Some(_) => None,
    })
}

/// Each value, or `None` where a value is no byte string.
fn byte_strings(values: &[Option<Scalar>]) -> impl Iterator<Item = Option<Option<&[u8]>>> {
    values.iter().map(|value| match value {
        None => Some(None),
        Some(Scalar::Bytes(value)) => Some(Some(value.as_slice())),
        Some(_) => None,
    })
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "bounds of a float column were widened from f32; a default is rounded"
)]
fn single(value: f64) -> f32 {
    value as f32
}

#[cfg(test)]
mod tests;
