//! The tables that are served: name → location, the opened table and its current state.
//!
//! A table is in the registry from the moment it is configured, whether it could be opened or not,
//! so that a failure is seen by name instead of as an unknown table. Its state is swapped as a
//! whole: whoever holds an `Arc<Current>` keeps a consistent one.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use lakeserve_common::{Error, ErrorKind, Result};
use lakeserve_lake::{LakeTable, TableOptions, TableSnapshot};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use url::Url;

/// A good state of a table, and when it was last known to be the newest.
#[derive(Debug, Clone)]
pub struct Current {
    /// The opened table.
    pub table: LakeTable,
    /// Its newest state that could be read.
    pub snapshot: Arc<TableSnapshot>,
    /// Rows in the live data files before deletes; `None` when a file does not say.
    pub rows: Option<u64>,
    /// Bytes of the live data files.
    pub bytes: u64,
    /// When the state was last confirmed to be the newest, milliseconds since the Unix epoch.
    pub confirmed_ms: i64,
    /// Why refreshes fail since then, if they do.
    pub failure: Option<Arc<Error>>,
}

impl Current {
    /// A state that has just been confirmed.
    pub(crate) fn new(table: LakeTable, snapshot: Arc<TableSnapshot>, confirmed_ms: i64) -> Self {
        let rows = snapshot.files.iter().map(|file| file.row_count).sum();
        let bytes = snapshot.files.iter().map(|file| file.size).sum();
        Self { table, snapshot, rows, bytes, confirmed_ms, failure: None }
    }

    /// Milliseconds since the state was last confirmed to be the newest.
    #[must_use]
    pub fn age_ms(&self, now_ms: i64) -> i64 {
        now_ms.saturating_sub(self.confirmed_ms).max(0)
    }
}

/// What is known about a served table.
#[derive(Debug, Clone)]
pub enum TableState {
    /// The first attempt to open it is under way.
    Opening,
    /// It can be queried.
    Served(Arc<Current>),
    /// It could not be opened; attempts go on.
    Failed(Arc<Error>),
}

/// A table under its name.
#[derive(Debug)]
pub struct ServedTable {
    name: String,
    location: Url,
    pub(crate) options: TableOptions,
    state: watch::Sender<TableState>,
    /// Held while the table is opened or refreshed, so that one reader of the log suffices.
    pub(crate) refreshing: tokio::sync::Mutex<Option<LakeTable>>,
    /// Cancelled when the table is removed.
    pub(crate) removed: CancellationToken,
}

impl ServedTable {
    pub(crate) fn new(name: &str, location: Url, options: TableOptions, table: Option<LakeTable>) -> Self {
        Self {
            name: name.to_owned(),
            location,
            options,
            state: watch::Sender::new(TableState::Opening),
            refreshing: tokio::sync::Mutex::new(table),
            removed: CancellationToken::new(),
        }
    }

    /// The name under which it is served.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it lies.
    #[must_use]
    pub fn location(&self) -> &Url {
        &self.location
    }

    /// What is known about it now.
    #[must_use]
    pub fn state(&self) -> TableState {
        self.state.borrow().clone()
    }

    /// Its newest good state; waits for the first attempt to open it.
    ///
    /// # Errors
    /// The error of that attempt when it failed.
    pub async fn current(&self) -> Result<Arc<Current>> {
        let mut states = self.state.subscribe();
        let settled = states.wait_for(|state| !matches!(state, TableState::Opening)).await;
        match settled.as_deref() {
            Ok(TableState::Served(current)) => Ok(Arc::clone(current)),
            Ok(TableState::Failed(error)) => Err(again(error).context(format!("table {} cannot be read", self.name))),
            Ok(TableState::Opening) | Err(_) => {
                Err(Error::new(ErrorKind::NoSuchTable, format!("table {} was removed", self.name)))
            }
        }
    }

    pub(crate) fn set(&self, state: TableState) {
        self.state.send_replace(state);
    }
}

/// The same error once more: errors are not `Clone`, but a failed table answers every query with one.
pub(crate) fn again(error: &Error) -> Error {
    let copy = Error::new(error.kind(), error.message());
    match error.hint() {
        Some(hint) => copy.with_hint(hint),
        None => copy,
    }
}

/// All served tables by name. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Tables(Arc<RwLock<BTreeMap<String, Arc<ServedTable>>>>);

impl Tables {
    /// The table of exactly this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Arc<ServedTable>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// The table of exactly this name, else the only one that differs just by case.
    ///
    /// # Errors
    /// `NoSuchTable`, with the nearest names or the ambiguous ones as hint.
    pub fn find(&self, name: &str) -> Result<Arc<ServedTable>> {
        let tables = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(table) = tables.get(name) {
            return Ok(Arc::clone(table));
        }
        match pick(name, tables.keys().map(String::as_str))? {
            Some(found) => tables.get(found).cloned().ok_or_else(|| self.unknown(name)),
            None => {
                let known = tables.keys().map(String::as_str);
                Err(lakeserve_query::error::no_such_table(name, known))
            }
        }
    }

    /// The names, sorted.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }

    /// All of them, sorted by name.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<ServedTable>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Whether a table has exactly this name.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).contains_key(name)
    }

    pub(crate) fn insert(&self, table: Arc<ServedTable>) -> Result<()> {
        let mut tables = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if tables.contains_key(&table.name) {
            return Err(Error::new(ErrorKind::Option, format!("a table named {} is served already", table.name)));
        }
        tables.insert(table.name.clone(), table);
        Ok(())
    }

    pub(crate) fn remove(&self, name: &str) -> Option<Arc<ServedTable>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(name)
    }

    fn unknown(&self, name: &str) -> Error {
        Error::new(ErrorKind::NoSuchTable, format!("no table named {name}"))
    }
}

/// The only one of `names` that equals `wanted` without case, if there is exactly one.
///
/// # Errors
/// `NoSuchTable` listing the candidates when several do.
pub(crate) fn pick<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Result<Option<&'a str>> {
    let lower = wanted.to_lowercase();
    let mut found: Vec<&str> = names.filter(|name| name.to_lowercase() == lower).collect();
    match found.len() {
        0 | 1 => Ok(found.pop()),
        _ => Err(Error::new(ErrorKind::NoSuchTable, format!("the table name {wanted} is ambiguous"))
            .with_hint(format!("quote one of {}", found.join(", ")))),
    }
}
