//! What can be configured about the engine. Everything has a default.

use lakeserve_common::units::{ByteSize, Span};
use lakeserve_query::session::SessionOptions;
use serde::{Deserialize, Serialize};

/// Tables, admission, deadlines and limits of queries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EngineOptions {
    /// How often each table is asked for a newer state, give or take a fifth. Default 5s.
    pub refresh_interval: Span,
    /// Tables that are refreshed at a time. Default 8.
    pub refresh_parallel: usize,
    /// A table whose last successful refresh is older than this is shown as stale; it is still
    /// served from its last good state. Default 60s.
    pub max_staleness: Span,
    /// Queries that run at a time; 0 means eight per core. Default 0.
    pub max_concurrent_queries: usize,
    /// Queries that may wait for their turn; more are refused as over capacity. Default 1024.
    pub max_queued_queries: usize,
    /// How long a query may take, waiting and sending included, when the request does not say.
    /// Default 30s.
    pub query_timeout: Span,
    /// The longest timeout that a request may ask for. Default 10m.
    pub max_query_timeout: Span,
    /// Rows that one result may have; a larger one is refused, never cut. Default 10000000.
    pub max_result_rows: u64,
    /// Bytes in memory that the rows of one result may add up to; a larger one is refused, never
    /// cut. Default 1GiB.
    pub max_result_bytes: ByteSize,
    /// Bytes that one statement's text may have. Default 4MiB.
    pub max_statement_bytes: ByteSize,
    /// Threads that plan and run queries; 0 means one per core, but at least four. Default 0.
    pub compute_threads: usize,
    /// How statements are planned and run: time zone, batches, memory and spill budget.
    pub session: SessionOptions,
}

/// A size for people: a bare number gets its unit.
pub(crate) fn sized(size: ByteSize) -> String {
    let text = size.to_string();
    if text.ends_with(|last: char| last.is_ascii_digit()) { format!("{text} bytes") } else { text }
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            refresh_interval: Span::secs(5),
            refresh_parallel: 8,
            max_staleness: Span::secs(60),
            max_concurrent_queries: 0,
            max_queued_queries: 1024,
            query_timeout: Span::secs(30),
            max_query_timeout: Span::secs(600),
            max_result_rows: 10_000_000,
            max_result_bytes: ByteSize::gib(1),
            max_statement_bytes: ByteSize::mib(4),
            compute_threads: 0,
            session: SessionOptions::default(),
        }
    }
}

impl EngineOptions {
    /// Threads that plan and run queries.
    #[must_use]
    pub fn threads(&self) -> usize {
        match self.compute_threads {
            0 => cores().max(LEAST_THREADS),
            threads => threads,
        }
    }

    /// Queries that run at a time.
    #[must_use]
    pub fn concurrency(&self) -> usize {
        match self.max_concurrent_queries {
            0 => cores().saturating_mul(8),
            queries => queries,
        }
    }
}

/// With fewer threads, a few long steps of one query would hold up all others.
const LEAST_THREADS: usize = 4;

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_field_is_refused_by_name() {
        let error = serde_json::from_str::<EngineOptions>(r#"{"refresh_intervall":"5s"}"#).unwrap_err();
        assert!(error.to_string().contains("refresh_intervall"), "{error}");
        let options: EngineOptions = serde_json::from_str(r#"{"refresh_interval":"2s"}"#).unwrap();
        assert_eq!(options, EngineOptions { refresh_interval: Span::secs(2), ..EngineOptions::default() });
    }
}
