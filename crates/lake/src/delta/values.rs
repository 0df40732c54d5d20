//! Partition values: from the log's text to a typed array of length one.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int8Array,
    Int16Array, Int32Array, Int64Array, StringArray, TimestampMicrosecondArray, new_null_array,
};
use arrow::compute::kernels::cast_utils::parse_decimal;
use arrow::datatypes::{DataType, Decimal128Type};
use delta_kernel::expressions::Scalar;
use delta_kernel::schema::PrimitiveType;

/// The value of a partition column, as an array of length one of `data_type` (the logical type of
/// `primitive`). An absent or empty text is NULL, as the protocol says. `None`: not a value of the type.
pub(crate) fn partition_value(text: Option<&str>, primitive: &PrimitiveType, data_type: &DataType) -> Option<ArrayRef> {
    let Some(text) = text.filter(|text| !text.is_empty()) else {
        return Some(new_null_array(data_type, 1));
    };
    if let DataType::Decimal128(precision, scale) = data_type {
        let value = exact_decimal(text, *precision, *scale)?;
        let array = Decimal128Array::from(vec![value]).with_precision_and_scale(*precision, *scale).ok()?;
        return Some(Arc::new(array));
    }
    Some(match primitive.parse_scalar(text).ok()? {
        Scalar::String(value) => Arc::new(StringArray::from(vec![value])),
        Scalar::Binary(value) => Arc::new(BinaryArray::from(vec![value.as_slice()])),
        Scalar::Boolean(value) => Arc::new(BooleanArray::from(vec![value])),
        Scalar::Byte(value) => Arc::new(Int8Array::from(vec![value])),
        Scalar::Short(value) => Arc::new(Int16Array::from(vec![value])),
        Scalar::Integer(value) => Arc::new(Int32Array::from(vec![value])),
        Scalar::Long(value) => Arc::new(Int64Array::from(vec![value])),
        Scalar::Float(value) => Arc::new(Float32Array::from(vec![value])),
        Scalar::Double(value) => Arc::new(Float64Array::from(vec![value])),
        Scalar::Date(days) => Arc::new(Date32Array::from(vec![days])),
        Scalar::Timestamp(micros) => Arc::new(TimestampMicrosecondArray::from(vec![micros]).with_timezone("UTC")),
        Scalar::TimestampNtz(micros) => Arc::new(TimestampMicrosecondArray::from(vec![micros])),
        _ => return None,
    })
}

/// A decimal that has no more digits after the point than the type; writers may drop trailing zeros.
fn exact_decimal(text: &str, precision: u8, scale: i8) -> Option<i128> {
    let plain = !text.contains(['e', 'E']);
    let digits = text.split_once('.').map_or(0, |(_, fraction)| fraction.trim_end_matches('0').len());
    if plain && digits > usize::try_from(scale).unwrap_or(0) {
        return None;
    }
    parse_decimal::<Decimal128Type>(text, precision, scale).ok()
}

#[cfg(test)]
mod tests {
    use arrow::array::{Array, AsArray};
    use arrow::datatypes::{TimeUnit, TimestampMicrosecondType};

    use super::*;

    fn micros(text: &str, primitive: &PrimitiveType, zone: Option<&str>) -> i64 {
        let data_type = DataType::Timestamp(TimeUnit::Microsecond, zone.map(Into::into));
        let array = partition_value(Some(text), primitive, &data_type).unwrap();
        assert_eq!(array.data_type(), &data_type);
        array.as_primitive::<TimestampMicrosecondType>().value(0)
    }

    #[test]
    fn texts_become_typed_values() {
        let decimal = PrimitiveType::decimal(10, 3).unwrap();
        let data_type = DataType::Decimal128(10, 3);
        let value = |text| {
            partition_value(Some(text), &decimal, &data_type).map(|a| a.as_primitive::<Decimal128Type>().value(0))
        };
        assert_eq!(value("1.5"), Some(1_500));
        assert_eq!(value("-0.001"), Some(-1));
        assert_eq!(value("1.2345"), None);
        assert_eq!(value("x"), None);
        assert_eq!(micros("2023-06-07 13:00:00", &PrimitiveType::Timestamp, Some("UTC")), 1_686_142_800_000_000);
        assert_eq!(
            micros("2023-06-07T13:00:00.000001Z", &PrimitiveType::Timestamp, Some("UTC")),
            1_686_142_800_000_001
        );
        assert_eq!(micros("2023-06-07 13:00:00.5", &PrimitiveType::TimestampNtz, None), 1_686_142_800_500_000);
    }

    #[test]
    fn an_empty_or_absent_text_is_null() {
        for text in [None, Some("")] {
            let array = partition_value(text, &PrimitiveType::String, &DataType::Utf8).unwrap();
            assert!(array.is_null(0));
        }
    }
}
