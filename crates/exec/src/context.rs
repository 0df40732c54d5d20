//! What all scans of a process share: storage, the cache of footers, metrics.

use std::sync::Arc;

use lakeserve_common::Result;
use lakeserve_common::telemetry::register;
use lakeserve_common::units::ByteSize;
use lakeserve_lake::DataFile;
use lakeserve_storage::{DataReader, FileKey, Storage};
use moka::sync::Cache;
use prometheus::{IntCounter, IntCounterVec, Opts, Registry};
use serde::{Deserialize, Serialize};

use crate::footer::{self, Footer};

/// How scans behave.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ScanOptions {
    /// Memory for decoded Parquet footers. Default 128MiB.
    pub footer_cache_bytes: ByteSize,
    /// Footers that one query reads at a time while it is planned. Default 16.
    pub footer_reads: usize,
    /// A scan of fewer bytes than this runs in one partition. Default 1MiB.
    pub split_bytes: ByteSize,
}

impl Default for ScanOptions {
    fn default() -> Self {
        Self { footer_cache_bytes: ByteSize::mib(128), footer_reads: 16, split_bytes: ByteSize::mib(1) }
    }
}

/// What all scans of a process share. One per process, behind an `Arc`.
#[derive(Debug)]
pub struct ScanContext {
    pub(crate) storage: Arc<Storage>,
    pub(crate) options: ScanOptions,
    pub(crate) metrics: ScanMetrics,
    footers: Cache<FileKey, Arc<Footer>>,
}

/// Counters of the process. A difference between them over time says what scans do.
#[derive(Debug)]
pub(crate) struct ScanMetrics {
    footers: IntCounterVec,
    pub(crate) files: IntCounterVec,
    pub(crate) rows: IntCounter,
}

impl ScanMetrics {
    fn new(registry: &Registry) -> Option<Self> {
        let footers = Opts::new("lakeserve_exec_footer_requests_total", "Footers asked for, by outcome (hit, miss).");
        let files = Opts::new("lakeserve_exec_files_total", "Data files of scans, by outcome (pruned, scanned).");
        Some(Self {
            footers: register(registry, IntCounterVec::new(footers, &["outcome"]).ok()?),
            files: register(registry, IntCounterVec::new(files, &["outcome"]).ok()?),
            rows: register(
                registry,
                IntCounter::new("lakeserve_exec_rows_scanned_total", "Rows decoded from data files.").ok()?,
            ),
        })
    }
}

impl ScanContext {
    /// A context over `storage`, with its metrics in `registry`.
    ///
    /// # Panics
    /// Never: the names of the metrics are constants that Prometheus accepts.
    #[must_use]
    #[expect(clippy::expect_used, reason = "constant metric names; a test builds the context")]
    pub fn new(storage: Arc<Storage>, options: ScanOptions, registry: &Registry) -> Arc<Self> {
        let weigh = |_: &FileKey, footer: &Arc<Footer>| u32::try_from(footer.memory_size()).unwrap_or(u32::MAX);
        let footers = Cache::builder().max_capacity(options.footer_cache_bytes.0).weigher(weigh).build();
        let metrics = ScanMetrics::new(registry).expect("constant metric names");
        Arc::new(Self { storage, options, metrics, footers })
    }

    /// The checked footer of a file, from memory if it is known.
    ///
    /// # Errors
    /// As [`footer::load`].
    pub(crate) async fn footer(&self, key: &FileKey, reader: &DataReader, file: &DataFile) -> Result<Arc<Footer>> {
        if let Some(footer) = self.footers.get(key) {
            self.metrics.footers.with_label_values(&["hit"]).inc();
            return Ok(footer);
        }
        self.metrics.footers.with_label_values(&["miss"]).inc();
        let footer = Arc::new(footer::load(reader, file).await?);
        self.footers.insert(key.clone(), Arc::clone(&footer));
        Ok(footer)
    }
}
