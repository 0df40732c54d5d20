use super::*;
use crate::iceberg::manifest::{Partition, PartitionValue};
use crate::iceberg::paths::Paths;

const A: &str = "/t/data/a.parquet";

fn files() -> TableFiles {
    let table = Url::parse("file:///t").unwrap();
    let storage = lakeserve_storage::testing::storage(lakeserve_storage::StorageOptions::default()).unwrap();
    TableFiles { storage, paths: Paths::new(table.clone(), "/t"), table }
}

fn entry(content: Content, path: &str, sequence: i64, partition: i32) -> Entry {
    Entry {
        content,
        path: path.into(),
        format: "parquet".into(),
        spec_id: 0,
        partition: Partition(vec![(1000, PartitionValue::Int(partition))]),
        records: 10,
        size: 100,
        sequence,
        null_counts: Vec::new(),
        lower_bounds: Vec::new(),
        upper_bounds: Vec::new(),
        referenced_data_file: None,
        blob: None,
    }
}

fn data(sequence: i64, partition: i32) -> Entry {
    entry(Content::Data, A, sequence, partition)
}

fn positions(sequence: i64, partition: i32) -> Entry {
    entry(Content::PositionDeletes, "/t/data/delete.parquet", sequence, partition)
}

fn deletes_of(data: &Entry, deletes: &[Entry]) -> Result<DeleteSet> {
    let files = files();
    let index = DeleteIndex::new(&files, deletes.iter(), |spec| spec == 9)?;
    index.of(data, &files.resolve(&data.path)?)
}

fn applies(data: &Entry, delete: Entry) -> bool {
    !deletes_of(data, &[delete]).unwrap().is_none()
}

#[test]
fn position_deletes_apply_to_files_that_are_not_newer() {
    assert!(applies(&data(3, 1), positions(3, 1)));
    assert!(applies(&data(3, 1), positions(4, 1)));
    assert!(!applies(&data(3, 1), positions(2, 1)));
}

#[test]
fn position_deletes_stay_in_their_partition_unless_they_name_a_file() {
    assert!(!applies(&data(1, 1), positions(2, 2)));
    assert!(!applies(&data(1, 1), Entry { spec_id: 1, ..positions(2, 1) }));
    let named = |path: &str| Entry { referenced_data_file: Some(path.into()), ..positions(2, 2) };
    assert!(applies(&data(1, 1), named(A)));
    assert!(applies(&data(1, 1), named("file:///t/data/a.parquet")), "another spelling of the same file");
    assert!(!applies(&data(1, 1), named("/t/data/b.parquet")));
}

#[test]
fn bounds_of_paths_narrow_what_a_delete_file_is_for() {
    let bounded = |lower: &str, upper: &str| Entry {
        lower_bounds: vec![(DELETE_FILE_PATH, lower.as_bytes().into())],
        upper_bounds: vec![(DELETE_FILE_PATH, upper.as_bytes().into())],
        ..positions(2, 1)
    };
    assert!(applies(&data(1, 1), bounded(A, A)));
    assert!(!applies(&data(1, 1), bounded("/t/data/b.parquet", "/t/data/b.parquet")));
    assert!(applies(&data(1, 1), bounded("/t/data/a", "/t/data/b")));
    assert!(!applies(&data(1, 1), bounded("/t/data/b", "/t/data/c")));
    assert!(applies(&data(1, 1), bounded("s3://b/t/data/b", "s3://b/t/data/c")), "spelled otherwise: not known");
}

#[test]
fn equality_deletes_are_refused_only_where_they_apply() {
    let equality = |sequence, partition| entry(Content::EqualityDeletes, "/t/data/eq.parquet", sequence, partition);
    let error = deletes_of(&data(1, 1), &[equality(2, 1)]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Feature);
    assert!(error.message().contains("equality deletes (delete file /t/data/eq.parquet)"), "{error}");
    assert!(deletes_of(&data(2, 1), &[equality(2, 1)]).is_ok(), "not older than the delete");
    assert!(deletes_of(&data(1, 1), &[equality(2, 2)]).is_ok(), "another partition");
    let everywhere = Entry { spec_id: 9, ..equality(2, 2) };
    assert!(deletes_of(&data(1, 1), &[everywhere]).is_err(), "a delete of an unpartitioned spec");
}

#[test]
fn a_deletion_vector_takes_the_place_of_position_deletes() {
    let vector = |path: &str, sequence| Entry {
        format: "puffin".into(),
        referenced_data_file: Some(path.into()),
        blob: Some((4, 40)),
        path: "/t/data/v.puffin".into(),
        ..positions(sequence, 1)
    };
    let deletes = deletes_of(&data(1, 1), &[positions(1, 1), vector(A, 2)]).unwrap();
    let DeleteSet::PuffinVector(found) = deletes else { panic!("{deletes:?}") };
    assert_eq!((found.offset, found.length, found.cardinality, found.sequence), (4, 40, 10, 2));
    assert!(matches!(deletes_of(&data(1, 1), &[vector("/t/data/b", 2)]).unwrap(), DeleteSet::None));
    for wrong in [
        vec![vector(A, 1)],
        vec![vector(A, 3), vector("file:/t/data/a.parquet", 4)],
        vec![Entry { blob: None, ..vector(A, 3) }],
    ] {
        assert_eq!(deletes_of(&data(2, 1), &wrong).unwrap_err().kind(), ErrorKind::Corrupt);
    }
}

#[test]
fn deletes_in_other_formats_are_refused_where_they_apply() {
    let orc = |partition| Entry { format: "orc".into(), ..positions(2, partition) };
    assert_eq!(deletes_of(&data(1, 1), &[orc(1)]).unwrap_err().kind(), ErrorKind::Feature);
    assert!(deletes_of(&data(1, 1), &[orc(2)]).is_ok());
}
