use std::io::Write;

use serde_json::json;

use super::*;

fn base() -> Json {
    let schema = |id: i32, column: &str| json!({"schema-id": id, "type": "struct", "fields": [{"id": 1, "name": column, "type": "int"}]});
    let snapshot = |id: i64, schema: i32| json!({"snapshot-id": id, "timestamp-ms": id * 100, "schema-id": schema, "manifest-list": "m"});
    json!({
        "format-version": 2, "table-uuid": "u", "location": "/t", "last-updated-ms": 999,
        "schemas": [schema(0, "old"), schema(1, "new")], "current-schema-id": 1,
        "partition-specs": [{"spec-id": 3, "fields": []}],
        "current-snapshot-id": 3, "snapshots": [snapshot(1, 0), snapshot(2, 0), snapshot(3, 1)],
        "snapshot-log": [
            {"timestamp-ms": 100, "snapshot-id": 1}, {"timestamp-ms": 200, "snapshot-id": 2},
            {"timestamp-ms": 250, "snapshot-id": 1}, {"timestamp-ms": 300, "snapshot-id": 3}],
        "refs": {"main": {"snapshot-id": 3, "type": "branch"}, "b": {"snapshot-id": 2, "type": "branch"}, "t": {"snapshot-id": 2, "type": "tag"}},
    })
}

fn with(changes: Json) -> Result<TableMetadata> {
    let mut json = base();
    for (name, value) in changes.as_object().unwrap() {
        json[name] = value.clone();
    }
    TableMetadata::parse(json.to_string().as_bytes(), "m.json")
}

fn choose(changes: Json, choice: &SnapshotChoice) -> Result<(Option<i64>, i32)> {
    let metadata = with(changes)?;
    let chosen = metadata.choose(choice)?;
    Ok((chosen.snapshot.map(|snapshot| snapshot.snapshot_id), chosen.schema.id))
}

#[test]
fn a_choice_brings_the_schema_of_its_time() {
    use SnapshotChoice::{Latest, Reference, Timestamp, Version};
    let found = |choice| choose(json!({}), &choice).unwrap();
    assert_eq!(found(Latest), (Some(3), 1));
    assert_eq!(found(Version(2)), (Some(2), 0));
    assert_eq!(found(Reference("main".into())), (Some(3), 1));
    assert_eq!(found(Reference("b".into())), (Some(2), 1), "a branch has the table's schema");
    assert_eq!(found(Reference("t".into())), (Some(2), 0), "a tag has the snapshot's");
    assert_eq!(found(Timestamp(299)), (Some(1), 0), "after a rollback");
    assert_eq!(found(Timestamp(300)), (Some(3), 1));
    for choice in [Timestamp(99), Version(9), Reference("x".into())] {
        assert_eq!(choose(json!({}), &choice).unwrap_err().kind(), ErrorKind::NoSuchTable);
    }
    let without_log = json!({"snapshot-log": null});
    assert_eq!(choose(without_log, &Timestamp(250)).unwrap(), (Some(2), 0));
}

#[test]
fn a_table_without_snapshots_is_empty() {
    for none in [json!(null), json!(-1)] {
        let changes = json!({"current-snapshot-id": none, "refs": null});
        assert_eq!(choose(changes, &SnapshotChoice::Latest).unwrap(), (None, 1));
    }
}

#[test]
fn what_the_metadata_names_must_be_there() {
    let kind = |changes| choose(changes, &SnapshotChoice::Latest).unwrap_err().kind();
    assert_eq!(kind(json!({"current-schema-id": 7})), ErrorKind::Corrupt);
    assert_eq!(kind(json!({"current-snapshot-id": 7})), ErrorKind::Corrupt);
    assert_eq!(kind(json!({"schemas": null})), ErrorKind::Corrupt);
    assert_eq!(with(json!({})).unwrap().partition_spec(0).unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn what_is_not_supported_is_refused_by_name() {
    for (changes, word) in [
        (json!({"format-version": 4}), "version 4"),
        (json!({"encryption-keys": [{"key-id": "k"}]}), "encrypted"),
        (
            json!({"schemas": [{"schema-id": 1, "fields": [{"id": 1, "name": "v", "type": "variant"}]}]}),
            "column 'v' has type variant",
        ),
        (
            json!({"schemas": [{"schema-id": 1, "fields": [{"id": 1, "name": "g", "type": "geometry(srid:4326)"}]}]}),
            "geometry",
        ),
        (json!({"schemas": [{"schema-id": 1, "fields": [{"id": 1, "name": "u", "type": "unknown"}]}]}), "unknown"),
    ] {
        let error = choose(changes, &SnapshotChoice::Latest).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Feature);
        assert!(error.message().contains(word), "{error}");
    }
    // A type that only an old schema has does not stand in the way.
    let old = json!({"schemas": [{"schema-id": 0, "fields": [{"id": 1, "name": "v", "type": "variant"}]}, base()["schemas"][1]]});
    assert!(choose(old, &SnapshotChoice::Latest).is_ok());
}

#[test]
fn version_1_keeps_schema_and_spec_in_the_old_places() {
    let text = json!({
        "format-version": 1, "location": "/t", "schema": {"fields": [{"id": 1, "name": "c", "type": "int"}]},
        "partition-spec": [{"source-id": 1, "name": "c", "transform": "identity"}],
    });
    let metadata = TableMetadata::parse(text.to_string().as_bytes(), "m.json").unwrap();
    assert_eq!(metadata.identity(), "/t");
    assert_eq!(metadata.partition_spec(0).unwrap().fields[0].field_id, Some(1000));
    assert!(metadata.choose(&SnapshotChoice::Latest).unwrap().snapshot.is_none());
}

#[test]
fn damaged_files_are_errors_that_name_the_file() {
    let text = base().to_string();
    let mut zipped = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    zipped.write_all(text.as_bytes()).unwrap();
    let zipped = zipped.finish().unwrap();
    assert!(TableMetadata::parse(&zipped, "m.json").is_ok());
    for broken in [&b""[..], b"{}", b"[1]", &text.as_bytes()[..text.len() / 2], &zipped[..zipped.len() - 9]] {
        let error = TableMetadata::parse(broken, "m.json").unwrap_err();
        assert!(error.kind() == ErrorKind::Corrupt && error.message().contains("m.json"), "{error}");
    }
}
