//! What a session has of its own: memory tables, views and external tables. They last as long as
//! the session and are never seen by another.
//!
//! A view is kept as its statement and planned anew by every query, so that it reads the same
//! snapshots as the rest of that query.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use datafusion::catalog::{MemoryCatalogProvider, MemorySchemaProvider, SchemaProvider, TableProvider};
use lakeserve_query::dialect::Statement;

use super::tables::ServedTable;

/// A view of a session.
#[derive(Debug, Clone)]
pub(crate) struct View {
    /// The query behind it.
    pub(crate) statement: Statement,
    /// The text that created it.
    pub(crate) definition: String,
}

/// The tables of one session.
#[derive(Debug, Default)]
pub(crate) struct Local {
    /// `CREATE TABLE`, and external tables of formats that DataFusion reads itself.
    pub(crate) memory: MemorySchemaProvider,
    /// Schemas other than the default one.
    pub(crate) schemas: MemoryCatalogProvider,
    views: RwLock<BTreeMap<String, Arc<View>>>,
    external: RwLock<BTreeMap<String, Arc<ServedTable>>>,
}

impl Local {
    /// Every name that stands for something.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names = self.memory.table_names();
        names.extend(self.views.read().unwrap_or_else(PoisonError::into_inner).keys().cloned());
        names.extend(self.external.read().unwrap_or_else(PoisonError::into_inner).keys().cloned());
        names
    }

    /// Whether exactly this name stands for something.
    pub(crate) fn contains(&self, name: &str) -> bool {
        self.memory.table_exist(name) || self.view(name).is_some() || self.external(name).is_some()
    }

    /// Whether it is a table in memory, into which rows can be inserted.
    pub(crate) fn is_memory(&self, name: &str) -> bool {
        self.memory.table_exist(name)
    }

    pub(crate) fn view(&self, name: &str) -> Option<Arc<View>> {
        self.views.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    pub(crate) fn external(&self, name: &str) -> Option<Arc<ServedTable>> {
        self.external.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    pub(crate) fn put_view(&self, name: &str, view: View) {
        self.views.write().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), Arc::new(view));
    }

    pub(crate) fn put_external(&self, table: Arc<ServedTable>) {
        let name = table.name().to_owned();
        self.external.write().unwrap_or_else(PoisonError::into_inner).insert(name, table);
    }

    /// Removes whatever has this name; `None` when nothing had.
    pub(crate) fn drop_name(&self, name: &str) -> datafusion::error::Result<bool> {
        let view = self.views.write().unwrap_or_else(PoisonError::into_inner).remove(name).is_some();
        let external = self.external.write().unwrap_or_else(PoisonError::into_inner).remove(name).is_some();
        let memory: Option<Arc<dyn TableProvider>> = match self.memory.table_exist(name) {
            true => self.memory.deregister_table(name)?,
            false => None,
        };
        Ok(view || external || memory.is_some())
    }
}
