//! Iceberg tables of other writers. Their metadata holds absolute paths, so each is copied to a
//! scratch folder and rewritten for it by the tool that comes with the material.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use arrow::array::{Array, AsArray};
use arrow::datatypes::{DataType, Date32Type, Int32Type, Int64Type, TimeUnit};
use lakeserve_common::ErrorKind;
use lakeserve_lake::deletes::DeleteSet;
use lakeserve_lake::{LakeTable, SnapshotChoice, TableFormat, TableOptions, TableSnapshot};
use serde_json::Value;

use crate::support::{copy, json, live_rows, material, open};

/// The relocated tables: `<scratch>/<source>/<name>`, one per golden or broken Iceberg table.
struct Tables {
    scratch: tempfile::TempDir,
    material: PathBuf,
}

const RELOCATE: &str = "
import os, sys
sys.path.insert(0, sys.argv[1])
from relocate_iceberg import relocate
for source, target in zip(sys.argv[2::2], sys.argv[3::2]):
    os.makedirs(os.path.dirname(target), exist_ok=True)
    relocate(source, target)
";

impl Tables {
    fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }
}

/// All relocated tables, made once; `None` (after saying so) where that is not possible.
fn tables(skipped: &str) -> Option<&'static Tables> {
    static TABLES: OnceLock<Option<Tables>> = OnceLock::new();
    let material = material(skipped)?;
    let tables = TABLES.get_or_init(|| {
        let python = std::env::var("LAKESERVE_TEST_PYTHON").unwrap_or_else(|_| "python3".into());
        let usable = Command::new(&python).args(["-c", "import fastavro, pyarrow"]).output();
        if !usable.is_ok_and(|output| output.status.success()) {
            assert!(std::env::var_os("CI").is_none(), "{python} has no fastavro and pyarrow");
            return None;
        }
        let scratch = tempfile::tempdir().unwrap();
        let mut arguments = vec![material.join("tools")];
        let cases = cases(&material).into_iter().map(|(name, case)| (name, case.join("table")));
        let broken = std::fs::read_dir(material.join("bad/iceberg")).unwrap().map(|entry| {
            let entry = entry.unwrap();
            (format!("bad/{}", entry.file_name().to_str().unwrap()), entry.path())
        });
        for (name, source) in cases.chain(broken) {
            arguments.extend([source, scratch.path().join(name)]);
        }
        let done = Command::new(&python).arg("-c").arg(RELOCATE).args(arguments).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        Some(Tables { scratch, material })
    });
    if tables.is_none() {
        eprintln!("skipped: {skipped} (needs Python with fastavro and pyarrow; set LAKESERVE_TEST_PYTHON)");
    }
    tables.as_ref()
}

/// The golden Iceberg tables: `<source>/<name>` and the case's folder.
fn cases(material: &Path) -> Vec<(String, PathBuf)> {
    let mut cases = Vec::new();
    for source in std::fs::read_dir(material.join("golden")).unwrap() {
        for case in std::fs::read_dir(source.unwrap().path()).unwrap() {
            let case = case.unwrap().path();
            if json(&case.join("case.json"))["format"] == "iceberg" {
                cases.push((name_of(&case), case));
            }
        }
    }
    cases.sort();
    assert!(cases.len() > 40, "only {} golden tables", cases.len());
    cases
}

fn name_of(case: &Path) -> String {
    let parts: Vec<_> = case.components().rev().take(2).map(|part| part.as_os_str().to_str().unwrap()).collect();
    format!("{}/{}", parts[1], parts[0])
}

fn choice(key: &str) -> SnapshotChoice {
    match key.split_once(':') {
        Some((_, reference)) => SnapshotChoice::Reference(reference.into()),
        None => SnapshotChoice::Version(key.parse().unwrap()),
    }
}

async fn rows(table: &LakeTable, choice: &SnapshotChoice) -> lakeserve_common::Result<u64> {
    let snapshot = table.snapshot(choice).await?;
    check_shape(&snapshot);
    Ok(live_rows(table, &snapshot).await?.expect("every manifest tells the rows"))
}

/// What holds for every snapshot, whatever its table.
fn check_shape(snapshot: &TableSnapshot) {
    let columns = snapshot.schema.arrow.fields().len();
    assert_eq!(snapshot.schema.columns.len(), columns);
    assert_eq!(snapshot.statistics.columns.len(), columns);
    assert!(snapshot.files.is_sorted_by(|a, b| a.path <= b.path));
    for (field, statistics) in snapshot.schema.arrow.fields().iter().zip(&snapshot.statistics.columns) {
        let Some(statistics) = statistics else { continue };
        for array in [&statistics.lower, &statistics.upper] {
            assert_eq!(array.data_type(), field.data_type(), "{}", field.name());
            assert_eq!(array.len(), snapshot.files.len());
        }
        assert_eq!(statistics.null_count.len(), snapshot.files.len());
    }
    for file in snapshot.files.iter() {
        assert!(!file.constants_override);
        for (column, value) in &file.constants {
            assert_eq!((value.data_type(), value.len()), (snapshot.schema.arrow.field(*column).data_type(), 1));
        }
        // Not the size: manifests of rewritten tables record another one, which a scan finds out.
        assert!(file.url.to_file_path().unwrap().is_file(), "{}", file.path);
    }
}

async fn golden(tables: &Tables, name: &str) -> (LakeTable, std::sync::Arc<TableSnapshot>) {
    let case = json(&tables.material.join("golden").join(name).join("case.json"));
    let path = tables.path(name).join(case["metadata_file"].as_str().unwrap());
    let table = open(&path, TableOptions::default()).await.unwrap();
    let snapshot = table.snapshot(&SnapshotChoice::Latest).await.unwrap();
    (table, snapshot)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_state_of_every_golden_table_has_its_rows() {
    let Some(tables) = tables("golden Iceberg tables") else { return };
    let mut wrong = Vec::new();
    let (mut right, mut refused) = (0, 0);
    for (name, folder) in cases(&tables.material) {
        let (case, expected) = (json(&folder.join("case.json")), json(&folder.join("expected.json")));
        let path = tables.path(&name).join(case["metadata_file"].as_str().unwrap());
        let table = open(&path, TableOptions::default()).await.unwrap();
        assert_eq!(table.format(), TableFormat::Iceberg, "{name}");
        let deletes_by_value = case["features"].as_array().unwrap().contains(&"equality-deletes".into());
        let latest = (SnapshotChoice::Latest, expected["row_count"].clone());
        let older = expected["snapshots"].as_object().unwrap().iter().map(|(key, state)| {
            (choice(key), if state.is_object() { state["row_count"].clone() } else { Value::Null })
        });
        for (choice, expected) in std::iter::once(latest).chain(older) {
            match (rows(&table, &choice).await, expected.as_u64()) {
                (Ok(found), Some(expected)) if found == expected => right += 1,
                (Err(error), _) if deletes_by_value && error.kind() == ErrorKind::Feature => {
                    assert!(error.message().contains("equality deletes (delete file "), "{name}: {error}");
                    refused += 1;
                }
                // A state whose files are gone cannot be read.
                (Err(error), None) if error.kind() == ErrorKind::Corrupt => right += 1,
                (found, expected) => wrong.push(format!("{name} at {choice}: {found:?} instead of {expected:?}")),
            }
        }
        if deletes_by_value {
            let error = rows(&table, &SnapshotChoice::Latest).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Feature, "{name}");
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(right > 100 && refused > 6, "{right} right, {refused} refused");
}

#[tokio::test(flavor = "multi_thread")]
async fn table_folders_lead_to_their_current_metadata() {
    let Some(tables) = tables("Iceberg table folders") else { return };
    let mut opened = 0;
    for (name, folder) in cases(&tables.material) {
        // The folder of this one names a later version than the case's.
        if name.ends_with("/name_mapping") {
            continue;
        }
        let expected = json(&folder.join("expected.json"));
        let Some(id) = expected.get("snapshot_id") else { continue };
        let table = open(&tables.path(&name), TableOptions::default()).await.unwrap();
        assert_eq!(table.format(), TableFormat::Iceberg, "{name}");
        match table.snapshot(&SnapshotChoice::Latest).await {
            Ok(snapshot) => assert_eq!(snapshot.version, id.to_string(), "{name}"),
            Err(error) => assert!(error.message().contains("equality deletes"), "{name}: {error}"),
        }
        opened += 1;
    }
    assert!(opened > 30);
}

#[tokio::test(flavor = "multi_thread")]
async fn defaults_and_types_of_added_columns() {
    let Some(tables) = tables("Iceberg column defaults") else { return };
    let (_, snapshot) = golden(tables, "duckdb-iceberg/add_columns_with_defaults").await;
    let default = |name: &str| {
        let column = snapshot.schema.arrow.index_of(name).unwrap();
        let default = snapshot.schema.columns[column].initial_default.clone().unwrap();
        assert_eq!(default.data_type(), snapshot.schema.arrow.field(column).data_type());
        default
    };
    assert_eq!(default("col_integer").as_primitive::<Int32Type>().value(0), 342_342);
    assert_eq!(default("col_long").as_primitive::<Int64Type>().value(0), i64::MIN);
    assert_eq!(default("col_date").as_primitive::<Date32Type>().value_as_date(0).unwrap().to_string(), "2003-10-20");
    assert_eq!(default("col_string").as_string::<i32>().value(0), "HELLO");
    assert_eq!(default("col_fixed").as_fixed_size_binary().value(0), [1, 2, 3, 255, 3]);
    assert_eq!(default("col_binary").as_binary::<i32>().value(0), [1, 2]);
    assert_eq!(default("col_decimal").data_type(), &DataType::Decimal128(16, 2));
    assert_eq!(default("col_timestamptz").data_type(), &DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())));
    assert_eq!(default("col_uuid").as_fixed_size_binary().value(0)[..2], [0xf7, 0x9c]);
}

#[tokio::test(flavor = "multi_thread")]
async fn partition_values_are_constants_where_files_lack_the_column() {
    let Some(tables) = tables("Iceberg partition values") else { return };
    for name in
        ["partition_integer", "partition_binary", "partition_double", "partition_decimal_hugeint", "partition_time"]
    {
        let (_, snapshot) = golden(tables, &format!("duckdb-iceberg/{name}")).await;
        assert!(snapshot.files.iter().all(|file| file.constants.len() == 1), "{name}");
    }
    let (_, snapshot) = golden(tables, "duckdb-iceberg/hive_partitioned_table").await;
    assert!(snapshot.files.iter().any(|file| !file.constants.is_empty()));
    // A null partition is a constant too.
    let (_, snapshot) = golden(tables, "made-with-pyiceberg/pyi_day_null_special").await;
    let constants = || snapshot.files.iter().flat_map(|file| &file.constants);
    assert!(constants().any(|(_, value)| value.is_null(0)) && constants().any(|(_, value)| value.is_valid(0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_mapping_gives_the_names_of_files_without_ids() {
    let Some(tables) = tables("Iceberg name mappings") else { return };
    let (_, snapshot) = golden(tables, "duckdb-iceberg/name_mapping").await;
    assert!(snapshot.schema.columns.iter().any(|column| !column.physical_name.is_empty()));
    let (_, snapshot) = golden(tables, "impala/airports_parquet").await;
    for (field, column) in snapshot.schema.arrow.fields().iter().zip(&snapshot.schema.columns) {
        assert_eq!(field.name(), &column.physical_name);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn deletes_are_those_of_the_state() {
    let Some(tables) = tables("Iceberg deletes") else { return };
    let (table, snapshot) = golden(tables, "impala/iceberg_v3_deletion_vectors").await;
    let with_deletes: Vec<_> = snapshot.files.iter().filter(|file| !file.deletes.is_none()).collect();
    assert!(with_deletes.iter().all(|file| matches!(file.deletes, DeleteSet::PuffinVector(_))));
    assert_eq!(with_deletes.len(), 2);
    // A vector that is not the one that the manifest describes is an error, never 'no deletes'.
    let mut file = (*with_deletes[0]).clone();
    if let DeleteSet::PuffinVector(vector) = &file.deletes {
        let mut wrong = (**vector).clone();
        wrong.offset += 1;
        file.deletes = DeleteSet::PuffinVector(wrong.into());
    }
    assert_eq!(table.deleted_rows(&file).await.unwrap_err().kind(), ErrorKind::Corrupt);

    let name = "impala/iceberg_v2_positional_not_all_data_files_have_delete_files";
    let (table, snapshot) = golden(tables, name).await;
    let touched = snapshot.files.iter().filter(|file| !file.deletes.is_none()).count();
    assert!(touched > 0, "no file has deletes");
    // Without its delete file a table is an error, too.
    let scratch = tempfile::tempdir().unwrap();
    copy(&tables.path(name), scratch.path());
    let mut file = snapshot.files.iter().find(|file| !file.deletes.is_none()).unwrap().clone();
    if let DeleteSet::Positions(deletes) = &file.deletes {
        let mut gone = deletes[0].clone();
        gone.url = url(&scratch.path().join("no such file.parquet"));
        file.deletes = DeleteSet::Positions([gone].into());
    }
    let error = table.deleted_rows(&file).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Corrupt && error.message().contains("is missing"), "{error}");
}

fn url(path: &Path) -> url::Url {
    url::Url::from_file_path(path).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_tables_are_clear_errors() {
    let Some(tables) = tables("broken Iceberg tables") else { return };
    let latest = async |name: &str| -> lakeserve_common::Result<u64> {
        let table = open(&tables.path(name), TableOptions::default()).await?;
        rows(&table, &SnapshotChoice::Latest).await
    };
    for (name, words) in [
        ("bad/manifest_truncated", ["manifest_truncated", "manifest "]),
        ("bad/manifest_zero", ["manifest_zero", "manifest "]),
        ("bad/current_schema_unknown", ["current_schema_unknown", "schema"]),
    ] {
        let error = latest(name).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{name}: {error}");
        assert!(words.iter().all(|word| error.message().contains(word)), "{name}: {error}");
    }
    assert_eq!(latest("bad/version_hint_garbage").await.unwrap(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_file_never_yields_fewer_rows() {
    let Some(tables) = tables("cut Iceberg files") else { return };
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join("t");
    relocate(tables, &tables.material.join("golden/impala/iceberg_v2_delete_positional/table"), &folder);
    let files = std::fs::read_dir(folder.join("metadata")).unwrap().map(|entry| entry.unwrap().path());
    let mut errors = 0;
    for file in files.filter(|path| path.extension().is_some_and(|ending| ending == "avro")) {
        let whole = std::fs::read(&file).unwrap();
        for length in [0, 1, 4, whole.len() / 3, whole.len() / 2, whole.len() - 17, whole.len() - 1] {
            std::fs::write(&file, &whole[..length]).unwrap();
            let table = open(&folder, TableOptions::default()).await.unwrap();
            match rows(&table, &SnapshotChoice::Latest).await {
                // The files of an older state do not matter.
                Ok(rows) => assert_eq!(rows, 2, "{} cut to {length}", file.display()),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
                    errors += 1;
                }
            }
        }
        std::fs::write(&file, whole).unwrap();
    }
    assert!(errors > 10, "only {errors} errors");
}

fn relocate(tables: &Tables, source: &Path, target: &Path) {
    let python = std::env::var("LAKESERVE_TEST_PYTHON").unwrap_or_else(|_| "python3".into());
    let mut command = Command::new(python);
    command.arg("-c").arg(RELOCATE).arg(tables.material.join("tools")).arg(source).arg(target);
    assert!(command.status().unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn refresh_keeps_the_snapshot_until_something_is_committed() {
    let Some(tables) = tables("refresh of Iceberg tables") else { return };
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join("t");
    relocate(tables, &tables.material.join("golden/made-with-pyiceberg/pyi_tags_branches_a/table"), &folder);
    let newest = std::fs::read_dir(folder.join("metadata")).unwrap().map(|entry| entry.unwrap().path());
    let newest = newest.filter(|path| path.to_str().unwrap().ends_with(".metadata.json")).max().unwrap();
    let commit = std::fs::read(&newest).unwrap();
    std::fs::remove_file(&newest).unwrap();

    let table = open(&folder, TableOptions::default()).await.unwrap();
    let before = table.snapshot(&SnapshotChoice::Latest).await.unwrap();
    let same = table.refresh(&before).await.unwrap();
    assert!(std::sync::Arc::ptr_eq(&before, &same));

    std::fs::write(&newest, commit).unwrap();
    let after = table.refresh(&before).await.unwrap();
    let again = open(&folder, TableOptions::default()).await.unwrap().snapshot(&SnapshotChoice::Latest).await.unwrap();
    assert_eq!(after.token, again.token);
    assert_eq!(after.version == before.version, after.token == before.token);
    assert!(std::sync::Arc::ptr_eq(&after, &table.refresh(&after).await.unwrap()));

    // A table opened at a metadata file stays at it.
    let older = std::fs::read_dir(folder.join("metadata")).unwrap().map(|entry| entry.unwrap().path());
    let older = older.filter(|path| path.to_str().unwrap().contains("/00002-")).max().unwrap();
    let pinned = open(&older, TableOptions::default()).await.unwrap();
    let state = pinned.snapshot(&SnapshotChoice::Latest).await.unwrap();
    assert!(std::sync::Arc::ptr_eq(&state, &pinned.refresh(&state).await.unwrap()));
    assert_ne!(state.token, after.token);
}

#[tokio::test(flavor = "multi_thread")]
async fn choices_of_the_past() {
    let Some(tables) = tables("Iceberg time travel") else { return };
    let (table, latest) = golden(tables, "made-with-pyiceberg/pyi_tags_branches_a").await;
    let at = async |ms: i64| table.snapshot(&SnapshotChoice::Timestamp(ms)).await;
    let committed = latest.committed_ms.unwrap();
    assert_eq!(at(i64::MAX).await.unwrap().version, latest.version);
    assert_eq!(at(committed).await.unwrap().version, latest.version);
    assert_ne!(at(committed - 1).await.unwrap().version, latest.version);
    assert_eq!(at(0).await.unwrap_err().kind(), ErrorKind::NoSuchTable);
    let error = table.snapshot(&SnapshotChoice::Reference("nope".into())).await.unwrap_err();
    assert!(error.kind() == ErrorKind::NoSuchTable && error.hint().unwrap().contains("dev"), "{error}");
    assert_eq!(table.snapshot(&SnapshotChoice::Version(1)).await.unwrap_err().kind(), ErrorKind::NoSuchTable);
}
