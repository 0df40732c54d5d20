//! Which stored types may become which logical types.
//!
//! These are the widenings of Delta and Iceberg, the spellings that Parquet writers differ in for
//! one and the same type, and conversions that lose nothing (checked value by value). Anything else
//! is refused: a wrong value is worse than an error.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, TimeUnit};
use arrow::error::ArrowError;

/// How a stored type becomes a logical one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Conversion {
    /// A checked cast; every value that can be stored fits, or the cast fails.
    Cast,
    /// A cast that could drop digits: each value must survive the way back.
    Lossless,
    /// A cast of bytes to text: each value must be UTF-8.
    Text,
}

/// The conversion from `stored` to `logical`, `None` if it is not allowed.
pub(super) fn allowed(stored: &DataType, logical: &DataType) -> Option<Conversion> {
    use DataType::{
        Binary, BinaryView, Date32, Decimal128, Decimal256, FixedSizeBinary, Float16, Float32, Float64, Int8, Int16,
        Int32, Int64, LargeBinary, LargeUtf8, Null, Time32, Time64, Timestamp, UInt8, UInt16, UInt32, UInt64, Utf8,
        Utf8View,
    };
    let cast = match (stored, logical) {
        (Null, _) => Conversion::Cast,
        // Wider integers; and what a writer stored as a plain INT32 without saying how narrow it is.
        (Int8, Int16 | Int32 | Int64) | (Int16, Int8 | Int32 | Int64) | (Int32, Int8 | Int16 | Int64) => {
            Conversion::Cast
        }
        (UInt8, UInt16 | UInt32 | UInt64 | Int16 | Int32 | Int64) => Conversion::Cast,
        (UInt16, UInt32 | UInt64 | Int32 | Int64) | (UInt32, UInt64 | Int64) => Conversion::Cast,
        (Int8 | Int16 | Int32, Float64) => Conversion::Cast,
        (Float16, Float32 | Float64) | (Float32, Float64) => Conversion::Cast,
        _ if stored.is_integer() => match logical {
            Decimal128(precision, scale) if whole_digits(*precision, *scale) >= integer_digits(stored) => {
                Conversion::Cast
            }
            _ => return None,
        },
        (Decimal128(from, from_scale), Decimal128(to, to_scale)) if grows(*from, *from_scale, *to, *to_scale) => {
            Conversion::Cast
        }
        // Stored in more bytes than the precision needs.
        (Decimal256(from, from_scale), Decimal128(to, to_scale)) if grows(*from, *from_scale, *to, *to_scale) => {
            Conversion::Cast
        }
        (Date32, Timestamp(_, None)) => Conversion::Cast,
        (Timestamp(from, _), Timestamp(to, zone)) if matches!(zone.as_deref(), None | Some("UTC" | "+00:00")) => {
            if finer(*from, *to) {
                Conversion::Lossless
            } else {
                Conversion::Cast
            }
        }
        (Time32(_), Time64(_)) | (Time32(_), Time32(_)) => Conversion::Lossless,
        (Time64(from), Time64(to)) => {
            if finer(*from, *to) {
                Conversion::Lossless
            } else {
                Conversion::Cast
            }
        }
        (Utf8 | LargeUtf8 | Utf8View, Utf8 | LargeUtf8 | Utf8View | Binary) => Conversion::Cast,
        (Binary | LargeBinary | BinaryView, Utf8) => Conversion::Text,
        (Binary | LargeBinary | BinaryView | FixedSizeBinary(_), Binary) => Conversion::Cast,
        (Binary | LargeBinary | BinaryView, FixedSizeBinary(_)) => Conversion::Cast,
        _ => return None,
    };
    Some(cast)
}

fn grows(from: u8, from_scale: i8, to: u8, to_scale: i8) -> bool {
    to_scale >= from_scale && whole_digits(to, to_scale) >= whole_digits(from, from_scale)
}

fn whole_digits(precision: u8, scale: i8) -> i16 {
    i16::from(precision) - i16::from(scale)
}

/// Digits that any value of an integer type may need.
fn integer_digits(data_type: &DataType) -> i16 {
    match data_type {
        DataType::Int8 | DataType::UInt8 => 3,
        DataType::Int16 | DataType::UInt16 => 5,
        DataType::Int32 | DataType::UInt32 => 10,
        DataType::Int64 => 19,
        _ => 20,
    }
}

fn finer(from: TimeUnit, to: TimeUnit) -> bool {
    from > to
}

/// Converts an array. Fails on the first value that does not fit.
///
/// # Errors
/// `CastError` with what did not fit.
pub(super) fn convert(array: &ArrayRef, to: &DataType, conversion: Conversion) -> Result<ArrayRef, ArrowError> {
    let strict = CastOptions { safe: false, ..CastOptions::default() };
    let converted = cast_with_options(array, to, &strict)?;
    match conversion {
        Conversion::Cast => {}
        Conversion::Text => {
            // The cast checks whole buffers; make sure that no value became NULL on the way.
            if converted.null_count() != array.null_count() {
                return Err(ArrowError::CastError("a value is not UTF-8".into()));
            }
        }
        Conversion::Lossless => {
            let back = cast_with_options(&converted, array.data_type(), &strict)?;
            if !same_integers(array, &back) {
                let message = format!("a value of type {} does not fit {to} without loss", array.data_type());
                return Err(ArrowError::CastError(message));
            }
        }
    }
    Ok(converted)
}

fn same_integers(a: &ArrayRef, b: &ArrayRef) -> bool {
    let integers = |array: &ArrayRef| match array.data_type() {
        DataType::Time32(_) => cast_with_options(array, &DataType::Int32, &CastOptions::default())
            .and_then(|array| cast_with_options(&array, &DataType::Int64, &CastOptions::default())),
        _ => cast_with_options(array, &DataType::Int64, &CastOptions::default()),
    };
    match (integers(a), integers(b)) {
        (Ok(a), Ok(b)) => {
            let (a, b) = (
                a.as_primitive::<arrow::datatypes::Int64Type>().clone(),
                b.as_primitive::<arrow::datatypes::Int64Type>().clone(),
            );
            a == b
        }
        _ => false,
    }
}
