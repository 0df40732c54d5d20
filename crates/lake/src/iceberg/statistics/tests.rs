use arrow::array::{Array, AsArray};
use arrow::datatypes::{Float64Type, Int64Type};
use serde_json::json;

use super::*;
use crate::iceberg::manifest::{Content, Partition};

fn schema(kind: &str) -> Schema {
    Schema::parse(&json!({"fields": [{"id": 1, "name": "c", "type": kind}]}), "test").unwrap()
}

fn file(lower: Option<&[u8]>, upper: Option<&[u8]>, nulls: Option<i64>) -> Entry {
    let bound = |bytes: Option<&[u8]>| bytes.map(|bytes| (1, bytes.into())).into_iter().collect();
    Entry {
        content: Content::Data,
        path: "a".into(),
        format: "parquet".into(),
        spec_id: 0,
        partition: Partition::default(),
        records: 10,
        size: 100,
        sequence: 1,
        null_counts: nulls.map(|count| (1, count)).into_iter().collect(),
        lower_bounds: bound(lower),
        upper_bounds: bound(upper),
        referenced_data_file: None,
        blob: None,
    }
}

fn collected(kind: &str, file: &Entry, constant: Option<Option<Scalar>>) -> Option<ColumnStatistics> {
    collect(&schema(kind), &[file], |_, _| constant.clone()).unwrap().columns.remove(0)
}

/// (is the lower bound known, is the upper bound known) of a column with these bounds.
fn known(kind: &str, lower: &[u8], upper: &[u8]) -> (bool, bool) {
    // The null count keeps the column from having no statistics at all.
    let statistics = collected(kind, &file(Some(lower), Some(upper), Some(0)), None).unwrap();
    (statistics.lower.is_valid(0), statistics.upper.is_valid(0))
}

#[test]
fn suspect_bounds_are_not_known() {
    let long = |value: i64| value.to_le_bytes();
    assert_eq!(known("long", &long(1), &long(2)), (true, true));
    assert_eq!(known("long", &long(1), &long(1)), (true, true));
    assert_eq!(known("long", &long(2), &long(1)), (false, false), "inverted");
    assert_eq!(known("long", &long(2), b"odd"), (true, false), "of a wrong length");
    assert_eq!(known("string", b"b", b""), (true, false), "an empty upper bound");
    assert_eq!(known("string", b"", b"z"), (true, true));
    assert_eq!(known("string", b"a", b"\xff\xff"), (true, false), "not UTF-8");
    assert_eq!(known("uuid", &[0; 16], &[9; 16]), (false, false), "ordered in two ways by writers");
    let double = |value: f64| value.to_le_bytes();
    assert_eq!(known("double", &double(f64::NAN), &double(1.0)), (false, true));
}

#[test]
fn zero_bounds_cover_both_zeros() {
    let file = file(Some(&0.0_f64.to_le_bytes()), Some(&(-0.0_f64).to_le_bytes()), None);
    let statistics = collected("double", &file, None).unwrap();
    assert!(statistics.lower.as_primitive::<Float64Type>().value(0).is_sign_negative());
    assert!(statistics.upper.as_primitive::<Float64Type>().value(0).is_sign_positive());
}

#[test]
fn counts_are_known_only_where_they_are_possible() {
    let null_count = |nulls| collected("int", &file(None, None, nulls), None).map(|s| s.null_count.is_valid(0));
    assert_eq!(null_count(Some(10)), Some(true));
    assert_eq!(null_count(Some(11)), None, "more nulls than rows");
    assert_eq!(null_count(Some(-1)), None);
    assert_eq!(null_count(None), None);
}

#[test]
fn a_partition_value_bounds_a_column_without_bounds() {
    let constant = |value| Some(Some(Scalar::Integer(value)));
    let statistics = collected("long", &file(None, None, None), constant(4)).unwrap();
    assert_eq!(statistics.lower.as_primitive::<Int64Type>().value(0), 4);
    assert_eq!(statistics.upper.as_primitive::<Int64Type>().value(0), 4);
    assert_eq!(statistics.null_count.value(0), 0);
    let statistics = collected("long", &file(None, None, None), Some(None)).unwrap();
    assert!(statistics.lower.is_null(0) && statistics.null_count.value(0) == 10);
    let nan = collected("double", &file(None, None, None), Some(Some(Scalar::Float(f64::NAN))));
    assert!(nan.is_none());
}
