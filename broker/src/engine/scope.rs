//! What one query sees under each table name, pinned: the served tables in the one state that this
//! query reads, the session's own tables above them, and the older states that `FOR VERSION AS OF`
//! asks for under their placeholders.
//!
//! Invariants: a table is pinned once per query, at its first use, and every later use (also by a
//! view or a second reference) reads that state; nothing here can change a served table.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::view::ViewTable;
use datafusion::catalog::{CatalogProvider, CatalogProviderList, SchemaProvider, TableProvider};
use datafusion::error::{DataFusionError, Result as PlanResult};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{LogicalPlan, TableType};
use futures::future::BoxFuture;
use lakeserve_common::{Error, ErrorKind, Result};
use lakeserve_exec::QueryCounters;
use lakeserve_lake::{LakeTable, SnapshotChoice, TableSnapshot};
use lakeserve_query::dialect::{self, Statement, StatementKind, VersionChoice, VersionedTable};
use lakeserve_query::error::{from_datafusion, to_datafusion};
use lakeserve_query::session::{DEFAULT_CATALOG, DEFAULT_SCHEMA};

use super::EngineInner;
use super::answer::SnapshotUse;
use super::local::{Local, View};
use super::tables::{ServedTable, TableState, pick};

/// How long a list of tables waits for those that are being opened.
const FIRST_OPEN: Duration = Duration::from_secs(10);

/// A table in the state that the query reads.
#[derive(Debug, Clone)]
struct Pin {
    provider: Arc<dyn TableProvider>,
    used: SnapshotUse,
    served: Arc<ServedTable>,
    snapshot: Arc<TableSnapshot>,
    /// Whether it is the newest state, so that a refresh may give a better one.
    newest: bool,
}

/// What all scopes of one query share.
#[derive(Debug)]
pub(crate) struct Shared {
    engine: Arc<EngineInner>,
    local: Arc<Local>,
    choices: BTreeMap<String, SnapshotChoice>,
    pub(crate) counters: Arc<QueryCounters>,
    pins: Mutex<BTreeMap<String, Pin>>,
    /// Views that are being planned, to notice one that reads itself.
    open_views: Mutex<BTreeSet<String>>,
}

/// The names that one statement (or one view inside it) can use.
#[derive(Debug)]
pub(crate) struct Scope {
    shared: Arc<Shared>,
    versions: HashMap<String, VersionedTable>,
    state: OnceLock<Weak<SessionState>>,
}

impl Shared {
    pub(crate) fn new(
        engine: Arc<EngineInner>,
        local: Arc<Local>,
        choices: BTreeMap<String, SnapshotChoice>,
    ) -> Arc<Self> {
        Arc::new(Self {
            engine,
            local,
            choices,
            counters: Arc::default(),
            pins: Mutex::default(),
            open_views: Mutex::default(),
        })
    }

    /// The states that were pinned.
    pub(crate) fn uses(&self) -> Vec<SnapshotUse> {
        self.lock().values().map(|pin| pin.used.clone()).collect()
    }

    /// Refreshes the tables that were read in their newest state, after a data file turned out to be
    /// gone. True when at least one of them has another state by now, so that trying again may help.
    pub(crate) async fn refresh(&self) -> bool {
        let newest: Vec<Pin> = self.lock().values().filter(|pin| pin.newest).cloned().collect();
        let mut changed = false;
        for pin in newest {
            let refreshed = self.engine.refresher.refresh(&pin.served).await;
            if let (Ok(_), TableState::Served(current)) = (refreshed, pin.served.state()) {
                changed |= !Arc::ptr_eq(&current.snapshot, &pin.snapshot);
            }
        }
        changed
    }

    /// Refuses a request that chose the state of a table which the statement does not read.
    pub(crate) fn check_choices(&self) -> Result<()> {
        let pins = self.lock();
        match self.choices.keys().find(|name| !pins.contains_key(*name)) {
            None => Ok(()),
            Some(name) if pins.values().any(|pin| pin.served.name() == name) => Err(Error::new(
                ErrorKind::Option,
                format!("`snapshot` names table {name}, whose state the statement chooses itself"),
            )
            .with_hint("use either `snapshot` or FOR VERSION AS OF")),
            Some(name) => Err(Error::new(
                ErrorKind::Option,
                format!("`snapshot` names table {name}, which the query does not read"),
            )),
        }
    }

    /// Waits, for a bounded time, until every served table was opened or has failed to: only then a
    /// list of tables is whole.
    async fn settle(&self) {
        let tables = self.engine.tables.all();
        let settled = futures::future::join_all(tables.iter().map(|table| table.current()));
        // What is not opened by then is left out.
        let _ = tokio::time::timeout(FIRST_OPEN, settled).await;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Pin>> {
        self.pins.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pinned(&self, label: &str) -> Option<Arc<dyn TableProvider>> {
        self.lock().get(label).map(|pin| Arc::clone(&pin.provider))
    }

    /// Pins the newest state of a table, or the one that the request chose for it.
    async fn pin(&self, served: Arc<ServedTable>) -> Result<Arc<dyn TableProvider>> {
        let label = served.name().to_owned();
        if let Some(provider) = self.pinned(&label) {
            return Ok(provider);
        }
        let current = served.current().await?;
        let now_ms = self.engine.clock.now_ms();
        match self.choices.get(&label) {
            None | Some(SnapshotChoice::Latest) => {
                let used = SnapshotUse {
                    table: label,
                    id: current.snapshot.token.to_string(),
                    version: current.snapshot.version.clone(),
                    age_ms: Some(current.age_ms(now_ms)),
                    stale: self.engine.refresher.is_stale(&current, now_ms),
                    rows: current.rows,
                };
                self.keep(used, served, current.table.clone(), Arc::clone(&current.snapshot), true)
            }
            Some(choice) => {
                let snapshot = chosen(&served, &current.table, choice).await?;
                self.keep(older(label, &snapshot), served, current.table.clone(), snapshot, false)
            }
        }
    }

    /// Pins the state that the statement itself names.
    async fn pin_version(&self, version: &VersionedTable) -> Result<Arc<dyn TableProvider>> {
        let name = self.served_name(&version.table)?;
        let Some(served) = name.as_deref().and_then(|name| self.served(name)) else {
            return Err(self.no_such_table(&version.table));
        };
        let choice = match &version.at {
            VersionChoice::Version(version) => SnapshotChoice::Version(*version),
            VersionChoice::Reference(name) => SnapshotChoice::Reference(name.clone()),
            VersionChoice::TimestampMs(ms) => SnapshotChoice::Timestamp(*ms),
        };
        let current = served.current().await?;
        let snapshot = chosen(&served, &current.table, &choice).await?;
        let label = format!("{}@{}", served.name(), snapshot.version);
        if let Some(provider) = self.pinned(&label) {
            return Ok(provider);
        }
        self.keep(older(label, &snapshot), served, current.table.clone(), snapshot, false)
    }

    /// The first pin of a name wins.
    fn keep(
        &self,
        used: SnapshotUse,
        served: Arc<ServedTable>,
        table: LakeTable,
        snapshot: Arc<TableSnapshot>,
        newest: bool,
    ) -> Result<Arc<dyn TableProvider>> {
        let (scan, counters) = (Arc::clone(&self.engine.scan), Arc::clone(&self.counters));
        let provider = lakeserve_exec::provider(table, Arc::clone(&snapshot), scan, counters)
            .map_err(|error| error.context(format!("table {}", served.name())))?;
        let label = used.table.clone();
        let mut pins = self.lock();
        let pin = pins.entry(label).or_insert(Pin { provider, used, served, snapshot, newest });
        Ok(Arc::clone(&pin.provider))
    }

    /// The served or external table of exactly this name.
    fn served(&self, name: &str) -> Option<Arc<ServedTable>> {
        self.local.external(name).or_else(|| self.engine.tables.get(name))
    }

    fn names(&self) -> Vec<String> {
        let mut names = self.local.names();
        names.extend(self.engine.tables.names());
        names.sort_unstable();
        names.dedup();
        names
    }

    /// The name as it is spelled where it was made: exact, else the only one without case.
    fn served_name(&self, name: &str) -> Result<Option<String>> {
        if self.local.contains(name) || self.engine.tables.contains(name) {
            return Ok(Some(name.to_owned()));
        }
        let names = self.names();
        Ok(pick(bare_name(name), names.iter().map(String::as_str))?.map(str::to_owned))
    }

    fn no_such_table(&self, name: &str) -> Error {
        let names = self.names();
        lakeserve_query::error::no_such_table(name, names.iter().map(String::as_str))
    }
}

async fn chosen(served: &ServedTable, table: &LakeTable, choice: &SnapshotChoice) -> Result<Arc<TableSnapshot>> {
    table.snapshot(choice).await.map_err(|error| error.context(format!("table {}", served.name())))
}

fn older(label: String, snapshot: &TableSnapshot) -> SnapshotUse {
    SnapshotUse {
        table: label,
        id: snapshot.token.to_string(),
        version: snapshot.version.clone(),
        age_ms: None,
        stale: false,
        rows: snapshot.files.iter().map(|file| file.row_count).sum(),
    }
}

impl Scope {
    /// A scope, and a copy of `base` whose catalog is that scope.
    pub(crate) fn open(
        shared: &Arc<Shared>,
        base: &SessionState,
        versions: &[VersionedTable],
    ) -> (Arc<Self>, Arc<SessionState>) {
        let versions = versions.iter().map(|version| (version.placeholder.clone(), version.clone())).collect();
        let scope = Arc::new(Self { shared: Arc::clone(shared), versions, state: OnceLock::new() });
        let mut state = base.clone();
        state.register_catalog_list(Arc::new(ScopeCatalogs(Arc::clone(&scope))));
        let state = Arc::new(state);
        let _ = scope.state.set(Arc::downgrade(&state));
        (scope, state)
    }

    /// The logical plan of `statement`, with every name resolved in this scope.
    ///
    /// # Errors
    /// Whatever is wrong with the statement: an unknown table or column, types, functions.
    pub(crate) async fn plan(&self, state: &SessionState, mut statement: Statement) -> Result<LogicalPlan> {
        let mut schemas: HashMap<String, SchemaRef> = HashMap::new();
        let named = dialect::table_names(&statement);
        let lists = |name: &String| name.to_ascii_lowercase().contains("information_schema.");
        if statement.kind() == StatementKind::Show || named.iter().any(lists) {
            self.shared.settle().await;
        }
        for name in named {
            let Some(found) = self.canonical(&name)? else { continue };
            if let Some(provider) = self.provider(&found).await? {
                schemas.insert(found, provider.schema());
            }
        }
        for placeholder in self.versions.keys() {
            if let Some(provider) = self.provider(placeholder).await? {
                schemas.insert(placeholder.clone(), provider.schema());
            }
        }
        let names = self.shared.names();
        dialect::resolve_identifiers(&mut statement, &|name| schemas.get(name).cloned(), &names)?;
        state.statement_to_plan(statement.ast).await.map_err(from_datafusion)
    }

    fn canonical(&self, name: &str) -> Result<Option<String>> {
        self.shared.served_name(name)
    }

    /// What stands under exactly this name.
    fn provider<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<Arc<dyn TableProvider>>>> {
        Box::pin(async move {
            let shared = &self.shared;
            if let Some(version) = self.versions.get(name) {
                return shared.pin_version(version).await.map(Some);
            }
            if shared.local.memory.table_exist(name) {
                return shared.local.memory.table(name).await.map_err(from_datafusion);
            }
            if let Some(view) = shared.local.view(name) {
                return self.view(name, &view).await.map(Some);
            }
            if let Some(external) = shared.local.external(name) {
                // Nothing refreshes it in the background.
                if shared.pinned(name).is_none() {
                    shared.engine.refresher.refresh(&external).await?;
                }
                return shared.pin(external).await.map(Some);
            }
            match shared.engine.tables.get(name) {
                Some(served) => shared.pin(served).await.map(Some),
                None => Ok(None),
            }
        })
    }

    /// Plans a view of the session in a scope of its own, over the same pins.
    async fn view(&self, name: &str, view: &View) -> Result<Arc<dyn TableProvider>> {
        let Some(base) = self.state.get().and_then(Weak::upgrade) else {
            return Err(Error::new(ErrorKind::Internal, format!("view {name} was read after its query had ended")));
        };
        let opened = self.shared.open_views.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned());
        if !opened {
            return Err(Error::new(ErrorKind::Plan, format!("view {name} reads itself")));
        }
        let (scope, state) = Self::open(&self.shared, &base, &view.statement.versions);
        let plan = scope.plan(&state, view.statement.clone()).await;
        self.shared.open_views.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
        let plan = plan.map_err(|error| error.context(format!("view {name}")))?;
        Ok(Arc::new(ViewTable::new(plan, Some(view.definition.clone()))))
    }
}

/// The only catalog.
#[derive(Debug)]
struct ScopeCatalogs(Arc<Scope>);

impl CatalogProviderList for ScopeCatalogs {
    fn register_catalog(&self, _: String, _: Arc<dyn CatalogProvider>) -> Option<Arc<dyn CatalogProvider>> {
        None
    }

    fn catalog_names(&self) -> Vec<String> {
        vec![DEFAULT_CATALOG.to_owned()]
    }

    fn catalog(&self, name: &str) -> Option<Arc<dyn CatalogProvider>> {
        let catalog = || Arc::new(ScopeCatalog(Arc::clone(&self.0))) as Arc<dyn CatalogProvider>;
        (name == DEFAULT_CATALOG).then(catalog)
    }
}

/// The default schema, and those that the session created.
#[derive(Debug)]
struct ScopeCatalog(Arc<Scope>);

impl CatalogProvider for ScopeCatalog {
    fn schema_names(&self) -> Vec<String> {
        let mut names = self.0.shared.local.schemas.schema_names();
        names.push(DEFAULT_SCHEMA.to_owned());
        names
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        if name == DEFAULT_SCHEMA {
            return Some(Arc::new(ScopeSchema(Arc::clone(&self.0))));
        }
        self.0.shared.local.schemas.schema(name)
    }

    fn register_schema(
        &self,
        name: &str,
        schema: Arc<dyn SchemaProvider>,
    ) -> PlanResult<Option<Arc<dyn SchemaProvider>>> {
        self.0.shared.local.schemas.register_schema(name, schema)
    }

    fn deregister_schema(&self, name: &str, cascade: bool) -> PlanResult<Option<Arc<dyn SchemaProvider>>> {
        self.0.shared.local.schemas.deregister_schema(name, cascade)
    }
}

#[derive(Debug)]
struct ScopeSchema(Arc<Scope>);

impl ScopeSchema {
    fn read_only(&self, name: &str) -> PlanResult<()> {
        match self.0.shared.engine.tables.contains(name) {
            false => Ok(()),
            true => Err(to_datafusion(read_only(name))),
        }
    }
}

/// The error for a statement that would change a served table.
pub(crate) fn read_only(name: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("table {name} is served and therefore read-only"))
        .with_hint("write to the table with the engine that owns it; the new state is picked up by itself")
}

#[async_trait]
impl SchemaProvider for ScopeSchema {
    /// What `SHOW TABLES` lists: the session's own, and the served tables that can be read.
    fn table_names(&self) -> Vec<String> {
        let shared = &self.0.shared;
        let mut names = shared.local.names();
        let served = shared.engine.tables.all();
        names.extend(
            served
                .iter()
                .filter(|table| matches!(table.state(), TableState::Served(_)))
                .map(|table| table.name().to_owned()),
        );
        names.sort_unstable();
        names.dedup();
        names
    }

    async fn table(&self, name: &str) -> PlanResult<Option<Arc<dyn TableProvider>>, DataFusionError> {
        self.0.provider(name).await.map_err(to_datafusion)
    }

    async fn table_type(&self, name: &str) -> PlanResult<Option<TableType>> {
        let local = &self.0.shared.local;
        if local.view(name).is_some() {
            return Ok(Some(TableType::View));
        }
        Ok(self.table_exist(name).then_some(TableType::Base))
    }

    fn register_table(
        &self,
        name: String,
        table: Arc<dyn TableProvider>,
    ) -> PlanResult<Option<Arc<dyn TableProvider>>> {
        self.read_only(&name)?;
        self.0.shared.local.memory.register_table(name, table)
    }

    fn deregister_table(&self, name: &str) -> PlanResult<Option<Arc<dyn TableProvider>>> {
        self.read_only(name)?;
        // The callers have found it before and do not look at what is given back.
        self.0.shared.local.drop_name(name).map(|_| None)
    }

    fn table_exist(&self, name: &str) -> bool {
        let shared = &self.0.shared;
        self.0.versions.contains_key(name) || shared.local.contains(name) || shared.engine.tables.contains(name)
    }
}

/// `lakeserve.public.t` and `public.t` mean `t`.
fn bare_name(name: &str) -> &str {
    let name = name.strip_prefix(DEFAULT_CATALOG).and_then(|rest| rest.strip_prefix('.')).unwrap_or(name);
    name.strip_prefix(DEFAULT_SCHEMA).and_then(|rest| rest.strip_prefix('.')).unwrap_or(name)
}
