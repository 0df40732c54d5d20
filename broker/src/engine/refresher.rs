//! Keeps the served states fresh, off the query path.
//!
//! One task per table asks for a newer state every interval (jittered, so that many tables do not
//! ask at once); a bounded number of tables do so at a time. A failed refresh keeps the last good
//! state; failures are counted, and logged once per change of state.

use std::sync::Arc;
use std::time::Duration;

use lakeserve_common::clock::Clock;
use lakeserve_common::random::Random;
use lakeserve_common::{Error, ErrorKind, Result, spawn};
use lakeserve_lake::{LakeTable, SnapshotChoice};
use lakeserve_storage::Storage;
use tokio::sync::Semaphore;

use super::metrics::EngineMetrics;
use super::options::EngineOptions;
use super::tables::{Current, ServedTable, TableState};

/// Part of the interval by which each wait differs.
const JITTER: f64 = 0.2;
/// A table that keeps failing is asked at most this many intervals apart.
const MAX_BACKOFF: u32 = 12;

/// What refreshing needs. Shared by all tables.
#[derive(Debug)]
pub(crate) struct Refresher {
    storage: Arc<Storage>,
    clock: Arc<dyn Clock>,
    random: Arc<Random>,
    metrics: EngineMetrics,
    interval: Duration,
    max_staleness: Duration,
    slots: Semaphore,
}

impl Refresher {
    pub(crate) fn new(
        storage: Arc<Storage>,
        clock: Arc<dyn Clock>,
        random: Arc<Random>,
        metrics: EngineMetrics,
        options: &EngineOptions,
    ) -> Self {
        Self {
            storage,
            clock,
            random,
            metrics,
            interval: options.refresh_interval.0.max(Duration::from_millis(10)),
            max_staleness: options.max_staleness.0,
            slots: Semaphore::new(options.refresh_parallel.clamp(1, Semaphore::MAX_PERMITS)),
        }
    }

    /// Opens the table and keeps it fresh until it is removed.
    pub(crate) fn start(self: &Arc<Self>, table: Arc<ServedTable>) {
        let refresher = Arc::clone(self);
        spawn::spawn("table-refresh", async move {
            let removed = table.removed.clone();
            tokio::select! {
                () = removed.cancelled() => {}
                () = refresher.keep_fresh(&table) => {}
            }
            refresher.forget(&table);
        });
    }

    async fn keep_fresh(&self, table: &ServedTable) {
        let mut failures = 0_u32;
        loop {
            match self.refresh_within_slots(table).await {
                Ok(_) => failures = 0,
                Err(_) => failures = failures.saturating_add(1),
            }
            let intervals = failures.clamp(1, MAX_BACKOFF);
            let wait = self.interval.saturating_mul(intervals).mul_f64(self.random.jitter(JITTER));
            tokio::time::sleep(wait).await;
        }
    }

    async fn refresh_within_slots(&self, table: &ServedTable) -> Result<bool> {
        // The semaphore is never closed.
        let _slot = self.slots.acquire().await.ok();
        self.refresh(table).await
    }

    /// Asks for the newest state now. True when it differs from the one that was served.
    ///
    /// # Errors
    /// What opening or reading the table failed with; a state that was good stays served.
    pub(crate) async fn refresh(&self, table: &ServedTable) -> Result<bool> {
        let mut opened = table.refreshing.lock().await;
        let started = self.clock.instant();
        let outcome = self.newest(table, &mut opened).await;
        self.metrics.refresh_seconds.observe(self.clock.instant().duration_since(started).as_secs_f64());
        let before = table.state();
        let changed = match (&outcome, &before) {
            (Ok(current), TableState::Served(known)) => !Arc::ptr_eq(&current.snapshot, &known.snapshot),
            (Ok(_), _) => true,
            (Err(_), _) => false,
        };
        let label = match &outcome {
            Ok(_) if changed => "changed",
            Ok(_) => "unchanged",
            Err(_) => "failed",
        };
        self.metrics.refreshes.with_label_values(&[table.name(), label]).inc();
        match outcome {
            Ok(current) => {
                log_recovery(table, &before, &current);
                table.set(TableState::Served(Arc::new(current)));
                Ok(changed)
            }
            Err(error) => {
                if matches!(error.kind(), ErrorKind::NoSuchTable | ErrorKind::Corrupt) {
                    // Something else may stand there by now: next time it is opened anew.
                    *opened = None;
                }
                let error = Arc::new(error);
                log_failure(table, &before, &error);
                table.set(failed(before, &error));
                Err(super::tables::again(&error))
            }
        }
    }

    async fn newest(&self, served: &ServedTable, opened: &mut Option<LakeTable>) -> Result<Current> {
        let table = match opened {
            Some(table) => table.clone(),
            None => {
                let table =
                    LakeTable::open(Arc::clone(&self.storage), served.location(), served.options.clone()).await?;
                opened.insert(table).clone()
            }
        };
        // The time before the question: what was committed while we asked may not be in the answer.
        let asked_ms = self.clock.now_ms();
        match served.state() {
            // A table may be replaced by one of another format at the same place.
            TableState::Served(known) if known.snapshot.format == table.format() => {
                let snapshot = table.refresh(&known.snapshot).await?;
                if Arc::ptr_eq(&snapshot, &known.snapshot) {
                    return Ok(Current { confirmed_ms: asked_ms, failure: None, ..Current::clone(&known) });
                }
                Ok(Current::new(table, snapshot, asked_ms))
            }
            TableState::Served(_) | TableState::Opening | TableState::Failed(_) => {
                let snapshot = table.snapshot(&SnapshotChoice::Latest).await?;
                Ok(Current::new(table, snapshot, asked_ms))
            }
        }
    }

    /// Whether a table that is served from `current` counts as stale.
    pub(crate) fn is_stale(&self, current: &Current, now_ms: i64) -> bool {
        let limit = i64::try_from(self.max_staleness.as_millis()).unwrap_or(i64::MAX);
        current.age_ms(now_ms) > limit
    }

    /// Brings the gauges of one table up to date; called when metrics are read.
    pub(crate) fn observe(&self, table: &ServedTable, now_ms: i64) {
        let state = table.state();
        let shown = state_name(self, &state, now_ms);
        for name in STATES {
            self.metrics.table_up.with_label_values(&[table.name(), name]).set(i64::from(name == shown));
        }
        if let TableState::Served(current) = state {
            let age = Duration::from_millis(u64::try_from(current.age_ms(now_ms)).unwrap_or(0));
            self.metrics.snapshot_age.with_label_values(&[table.name()]).set(age.as_secs_f64());
            let files = i64::try_from(current.snapshot.files.len()).unwrap_or(i64::MAX);
            self.metrics.table_files.with_label_values(&[table.name()]).set(files);
        }
    }

    /// Removes the metrics of a table that is no longer served, and answers those who still wait for
    /// its first state.
    fn forget(&self, table: &ServedTable) {
        let name = table.name();
        if matches!(table.state(), TableState::Opening) {
            let removed = Error::new(ErrorKind::NoSuchTable, "it is no longer served");
            table.set(TableState::Failed(Arc::new(removed)));
        }
        for state in STATES {
            let _ = self.metrics.table_up.remove_label_values(&[name, state]);
        }
        for outcome in ["changed", "unchanged", "failed"] {
            let _ = self.metrics.refreshes.remove_label_values(&[name, outcome]);
        }
        let _ = self.metrics.snapshot_age.remove_label_values(&[name]);
        let _ = self.metrics.table_files.remove_label_values(&[name]);
    }
}

const STATES: [&str; 4] = ["opening", "ok", "stale", "failed"];

/// The word for a table's state in answers and metrics: one of `opening`, `ok`, `stale`, `failed`.
pub(crate) fn state_name(refresher: &Refresher, state: &TableState, now_ms: i64) -> &'static str {
    match state {
        TableState::Opening => "opening",
        TableState::Served(current) if refresher.is_stale(current, now_ms) => "stale",
        TableState::Served(_) => "ok",
        TableState::Failed(_) => "failed",
    }
}

fn failed(before: TableState, error: &Arc<Error>) -> TableState {
    match before {
        TableState::Served(known) => {
            let kept = Current { failure: Some(Arc::clone(error)), ..Current::clone(&known) };
            TableState::Served(Arc::new(kept))
        }
        TableState::Opening | TableState::Failed(_) => TableState::Failed(Arc::clone(error)),
    }
}

fn log_recovery(table: &ServedTable, before: &TableState, current: &Current) {
    let version = &current.snapshot.version;
    match before {
        TableState::Served(known) if known.failure.is_none() => {}
        TableState::Served(_) => tracing::info!(table = table.name(), %version, "table is refreshed again"),
        TableState::Opening | TableState::Failed(_) => {
            let files = current.snapshot.files.len();
            tracing::info!(table = table.name(), %version, files, "table is served");
        }
    }
}

fn log_failure(table: &ServedTable, before: &TableState, error: &Error) {
    match before {
        TableState::Served(known) if known.failure.is_some() => {}
        TableState::Failed(known) if known.message() == error.message() => {}
        TableState::Served(known) => {
            let version = &known.snapshot.version;
            tracing::warn!(table = table.name(), %version, %error, "refresh failed, the last good state is served");
        }
        TableState::Opening | TableState::Failed(_) => {
            tracing::warn!(table = table.name(), %error, "table cannot be opened");
        }
    }
}
