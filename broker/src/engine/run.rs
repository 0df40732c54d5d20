//! The life of one query on the compute threads: its turn, parse, pin, plan, run, send.
//!
//! Whatever ends it early (an error, a panic, the deadline, a cancellation, a client that went away)
//! ends here as one outcome, counted once.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arrow::array::{Array, RecordBatch};
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::physical_plan::{SendableRecordBatchStream, execute_stream};
use futures::{FutureExt, StreamExt};
use lakeserve_common::units::{ByteSize, Span};
use lakeserve_common::{Error, ErrorKind, Result};
use lakeserve_lake::SnapshotChoice;
use lakeserve_query::dialect::{self, Statement, StatementKind};
use lakeserve_query::error::from_datafusion;
use tokio::sync::{mpsc, oneshot};

use super::EngineInner;
use super::alive::Alive;
use super::answer::{Figures, Message, SnapshotUse, internal_panic};
use super::ddl;
use super::deadline::Deadline;
use super::local::Local;
use super::metrics::EngineMetrics;
use super::options::sized;
use super::running::Listed;
use super::scope::{Scope, Shared, read_only};
use super::session::{QueryRequest, Rights};
use super::settings::Settings;

/// A query that has been asked for.
pub(crate) struct Job {
    pub(crate) engine: Arc<EngineInner>,
    pub(crate) rights: Rights,
    pub(crate) local: Arc<Local>,
    pub(crate) session_settings: Arc<Mutex<Settings>>,
    pub(crate) request: QueryRequest,
    pub(crate) listed: Listed,
    pub(crate) deadline: Arc<Deadline>,
    pub(crate) abandoned: Arc<AtomicBool>,
}

/// What is known before the first row.
pub(crate) struct Header {
    pub(crate) schema: SchemaRef,
    pub(crate) snapshots: Vec<SnapshotUse>,
    pub(crate) settings: Settings,
    pub(crate) figures: Arc<Figures>,
}

/// Where a query's output goes: first the header or an error in its place, then batches.
struct Output {
    header: Option<oneshot::Sender<Result<Header>>>,
    batches: mpsc::Sender<Message>,
}

/// Counts how a query ended, once and before its client can know; one that is simply dropped was
/// cancelled by its client.
struct Outcome<'a>(Option<&'a EngineMetrics>);

impl Outcome<'_> {
    fn is(&mut self, label: &'static str) {
        if let Some(metrics) = self.0.take() {
            metrics.queries.with_label_values(&[label]).inc();
        }
    }
}

impl Drop for Outcome<'_> {
    fn drop(&mut self) {
        self.is(ErrorKind::Cancelled.as_str());
    }
}

/// Runs the query to its end, whatever that is.
pub(crate) async fn run(job: Job, header: oneshot::Sender<Result<Header>>, batches: mpsc::Sender<Message>) {
    let mut outcome = Outcome(Some(&job.engine.metrics));
    let mut output = Output { header: Some(header), batches };
    let work = AssertUnwindSafe(Box::pin(steps(&job, &mut output))).catch_unwind();
    let result = tokio::select! {
        biased;
        error = job.listed.query.cancelled() => Err(error),
        error = job.deadline.passed() => Err(error),
        result = work => result.unwrap_or_else(|panic| Err(internal_panic(&*panic))),
    };
    let last = match result {
        Ok(()) => {
            outcome.is("ok");
            Message::End
        }
        Err(error) => {
            outcome.is(error.kind().as_str());
            log(&job, &error);
            Message::Failed(error)
        }
    };
    // A client that has stopped reading must not keep the query in the list. It is told the deadline
    // or the cancellation by the receiving half, should it ever read on.
    tokio::select! {
        biased;
        () = output.finish(last) => {}
        _ = job.listed.query.cancelled() => {}
        _ = job.deadline.passed() => {}
    }
}

/// Faults of ours and of the lake are for the operator; all others are between us and the client.
fn log(job: &Job, error: &Error) {
    let query_id = job.listed.query.id.as_str();
    match error.kind() {
        ErrorKind::Internal => {
            tracing::error!(query_id, %error, source = ?std::error::Error::source(error), "query failed")
        }
        ErrorKind::Storage | ErrorKind::Corrupt => tracing::warn!(query_id, %error, "query failed"),
        kind => tracing::debug!(query_id, %kind, %error, "query failed"),
    }
}

impl Output {
    fn begin(&mut self, header: Header) {
        if let Some(sender) = self.header.take() {
            // Nobody waits when the client went away; the task is about to be dropped then.
            let _ = sender.send(Ok(header));
        }
    }

    async fn finish(&mut self, last: Message) {
        match (self.header.take(), last) {
            (Some(sender), Message::Failed(error)) => drop(sender.send(Err(error))),
            (_, last) => drop(self.batches.send(last).await),
        }
    }
}

async fn steps(job: &Job, output: &mut Output) -> Result<()> {
    let engine = &job.engine;
    let clock = &engine.clock;
    let arrived = clock.instant();
    let _permit = engine.admission.admit().await?;
    let admitted = clock.instant();
    let queue = admitted.duration_since(arrived);
    engine.metrics.phase("queue", queue);

    let script = dialect::parse(&job.request.sql, &engine.parse_limits())?;
    let settings = job.settings(&script.settings)?;
    if let Some(id) = &settings.client_query_id {
        job.listed.query.client_id.set(id);
    }
    job.deadline.set(job.timeout(&settings)?);
    let mut statements = script.statements;
    let statement = match (statements.pop(), statements.len()) {
        (Some(statement), 0) => statement,
        (None, _) if !script.settings.is_empty() => {
            job.keep_settings(&settings);
            output.begin(Header::empty(settings));
            return Ok(());
        }
        (None, _) => return Err(Error::new(ErrorKind::Parse, "the request holds no statement")),
        (Some(_), others) => {
            let message = format!("the request holds {} statements: send one at a time", others + 1);
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
    };
    job.check_rights(&statement)?;

    let mut started = start_with_retry(job, &statement, &settings).await?;
    let figures = Arc::clone(&started.figures);
    let planned = started.planned.duration_since(admitted);
    figures.set_queue(queue);
    figures.set_plan(planned);
    engine.metrics.phase("plan", planned);
    let limits = job.limits(&settings);
    let schema = Arc::clone(&started.schema);
    output.begin(Header {
        schema,
        snapshots: std::mem::take(&mut started.snapshots),
        settings,
        figures: Arc::clone(&figures),
    });

    let mut bytes = 0_u64;
    let mut next = started.first.take().map(Ok);
    while let Some(batch) = next {
        let batch = batch?;
        figures.add_rows(batch.num_rows());
        bytes = bytes.saturating_add(slice_bytes(&batch));
        limits.check(figures.rows(), bytes)?;
        if output.batches.send(Message::Batch(batch)).await.is_err() {
            return Err(Error::new(ErrorKind::Cancelled, "the client went away"));
        }
        next = started.next().await;
    }
    let execute = clock.instant().duration_since(started.planned);
    figures.set_execute(execute);
    engine.metrics.phase("execute", execute);
    engine.metrics.rows.inc_by(figures.rows());
    Ok(())
}

/// A query that runs, with its first rows taken.
struct Started {
    schema: SchemaRef,
    snapshots: Vec<SnapshotUse>,
    figures: Arc<Figures>,
    planned: Instant,
    first: Option<RecordBatch>,
    rows: Option<SendableRecordBatchStream>,
}

impl Started {
    /// The next batch that has rows.
    async fn next(&mut self) -> Option<Result<RecordBatch>> {
        let rows = self.rows.as_mut()?;
        loop {
            match rows.next().await? {
                Ok(batch) if batch.num_rows() == 0 => {}
                batch => return Some(batch.map_err(from_datafusion)),
            }
        }
    }
}

/// Plans and starts the query. When a data file of the pinned states turns out to be gone or
/// replaced before any row was sent, the tables are refreshed and the query is planned once more.
async fn start_with_retry(job: &Job, statement: &Statement, settings: &Settings) -> Result<Started> {
    let (shared, first) = Box::pin(start(job, statement, settings)).await;
    match first {
        Err(error) if error.kind() == ErrorKind::Corrupt && shared.refresh().await => {
            tracing::info!(query_id = job.listed.query.id.as_str(), %error, "a data file has gone, trying the newest state");
            job.engine.metrics.retries.inc();
            Box::pin(start(job, statement, settings)).await.1
        }
        first => first,
    }
}

async fn start(job: &Job, statement: &Statement, settings: &Settings) -> (Arc<Shared>, Result<Started>) {
    let shared = match job.choices() {
        Ok(choices) => Shared::new(Arc::clone(&job.engine), Arc::clone(&job.local), choices),
        Err(error) => {
            let none = Shared::new(Arc::clone(&job.engine), Arc::clone(&job.local), BTreeMap::new());
            return (none, Err(error));
        }
    };
    let started = start_pinned(job, statement, settings, &shared).await;
    (shared, started)
}

async fn start_pinned(job: &Job, statement: &Statement, settings: &Settings, shared: &Arc<Shared>) -> Result<Started> {
    let base = job.engine.state(settings)?;
    let (scope, state) = Scope::open(shared, &base, &statement.versions);
    let plan = scope.plan(&state, statement.clone()).await?;
    let plan = job.request.params.bind(plan)?;
    shared.check_choices()?;
    let figures = Arc::new(Figures::new(Arc::clone(&shared.counters)));
    let context = ddl::Context { engine: &job.engine, local: &job.local, state: &state, statement };
    let mut started = match context.run(plan).await? {
        ddl::Done::Rows(plan) => {
            let physical = state.create_physical_plan(&plan).await.map_err(from_datafusion)?;
            let physical = job.alive().watch(physical)?;
            let rows = execute_stream(physical, state.task_ctx()).map_err(from_datafusion)?;
            let schema = rows.schema();
            let planned = job.engine.clock.instant();
            Started { schema, snapshots: shared.uses(), figures, planned, first: None, rows: Some(rows) }
        }
        ddl::Done::Set(name, value) => {
            let mut kept = job.session_settings.lock().unwrap_or_else(PoisonError::into_inner);
            kept.apply(&name, &value, job.rights == Rights::Own)?;
            Started::empty(figures, job.engine.clock.instant())
        }
        ddl::Done::Reset(name) => {
            let mut kept = job.session_settings.lock().unwrap_or_else(PoisonError::into_inner);
            kept.reset(&name);
            Started::empty(figures, job.engine.clock.instant())
        }
        ddl::Done::Nothing => Started::empty(figures, job.engine.clock.instant()),
    };
    started.first = started.next().await.transpose()?;
    Ok(started)
}

impl Started {
    fn empty(figures: Arc<Figures>, planned: Instant) -> Self {
        let schema = Arc::new(Schema::empty());
        Self { schema, snapshots: Vec::new(), figures, planned, first: None, rows: None }
    }
}

impl Header {
    fn empty(settings: Settings) -> Self {
        let figures = Arc::new(Figures::new(Arc::default()));
        Self { schema: Arc::new(Schema::empty()), snapshots: Vec::new(), settings, figures }
    }
}

/// Bounds on one result.
struct Limits {
    rows: u64,
    bytes: u64,
}

impl Limits {
    fn check(&self, rows: u64, bytes: u64) -> Result<()> {
        if rows > self.rows {
            let message = format!("the result has more than the {} rows that one result may have", self.rows);
            return Err(Error::new(ErrorKind::TooLarge, message).with_hint("add a LIMIT, or aggregate"));
        }
        if bytes > self.bytes {
            let limit = sized(ByteSize(self.bytes));
            let message = format!("the result is larger than the {limit} that one result may have");
            return Err(Error::new(ErrorKind::TooLarge, message).with_hint("add a LIMIT, or select fewer columns"));
        }
        Ok(())
    }
}

impl Job {
    fn alive(&self) -> Arc<Alive> {
        let (query, deadline) = (Arc::clone(&self.listed.query), Arc::clone(&self.deadline));
        Alive::new(Arc::clone(&self.abandoned), query, deadline, Arc::clone(&self.engine.clock))
    }

    /// The settings that hold for this query: the session's, then the request's, then the text's own.
    fn settings(&self, script: &[(String, String)]) -> Result<Settings> {
        let mut settings = self.session_settings.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for (name, value) in self.request.options.iter().chain(script) {
            settings.apply(name, value, self.rights == Rights::Own)?;
        }
        Ok(settings)
    }

    fn keep_settings(&self, settings: &Settings) {
        *self.session_settings.lock().unwrap_or_else(PoisonError::into_inner) = settings.clone();
    }

    fn timeout(&self, settings: &Settings) -> Result<Duration> {
        let options = &self.engine.options;
        let timeout = self.request.timeout.or(settings.timeout).unwrap_or(options.query_timeout.0);
        if timeout > options.max_query_timeout.0 {
            let (asked, most) = (Span(timeout), options.max_query_timeout);
            return Err(Error::new(
                ErrorKind::Option,
                format!("a timeout of {asked} is above the {most} that is allowed"),
            ));
        }
        Ok(timeout)
    }

    fn limits(&self, settings: &Settings) -> Limits {
        let options = &self.engine.options;
        let bytes =
            settings.max_result_bytes.map_or(options.max_result_bytes.0, |own| own.min(options.max_result_bytes.0));
        Limits { rows: options.max_result_rows, bytes }
    }

    fn check_rights(&self, statement: &Statement) -> Result<()> {
        match (statement.kind(), self.rights) {
            (StatementKind::Query | StatementKind::Explain | StatementKind::Show, _)
            | (StatementKind::Set | StatementKind::SessionDdl | StatementKind::SessionInsert, Rights::Own) => Ok(()),
            (StatementKind::Set, Rights::Read) => Err(Error::new(
                ErrorKind::Unsupported,
                "SET and RESET have nothing to last for: a request is its own session",
            )
            .with_hint("write SET before the statement, in the same request")),
            (StatementKind::SessionDdl | StatementKind::SessionInsert, Rights::Read) => {
                let error = match statement.target() {
                    Some(name) if self.engine.tables.contains(&name) => read_only(&name),
                    _ => Error::new(ErrorKind::Unsupported, "this connection can only read")
                        .with_hint("tables of a session need `lakeserve query` without --url"),
                };
                Err(error)
            }
            (StatementKind::Prepared, _) => {
                Err(Error::new(ErrorKind::Unsupported, "PREPARE, EXECUTE and DEALLOCATE are not supported")
                    .with_hint("send the statement with parameters"))
            }
        }
    }

    /// The request's choices of states, under the names that the tables have.
    fn choices(&self) -> Result<BTreeMap<String, SnapshotChoice>> {
        let choices = self.request.snapshot.iter().map(|(name, choice)| {
            let served = match self.local.external(name) {
                Some(external) => external,
                None => self.engine.tables.find(name)?,
            };
            Ok((served.name().to_owned(), choice.clone()))
        });
        choices.collect()
    }
}

impl EngineInner {
    /// The state that a query starts from, with what `settings` change in it.
    fn state(&self, settings: &Settings) -> Result<SessionState> {
        let mut state = self.base.clone();
        state.mark_start_execution();
        if settings.time_zone.is_none() && settings.engine.is_empty() && settings.max_threads.is_none() {
            return Ok(state);
        }
        let options = state.config_mut().options_mut();
        if let Some(threads) = settings.max_threads {
            let partitions = &mut options.execution.target_partitions;
            *partitions = (*partitions).min(threads);
        }
        if let Some(zone) = &settings.time_zone {
            options.execution.time_zone = Some(zone.clone());
        }
        for (name, value) in &settings.engine {
            options.set(name, value).map_err(from_datafusion)?;
        }
        // Building anew lets functions that depend on the options see them.
        Ok(SessionStateBuilder::new_from_existing(state).build())
    }
}

/// Bytes of the values that a batch shows; buffers that it shares with others are not counted whole.
fn slice_bytes(batch: &RecordBatch) -> u64 {
    let columns = batch.columns().iter();
    let bytes: usize = columns
        .map(|column| column.to_data().get_slice_memory_size().unwrap_or_else(|_| column.get_array_memory_size()))
        .sum();
    u64::try_from(bytes).unwrap_or(u64::MAX)
}
