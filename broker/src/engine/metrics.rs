//! What the engine counts.

use std::time::Duration;

use lakeserve_common::telemetry::register;
use lakeserve_common::{ErrorKind, Result};
use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
};

/// Metrics of queries and of table refresh.
#[derive(Debug, Clone)]
pub(crate) struct EngineMetrics {
    pub(crate) queries: IntCounterVec,
    pub(crate) phases: HistogramVec,
    pub(crate) running: IntGauge,
    pub(crate) waiting: IntGauge,
    pub(crate) rows: IntCounter,
    pub(crate) retries: IntCounter,
    pub(crate) refreshes: IntCounterVec,
    pub(crate) refresh_seconds: Histogram,
    pub(crate) snapshot_age: prometheus::GaugeVec,
    pub(crate) table_up: IntGaugeVec,
    pub(crate) table_files: IntGaugeVec,
}

/// From a tenth of a millisecond to a minute.
const SECONDS: [f64; 17] =
    [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0];

impl EngineMetrics {
    /// Registers all of them; outcomes start at zero, so that a rate over them is defined.
    pub(crate) fn new(registry: &Registry) -> Result<Self> {
        let metrics = Self {
            queries: counters(
                registry,
                "lakeserve_query_requests_total",
                "Queries by outcome: ok or the kind of error.",
                &["outcome"],
            )?,
            phases: histograms(
                registry,
                "lakeserve_query_phase_seconds",
                "Time that a query spent in each phase.",
                &["phase"],
            )?,
            running: gauge(registry, "lakeserve_query_running", "Queries that run now.")?,
            waiting: gauge(registry, "lakeserve_query_waiting", "Queries that wait for their turn.")?,
            rows: register(
                registry,
                made(IntCounter::new("lakeserve_query_result_rows_total", "Rows sent in results."))?,
            ),
            retries: register(
                registry,
                made(IntCounter::new(
                    "lakeserve_query_retries_total",
                    "Queries planned again because a data file had gone.",
                ))?,
            ),
            refreshes: counters(
                registry,
                "lakeserve_table_refreshes_total",
                "Refreshes by table and outcome.",
                &["table", "outcome"],
            )?,
            refresh_seconds: register(
                registry,
                made(Histogram::with_opts(
                    HistogramOpts::new("lakeserve_table_refresh_seconds", "Time of one refresh of one table.")
                        .buckets(SECONDS.to_vec()),
                ))?,
            ),
            snapshot_age: register(
                registry,
                made(prometheus::GaugeVec::new(
                    Opts::new(
                        "lakeserve_table_snapshot_age_seconds",
                        "Time since the served state was last confirmed to be the newest.",
                    ),
                    &["table"],
                ))?,
            ),
            table_up: gauges(
                registry,
                "lakeserve_table_state",
                "1 for the state that each table is in.",
                &["table", "state"],
            )?,
            table_files: gauges(registry, "lakeserve_table_files", "Live data files of the served state.", &["table"])?,
        };
        metrics.queries.with_label_values(&["ok"]).inc_by(0);
        for kind in ErrorKind::ALL {
            metrics.queries.with_label_values(&[kind.as_str()]).inc_by(0);
        }
        Ok(metrics)
    }

    /// Records the time of one phase (`queue`, `plan` or `execute`).
    pub(crate) fn phase(&self, phase: &'static str, took: Duration) {
        self.phases.with_label_values(&[phase]).observe(took.as_secs_f64());
    }
}

/// A metric whose name or labels are not valid is a fault of the program, found by every test.
fn made<T>(metric: prometheus::Result<T>) -> Result<T> {
    metric
        .map_err(|error| lakeserve_common::Error::new(ErrorKind::Internal, format!("a metric cannot be made: {error}")))
}

pub(crate) fn counters(registry: &Registry, name: &str, help: &str, labels: &[&str]) -> Result<IntCounterVec> {
    Ok(register(registry, made(IntCounterVec::new(Opts::new(name, help), labels))?))
}

pub(crate) fn histograms(registry: &Registry, name: &str, help: &str, labels: &[&str]) -> Result<HistogramVec> {
    let options = HistogramOpts::new(name, help).buckets(SECONDS.to_vec());
    Ok(register(registry, made(HistogramVec::new(options, labels))?))
}

pub(crate) fn gauge(registry: &Registry, name: &str, help: &str) -> Result<IntGauge> {
    Ok(register(registry, made(IntGauge::new(name, help))?))
}

fn gauges(registry: &Registry, name: &str, help: &str, labels: &[&str]) -> Result<IntGaugeVec> {
    Ok(register(registry, made(IntGaugeVec::new(Opts::new(name, help), labels))?))
}
