//! What one query read, and how long it waited for it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Figures of the reads on behalf of one query. Shared between its scans; all relaxed counters.
#[derive(Debug, Default)]
pub struct ReadCounters {
    bytes_cache: AtomicU64,
    bytes_store: AtomicU64,
    requests: AtomicU64,
    wait_nanos: AtomicU64,
}

impl ReadCounters {
    /// Bytes that came from the range cache, or from a request that another query had under way.
    #[must_use]
    pub fn bytes_cache(&self) -> u64 {
        self.bytes_cache.load(Ordering::Relaxed)
    }

    /// Bytes that were fetched from the store, gaps between coalesced ranges included.
    #[must_use]
    pub fn bytes_store(&self) -> u64 {
        self.bytes_store.load(Ordering::Relaxed)
    }

    /// Requests to the store.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Nanoseconds spent waiting for the store, summed over concurrent reads.
    #[must_use]
    pub fn wait_nanos(&self) -> u64 {
        self.wait_nanos.load(Ordering::Relaxed)
    }

    pub(crate) fn add_cache(&self, bytes: u64) {
        self.bytes_cache.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn add_request(&self, bytes: u64) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.bytes_store.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn add_wait(&self, wait: Duration) {
        self.wait_nanos.fetch_add(u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}
