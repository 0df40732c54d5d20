//! Metrics of storage. Labels are closed sets: the store's kind and the operation.

use lakeserve_common::telemetry::register;
use prometheus::{Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, Opts, Registry};

/// All metrics of this crate, registered once per [`crate::Storage`].
#[derive(Debug, Clone)]
pub(crate) struct Metrics {
    /// Operations by store and operation, retries not counted.
    pub requests: IntCounterVec,
    /// Failed operations, after retries.
    pub errors: IntCounterVec,
    /// Attempts after the first.
    pub retries: IntCounterVec,
    /// Seconds until the answer began (for `list`: until its end).
    pub seconds: HistogramVec,
    /// Bytes of object bodies that were read.
    pub read_bytes: IntCounterVec,
    /// Bytes that the range cache holds.
    pub cache_bytes: IntGauge,
    /// Ranges answered from the range cache.
    pub cache_hits: IntCounter,
    /// Ranges that had to be fetched.
    pub cache_misses: IntCounter,
    /// Ranges that waited for a fetch which another reader had begun.
    pub cache_joins: IntCounter,
    /// Ranges pushed out for lack of room.
    pub cache_evictions: IntCounter,
    /// Seconds that fetches waited for one of the parallel requests.
    pub permit_seconds: Histogram,
}

const SECONDS: [f64; 12] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0];

impl Metrics {
    pub(crate) fn new(registry: &Registry) -> lakeserve_common::Result<Self> {
        let by_operation = ["store", "operation"];
        Ok(Self {
            requests: counters(registry, "requests_total", "Operations on stores.", &by_operation)?,
            errors: counters(registry, "errors_total", "Operations that failed after retries.", &by_operation)?,
            retries: counters(registry, "retries_total", "Attempts after the first.", &by_operation)?,
            seconds: register(
                registry,
                HistogramVec::new(
                    HistogramOpts::new(name("request_seconds"), "Seconds until the answer began.")
                        .buckets(SECONDS.to_vec()),
                    &by_operation,
                )
                .map_err(internal)?,
            ),
            read_bytes: counters(registry, "read_bytes_total", "Bytes of object bodies read.", &["store"])?,
            cache_bytes: register(
                registry,
                IntGauge::new(name("range_cache_bytes"), "Bytes held by the range cache.").map_err(internal)?,
            ),
            cache_hits: counter(registry, "range_cache_hits_total", "Ranges answered from the cache.")?,
            cache_misses: counter(registry, "range_cache_misses_total", "Ranges that had to be fetched.")?,
            cache_joins: counter(registry, "range_cache_joins_total", "Ranges that waited for another's fetch.")?,
            cache_evictions: counter(registry, "range_cache_evictions_total", "Ranges pushed out for lack of room.")?,
            permit_seconds: register(
                registry,
                Histogram::with_opts(
                    HistogramOpts::new(name("permit_wait_seconds"), "Seconds waited for a request slot.")
                        .buckets(SECONDS.to_vec()),
                )
                .map_err(internal)?,
            ),
        })
    }
}

fn name(rest: &str) -> String {
    format!("lakeserve_storage_{rest}")
}

fn counter(registry: &Registry, rest: &str, help: &str) -> lakeserve_common::Result<IntCounter> {
    Ok(register(registry, IntCounter::new(name(rest), help).map_err(internal)?))
}

fn counters(registry: &Registry, rest: &str, help: &str, labels: &[&str]) -> lakeserve_common::Result<IntCounterVec> {
    Ok(register(registry, IntCounterVec::new(Opts::new(name(rest), help), labels).map_err(internal)?))
}

fn internal(error: prometheus::Error) -> lakeserve_common::Error {
    lakeserve_common::Error::new(lakeserve_common::ErrorKind::Internal, "a metric is ill-formed").with_source(error)
}
