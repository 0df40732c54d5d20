use arrow::array::AsArray;
use proptest::prelude::*;
use serde_json::json;

use super::*;

const MICROS: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

#[test]
fn bounds_of_promoted_types_are_read_by_their_length() {
    let int = 7_i32.to_le_bytes();
    assert_eq!(Scalar::from_bound(&int, &DataType::Int32), Some(Scalar::Integer(7)));
    assert_eq!(Scalar::from_bound(&int, &DataType::Int64), Some(Scalar::Integer(7)));
    assert_eq!(Scalar::from_bound(&(-7_i64).to_le_bytes(), &DataType::Int64), Some(Scalar::Integer(-7)));
    assert_eq!(Scalar::from_bound(&7_i64.to_le_bytes(), &DataType::Int32), None);
    assert_eq!(Scalar::from_bound(&1.5_f32.to_le_bytes(), &DataType::Float64), Some(Scalar::Float(1.5)));
    assert_eq!(Scalar::from_bound(&(-1_i32).to_le_bytes(), &MICROS), Some(Scalar::Integer(-DAY_MICROS)));
    for (bytes, value) in [(&[0x80][..], -128), (&[0x00, 0x80], 128), (&[0xff; 16], -1), (&[0xff, 0x7f], -129)] {
        assert_eq!(Scalar::from_bound(bytes, &DataType::Decimal128(38, 2)), Some(Scalar::Decimal(value)));
    }
    assert_eq!(Scalar::from_bound(&[], &DataType::Decimal128(38, 2)), None);
    assert_eq!(Scalar::from_bound(&[0; 17], &DataType::Decimal128(38, 2)), None);
    assert_eq!(Scalar::from_bound(&[2], &DataType::Boolean), None);
    assert_eq!(Scalar::from_bound(&[0xff], &DataType::Utf8), None);
}

#[test]
fn defaults_are_exact_or_refused() {
    let read = |json, kind: &DataType| Scalar::from_json(&json, kind);
    let decimal = DataType::Decimal128(5, 2);
    assert_eq!(read(json!("-12.3"), &decimal), Some(Scalar::Decimal(-1230)));
    assert_eq!(read(json!("12"), &decimal), Some(Scalar::Decimal(1200)));
    assert_eq!(read(json!("12.345"), &decimal), None);
    assert_eq!(read(json!("1234.5"), &decimal), None);
    assert_eq!(read(json!(""), &decimal), None);
    assert_eq!(read(json!("--1"), &decimal), None);
    assert_eq!(read(json!("1969-12-31"), &DataType::Date32), Some(Scalar::Integer(-1)));
    assert_eq!(read(json!("1969-12-31T23:59:59.999999"), &MICROS), Some(Scalar::Integer(-1)));
    let zoned = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    assert_eq!(read(json!("1970-01-01T01:00:00.000001+01:00"), &zoned), Some(Scalar::Integer(1)));
    let nanos = DataType::Timestamp(TimeUnit::Nanosecond, None);
    assert_eq!(read(json!("1970-01-01T00:00:00.000000001"), &nanos), Some(Scalar::Integer(1)));
    assert_eq!(read(json!("00:00:01.5"), &DataType::Time64(TimeUnit::Microsecond)), Some(Scalar::Integer(1_500_000)));
    assert_eq!(read(json!(3_000_000_000_i64), &DataType::Int32), None);
    assert_eq!(read(json!("0aff"), &DataType::FixedSizeBinary(2)), Some(Scalar::Bytes(vec![10, 255])));
    assert_eq!(read(json!("0aff"), &DataType::FixedSizeBinary(3)), None);
    assert_eq!(read(json!("é"), &DataType::Binary), None);
}

#[test]
fn partition_values_fit_their_column_or_are_refused() {
    let fits = |value: Value<'_>, kind: &DataType| Scalar::from_avro(&value, kind);
    assert_eq!(fits(Value::Int(3), &DataType::Int64), Some(Scalar::Integer(3)));
    assert_eq!(fits(Value::Int(1), &MICROS), Some(Scalar::Integer(DAY_MICROS)));
    assert_eq!(fits(Value::Long(1), &MICROS), Some(Scalar::Integer(1)));
    assert_eq!(fits(Value::Bytes(&[0xff]), &DataType::Decimal128(9, 2)), Some(Scalar::Decimal(-1)));
    assert_eq!(fits(Value::Text("a"), &DataType::Int64), None);
    assert_eq!(fits(Value::Double(1.0), &DataType::Float32), None);
}

#[test]
fn arrays_keep_nulls_and_refuse_values_of_other_types() {
    let values = [Some(Scalar::Integer(1)), None];
    let array = array(&values, &DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))).unwrap();
    assert_eq!((array.len(), array.null_count()), (2, 1));
    assert!(super::array(&[Some(Scalar::Integer(i64::MAX))], &DataType::Int32).is_err());
    assert!(super::array(&[Some(Scalar::Bytes(vec![1]))], &DataType::FixedSizeBinary(2)).is_err());
    assert!(super::array(&[Some(Scalar::Boolean(true))], &DataType::Utf8).is_err());
}

proptest! {
    #[test]
    fn decimals_of_every_length_survive(value in any::<i128>(), extra in 0_usize..16) {
        let wide = value.to_be_bytes();
        let sign = if value < 0 { 0xff } else { 0 };
        let needed = 16 - wide.iter().take_while(|byte| **byte == sign).count();
        let start = (16 - needed).saturating_sub(1).saturating_sub(extra);
        prop_assert_eq!(decimal(&wide[start..]), Some(value));
    }

    #[test]
    fn floats_survive(value in any::<f32>().prop_filter("a NaN is no bound", |value| !value.is_nan())) {
        let bound = Scalar::from_bound(&value.to_le_bytes(), &DataType::Float32).unwrap();
        let array = array(&[Some(bound)], &DataType::Float32).unwrap();
        prop_assert_eq!(array.as_primitive::<arrow::datatypes::Float32Type>().value(0).to_bits(), value.to_bits());
    }
}
