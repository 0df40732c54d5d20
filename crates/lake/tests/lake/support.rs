//! Where the material lies, and what its answers look like.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use lakeserve_lake::{LakeTable, SnapshotChoice, TableOptions, TableSnapshot};
use lakeserve_storage::{Storage, StorageOptions};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::Value;

/// The folder of conformance material; `None` (after saying so) where it is absent. In CI its
/// absence is a failure.
pub fn material(skipped: &str) -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/conformance");
    let path = std::env::var_os("LAKESERVE_CONFORMANCE").map_or(beside, PathBuf::from);
    if path.join("golden").is_dir() {
        return Some(path.canonicalize().unwrap());
    }
    assert!(std::env::var_os("CI").is_none(), "no conformance material at {}", path.display());
    eprintln!("skipped: {skipped} (no conformance material at {}; set LAKESERVE_CONFORMANCE)", path.display());
    None
}

/// Storage as the server has it.
pub fn storage() -> Arc<Storage> {
    let clock = lakeserve_common::clock::system();
    let random = Arc::new(lakeserve_common::random::Random::seeded(1));
    Storage::new(StorageOptions::default(), clock, random, &prometheus::Registry::new()).unwrap()
}

/// Opens the table at a local path.
pub async fn open(path: &Path, options: TableOptions) -> lakeserve_common::Result<LakeTable> {
    let url = Storage::parse_location(path.to_str().unwrap())?;
    LakeTable::open(storage(), &url, options).await
}

/// Opens a table and takes one of its states.
pub async fn state(path: &Path, choice: &SnapshotChoice) -> lakeserve_common::Result<(LakeTable, Arc<TableSnapshot>)> {
    let table = open(path, TableOptions::default()).await?;
    let snapshot = table.snapshot(choice).await?;
    Ok((table, snapshot))
}

/// Live rows: the files' rows (by their own footers, if they are there) without those deleted.
pub async fn live_rows(table: &LakeTable, snapshot: &TableSnapshot) -> lakeserve_common::Result<Option<u64>> {
    let mut rows = 0;
    for file in snapshot.files.iter() {
        let in_footer = std::fs::File::open(file.url.to_file_path().unwrap()).ok().map(|file| {
            let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
            reader.metadata().row_groups().iter().map(|group| u64::try_from(group.num_rows()).unwrap()).sum()
        });
        if let (Some(said), Some(found)) = (file.row_count, in_footer) {
            assert_eq!(said, found, "rows of {}", file.url);
        }
        let Some(count) = file.row_count.or(in_footer) else { return Ok(None) };
        rows += count - table.deleted_rows(file).await?.map_or(0, |deleted| deleted.len());
    }
    Ok(Some(rows))
}

/// Reads a JSON file.
pub fn json(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Copies a folder to a place that can be written.
pub fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::write(&target, std::fs::read(entry.path()).unwrap()).unwrap();
        }
    }
}
