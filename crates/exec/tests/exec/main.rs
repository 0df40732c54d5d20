//! The scan over real and broken Parquet files that others made.
//!
//! The files are not part of this repository: `LAKESERVE_CONFORMANCE` names their folder (default:
//! `shared/conformance` beside the repository). Without it the tests say that they were skipped,
//! and fail where `CI` is set.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod bad;
mod bugs;
mod compare;
mod golden;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::prelude::SessionContext;
use lakeserve_common::random::Random;
use lakeserve_common::{Result, clock};
use lakeserve_exec::{QueryCounters, ScanContext, ScanOptions, provider};
use lakeserve_lake::LakeTable;
use lakeserve_lake::table::{SnapshotChoice, TableOptions};
use lakeserve_query::error::from_datafusion;
use lakeserve_storage::{Storage, StorageOptions};
use prometheus::Registry;

/// The folder of the conformance material, or `None` (said once per test) if it is not there.
pub(crate) fn conformance(test: &str) -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/conformance");
    let folder = std::env::var_os("LAKESERVE_CONFORMANCE").map_or_else(beside, PathBuf::from);
    if folder.join("README.md").exists() {
        return Some(folder);
    }
    assert!(std::env::var_os("CI").is_none(), "{test}: no conformance material at {}", folder.display());
    eprintln!("SKIPPED {test}: no conformance material at {}", folder.display());
    None
}

/// What a process shares.
pub(crate) struct Process {
    storage: Arc<Storage>,
    scans: Arc<ScanContext>,
}

impl Process {
    pub(crate) fn new() -> Self {
        let registry = Registry::new();
        let random = Arc::new(Random::seeded(1));
        let storage = Storage::new(StorageOptions::default(), clock::system(), random, &registry).unwrap();
        let scans = ScanContext::new(Arc::clone(&storage), ScanOptions::default(), &registry);
        Self { storage, scans }
    }

    /// Opens the table at `path` as `t` and runs a query over it.
    pub(crate) async fn query(&self, path: &Path, sql: &str) -> Result<Vec<RecordBatch>> {
        let url = Storage::parse_location(&path.display().to_string())?;
        let table = LakeTable::open(Arc::clone(&self.storage), &url, TableOptions::default()).await?;
        let snapshot = table.snapshot(&SnapshotChoice::Latest).await?;
        let provider = provider(table, snapshot, Arc::clone(&self.scans), Arc::new(QueryCounters::default()))?;
        let session = SessionContext::new();
        session.register_table("t", provider).map_err(from_datafusion)?;
        let frame = session.sql(sql).await.map_err(from_datafusion)?;
        frame.collect().await.map_err(from_datafusion)
    }
}
