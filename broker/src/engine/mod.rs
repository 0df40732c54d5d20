//! The engine behind every front end: the tables that are served, kept fresh in the background, and
//! sessions that run statements over one pinned state of each table.
//!
//! ```text
//! Session::execute ─ admission ─ parse ─ pin snapshots ─ plan ─ run ─┐   (compute threads)
//! QueryAnswer ◄──────────── batches, bounded channel ◄───────────────┘
//! ```
//!
//! Invariants: a query reads one state of each table; its answer is complete or an error; dropping
//! the answer, the deadline or a cancellation stops all work on it; a panic in a query is that
//! query's error and nobody else's.

mod admission;
mod alive;
pub mod answer;
mod compute;
mod coop;
mod ddl;
mod deadline;
mod local;
pub(crate) mod metrics;
pub mod options;
mod refresher;
mod run;
pub mod running;
mod scope;
pub mod session;
pub mod settings;
pub mod tables;

use std::sync::Arc;

use datafusion::execution::session_state::SessionState;
use lakeserve_common::clock::Clock;
use lakeserve_common::random::Random;
use lakeserve_common::{Error, ErrorKind, Result};
use lakeserve_exec::ScanContext;
use lakeserve_lake::{LakeTable, TableOptions};
use lakeserve_query::dialect::{self, ParseLimits, Script, Statement, StatementKind};
use lakeserve_query::session::{context_with_runtime, runtime};
use lakeserve_storage::Storage;
use prometheus::Registry;
use serde::Serialize;
use url::Url;

pub use answer::{QueryAnswer, QueryStats, SnapshotUse};
pub use options::EngineOptions;
pub use running::RunningQuery;
pub use session::{QueryRequest, Rights, Session};
pub use settings::Settings;
pub use tables::{Current, ServedTable, TableState, Tables};

use admission::Admission;
use compute::Compute;
use metrics::EngineMetrics;
use refresher::Refresher;
use running::Running;

/// What an engine is built from.
#[derive(Debug, Clone)]
pub struct EngineParts {
    /// Where tables lie.
    pub storage: Arc<Storage>,
    /// How they are scanned.
    pub scan: Arc<ScanContext>,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// Jitter and ids.
    pub random: Arc<Random>,
    /// Where metrics are registered.
    pub registry: Registry,
}

/// The engine. Cheap to clone; the last clone ends its threads.
#[derive(Debug, Clone)]
pub struct Engine(Arc<EngineInner>);

#[derive(Debug)]
pub(crate) struct EngineInner {
    pub(crate) options: EngineOptions,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) random: Arc<Random>,
    pub(crate) registry: Registry,
    pub(crate) scan: Arc<ScanContext>,
    pub(crate) metrics: EngineMetrics,
    pub(crate) tables: Tables,
    pub(crate) refresher: Arc<Refresher>,
    pub(crate) admission: Admission,
    pub(crate) running: Running,
    /// What every query's state is a copy of; the memory and spill budget in it is shared.
    pub(crate) base: SessionState,
    /// Last, so that everything else is gone when its threads end.
    pub(crate) compute: Compute,
}

/// What is to be seen of a served table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TableStatus {
    /// Its name.
    pub name: String,
    /// Where it lies.
    pub location: String,
    /// `opening`, `ok`, `stale` or `failed`.
    pub state: &'static str,
    /// `delta`, `iceberg` or `parquet`; `None` until it could be opened.
    pub format: Option<&'static str>,
    /// The served state's token.
    pub snapshot: Option<String>,
    /// The served state's Delta version or Iceberg snapshot id.
    pub version: Option<String>,
    /// Milliseconds since that state was last confirmed to be the newest.
    pub age_ms: Option<i64>,
    /// When it was committed, milliseconds since the Unix epoch.
    pub committed_ms: Option<i64>,
    /// Live data files.
    pub files: Option<usize>,
    /// Rows in them before deletes, where known.
    pub rows: Option<u64>,
    /// Bytes in them.
    pub bytes: Option<u64>,
    /// Why it cannot be opened or refreshed.
    pub error: Option<String>,
}

impl Engine {
    /// An engine without tables.
    ///
    /// # Errors
    /// `Option` when the options are impossible, `Internal` when threads or metrics cannot be made.
    pub fn new(parts: EngineParts, options: EngineOptions) -> Result<Self> {
        let EngineParts { storage, scan, clock, random, registry } = parts;
        let metrics = EngineMetrics::new(&registry)?;
        let refresher = Refresher::new(storage, Arc::clone(&clock), Arc::clone(&random), metrics.clone(), &options);
        let base = coop::install(context_with_runtime(&options.session, runtime(&options.session)?)?.state());
        let admission = Admission::new(options.concurrency(), options.max_queued_queries, &metrics);
        let compute = Compute::start(options.threads())?;
        Ok(Self(Arc::new(EngineInner {
            options,
            clock,
            random,
            registry,
            scan,
            metrics,
            tables: Tables::default(),
            refresher: Arc::new(refresher),
            admission,
            running: Running::default(),
            base,
            compute,
        })))
    }

    /// Serves the table at `location` under `name`: from now on in the background, whether it can be
    /// opened or not. Must be called within a Tokio runtime.
    ///
    /// # Errors
    /// `Option` when the name is taken.
    pub fn add_location(&self, name: &str, location: Url, options: TableOptions) -> Result<Arc<ServedTable>> {
        self.add(ServedTable::new(name, location, options, None))
    }

    /// Serves an opened table under `name` and waits until its first state was read.
    ///
    /// # Errors
    /// `Option` when the name is taken; what reading the state failed with (the table is then not
    /// served).
    pub async fn add_table(&self, name: &str, table: LakeTable) -> Result<Arc<ServedTable>> {
        let options = TableOptions { format: Some(table.format()) };
        let served = self.add(ServedTable::new(name, table.location().clone(), options, Some(table)))?;
        match served.current().await {
            Ok(_) => Ok(served),
            Err(error) => {
                self.remove_table(name);
                Err(error)
            }
        }
    }

    fn add(&self, table: ServedTable) -> Result<Arc<ServedTable>> {
        let table = Arc::new(table);
        self.0.tables.insert(Arc::clone(&table))?;
        self.0.refresher.start(Arc::clone(&table));
        Ok(table)
    }

    /// Stops serving a table; queries that read it already go on. False when there was none.
    pub fn remove_table(&self, name: &str) -> bool {
        let removed = self.0.tables.remove(name);
        if let Some(table) = &removed {
            table.removed.cancel();
        }
        removed.is_some()
    }

    /// The served tables.
    #[must_use]
    pub fn tables(&self) -> &Tables {
        &self.0.tables
    }

    /// Asks for a table's newest state now. True when it is another one than was served.
    ///
    /// # Errors
    /// `NoSuchTable`, or what reading it failed with.
    pub async fn refresh_table(&self, name: &str) -> Result<bool> {
        let table = self.0.tables.find(name)?;
        self.0.refresher.refresh(&table).await
    }

    /// Whether every table has been opened or has visibly failed to.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.0.tables.all().iter().all(|table| !matches!(table.state(), TableState::Opening))
    }

    /// A session with the given rights.
    #[must_use]
    pub fn session(&self, rights: Rights) -> Session {
        Session::new(Arc::clone(&self.0), rights)
    }

    /// What each statement of `sql` does, without running it.
    ///
    /// # Errors
    /// `Parse` and others when the text is not a script that could be run.
    pub async fn statement_kinds(&self, sql: &str) -> Result<Vec<StatementKind>> {
        let script = self.0.parse(sql.to_owned()).await?;
        Ok(script.statements.iter().map(Statement::kind).collect())
    }

    /// The queries that run now, the oldest first.
    #[must_use]
    pub fn running(&self) -> Vec<Arc<RunningQuery>> {
        self.0.running.all()
    }

    /// Cancels the query of this id, or with `client` those to which their clients gave it. How many.
    pub fn cancel(&self, id: &str, client: bool) -> usize {
        self.0.running.cancel(id, client)
    }

    /// Ends all running queries with a `Draining` error.
    pub fn cancel_all(&self) {
        self.0.running.drain();
    }

    /// What is to be seen of one table.
    #[must_use]
    pub fn status(&self, table: &ServedTable) -> TableStatus {
        let now_ms = self.0.clock.now_ms();
        let state = table.state();
        let mut status = TableStatus {
            name: table.name().to_owned(),
            location: table.location().to_string(),
            state: refresher::state_name(&self.0.refresher, &state, now_ms),
            format: None,
            snapshot: None,
            version: None,
            age_ms: None,
            committed_ms: None,
            files: None,
            rows: None,
            bytes: None,
            error: None,
        };
        match state {
            TableState::Opening => {}
            TableState::Failed(error) => status.error = Some(error.to_string()),
            TableState::Served(current) => {
                let snapshot = &current.snapshot;
                status.format = Some(snapshot.format.as_str());
                status.snapshot = Some(snapshot.token.to_string());
                status.version = Some(snapshot.version.clone());
                status.age_ms = Some(current.age_ms(now_ms));
                status.committed_ms = snapshot.committed_ms;
                status.files = Some(snapshot.files.len());
                status.rows = current.rows;
                status.bytes = Some(current.bytes);
                status.error = current.failure.as_ref().map(ToString::to_string);
            }
        }
        status
    }

    /// Brings gauges up to date and hands out all metrics of the process.
    #[must_use]
    pub fn gather_metrics(&self) -> Vec<prometheus::proto::MetricFamily> {
        let now_ms = self.0.clock.now_ms();
        for table in self.0.tables.all() {
            self.0.refresher.observe(&table, now_ms);
        }
        self.0.registry.gather()
    }

    /// Where metrics are registered.
    #[must_use]
    pub fn registry(&self) -> &Registry {
        &self.0.registry
    }

    /// What time it is.
    #[must_use]
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.0.clock
    }

    /// A fresh id for a request that came without one.
    #[must_use]
    pub fn fresh_id(&self) -> lakeserve_common::id::QueryId {
        lakeserve_common::id::QueryId::generate(self.0.clock.now_ms(), &self.0.random)
    }
}

impl EngineInner {
    pub(crate) fn parse_limits(&self) -> ParseLimits {
        ParseLimits { bytes: self.options.max_statement_bytes.as_usize(), ..ParseLimits::default() }
    }

    /// Parses on a compute thread, whose stack is deep enough for any statement that is accepted.
    pub(crate) async fn parse(&self, sql: String) -> Result<Script> {
        let limits = self.parse_limits();
        let parsed = self.compute.spawn("parse", async move { dialect::parse(&sql, &limits) }).await;
        parsed.map_err(|error| Error::new(ErrorKind::Internal, format!("the parser failed: {error}")))?
    }
}

impl Drop for EngineInner {
    fn drop(&mut self) {
        for table in self.tables.all() {
            table.removed.cancel();
        }
    }
}

#[cfg(test)]
mod tests;
