//! Every Parquet file of the conformance material reads as expected.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::{Process, compare, conformance};

fn parquet_file(case: &Path) -> PathBuf {
    let mut found: Vec<PathBuf> =
        walk(case).into_iter().filter(|path| path.extension().is_some_and(|ext| ext == "parquet")).collect();
    assert_eq!(found.len(), 1, "{}", case.display());
    found.remove(0)
}

fn walk(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

async fn check(source: &str) {
    let Some(folder) = conformance(source) else { return };
    let process = Process::new();
    let mut cases: Vec<PathBuf> =
        std::fs::read_dir(folder.join("golden").join(source)).unwrap().map(|entry| entry.unwrap().path()).collect();
    cases.sort();
    assert!(!cases.is_empty());
    let mut problems = Vec::new();
    for case in &cases {
        let expected: Value = serde_json::from_slice(&std::fs::read(case.join("expected.json")).unwrap()).unwrap();
        let name = case.file_name().unwrap().to_string_lossy().into_owned();
        match process.query(&parquet_file(case), "SELECT * FROM t").await {
            Ok(batches) => {
                let found = compare::difference(&compare::rows(&batches), &expected);
                problems.extend(found.into_iter().map(|problem| format!("{name}: {problem}")));
            }
            Err(error) => problems.push(format!("{name}: {error}")),
        }
    }
    assert!(problems.is_empty(), "{} of {} cases:\n{}", problems.len(), cases.len(), problems.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn parquet_testing_files_read_as_expected() {
    check("parquet-testing").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_encoding_reads_as_expected() {
    check("iceberg-java-encodings").await;
}
