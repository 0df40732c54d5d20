//! One session: settings and tables of its own above the served ones, and statements one at a time.
//! An HTTP request is a session of one statement; the command line keeps one for a whole script.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lakeserve_common::Result;
use lakeserve_common::id::QueryId;
use lakeserve_lake::SnapshotChoice;
use lakeserve_query::params::Params;
use tokio::sync::{mpsc, oneshot};

use super::EngineInner;
use super::answer::{AbortOnDrop, QueryAnswer, receive};
use super::deadline::Deadline;
use super::local::Local;
use super::run::{Header, Job, run};
use super::running::ClientQueryId;
use super::settings::Settings;

/// Batches that may wait between the compute threads and the reader of an answer.
const BATCHES_AHEAD: usize = 2;

/// What a session may do besides reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rights {
    /// Nothing: queries, EXPLAIN and SHOW. For sessions of clients.
    Read,
    /// Tables and views of its own, external tables from any location, and options of the engine.
    /// For a process that answers only its own user.
    Own,
}

/// One statement to run.
#[derive(Debug, Clone, Default)]
pub struct QueryRequest {
    /// The statement, perhaps after some `SET name = value;`.
    pub sql: String,
    /// Values for `$1`… or `$name`.
    pub params: Params,
    /// How long it may take; `None`: as the settings or the engine say.
    pub timeout: Option<Duration>,
    /// The state of tables to read instead of the newest one.
    pub snapshot: BTreeMap<String, SnapshotChoice>,
    /// Settings from outside the statement, such as Pinot's `queryOptions`.
    pub options: Vec<(String, String)>,
    /// The id to use; `None`: a fresh one.
    pub query_id: Option<QueryId>,
    /// The id under which the client may cancel the query.
    pub client_query_id: ClientQueryId,
}

/// A session over an engine.
#[derive(Debug)]
pub struct Session {
    engine: Arc<EngineInner>,
    rights: Rights,
    local: Arc<Local>,
    settings: Arc<Mutex<Settings>>,
}

impl Session {
    pub(crate) fn new(engine: Arc<EngineInner>, rights: Rights) -> Self {
        Self { engine, rights, local: Arc::default(), settings: Arc::default() }
    }

    /// Runs one statement. Returns once the first rows are there (or the end of them), so that most
    /// errors come from here and not from the middle of the rows.
    ///
    /// # Errors
    /// Whatever is wrong with the statement, `Capacity` when too many queries wait, `Deadline`,
    /// `Cancelled`, and what reading the tables failed with.
    pub async fn execute(&self, request: QueryRequest) -> Result<QueryAnswer> {
        let engine = &self.engine;
        let now_ms = engine.clock.now_ms();
        let query_id = request.query_id.clone().unwrap_or_else(|| QueryId::generate(now_ms, &engine.random));
        let sql = Arc::from(request.sql.as_str());
        let listed = engine.running.start(query_id.clone(), request.client_query_id.clone(), sql, now_ms);
        let query = Arc::clone(&listed.query);
        let timeout = request.timeout.unwrap_or(engine.options.query_timeout.0);
        let deadline = Arc::new(Deadline::after(timeout, engine.clock.as_ref()));
        let job = Job {
            engine: Arc::clone(engine),
            rights: self.rights,
            local: Arc::clone(&self.local),
            session_settings: Arc::clone(&self.settings),
            request,
            listed,
            deadline: Arc::clone(&deadline),
            abandoned: Arc::default(),
        };
        let abandoned = Arc::clone(&job.abandoned);
        let (header_sender, header) = oneshot::channel();
        let (sender, receiver) = mpsc::channel(BATCHES_AHEAD);
        let task = engine.compute.spawn("query", run(job, header_sender, sender));
        let mut task = AbortOnDrop { task, abandoned };
        // The compute threads watch these too, but only where a query lets them.
        let watch = async move {
            tokio::select! {
                biased;
                error = query.cancelled() => error,
                error = deadline.passed() => error,
            }
        };
        let mut watch = Box::pin(watch);
        let header: Header = tokio::select! {
            biased;
            header = header => match header {
                Ok(header) => header?,
                Err(_) => return Err(task.fault().await),
            },
            error = &mut watch => return Err(error),
        };
        let Header { schema, snapshots, settings, figures } = header;
        Ok(QueryAnswer { query_id, schema, snapshots, settings, batches: receive(receiver, task, watch), figures })
    }

    /// Splits a script into its statements, to be run one by one, and makes its leading `SET`s
    /// settings of this session.
    ///
    /// # Errors
    /// `Parse` when it is not well formed, `Option` for an unknown setting.
    pub async fn split(&self, sql: &str) -> Result<Vec<String>> {
        let script = self.engine.parse(sql.to_owned()).await?;
        let mut settings = self.settings.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, value) in &script.settings {
            settings.apply(name, value, self.rights == Rights::Own)?;
        }
        Ok(script.statements.into_iter().map(|statement| statement.text).collect())
    }
}
