//! Plain Parquet files and folders, good and broken.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, TimeUnit};
use lakeserve_common::ErrorKind;
use lakeserve_lake::{SnapshotChoice, TableFormat};
use parquet::arrow::ArrowWriter;

use crate::support::{json, live_rows, material, state};

fn write(path: &std::path::Path, columns: Vec<(&str, ArrayRef)>) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let mut writer = ArrowWriter::try_new(std::fs::File::create(path).unwrap(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

#[tokio::test]
async fn a_folder_is_the_union_of_its_files() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("a b%20c");
    write(&root.join("x.parquet"), vec![("id", Arc::new(Int32Array::from(vec![1, 2])))]);
    write(
        &root.join("k=a%20b/y#z.parquet"),
        vec![("id", Arc::new(Int64Array::from(vec![3]))), ("name", Arc::new(StringArray::from(vec!["n"])))],
    );
    std::fs::write(root.join("_SUCCESS"), "").unwrap();
    std::fs::write(root.join(".x.crc"), "junk").unwrap();
    std::fs::write(root.join("README"), "not data").unwrap();
    let (table, snapshot) = state(&root, &SnapshotChoice::Latest).await.unwrap();
    assert_eq!(snapshot.format, TableFormat::Parquet);
    let schema = &snapshot.schema.arrow;
    let types: Vec<_> = schema.fields().iter().map(|f| (f.name().as_str(), f.data_type().clone())).collect();
    assert_eq!(types, [("id", DataType::Int64), ("name", DataType::Utf8)]);
    let paths: Vec<_> = snapshot.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(paths, ["k=a%20b/y#z.parquet", "x.parquet"]);
    assert_eq!(live_rows(&table, &snapshot).await.unwrap(), Some(3));
    for file in snapshot.files.iter() {
        assert!(file.url.to_file_path().unwrap().is_file(), "{}", file.url);
    }

    assert!(Arc::ptr_eq(&snapshot, &table.refresh(&snapshot).await.unwrap()));
    write(&root.join("x.parquet"), vec![("id", Arc::new(Int32Array::from(vec![1, 2, 3, 4])))]);
    let changed = table.refresh(&snapshot).await.unwrap();
    assert_ne!(changed.token, snapshot.token);
    assert_eq!(live_rows(&table, &changed).await.unwrap(), Some(5));

    write(&root.join("z.parquet"), vec![("id", Arc::new(StringArray::from(vec!["one"])))]);
    let error = table.refresh(&changed).await.unwrap_err();
    assert!(error.message().contains("z.parquet") && error.message().contains("y%23z.parquet"), "{error}");
    let older = table.snapshot(&SnapshotChoice::Version(1)).await.unwrap_err();
    assert_eq!(older.kind(), ErrorKind::Option);
}

#[tokio::test]
async fn nothing_and_no_data_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let error = state(&folder.path().join("absent"), &SnapshotChoice::Latest).await.unwrap_err();
    assert!(error.kind() == ErrorKind::NoSuchTable && error.message().contains("nothing is stored"), "{error}");
    let hidden = folder.path().join("hidden");
    std::fs::create_dir_all(&hidden).unwrap();
    std::fs::write(hidden.join("_SUCCESS"), "").unwrap();
    let error = state(&hidden, &SnapshotChoice::Latest).await.unwrap_err();
    assert!(error.message().contains("no Parquet files"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn real_files_have_the_right_columns_and_rows() {
    let Some(material) = material("parquet golden files") else { return };
    let mut wrong = Vec::new();
    let mut seen = 0;
    for case in std::fs::read_dir(material.join("golden/parquet-testing")).unwrap() {
        let case = case.unwrap().path();
        let Some(path) = parquet_below(&case) else { continue };
        let expected = json(&case.join("expected.json"));
        seen += 1;
        let (table, snapshot) = match state(&path, &SnapshotChoice::Latest).await {
            Ok(opened) => opened,
            Err(error) => {
                wrong.push(format!("{}: {error}", case.display()));
                continue;
            }
        };
        let rows = live_rows(&table, &snapshot).await.unwrap();
        let columns: Vec<_> = snapshot.schema.arrow.fields().iter().map(|field| field.name().as_str()).collect();
        let names: Vec<_> =
            expected["columns"].as_array().into_iter().flatten().filter_map(|c| c["name"].as_str()).collect();
        if rows != expected["row_count"].as_u64() || columns != names {
            wrong.push(format!("{}: {rows:?} {columns:?}", case.display()));
        }
        if case.ends_with("int96_from_spark") {
            let expected = DataType::Timestamp(TimeUnit::Microsecond, None);
            assert_eq!(snapshot.schema.arrow.field(0).data_type(), &expected);
        }
    }
    assert!(seen > 0 && wrong.is_empty(), "{seen} files:\n{}", wrong.join("\n"));
}

fn parquet_below(path: &std::path::Path) -> Option<std::path::PathBuf> {
    for entry in std::fs::read_dir(path).ok()? {
        let entry = entry.unwrap().path();
        if entry.is_dir() {
            if let Some(found) = parquet_below(&entry) {
                return Some(found);
            }
        } else if entry.extension().is_some_and(|extension| extension == "parquet") {
            return Some(entry);
        }
    }
    None
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_footers_are_errors_about_the_file() {
    let Some(material) = material("broken Parquet files") else { return };
    let bad = material.join("bad");
    let mut wrong = Vec::new();
    for case in json(&bad.join("cases.json")).as_array().unwrap() {
        let name = case["path"].as_str().unwrap();
        if case["kind"] != "parquet" {
            continue;
        }
        let file = name.trim_start_matches("parquet/");
        let result =
            state(&bad.join(name), &SnapshotChoice::Latest).await.map(|(_, snapshot)| snapshot.files[0].row_count);
        eprintln!("{name}: {result:?}");
        // Damage in the pages shows only when they are read.
        let footer_is_good = file.starts_with("ARROW")
            || ["nation.", "datapage_v2", "base_good", "data_flip1", "pages_zeroed", "footer_flip1"]
                .iter()
                .any(|prefix| file.starts_with(prefix));
        match result {
            Ok(_) if footer_is_good => {}
            Ok(rows) => wrong.push(format!("{name}: read as {rows:?} rows")),
            Err(error) if error.message().contains(file) && error.kind() == ErrorKind::Corrupt => {}
            Err(error) => wrong.push(format!("{name}: {:?} {error}", error.kind())),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
