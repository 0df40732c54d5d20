//! What a query answers: its id, the states of the tables that it read, its rows as a stream, and
//! the figures that tell where the time went.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures::Stream;
use lakeserve_common::id::QueryId;
use lakeserve_common::{Error, ErrorKind, Result};
use lakeserve_exec::QueryCounters;
use serde::Serialize;
use tokio::sync::mpsc;

use super::settings::Settings;

/// The state of one table that a query read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotUse {
    /// The table's name; of a second state of the same table `name@version`.
    pub table: String,
    /// The snapshot token.
    pub id: String,
    /// Delta version, Iceberg snapshot id, or the token of plain Parquet.
    pub version: String,
    /// Milliseconds since the state was last confirmed to be the newest; `None` for a state that the
    /// query chose itself.
    pub age_ms: Option<i64>,
    /// Whether the last confirmation is older than `max_staleness`.
    pub stale: bool,
    /// Rows in its data files before deletes, where known.
    pub rows: Option<u64>,
}

/// The answer to one statement. Dropping it stops all work on it.
#[derive(Debug)]
pub struct QueryAnswer {
    /// The query's id.
    pub query_id: QueryId,
    /// The columns.
    pub schema: SchemaRef,
    /// The states of tables that were read, in the order of their names.
    pub snapshots: Vec<SnapshotUse>,
    /// The settings that held: those of the session, of the request and of the statement.
    pub settings: Settings,
    /// The rows.
    pub batches: Batches,
    pub(crate) figures: Arc<Figures>,
}

impl QueryAnswer {
    /// The figures as they are now; final once `batches` has ended.
    #[must_use]
    pub fn stats(&self) -> QueryStats {
        self.figures.stats()
    }

    /// All rows in memory, for tests and for small answers.
    ///
    /// # Errors
    /// What the query failed with.
    pub async fn collect(mut self) -> Result<Vec<RecordBatch>> {
        use futures::StreamExt;
        let mut batches = Vec::new();
        while let Some(batch) = self.batches.next().await {
            batches.push(batch?);
        }
        Ok(batches)
    }
}

/// The stream of result batches. It ends only after the last batch: every other end is an error.
pub struct Batches {
    pub(crate) inner: Pin<Box<dyn Stream<Item = Result<RecordBatch>> + Send>>,
}

impl std::fmt::Debug for Batches {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Batches")
    }
}

impl Stream for Batches {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.inner.as_mut().poll_next(context)
    }
}

/// Figures while they grow.
#[derive(Debug)]
pub(crate) struct Figures {
    pub(crate) counters: Arc<QueryCounters>,
    queue: AtomicU64,
    plan: AtomicU64,
    execute: AtomicU64,
    rows: AtomicU64,
}

impl Figures {
    pub(crate) fn new(counters: Arc<QueryCounters>) -> Self {
        let [queue, plan, execute, rows] = [const { AtomicU64::new(0) }; 4];
        Self { counters, queue, plan, execute, rows }
    }

    pub(crate) fn set_queue(&self, took: Duration) {
        self.queue.store(nanos(took), Ordering::Relaxed);
    }

    pub(crate) fn set_plan(&self, took: Duration) {
        self.plan.store(nanos(took), Ordering::Relaxed);
    }

    pub(crate) fn set_execute(&self, took: Duration) {
        self.execute.store(nanos(took), Ordering::Relaxed);
    }

    pub(crate) fn add_rows(&self, rows: usize) {
        self.rows.fetch_add(u64::try_from(rows).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(crate) fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    pub(crate) fn stats(&self) -> QueryStats {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &self.counters;
        let [queue_ms, plan_ms, execute_ms] =
            [&self.queue, &self.plan, &self.execute].map(|counter| millis(get(counter)));
        QueryStats {
            files_total: get(&counters.files_total),
            files_pruned: get(&counters.files_pruned),
            files_scanned: get(&counters.files_scanned),
            row_groups_total: get(&counters.row_groups_total),
            row_groups_pruned: get(&counters.row_groups_pruned),
            rows_scanned: get(&counters.rows_scanned),
            rows_deleted: get(&counters.rows_deleted),
            bytes_cache: counters.reads.bytes_cache(),
            bytes_lake: counters.reads.bytes_store(),
            lake_requests: counters.reads.requests(),
            queue_ms,
            plan_ms,
            execute_ms,
            storage_wait_ms: millis(counters.reads.wait_nanos()),
        }
    }
}

/// The figures of one query, as every front end shows them. Times are milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct QueryStats {
    /// Live data files of the tables' states.
    pub files_total: u64,
    /// Files that statistics or partition values ruled out.
    pub files_pruned: u64,
    /// Files that were read.
    pub files_scanned: u64,
    /// Row groups of the files that were read.
    pub row_groups_total: u64,
    /// Row groups that statistics ruled out.
    pub row_groups_pruned: u64,
    /// Rows that were decoded.
    pub rows_scanned: u64,
    /// Rows that deletes took out of them.
    pub rows_deleted: u64,
    /// Bytes read from the cache in memory.
    pub bytes_cache: u64,
    /// Bytes read from the lake.
    pub bytes_lake: u64,
    /// Requests to the lake.
    pub lake_requests: u64,
    /// Time before the query's turn came.
    pub queue_ms: f64,
    /// Time to parse, plan and optimise.
    pub plan_ms: f64,
    /// Time to run, until the last row was taken.
    pub execute_ms: f64,
    /// Of that, time waiting for the lake, summed over reads that ran side by side.
    pub storage_wait_ms: f64,
}

fn nanos(took: Duration) -> u64 {
    u64::try_from(took.as_nanos()).unwrap_or(u64::MAX)
}

/// Milliseconds with three places.
fn millis(nanos: u64) -> f64 {
    (Duration::from_nanos(nanos).as_secs_f64() * 1_000_000.0).round() / 1_000.0
}

/// What the compute threads send to whoever holds the answer.
pub(crate) enum Message {
    Batch(RecordBatch),
    Failed(Error),
    /// All batches were sent.
    End,
}

/// Ends the task of a query when the answer is dropped.
pub(crate) struct AbortOnDrop {
    pub(crate) task: tokio::task::JoinHandle<()>,
    /// Set for those parts of the query that do not notice an abort.
    pub(crate) abandoned: Arc<AtomicBool>,
}

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.abandoned.store(true, Ordering::Relaxed);
        self.task.abort();
    }
}

impl AbortOnDrop {
    /// The error of a task that ended without saying so: it panicked.
    pub(crate) async fn fault(&mut self) -> Error {
        match (&mut self.task).await {
            Err(error) if error.is_panic() => internal_panic(&*error.into_panic()),
            Ok(()) | Err(_) => Error::new(ErrorKind::Internal, "the query ended without an answer"),
        }
    }
}

/// The error for a panic inside a query; the message goes to the log, with the query's id beside it.
pub(crate) fn internal_panic(payload: &(dyn std::any::Any + Send)) -> Error {
    let text = payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    Error::new(
        ErrorKind::Internal,
        format!("a fault of lakeserve's own: {}", text.unwrap_or("panic without a message")),
    )
    .with_hint("please report it with the query's id and the log of that moment")
}

/// The receiving half as a stream: batches until [`Message::End`], else the error and nothing after it.
pub(crate) fn receive(
    first: mpsc::Receiver<Message>,
    task: AbortOnDrop,
    watch: impl std::future::Future<Output = Error> + Send + 'static,
) -> Batches {
    struct State<W> {
        receiver: mpsc::Receiver<Message>,
        task: AbortOnDrop,
        watch: Pin<Box<W>>,
    }
    let state = State { receiver: first, task, watch: Box::pin(watch) };
    let inner = futures::stream::unfold(Some(state), |state| async move {
        let mut state = state?;
        let message = tokio::select! {
            biased;
            error = &mut state.watch => Some(Message::Failed(error)),
            message = state.receiver.recv() => message,
        };
        match message {
            Some(Message::Batch(batch)) => Some((Ok(batch), Some(state))),
            Some(Message::Failed(error)) => Some((Err(error), None)),
            Some(Message::End) => None,
            None => Some((Err(state.task.fault().await), None)),
        }
    });
    Batches { inner: Box::pin(inner) }
}
