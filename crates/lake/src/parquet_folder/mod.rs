//! Plain Parquet: one file, or all Parquet files below a folder. The listing is the snapshot.
//!
//! The schema is the union of the files' columns by name. Columns come from the files only: a
//! folder called `k=v` invents none. Names that begin with `_` or `.` are not data. Where any file
//! has a Parquet extension the others are not data either; where none has one, all are taken as
//! Parquet and their footers must prove it.

mod footer;
mod types;

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{Fields, Schema};
use async_trait::async_trait;
use futures::{StreamExt, TryStreamExt};
use lakeserve_common::hash::StableHasher;
use lakeserve_common::{Error, ErrorKind, Result};
use lakeserve_storage::{Storage, StoreLocation, store_error};
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use roaring::RoaringTreemap;
use tokio::sync::Mutex;
use url::Url;

use crate::deletes::DeleteSet;
use crate::parquet_folder::footer::Footer;
use crate::snapshot::{ColumnMapping, DataFile, TableFormat, TableSchema, TableSnapshot, TableStatistics};
use crate::table::{FormatReader, SnapshotChoice, has_parquet_name, is_iceberg_metadata, nothing_there};
use crate::token::snapshot_token;

/// Footers read at the same time.
const PARALLEL_FOOTERS: usize = 16;

/// Reads one Parquet file or folder.
pub(crate) struct ParquetReader {
    location: Url,
    place: StoreLocation,
    /// Footers of the files of the last listing, so that a refresh reads only new ones.
    footers: Mutex<HashMap<FileIdentity, Arc<Footer>>>,
}

impl std::fmt::Debug for ParquetReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ParquetReader").field("location", &self.location.as_str()).finish_non_exhaustive()
    }
}

/// What tells one content of a path from another.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct FileIdentity {
    path: String,
    size: u64,
    modified_ms: i64,
    etag: Option<String>,
}

/// One file of a listing.
#[derive(Debug, Clone)]
struct ListedFile {
    identity: FileIdentity,
    url: Url,
    object: object_store::path::Path,
}

impl ParquetReader {
    /// Takes the file or folder at `location` as a table; nothing is read yet.
    pub(crate) fn open(storage: &Storage, location: &Url) -> Result<Self> {
        let place = storage.open(location)?;
        Ok(Self { location: location.clone(), place, footers: Mutex::default() })
    }

    /// The data files, sorted by path.
    async fn list(&self) -> Result<Vec<ListedFile>> {
        let StoreLocation { store, path } = &self.place;
        let failed = |error| store_error(self.location.as_str(), error);
        if has_parquet_name(path.filename().unwrap_or_default())
            && let Some(file) = self.single_file().await?
        {
            return Ok(vec![file]);
        }
        let objects: Vec<ObjectMeta> = store.list(Some(path)).try_collect().await.map_err(failed)?;
        if objects.is_empty() {
            return match self.single_file().await? {
                Some(file) => Ok(vec![file]),
                None => Err(nothing_there(&self.location)),
            };
        }
        let mut files = Vec::with_capacity(objects.len());
        for object in objects {
            let Some(parts) = relative_parts(path, &object.location) else { continue };
            if let Some(table) = table_inside(&parts) {
                let message = format!("{} is not one table: it holds a {table}", self.location);
                return Err(Error::new(ErrorKind::Option, message).with_hint("name the folder of each table"));
            }
            if parts.iter().any(|part| part.starts_with(['_', '.'])) {
                continue;
            }
            files.push(listed(&self.location, &parts, object)?);
        }
        if files.iter().any(|file| has_parquet_name(&file.identity.path)) {
            files.retain(|file| has_parquet_name(&file.identity.path));
        }
        if files.is_empty() {
            let message = format!("no Parquet files below {}", self.location);
            return Err(Error::new(ErrorKind::NoSuchTable, message)
                .with_hint("files and folders whose names begin with '_' or '.' are not data"));
        }
        files.sort_by(|a, b| a.identity.path.cmp(&b.identity.path));
        Ok(files)
    }

    /// The location itself, if it is a file.
    async fn single_file(&self) -> Result<Option<ListedFile>> {
        match self.place.store.head(&self.place.path).await {
            Ok(object) => {
                let name = object.location.filename().unwrap_or_default().to_owned();
                let identity = identity(name, &object);
                Ok(Some(ListedFile { identity, url: self.location.clone(), object: self.place.path.clone() }))
            }
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(store_error(self.location.as_str(), error)),
        }
    }

    /// The footers of `files`, in the same order; those that are known are not read again.
    async fn footers(&self, files: &[ListedFile]) -> Result<Vec<Arc<Footer>>> {
        let known = self.footers.lock().await.clone();
        let reads = files.iter().map(|file| {
            let known = known.get(&file.identity).cloned();
            let store = Arc::clone(&self.place.store);
            let (object, url, size) = (file.object.clone(), file.url.clone(), file.identity.size);
            async move {
                match known {
                    Some(footer) => Ok(footer),
                    None => footer::read(store, object, &url, size).await.map(Arc::new),
                }
            }
        });
        // Collected first: a lazily mapped stream of borrowing futures is not Send-provable.
        let reads: Vec<_> = reads.collect();
        let footers: Vec<_> = futures::stream::iter(reads).buffered(PARALLEL_FOOTERS).try_collect().await?;
        let pairs = files.iter().zip(&footers).map(|(file, footer)| (file.identity.clone(), Arc::clone(footer)));
        *self.footers.lock().await = pairs.collect();
        Ok(footers)
    }

    async fn build(&self, listed: Vec<ListedFile>) -> Result<Arc<TableSnapshot>> {
        let footers = self.footers(&listed).await?;
        let fields = union_of_fields(&listed, &footers)?;
        let files: Vec<_> =
            listed.into_iter().zip(&footers).map(|(file, footer)| data_file(file, footer.rows)).collect();
        let token = snapshot_token(self.location.as_str(), "", "", &files);
        let columns = fields.iter().map(|field| types::mapping_by_name(field)).collect();
        Ok(Arc::new(TableSnapshot {
            location: self.location.clone(),
            format: TableFormat::Parquet,
            version: token.as_str().to_owned(),
            token,
            committed_ms: files.iter().map(|file| file.generation).max(),
            statistics: TableStatistics { columns: vec![None; fields.len()] },
            schema: TableSchema { arrow: Arc::new(Schema::new(fields)), columns },
            files: files.into(),
        }))
    }
}

#[async_trait]
impl FormatReader for ParquetReader {
    async fn snapshot(&self, choice: &SnapshotChoice) -> Result<Arc<TableSnapshot>> {
        if *choice != SnapshotChoice::Latest {
            let message = format!("{} is plain Parquet and has no older states; asked for {choice}", self.location);
            return Err(Error::new(ErrorKind::Option, message));
        }
        self.build(self.list().await?).await
    }

    async fn refresh(&self, current: &Arc<TableSnapshot>) -> Result<Arc<TableSnapshot>> {
        let listed = self.list().await?;
        let same = listed.len() == current.files.len()
            && listed.iter().zip(current.files.iter()).all(|(new, old)| {
                new.identity.path == old.path
                    && new.identity.size == old.size
                    && new.identity.modified_ms == old.generation
                    && new.identity.etag == old.etag
            });
        if same { Ok(Arc::clone(current)) } else { self.build(listed).await }
    }

    async fn deleted_rows(&self, file: &DataFile) -> Result<RoaringTreemap> {
        Err(Error::new(ErrorKind::Internal, format!("plain Parquet has no deletes, but {} has some", file.url)))
    }
}

/// The path parts of `object` below `root`, as the store spells them.
fn relative_parts(root: &object_store::path::Path, object: &object_store::path::Path) -> Option<Vec<String>> {
    let parts: Vec<_> = object.prefix_match(root)?.map(|part| part.as_ref().to_owned()).collect();
    (!parts.is_empty()).then_some(parts)
}

/// What kind of table the file with these path parts shows to lie in a folder below the root. Its
/// Parquet files are not all live, so they must not be read as plain ones.
fn table_inside(parts: &[String]) -> Option<String> {
    let delta = parts.iter().position(|part| part == "_delta_log").filter(|at| *at > 0);
    if let Some(at) = delta {
        return Some(format!("Delta table in '{}'", parts[..at].join("/")));
    }
    match parts {
        [folders @ .., metadata, name] if metadata == "metadata" && is_iceberg_metadata(name) => {
            Some(format!("Iceberg table in '{}'", folders.join("/")))
        }
        _ => None,
    }
}

fn listed(root: &Url, parts: &[String], object: ObjectMeta) -> Result<ListedFile> {
    let mut url = root.clone();
    url.path_segments_mut()
        .map_err(|()| Error::new(ErrorKind::Option, format!("{root} cannot be the root of a table")))?
        .pop_if_empty()
        .extend(parts);
    Ok(ListedFile { identity: identity(parts.join("/"), &object), url, object: object.location })
}

fn identity(path: String, object: &ObjectMeta) -> FileIdentity {
    FileIdentity {
        path,
        size: object.size,
        modified_ms: object.last_modified.timestamp_millis(),
        etag: object.e_tag.clone(),
    }
}

fn data_file(file: ListedFile, rows: u64) -> DataFile {
    DataFile {
        url: file.url,
        path: file.identity.path,
        size: file.identity.size,
        generation: file.identity.modified_ms,
        etag: file.identity.etag,
        row_count: Some(rows),
        constants: Vec::new(),
        constants_override: false,
        deletes: DeleteSet::None,
    }
}

/// The columns of all files by name, in order of first appearance; an error naming both files
/// where two types of one column cannot be widened into one.
fn union_of_fields(files: &[ListedFile], footers: &[Arc<Footer>]) -> Result<Fields> {
    let mut seen: HashMap<u64, usize> = HashMap::new();
    let mut union = types::Union::default();
    for (file, footer) in files.iter().zip(footers) {
        // Most files of a folder have one schema: look at each distinct one once.
        let print = StableHasher::new().piece(format!("{:?}", footer.fields)).digest64();
        if seen.insert(print, 0).is_none() {
            union.add(&footer.fields, &file.url)?;
        }
    }
    Ok(union.finish())
}

/// A column mapping that resolves by name alone.
impl ColumnMapping {
    pub(crate) fn by_name(name: &str, children: Vec<ColumnMapping>) -> Self {
        Self { physical_name: name.to_owned(), children, ..Self::default() }
    }
}
