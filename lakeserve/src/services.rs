//! What every command that reads tables is built from: storage, scans and the engine over them.

use std::sync::Arc;

use lakeserve_broker::engine::{Engine, EngineParts};
use lakeserve_common::clock;
use lakeserve_common::random::Random;
use lakeserve_exec::ScanContext;
use lakeserve_lake::TableOptions;
use lakeserve_storage::{Storage, StoreLocation, location, store_error};
use prometheus::Registry;
use url::Url;

use crate::config::{CatalogConfig, Config};
use crate::failure::Failure;

/// The parts of one process.
#[derive(Debug)]
pub struct Services {
    /// Where tables lie.
    pub storage: Arc<Storage>,
    /// What answers.
    pub engine: Engine,
    /// Where metrics are registered.
    pub registry: Registry,
}

/// One table to serve.
#[derive(Debug, Clone)]
pub struct TableToServe {
    /// Under which name.
    pub name: String,
    /// From where.
    pub url: Url,
    /// How to open it.
    pub options: TableOptions,
}

impl Services {
    /// Builds them. No table is opened and nothing is connected to yet.
    ///
    /// # Errors
    /// Usage when an option is impossible.
    pub fn build(config: &Config) -> Result<Self, Failure> {
        let registry = Registry::new();
        let clock = clock::system();
        let random = Arc::new(Random::from_os());
        let options = config.storage.clone();
        let storage = Storage::new(options, Arc::clone(&clock), Arc::clone(&random), &registry)
            .map_err(|error| Failure::wrong_argument(&error))?;
        let scan = ScanContext::new(Arc::clone(&storage), config.scan.clone(), &registry);
        let parts = EngineParts { storage: Arc::clone(&storage), scan, clock, random, registry: registry.clone() };
        let engine = Engine::new(parts, config.engine.clone()).map_err(|error| Failure::wrong_argument(&error))?;
        Ok(Self { storage, engine, registry })
    }

    /// The configured tables, then those of the catalogs. A table of its own name in `[tables]` wins.
    ///
    /// # Errors
    /// When a catalog's folder cannot be listed or holds no table.
    pub async fn tables(&self, config: &Config) -> Result<Vec<TableToServe>, Failure> {
        let mut tables = Vec::new();
        for (name, table) in &config.tables {
            let url = table.url().map_err(|error| Failure::usage(format!("table {name}: {error}")))?;
            tables.push(TableToServe { name: name.clone(), url, options: table.options() });
        }
        for (catalog, source) in &config.catalogs {
            let found = self.list(source).await;
            let found = found.map_err(|error| Failure::failed(format!("catalogs.{catalog}: {error}")))?;
            if found.is_empty() {
                // A folder that does not exist looks the same in an object store.
                let CatalogConfig::Folder { location } = source;
                return Err(Failure::failed(format!("catalogs.{catalog}: there is no table below {location}")));
            }
            for table in found {
                if tables.iter().all(|known| known.name != table.name) {
                    tables.push(table);
                }
            }
        }
        Ok(tables)
    }

    async fn list(
        &self,
        CatalogConfig::Folder { location }: &CatalogConfig,
    ) -> lakeserve_common::Result<Vec<TableToServe>> {
        let root = Storage::parse_location(location)?;
        let StoreLocation { store, path } = self.storage.open(&root)?;
        let listing =
            store.list_with_delimiter(Some(&path)).await.map_err(|error| store_error(root.as_str(), error))?;
        let files = listing.objects.into_iter().map(|object| object.location);
        let files = files.filter(|path| path.extension() == Some("parquet"));
        let mut tables = Vec::new();
        for path in listing.common_prefixes.into_iter().chain(files) {
            let name = path.filename().unwrap_or_default();
            let name = name.strip_suffix(".parquet").unwrap_or(name);
            if !name.is_empty() && !name.starts_with(['_', '.']) {
                let url = location::object_url(&root, &path);
                tables.push(TableToServe { name: name.to_owned(), url, options: TableOptions::default() });
            }
        }
        tables.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(tables)
    }

    /// Lets the engine serve the tables: at once, whether they can be opened or not.
    ///
    /// # Errors
    /// Usage when two have one name.
    pub fn serve(&self, tables: Vec<TableToServe>) -> Result<(), Failure> {
        for TableToServe { name, url, options } in tables {
            self.engine.add_location(&name, url, options).map_err(|error| Failure::wrong_argument(&error))?;
        }
        Ok(())
    }
}
