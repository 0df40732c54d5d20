//! Which types may change, and how nested columns are found.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, Int32Array, StringArray, TimestampNanosecondArray};
use arrow::datatypes::{DataType, Field, Fields, TimeUnit};
use lakeserve_lake::ColumnMapping;
use parquet::arrow::PARQUET_FIELD_ID_META_KEY;

use super::adapter::{Adapter, find};

fn field(name: &str, data_type: DataType, id: Option<i32>) -> Field {
    let field = Field::new(name, data_type, true);
    match id {
        Some(id) => field.with_metadata([(PARQUET_FIELD_ID_META_KEY.to_owned(), id.to_string())].into()),
        None => field,
    }
}

fn adapted(array: ArrayRef, to: DataType) -> Result<ArrayRef, String> {
    let stored = field("c", array.data_type().clone(), None);
    let logical = field("c", to, None);
    let adapter =
        Adapter::between(&stored, &logical, &ColumnMapping::default(), false).map_err(|problem| problem.to_string())?;
    adapter.apply(&array).map_err(|error| error.to_string())
}

fn may(from: DataType, to: DataType) -> bool {
    adapted(arrow::array::new_empty_array(&from), to).is_ok()
}

#[test]
fn only_widenings_are_allowed() {
    use DataType::{Binary, Date32, Decimal128, Float32, Float64, Int16, Int32, Int64, Timestamp, UInt32, Utf8};
    let micros = |zone: Option<&str>| Timestamp(TimeUnit::Microsecond, zone.map(Into::into));
    for (from, to) in [
        (Int16, Int64),
        (Int32, Float64),
        (UInt32, Int64),
        (Float32, Float64),
        (Int32, Decimal128(12, 2)),
        (Decimal128(9, 2), Decimal128(11, 4)),
        (Date32, micros(None)),
        (Binary, Utf8),
        (Timestamp(TimeUnit::Millisecond, None), micros(Some("UTC"))),
    ] {
        assert!(may(from.clone(), to.clone()), "{from} to {to}");
    }
    for (from, to) in [
        (Int64, Int32),
        (Int64, Float64),
        (Float64, Float32),
        (Utf8, Int64),
        (Int64, Utf8),
        (Int32, Decimal128(11, 2)),
        (Decimal128(9, 2), Decimal128(9, 3)),
        (Decimal128(9, 2), Decimal128(20, 1)),
        (Date32, micros(Some("UTC"))),
        (Int64, micros(None)),
        (Float64, Decimal128(20, 2)),
    ] {
        assert!(!may(from.clone(), to.clone()), "{from} to {to}");
    }
}

#[test]
fn digits_are_never_dropped() {
    let nanos = |values: Vec<i64>| -> ArrayRef { Arc::new(TimestampNanosecondArray::from(values)) };
    let micros = DataType::Timestamp(TimeUnit::Microsecond, None);
    assert!(adapted(nanos(vec![1_000, -2_000]), micros.clone()).is_ok());
    assert!(adapted(nanos(vec![1_001]), micros).is_err());
    let decimal: ArrayRef = Arc::new(Decimal128Array::from(vec![12_345]).with_precision_and_scale(9, 2).unwrap());
    let grown = adapted(decimal, DataType::Decimal128(12, 4)).unwrap();
    assert_eq!(grown.as_primitive::<arrow::datatypes::Decimal128Type>().value(0), 1_234_500);
}

#[test]
fn ids_win_over_names_and_a_new_column_of_an_old_name_is_missing() {
    let fields = Fields::from(vec![field("c1", DataType::Int32, Some(1)), field("c2", DataType::Int32, Some(2))]);
    let mapping = |id: Option<i32>, name: &str| ColumnMapping {
        field_id: id,
        physical_name: name.into(),
        ..ColumnMapping::default()
    };
    assert_eq!(find(&fields, &mapping(Some(2), "c1"), true), Some(1));
    assert_eq!(find(&fields, &mapping(Some(3), "c2"), true), None);
    // A file without ids, or a table without: by name, then by alias.
    assert_eq!(find(&fields, &mapping(Some(3), "c2"), false), Some(1));
    assert_eq!(find(&fields, &mapping(None, "c2"), true), Some(1));
    let aliased = ColumnMapping { aliases: vec!["old".into(), "c1".into()], ..mapping(Some(9), "new") };
    assert_eq!(find(&fields, &aliased, false), Some(0));
    assert_eq!(find(&fields, &aliased, true), None);
}

#[test]
fn children_are_adapted_inside_lists_and_maps() {
    let pair = |a: DataType| Fields::from(vec![Field::new("key", DataType::Utf8, false), Field::new("value", a, true)]);
    let keys: ArrayRef = Arc::new(StringArray::from(vec!["k", "l"]));
    let values: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), None]));
    let entries = arrow::array::StructArray::new(pair(DataType::Int32), vec![keys, values], None);
    let offsets = arrow::buffer::OffsetBuffer::new(vec![0, 2].into());
    let stored = Arc::new(Field::new("key_value", DataType::Struct(pair(DataType::Int32)), false));
    let map: ArrayRef = Arc::new(arrow::array::MapArray::new(stored, offsets, entries, None, false));
    let logical = Arc::new(Field::new("entries", DataType::Struct(pair(DataType::Int64)), false));
    let wanted = DataType::Map(logical, false);
    let adapted = adapted(map, wanted.clone()).unwrap();
    assert_eq!(adapted.data_type(), &wanted);
    assert_eq!(adapted.as_map().values().as_primitive::<arrow::datatypes::Int64Type>().value(0), 1);
    assert!(adapted.as_map().values().is_null(1));
}
