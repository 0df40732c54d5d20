//! A table as the rest of the system holds it: opened once, its format detected, then asked for
//! snapshots and for the rows that they delete.
//!
//! Detection asks the store as little as possible, in this order: a file's name
//! (`*.metadata.json[.gz]` is Iceberg, `*.parquet` is Parquet); anything below `_delta_log/`; an
//! Iceberg `metadata/` folder; any other files below the folder, or a file of any other name, are
//! Parquet.

use std::sync::Arc;

use async_trait::async_trait;
use futures::{StreamExt, TryStreamExt};
use lakeserve_common::{Error, ErrorKind, Result};
use lakeserve_storage::{Storage, StoreLocation, store_error};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use roaring::RoaringTreemap;
use url::Url;

use crate::deletes::{DeleteCache, DeleteSet};
use crate::snapshot::{DataFile, TableFormat, TableSnapshot};
use crate::{delta, iceberg, parquet_folder};

/// Which state of a table is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum SnapshotChoice {
    /// The newest committed one.
    #[default]
    Latest,
    /// A Delta version or an Iceberg snapshot id.
    Version(i64),
    /// The newest one that was committed at or before this time, milliseconds since the Unix epoch.
    Timestamp(i64),
    /// An Iceberg branch or tag.
    Reference(String),
}

/// Milliseconds since the Unix epoch as ISO text, for messages.
pub(crate) fn utc(ms: i64) -> String {
    match chrono::DateTime::from_timestamp_millis(ms) {
        Some(time) => time.to_rfc3339_opts(chrono::SecondsFormat::AutoSi, true),
        None => format!("{ms} ms"),
    }
}

impl std::fmt::Display for SnapshotChoice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Latest => f.write_str("latest"),
            Self::Version(version) => write!(f, "version {version}"),
            Self::Timestamp(ms) => write!(f, "timestamp {}", utc(*ms)),
            Self::Reference(name) => write!(f, "reference '{name}'"),
        }
    }
}

/// How to open a table.
#[derive(Debug, Clone, Default)]
pub struct TableOptions {
    /// The format; `None` lets it be detected.
    pub format: Option<TableFormat>,
}

/// What a table format must be able to do. One implementation per format.
///
/// `refresh` returns the *same* `Arc` when nothing changed, and finds that out without reading
/// what it already knows. `deleted_rows` is only asked for files whose `deletes` are not `None`;
/// the caller caches its answers by the identity of the delete set.
#[async_trait]
pub(crate) trait FormatReader: Send + Sync + std::fmt::Debug {
    /// The state that `choice` names. A choice that the format does not know (an Iceberg reference
    /// asked of a Delta table) is `ErrorKind::Option`; one that names nothing is
    /// `ErrorKind::NoSuchTable`, saying which there are.
    async fn snapshot(&self, choice: &SnapshotChoice) -> Result<Arc<TableSnapshot>>;

    /// The newest state, given one that is known.
    async fn refresh(&self, current: &Arc<TableSnapshot>) -> Result<Arc<TableSnapshot>>;

    /// The ordinals (from 0, in the whole file) of the rows that `file.deletes` deletes. A delete
    /// file that is missing or damaged is an error.
    async fn deleted_rows(&self, file: &DataFile) -> Result<RoaringTreemap>;
}

/// One table at one location. Cheap to clone.
#[derive(Debug, Clone)]
pub struct LakeTable {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    location: Url,
    format: TableFormat,
    reader: Box<dyn FormatReader>,
    deletes: DeleteCache,
}

impl LakeTable {
    /// Opens the table at `location`, detecting its format unless `options` names it.
    ///
    /// # Errors
    /// `NoSuchTable` when nothing stands there, `Storage` when the store cannot be reached,
    /// `Corrupt` when the table's metadata is damaged.
    pub async fn open(storage: Arc<Storage>, location: &Url, options: TableOptions) -> Result<Self> {
        let format = match options.format {
            Some(format) => format,
            None => detect(&storage, location).await?,
        };
        let reader: Box<dyn FormatReader> = match format {
            TableFormat::Delta => Box::new(delta::DeltaReader::open(storage, location).await?),
            TableFormat::Iceberg => Box::new(iceberg::IcebergReader::open(storage, location).await?),
            TableFormat::Parquet => Box::new(parquet_folder::ParquetReader::open(&storage, location)?),
        };
        let inner = Inner { location: location.clone(), format, reader, deletes: DeleteCache::default() };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The format.
    #[must_use]
    pub fn format(&self) -> TableFormat {
        self.inner.format
    }

    /// Where the table was opened.
    #[must_use]
    pub fn location(&self) -> &Url {
        &self.inner.location
    }

    /// The state that `choice` names.
    ///
    /// # Errors
    /// `Option` when the format has no such kind of choice, `NoSuchTable` when there is no such
    /// state, `Feature` when the state needs something that Lakeserve does not know, `Corrupt`
    /// when log or metadata are damaged, `Storage` when the store fails.
    pub async fn snapshot(&self, choice: &SnapshotChoice) -> Result<Arc<TableSnapshot>> {
        self.inner.reader.snapshot(choice).await
    }

    /// The newest state: `current` itself (the same `Arc`) when nothing changed.
    ///
    /// # Errors
    /// As [`LakeTable::snapshot`]; `current` stays usable.
    pub async fn refresh(&self, current: &Arc<TableSnapshot>) -> Result<Arc<TableSnapshot>> {
        self.inner.reader.refresh(current).await
    }

    /// The ordinals (from 0, in the whole file) of the rows of `file` that its snapshot deletes;
    /// `None` when nothing is deleted.
    ///
    /// # Errors
    /// `Corrupt` when a delete file is missing or damaged, `Storage` when the store fails.
    pub async fn deleted_rows(&self, file: &DataFile) -> Result<Option<Arc<RoaringTreemap>>> {
        if file.deletes == DeleteSet::None {
            return Ok(None);
        }
        let reader = &self.inner.reader;
        let rows = self.inner.deletes.get_or_decode(file, reader.deleted_rows(file)).await?;
        Ok((!rows.is_empty()).then_some(rows))
    }
}

/// Finds out what stands at `location`.
async fn detect(storage: &Storage, location: &Url) -> Result<TableFormat> {
    let StoreLocation { store, path } = storage.open(location)?;
    let failed = |error| store_error(location.as_str(), error);
    let is_file = || async {
        match store.head(&path).await {
            Ok(_) => Ok(true),
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(failed(error)),
        }
    };
    let name = path.filename().unwrap_or_default();
    if is_iceberg_metadata(name) {
        return Ok(TableFormat::Iceberg);
    }
    // A folder, even one that holds a Delta table, may be called so too.
    if has_parquet_name(name) && is_file().await? {
        return Ok(TableFormat::Parquet);
    }
    if has_any(store.as_ref(), &path.clone().join("_delta_log")).await.map_err(failed)? {
        return Ok(TableFormat::Delta);
    }
    let mut metadata = store.list(Some(&path.clone().join("metadata")));
    while let Some(object) = metadata.try_next().await.map_err(failed)? {
        let name = object.location.filename().unwrap_or_default();
        if is_iceberg_metadata(name) || name == "version-hint.text" {
            return Ok(TableFormat::Iceberg);
        }
    }
    let listing = store.list_with_delimiter(Some(&path)).await.map_err(failed)?;
    let log = path.clone().join("_delta_log");
    if listing.common_prefixes.contains(&log) {
        return Ok(TableFormat::Delta);
    }
    if !listing.objects.is_empty() || !listing.common_prefixes.is_empty() {
        return Ok(TableFormat::Parquet);
    }
    if is_file().await? { Ok(TableFormat::Parquet) } else { Err(nothing_there(location)) }
}

/// The error for a location at which nothing is stored.
pub(crate) fn nothing_there(location: &Url) -> Error {
    Error::new(ErrorKind::NoSuchTable, format!("no table at {location}: nothing is stored there"))
        .with_hint("give the table's root folder, an Iceberg *.metadata.json file or a Parquet file")
}

async fn has_any(store: &dyn ObjectStore, prefix: &Path) -> object_store::Result<bool> {
    store.list(Some(prefix)).next().await.transpose().map(|object| object.is_some())
}

/// Whether a file of this name is taken for Parquet.
pub(crate) fn has_parquet_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    [".parquet", ".parq", ".pq"].iter().any(|extension| name.ends_with(extension))
}

/// Whether `name` is that of an Iceberg table-metadata file.
pub(crate) fn is_iceberg_metadata(name: &str) -> bool {
    name.ends_with(".metadata.json") || name.ends_with(".metadata.json.gz") || name.ends_with(".gz.metadata.json")
}
