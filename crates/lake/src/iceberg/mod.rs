//! Iceberg tables, versions 1 to 3: static metadata files and table folders.
//!
//! ```text
//! location        which metadata file is current     metadata   what it says, snapshot choice
//! paths, files    spelled paths to URLs, reading      schema     columns, mapping, defaults
//! avro, manifest  manifest lists and manifests        scalar     single values to arrow
//! delete_index    which deletes apply to which file   statistics bounds and counts, typed
//! position_deletes  deleted row ordinals              build      all of it to a snapshot
//! ```
//!
//! Metadata is decoded here rather than by the `iceberg` crate, whose reader needs manifest headers
//! that many writers leave out, fails a whole table over one statistic that it cannot decode, drops
//! defaults and references that it does not understand, and keeps its arrow version to itself.

mod avro;
mod build;
mod delete_index;
mod files;
mod location;
mod manifest;
mod metadata;
mod paths;
mod position_deletes;
mod scalar;
mod schema;
mod statistics;

use std::sync::Arc;

use async_trait::async_trait;
use lakeserve_common::{Error, ErrorKind, Result};
use lakeserve_storage::{Storage, StoreLocation, store_error};
use object_store::ObjectStoreExt;
use roaring::RoaringTreemap;
use tokio::sync::OnceCell;
use url::Url;

use self::build::ManifestCache;
use self::files::TableFiles;
use self::location::MetadataFile;
use self::metadata::TableMetadata;
use self::paths::Paths;
use self::position_deletes::DeleteReader;
use crate::snapshot::{DataFile, TableSnapshot};
use crate::table::{FormatReader, SnapshotChoice};

/// Reads one Iceberg table.
#[derive(Debug)]
pub(crate) struct IcebergReader {
    storage: Arc<Storage>,
    location: Url,
    at: StoreLocation,
    manifests: ManifestCache,
    deletes: DeleteReader,
    current: std::sync::Mutex<Option<Arc<Loaded>>>,
}

/// One metadata file and what was made of it.
#[derive(Debug)]
struct Loaded {
    file: MetadataFile,
    metadata: TableMetadata,
    files: TableFiles,
    latest: OnceCell<Arc<TableSnapshot>>,
}

impl IcebergReader {
    /// Opens the table whose root folder or metadata file stands at `location`.
    pub(crate) async fn open(storage: Arc<Storage>, location: &Url) -> Result<Self> {
        let at = storage.open(location)?;
        let reader = Self {
            storage,
            location: location.clone(),
            at,
            manifests: ManifestCache::default(),
            deletes: DeleteReader::default(),
            current: std::sync::Mutex::new(None),
        };
        reader.load().await?;
        Ok(reader)
    }

    /// The current metadata: what is known already, when the store still holds the same file.
    async fn load(&self) -> Result<Arc<Loaded>> {
        let file = location::find(&self.location, &self.at).await?;
        if let Some(known) = self.known().filter(|known| known.file == file) {
            return Ok(known);
        }
        let loaded = Arc::new(self.read(file).await?);
        *self.current.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(Arc::clone(&loaded));
        Ok(loaded)
    }

    fn known(&self) -> Option<Arc<Loaded>> {
        self.current.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    async fn read(&self, file: MetadataFile) -> Result<Loaded> {
        let failed = |error| store_error(file.path.as_ref(), error);
        let object = self.at.store.get(&file.path).await.map_err(failed)?;
        // What was read counts, should the file have been replaced since it was found.
        let file = MetadataFile::from(object.meta.clone());
        let content = object.bytes().await.map_err(|error| store_error(file.path.as_ref(), error))?;
        let root = table_root(&self.location);
        let name = file.path.filename().unwrap_or_default();
        let at = if location::is_metadata_file(&self.location) {
            self.location.to_string()
        } else {
            format!("{}/metadata/{name}", self.location.as_str().trim_end_matches('/'))
        };
        let nowhere = TableFiles {
            storage: Arc::clone(&self.storage),
            table: self.location.clone(),
            paths: Paths::new(root.clone(), ""),
        };
        let about = at.clone();
        let metadata = nowhere.decode("metadata file", &at, move || TableMetadata::parse(&content, &about)).await?;
        let files = TableFiles { paths: Paths::new(root, metadata.location()), ..nowhere };
        Ok(Loaded { file, metadata, files, latest: OnceCell::new() })
    }

    async fn build(&self, loaded: &Loaded, choice: &SnapshotChoice) -> Result<Arc<TableSnapshot>> {
        let chosen = loaded.metadata.choose(choice)?;
        build::build(&loaded.files, &self.manifests, &loaded.metadata, &chosen).await.map(Arc::new)
    }

    async fn latest(&self, loaded: &Loaded) -> Result<Arc<TableSnapshot>> {
        let build = || self.build(loaded, &SnapshotChoice::Latest);
        loaded.latest.get_or_try_init(build).await.cloned()
    }
}

/// The table's root folder, when `location` may also be a file in its folder `metadata`.
fn table_root(location: &Url) -> Url {
    let mut root = location.clone();
    if location::is_metadata_file(location) {
        if let Ok(mut parts) = root.path_segments_mut() {
            parts.pop();
        }
        let in_metadata =
            root.path_segments().and_then(|mut parts| parts.next_back()).is_some_and(|last| last == "metadata");
        if let (true, Ok(mut parts)) = (in_metadata, root.path_segments_mut()) {
            parts.pop();
        }
    }
    root
}

#[async_trait]
impl FormatReader for IcebergReader {
    async fn snapshot(&self, choice: &SnapshotChoice) -> Result<Arc<TableSnapshot>> {
        let loaded = self.load().await?;
        match choice {
            SnapshotChoice::Latest => self.latest(&loaded).await,
            other => self.build(&loaded, other).await,
        }
    }

    async fn refresh(&self, current: &Arc<TableSnapshot>) -> Result<Arc<TableSnapshot>> {
        let loaded = self.load().await?;
        let latest = self.latest(&loaded).await?;
        // New metadata may hold the same state, for example after a change of properties.
        Ok(if latest.token == current.token { Arc::clone(current) } else { latest })
    }

    async fn deleted_rows(&self, file: &DataFile) -> Result<RoaringTreemap> {
        let Some(loaded) = self.known() else {
            return Err(Error::new(ErrorKind::Internal, format!("{}: the table is not loaded", self.location)));
        };
        self.deletes.deleted_rows(&loaded.files, file).await
    }
}
