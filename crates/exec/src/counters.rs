//! What one query touched.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lakeserve_storage::ReadCounters;

/// Figures of all scans of one query. Relaxed counters: read them when the query is done.
#[derive(Debug, Default)]
pub struct QueryCounters {
    /// Live data files of the scanned tables, once per scan.
    pub files_total: AtomicU64,
    /// Files that statistics, partition values or a limit excluded.
    pub files_pruned: AtomicU64,
    /// Files that were opened.
    pub files_scanned: AtomicU64,
    /// Row groups of the files that were opened.
    pub row_groups_total: AtomicU64,
    /// Row groups that the footers' statistics excluded.
    pub row_groups_pruned: AtomicU64,
    /// Rows that were decoded, deleted ones included.
    pub rows_scanned: AtomicU64,
    /// Rows among them that the snapshot deletes.
    pub rows_deleted: AtomicU64,
    /// Bytes and requests of data files.
    pub reads: Arc<ReadCounters>,
}

/// Adds to a counter.
pub(crate) fn add(counter: &AtomicU64, count: usize) {
    counter.fetch_add(count as u64, Ordering::Relaxed);
}
