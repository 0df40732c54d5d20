use std::sync::Arc as StdArc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use parquet::arrow::ArrowWriter;
use proptest::prelude::*;

use super::*;

fn paths() -> Paths {
    Paths::new(Url::parse("file:///t").unwrap(), "/t")
}

fn delete_file(columns: Vec<(&str, ArrayRef)>) -> Bytes {
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let mut file = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut file, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    file.into()
}

fn text(values: Vec<Option<&str>>) -> ArrayRef {
    StdArc::new(StringArray::from(values))
}

fn numbers(values: Vec<Option<i64>>) -> ArrayRef {
    StdArc::new(Int64Array::from(values))
}

#[test]
fn positions_are_kept_by_data_file_whatever_its_spelling() {
    let spelled = vec![Some("/t/a"), Some("file:/t/a"), Some("data/b"), Some("/t/a")];
    let file =
        delete_file(vec![("pos", numbers(vec![Some(4), Some(2), Some(0), Some(4)])), ("file_path", text(spelled))]);
    let rows = decode_positions(file, &paths()).unwrap();
    let of = |url: &str| rows.get(url).map(|rows| rows.iter().collect::<Vec<_>>());
    assert_eq!(of("file:///t/a"), Some(vec![2, 4]));
    assert_eq!(of("file:///t/data/b"), Some(vec![0]));
    assert_eq!(rows.len(), 2);
}

#[test]
fn damaged_delete_files_are_errors() {
    let good = || numbers(vec![Some(1)]);
    for (columns, words) in [
        (vec![("file_path", text(vec![Some("/t/a")])), ("pos", numbers(vec![Some(-1)]))], "position -1"),
        (vec![("file_path", text(vec![None])), ("pos", good())], "null"),
        (vec![("file_path", text(vec![Some("hdfs://x/t/a")])), ("pos", good())], "hdfs"),
        (vec![("path", text(vec![Some("/t/a")])), ("pos", good())], "file_path"),
    ] {
        let error = decode_positions(delete_file(columns), &paths()).unwrap_err();
        assert!(error.contains(words), "{error}");
    }
    let whole = delete_file(vec![("file_path", text(vec![Some("/t/a")])), ("pos", good())]);
    for length in [0, 3, 8, whole.len() / 2, whole.len() - 1] {
        assert!(decode_positions(whole.slice(..length), &paths()).is_err(), "cut to {length}");
    }
}

fn blob(rows: &RoaringTreemap) -> Vec<u8> {
    let mut body = vec![0xd1, 0xd3, 0x39, 0x64];
    rows.serialize_into(&mut body).unwrap();
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    let checksum = crc32fast::hash(&body).to_be_bytes();
    [length.to_vec(), body, checksum.to_vec()].concat()
}

#[test]
fn a_vector_must_have_the_rows_that_the_manifest_counts() {
    let rows: RoaringTreemap = [1, 5, 1 << 40].into_iter().collect();
    assert_eq!(decode_vector(&blob(&rows), 3).unwrap(), rows);
    assert!(decode_vector(&blob(&rows), 2).unwrap_err().contains("3 rows"));
}

proptest! {
    #[test]
    fn a_damaged_vector_is_an_error(rows in prop::collection::btree_set(0_u64..1 << 34, 0..50),
                                    at in any::<prop::sample::Index>(), bit in 0..8) {
        let rows: RoaringTreemap = rows.into_iter().collect();
        let mut bytes = blob(&rows);
        prop_assert_eq!(&decode_vector(&bytes, rows.len()).unwrap(), &rows);
        let at = at.index(bytes.len());
        bytes[at] ^= 1_u8 << bit;
        prop_assert!(decode_vector(&bytes, rows.len()).is_err());
        prop_assert!(decode_vector(&bytes[..at], rows.len()).is_err());
    }
}
