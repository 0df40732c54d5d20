use super::*;
use crate::iceberg::avro::testing::{bytes, container, long};

const SCHEMA: &str = r#"{"type": "record", "name": "manifest_entry", "fields": [
  {"name": "status", "type": "int", "field-id": 0},
  {"name": "sequence_number", "type": ["null", "long"], "field-id": 3},
  {"name": "data_file", "field-id": 2, "type": {"type": "record", "name": "r2", "fields": [
    {"name": "content", "type": "int", "field-id": 134},
    {"name": "file_path", "type": "string", "field-id": 100},
    {"name": "file_format", "type": "string", "field-id": 101},
    {"name": "partition", "field-id": 102, "type": {"type": "record", "name": "r102", "fields": [
      {"name": "p", "type": ["null", "int"], "field-id": 1000}]}},
    {"name": "record_count", "type": "long", "field-id": 103},
    {"name": "file_size_in_bytes", "type": "long", "field-id": 104},
    {"name": "lower_bounds", "field-id": 125, "type": ["null", {"type": "array", "items":
      {"type": "record", "name": "k126_v127", "fields": [
        {"name": "key", "type": "int", "field-id": 126}, {"name": "value", "type": "bytes", "field-id": 127}]}}]},
    {"name": "key_metadata", "type": ["null", "bytes"], "field-id": 131}]}}]}"#;

fn optional(value: Option<i64>) -> Vec<u8> {
    value.map_or_else(|| long(0), |value| [long(1), long(value)].concat())
}

fn entry(status: i64, sequence: Option<i64>, content: i64, path: &str) -> Vec<u8> {
    let bounds = [long(1), long(2), long(9), bytes([9]), long(3), bytes([3]), long(0)].concat();
    let file = [long(content), bytes(path), bytes("PARQUET"), optional(Some(5)), long(10), long(100), bounds, long(0)];
    [long(status), optional(sequence), file.concat()].concat()
}

fn manifest(sequence: i64) -> ManifestFile {
    ManifestFile { path: "m.avro".into(), length: Some(1), spec_id: 4, sequence }
}

fn parse(sequence: i64, records: Vec<Vec<u8>>) -> Result<Vec<Entry>, ManifestError> {
    let file = container(SCHEMA, "deflate", &[records]);
    parse_manifest(&file, &manifest(sequence)).map(|(entries, _)| entries)
}

#[test]
fn live_entries_inherit_their_sequence_number() {
    let records = vec![
        entry(1, None, 0, "added"),
        entry(0, Some(3), 0, "existing"),
        entry(2, Some(3), 0, "deleted"),
        entry(1, Some(2), 1, "kept its number"),
    ];
    let found = parse(8, records).unwrap();
    let found: Vec<_> = found.iter().map(|entry| (entry.path.as_str(), entry.sequence, entry.content)).collect();
    use Content::{Data, PositionDeletes};
    assert_eq!(found, [("added", 8, Data), ("existing", 3, Data), ("kept its number", 2, PositionDeletes)]);
    // Version 1 has no numbers; later versions must have them on files that are not new.
    assert_eq!(parse(0, vec![entry(0, None, 0, "old")]).unwrap()[0].sequence, 0);
    assert!(matches!(parse(8, vec![entry(0, None, 0, "x")]).unwrap_err(), ManifestError::Field("sequence_number")));
}

#[test]
fn an_entry_holds_what_was_written() {
    let entry = parse(1, vec![entry(1, None, 0, "a")]).unwrap().remove(0);
    assert_eq!((entry.records, entry.size, entry.spec_id, entry.format.as_str()), (10, 100, 4, "parquet"));
    assert_eq!(entry.partition, Partition(vec![(1000, PartitionValue::Int(5))]));
    assert_eq!(entry.lower_bounds, [(3, [3].into()), (9, [9].into())], "sorted by id");
    assert!(entry.upper_bounds.is_empty() && entry.null_counts.is_empty(), "absent maps are not known");
}

#[test]
fn what_is_not_understood_is_an_error() {
    assert!(matches!(parse(1, vec![entry(3, None, 0, "a")]).unwrap_err(), ManifestError::Value("status", 3)));
    assert!(matches!(parse(1, vec![entry(1, None, 7, "a")]).unwrap_err(), ManifestError::Value("content", 7)));
    let mut encrypted = entry(1, None, 0, "a");
    encrypted.pop();
    encrypted.extend([long(1), bytes("key")].concat());
    let error = parse(1, vec![encrypted]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Feature);
    let other = container(r#"{"type": "record", "name": "x", "fields": [{"name": "y", "type": "int"}]}"#, "null", &[]);
    assert!(parse_manifest(&other, &manifest(1)).is_err());
    assert!(parse_list(b"").is_err());
}

#[test]
fn equal_partitions_have_equal_keys_whatever_their_width() {
    let key = |value| Partition(vec![(1000, value)]).key();
    assert_eq!(key(PartitionValue::Int(-1)), key(PartitionValue::Long(-1)));
    assert_ne!(key(PartitionValue::Int(0)), key(PartitionValue::Null));
    assert_ne!(key(PartitionValue::Text("1".into())), key(PartitionValue::Bytes(b"1".to_vec())));
    let pair = |a: &str, b: &str| {
        Partition(vec![(1, PartitionValue::Text(a.into())), (2, PartitionValue::Text(b.into()))]).key()
    };
    assert_ne!(pair("ab", "c"), pair("a", "bc"));
}
