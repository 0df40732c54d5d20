use proptest::prelude::*;

use super::testing::{bytes, container, long};
use super::{AvroError, Container, Value};

const SCHEMA: &str = r#"{"type": "record", "name": "r", "fields": [
    {"name": "a", "type": "long", "field-id": 7},
    {"name": "b", "type": ["null", {"type": "fixed", "name": "f4", "size": 4}], "field-id": 8},
    {"name": "c", "type": {"type": "array", "items": "string"}},
    {"name": "d", "type": ["null", "f4"], "field-id": 9},
    {"name": "e", "type": {"type": "map", "values": "boolean"}}]}"#;

fn record(a: i64) -> Vec<u8> {
    let c = [long(-2), long(8), bytes("x"), bytes("yé"), long(1), bytes("z"), long(0)].concat();
    let e = [long(1), bytes("k"), vec![1], long(0)].concat();
    [long(a), long(1), b"four".to_vec(), c, long(0), e].concat()
}

fn decode(file: &[u8]) -> Result<Vec<i64>, AvroError> {
    let container = Container::open(file)?;
    let layout = container.layout()?;
    let (a, c) = (layout.position(7, &[]), layout.position(99, &["c"]));
    let mut values = Vec::new();
    container.for_each(|record| {
        values.extend(record.field(a).integer());
        assert!(record.field(c).items().len() < 100);
        Ok::<_, AvroError>(())
    })?;
    Ok(values)
}

#[test]
fn every_codec_gives_back_the_records() {
    let blocks = [vec![record(1), record(-2)], vec![], vec![record(i64::MAX), record(i64::MIN)]];
    for codec in ["null", "deflate", "snappy", "zstandard"] {
        assert_eq!(decode(&container(SCHEMA, codec, &blocks)).unwrap(), [1, -2, i64::MAX, i64::MIN], "{codec}");
    }
    let error = decode(&container(SCHEMA, "xz", &blocks)).unwrap_err();
    assert!(matches!(error, AvroError::UnknownCodec(codec) if codec == "xz"));
}

#[test]
fn values_are_what_was_written() {
    let file = container(SCHEMA, "null", &[vec![record(5)]]);
    let container = Container::open(&file).unwrap();
    let layout = container.layout().unwrap();
    assert_eq!(layout.position(7, &["nothing"]), Some(0));
    assert_eq!(layout.position(10, &["a"]), None, "a field with another id is not found by its name");
    let mut seen = 0;
    container
        .for_each(|record| {
            seen += 1;
            let strings = ["x", "yé", "z"].map(Value::Text).to_vec();
            let expected = vec![
                Value::Long(5),
                Value::Bytes(b"four"),
                Value::Array(strings),
                Value::Null,
                Value::Map(vec![("k", Value::Boolean(true))]),
            ];
            assert_eq!(record, &Value::Record(expected));
            Ok::<_, AvroError>(())
        })
        .unwrap();
    assert_eq!(seen, 1);
}

#[test]
fn a_cut_file_is_an_error_unless_it_ends_between_blocks() {
    let blocks = [vec![record(1)], vec![record(2)], vec![record(3)]];
    let ends: Vec<usize> = (0..=3).map(|count| container(SCHEMA, "deflate", &blocks[..count]).len()).collect();
    let whole = container(SCHEMA, "deflate", &blocks);
    for length in 0..whole.len() {
        assert_eq!(decode(&whole[..length]).is_ok(), ends.contains(&length), "cut to {length}");
    }
}

#[test]
fn absurd_lengths_are_errors_before_anything_is_allocated() {
    let huge = i64::MAX;
    let array = [long(1), long(0), long(huge), bytes("x")].concat();
    for record in [array, [long(1), long(huge)].concat(), [long(1), long(0), long(i64::MIN), long(0)].concat()] {
        assert!(decode(&container(SCHEMA, "null", &[vec![record]])).is_err());
    }
    let recursive = r#"{"type": "record", "name": "r", "fields": [{"name": "a", "type": ["null", "r"]}]}"#;
    assert!(matches!(decode(&container(recursive, "null", &[])).unwrap_err(), AvroError::Schema(_)));
}

proptest! {
    #[test]
    fn damaged_files_never_panic(codec in prop::sample::select(vec!["null", "deflate", "snappy", "zstandard"]),
                                 damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)) {
        let mut file = container(SCHEMA, codec, &[vec![record(1), record(2)], vec![record(3)]]);
        for (at, byte) in damage {
            let at = at.index(file.len());
            file[at] = byte;
        }
        let _ = decode(&file);
    }

    #[test]
    fn integers_of_every_size_survive(value in any::<i64>()) {
        let file = container(SCHEMA, "null", &[vec![record(value)]]);
        prop_assert_eq!(decode(&file).unwrap(), vec![value]);
    }
}
