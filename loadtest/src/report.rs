//! What a run found: latencies in a high-dynamic-range histogram, answers and failures by kind, and
//! the driver's own cost; as a text table and as JSON.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use anyhow::Result;
use hdrhistogram::Histogram;
use serde::Serialize;

use crate::client::Failure;

/// One microsecond to a little over the longest run, within 0.1 %.
fn histogram() -> Result<Histogram<u64>> {
    Ok(Histogram::new_with_bounds(1, 4 * 3_600 * 1_000_000, 3)?)
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

/// What is counted while the load runs.
#[derive(Debug)]
pub(crate) struct Tally {
    latency: Histogram<u64>,
    send_lag: Histogram<u64>,
    right: u64,
    wrong: u64,
    first_wrong: Option<String>,
    failures: BTreeMap<String, Failures>,
    warmup_failures: u64,
    last: Duration,
}

/// The failures of one kind.
#[derive(Debug, Clone, Serialize, PartialEq, Eq)]
pub struct Failures {
    /// How many.
    pub count: u64,
    /// What the first of them said.
    pub first: String,
}

impl Tally {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            latency: histogram()?,
            send_lag: histogram()?,
            right: 0,
            wrong: 0,
            first_wrong: None,
            failures: BTreeMap::new(),
            warmup_failures: 0,
            last: Duration::ZERO,
        })
    }

    /// A query that had a free connection left the driver this long after it was meant to.
    pub(crate) fn sent(&mut self, lag: Duration) {
        self.send_lag.saturating_record(micros(lag));
    }

    /// A query was answered, rightly or (`wrong` says how) wrongly, `latency` after it was meant to be
    /// sent and `at` after the start of the run.
    pub(crate) fn answered(&mut self, latency: Duration, at: Duration, wrong: Option<String>) {
        self.latency.saturating_record(micros(latency));
        self.last = self.last.max(at);
        match wrong {
            None => self.right += 1,
            Some(difference) => {
                self.wrong += 1;
                self.first_wrong.get_or_insert(difference);
            }
        }
    }

    /// A query failed. `waited` is set when it failed by waiting: leaving that time out would flatter
    /// the tail.
    pub(crate) fn failed(&mut self, failure: Failure, waited: Option<Duration>) {
        if let Some(waited) = waited {
            self.latency.saturating_record(micros(waited));
        }
        let failures = self.failures.entry(failure.kind).or_insert(Failures { count: 0, first: failure.message });
        failures.count += 1;
    }

    /// A query of the warm-up failed.
    pub(crate) fn failed_in_warmup(&mut self) {
        self.warmup_failures += 1;
    }
}

/// How the run was set up, for the report.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Setup {
    pub(crate) workload: &'static str,
    pub(crate) url: String,
    pub(crate) table: String,
    pub(crate) table_rows: u64,
    pub(crate) varied: bool,
    pub(crate) connections: u32,
    pub(crate) threads: u32,
    pub(crate) duration_s: f64,
    /// How the reference answers were made.
    pub(crate) references: &'static str,
}

/// The result of a run. Times are in milliseconds from the intended send time.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Queries per second that were meant to be sent.
    pub offered_qps: f64,
    /// Right answers per second, over the measured time and whatever the last answers took beyond it.
    pub served_qps: f64,
    /// Median latency.
    pub p50_ms: f64,
    /// 90th percentile.
    pub p90_ms: f64,
    /// 99th percentile.
    pub p99_ms: f64,
    /// The longest.
    pub max_ms: f64,
    /// Queries without an answer, of all kinds.
    pub errors: u64,
    /// Answers that differ from their reference.
    pub wrong_answers: u64,
    /// CPU time of the driver itself in seconds, warm-up included; absent where the system does not tell.
    pub driver_cpu_s: Option<f64>,
    /// 99.9th percentile.
    pub p999_ms: f64,
    /// Mean latency.
    pub mean_ms: f64,
    /// Queries that were meant to be sent in the measured time.
    pub queries: u64,
    /// The measured time, and whatever the last answers took beyond it, in seconds.
    pub elapsed_s: f64,
    /// Failures by kind.
    pub errors_by_kind: BTreeMap<String, Failures>,
    /// Failures of the warm-up, not in `errors`.
    pub warmup_errors: u64,
    /// How the first wrong answer differs.
    pub first_wrong_answer: Option<String>,
    /// 99th percentile of how late the driver sent queries that had a free connection.
    pub send_lag_p99_ms: f64,
    /// Whether the driver was too slow for the figures to speak of the server.
    pub driver_limited: bool,
    #[serde(flatten)]
    setup: Setup,
}

/// The figures of a run that its tally does not hold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spans {
    /// Queries that were measured.
    pub(crate) queries: u64,
    /// The measured part began this long after the start.
    pub(crate) warmup: Duration,
    pub(crate) duration: Duration,
    /// From the start until every connection was done.
    pub(crate) whole: Duration,
    pub(crate) cpu: Option<Duration>,
}

impl Report {
    #[expect(clippy::cast_precision_loss, reason = "counts below 2^53")]
    pub(crate) fn new(setup: Setup, tally: Tally, spans: Spans) -> Self {
        let percentile = |percent: f64| tally.latency.value_at_percentile(percent) as f64 / 1_000.0;
        let elapsed = tally.last.saturating_sub(spans.warmup).max(spans.duration).as_secs_f64();
        let send_lag_p99_ms = tally.send_lag.value_at_percentile(99.0) as f64 / 1_000.0;
        let p99_ms = percentile(99.0);
        let busy =
            spans.cpu.is_some_and(|cpu| cpu.as_secs_f64() > 0.9 * f64::from(setup.threads) * spans.whole.as_secs_f64());
        Self {
            offered_qps: spans.queries as f64 / spans.duration.as_secs_f64(),
            served_qps: tally.right as f64 / elapsed,
            p50_ms: percentile(50.0),
            p90_ms: percentile(90.0),
            p99_ms,
            max_ms: tally.latency.max() as f64 / 1_000.0,
            errors: tally.failures.values().map(|failures| failures.count).sum(),
            wrong_answers: tally.wrong,
            driver_cpu_s: spans.cpu.map(|cpu| cpu.as_secs_f64()),
            p999_ms: percentile(99.9),
            mean_ms: tally.latency.mean() / 1_000.0,
            queries: spans.queries,
            elapsed_s: elapsed,
            errors_by_kind: tally.failures,
            warmup_errors: tally.warmup_failures,
            first_wrong_answer: tally.first_wrong,
            send_lag_p99_ms,
            driver_limited: busy || (send_lag_p99_ms > 1.0 && 2.0 * send_lag_p99_ms > p99_ms),
            setup,
        }
    }

    /// Whether every measured query was answered rightly.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.errors == 0 && self.wrong_answers == 0
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let setup = &self.setup;
        let parameters = if setup.varied { "drawn parameters" } else { "fixed parameters" };
        writeln!(
            f,
            "{} at {}, table {} of {} rows, {parameters}",
            setup.workload, setup.url, setup.table, setup.table_rows
        )?;
        writeln!(f, "references     {}", setup.references)?;
        writeln!(
            f,
            "offered        {:>10.1} queries/s for {} s over {} connections",
            self.offered_qps, setup.duration_s, setup.connections
        )?;
        writeln!(f, "served         {:>10.1} right answers/s over {:.2} s", self.served_qps, self.elapsed_s)?;
        let rows = [
            ("latency p50", self.p50_ms),
            ("latency p90", self.p90_ms),
            ("latency p99", self.p99_ms),
            ("latency p99.9", self.p999_ms),
            ("latency max", self.max_ms),
            ("latency mean", self.mean_ms),
        ];
        for (name, value) in rows {
            writeln!(f, "{name:<14} {value:>10.3} ms")?;
        }
        writeln!(f, "errors         {:>10}", self.errors)?;
        for (kind, failures) in &self.errors_by_kind {
            writeln!(f, "  {kind}: {} (first: {})", failures.count, failures.first)?;
        }
        if self.warmup_errors > 0 {
            writeln!(f, "  and {} in the warm-up", self.warmup_errors)?;
        }
        writeln!(f, "wrong answers  {:>10}", self.wrong_answers)?;
        if let Some(difference) = &self.first_wrong_answer {
            writeln!(f, "  first: {difference}")?;
        }
        match self.driver_cpu_s {
            Some(cpu) => writeln!(f, "driver CPU     {cpu:>10.2} s on {} thread(s)", setup.threads)?,
            None => writeln!(f, "driver CPU        unknown")?,
        }
        writeln!(f, "send lag p99   {:>10.3} ms", self.send_lag_p99_ms)?;
        if self.driver_limited {
            writeln!(
                f,
                "the driver, not the server, was the limit: lower the rate or give the driver more threads or cores"
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setup() -> Setup {
        Setup {
            workload: "tpch-q6",
            url: "http://127.0.0.1:8099/".to_owned(),
            table: "lineitem".to_owned(),
            table_rows: 10,
            varied: false,
            connections: 4,
            threads: 1,
            duration_s: 10.0,
            references: "one query",
        }
    }

    fn spans(cpu: u64) -> Spans {
        Spans {
            queries: 1_000,
            warmup: Duration::from_secs(2),
            duration: Duration::from_secs(10),
            whole: Duration::from_secs(12),
            cpu: Some(Duration::from_secs(cpu)),
        }
    }

    fn near(left: f64, right: f64) -> bool {
        (left - right).abs() <= right * 0.002
    }

    #[test]
    fn percentiles_counts_and_rates_come_from_the_tally() {
        let mut tally = Tally::new().unwrap();
        for index in 1..=988_u64 {
            tally.answered(Duration::from_micros(index * 100), Duration::from_secs(3), None);
        }
        tally.answered(Duration::from_millis(500), Duration::from_secs(13), Some("1 is not 2".to_owned()));
        tally.failed(Failure::new("timeout", "after 10s"), Some(Duration::from_secs(10)));
        (0..10).for_each(|_| tally.failed(Failure::new("http 503", "busy"), None));
        let report = Report::new(setup(), tally, spans(1));
        assert!(near(report.p50_ms, 49.5), "{}", report.p50_ms);
        assert!(near(report.p90_ms, 89.1), "{}", report.p90_ms);
        assert!(near(report.max_ms, 10_000.0), "{}", report.max_ms);
        assert_eq!((report.errors, report.wrong_answers), (11, 1));
        assert_eq!(report.errors_by_kind["http 503"], Failures { count: 10, first: "busy".to_owned() });
        assert!(near(report.offered_qps, 100.0) && near(report.served_qps, 988.0 / 11.0));
        assert!(!report.is_clean() && !report.driver_limited);
        let text = report.to_string();
        assert!(text.contains("http 503: 10 (first: busy)") && text.contains("first: 1 is not 2"), "{text}");
    }

    #[test]
    fn the_json_begins_with_the_fields_that_tools_rely_on() {
        let report = Report::new(setup(), Tally::new().unwrap(), spans(1));
        let json = serde_json::to_value(&report).unwrap();
        let names: Vec<&str> = json.as_object().unwrap().keys().map(String::as_str).collect();
        let fixed = [
            "offered_qps",
            "served_qps",
            "p50_ms",
            "p90_ms",
            "p99_ms",
            "max_ms",
            "errors",
            "wrong_answers",
            "driver_cpu_s",
        ];
        assert_eq!(names[..fixed.len()], fixed);
    }

    #[test]
    fn a_driver_that_is_late_or_busy_says_so() {
        let mut tally = Tally::new().unwrap();
        tally.sent(Duration::from_millis(8));
        tally.answered(Duration::from_millis(10), Duration::from_secs(3), None);
        assert!(
            Report::new(setup(), tally, spans(1)).to_string().contains("the driver, not the server, was the limit")
        );
        assert!(Report::new(setup(), Tally::new().unwrap(), spans(11)).driver_limited);
        let mut tally = Tally::new().unwrap();
        tally.sent(Duration::from_millis(2));
        tally.answered(Duration::from_millis(100), Duration::from_secs(3), None);
        assert!(!Report::new(setup(), tally, spans(1)).driver_limited);
    }
}
