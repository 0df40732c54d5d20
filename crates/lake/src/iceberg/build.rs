//! From chosen metadata to a [`TableSnapshot`]: manifest list, manifests, live files.

use std::collections::{HashMap, hash_map};
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt, stream};
use lakeserve_common::{Error, ErrorKind, Result};
use moka::future::Cache;

use super::delete_index::DeleteIndex;
use super::files::{TableFiles, shared};
use super::manifest::{self, Content, Entry, ManifestError, ManifestFile, PartitionValue};
use super::metadata::{Chosen, PartitionSpec, Snapshot, TableMetadata};
use super::scalar::{self, Scalar};
use super::schema::{self, Schema, Type};
use super::statistics;
use crate::snapshot::{DataFile, TableFormat, TableSchema, TableSnapshot};
use crate::token::snapshot_token;

/// Manifests that are read at the same time.
const PARALLEL_MANIFESTS: usize = 8;
/// Bytes of decoded manifests that one table keeps, so that a refresh reads only new ones.
const CACHE_BYTES: u64 = 64 << 20;

const LIST: &str = "manifest list";
const MANIFEST: &str = "manifest";
const NAME_MAPPING: &str = "schema.name-mapping.default";

/// Live entries of manifests, which never change once they are written.
#[derive(Debug)]
pub(super) struct ManifestCache(Cache<(String, Option<u64>, i32, i64), Arc<Manifest>>);

#[derive(Debug)]
struct Manifest {
    entries: Vec<Entry>,
    bytes: usize,
}

impl Default for ManifestCache {
    fn default() -> Self {
        let weigh = |_: &_, manifest: &Arc<Manifest>| {
            let bytes = manifest.bytes + manifest.entries.len() * size_of::<Entry>();
            u32::try_from(bytes).unwrap_or(u32::MAX)
        };
        Self(Cache::builder().max_capacity(CACHE_BYTES).weigher(weigh).build())
    }
}

/// Builds the state that was chosen.
///
/// # Errors
/// `Corrupt` when a file of the metadata is missing or damaged, `Feature` when the state needs
/// something that is not supported.
pub(super) async fn build(
    files: &TableFiles,
    cache: &ManifestCache,
    metadata: &TableMetadata,
    chosen: &Chosen<'_>,
) -> Result<TableSnapshot> {
    let at = format!("iceberg table {}", files.table);
    let names = metadata.property(NAME_MAPPING);
    let mapping = names.map(|text| schema::parse_name_mapping(text, &at)).transpose()?;
    let logical = chosen.schema.logical(mapping.as_deref(), &at)?;
    let manifests = match chosen.snapshot {
        Some(snapshot) => live_manifests(files, cache, snapshot).await?,
        None => Vec::new(),
    };
    let live = LiveFiles::new(files, metadata, &manifests)?;
    let data_files = live.data_files(&chosen.schema, &logical)?;
    let statistics = statistics::collect(&chosen.schema, &live.data, |column, file| {
        live.constant(&chosen.schema, column, live.data.get(file)?).ok().flatten()
    })?;
    let version = chosen.snapshot.map_or_else(|| "-1".to_owned(), |snapshot| snapshot.snapshot_id.to_string());
    // The name mapping is a part of what the schema means for files without field ids.
    let schema_identity = format!("{}\n{}", chosen.schema.id, names.unwrap_or_default());
    Ok(TableSnapshot {
        location: files.table.clone(),
        format: TableFormat::Iceberg,
        token: snapshot_token(metadata.identity(), &version, &schema_identity, &data_files),
        version,
        committed_ms: chosen.snapshot.map_or(metadata.last_updated_ms(), |snapshot| Some(snapshot.timestamp_ms)),
        schema: logical,
        files: data_files.into(),
        statistics,
    })
}

/// All manifests of `snapshot`, in the order of its list.
async fn live_manifests(files: &TableFiles, cache: &ManifestCache, snapshot: &Snapshot) -> Result<Vec<Arc<Manifest>>> {
    let listed = match (&snapshot.manifest_list, &snapshot.manifests) {
        (Some(list), _) => {
            let url = files.resolve(list)?;
            let bytes = files.read(LIST, &url, None).await?;
            let name = url.to_string();
            let about = (files.clone(), name.clone());
            let parse = move || manifest::parse_list(&bytes).map_err(|error| damaged(&about.0, LIST, &about.1, &error));
            files.decode(LIST, &name, parse).await?
        }
        (None, Some(paths)) => {
            let file = |path: &String| ManifestFile { path: path.clone(), length: None, spec_id: 0, sequence: 0 };
            paths.iter().map(file).collect()
        }
        (None, None) => {
            let message =
                format!("iceberg table {}: snapshot {} has no manifest list", files.table, snapshot.snapshot_id);
            return Err(Error::new(ErrorKind::Corrupt, message));
        }
    };
    let loads = listed.into_iter().map(|manifest| load(files, cache, manifest));
    stream::iter(loads).buffered(PARALLEL_MANIFESTS).try_collect().await
}

async fn load(files: &TableFiles, cache: &ManifestCache, manifest: ManifestFile) -> Result<Arc<Manifest>> {
    let key = (manifest.path.clone(), manifest.length, manifest.spec_id, manifest.sequence);
    let load = async {
        let url = files.resolve(&manifest.path)?;
        let bytes = files.read(MANIFEST, &url, manifest.length).await?;
        let name = url.to_string();
        let about = (files.clone(), name.clone());
        let parse = move || {
            manifest::parse_manifest(&bytes, &manifest).map_err(|error| damaged(&about.0, MANIFEST, &about.1, &error))
        };
        let (entries, bytes) = files.decode(MANIFEST, &name, parse).await?;
        Ok(Arc::new(Manifest { entries, bytes }))
    };
    cache.0.try_get_with(key, load).await.map_err(|error| shared(&error))
}

fn damaged(files: &TableFiles, what: &str, file: &str, error: &ManifestError) -> Error {
    files.broken(error.kind(), what, file, error)
}

/// The live files of a snapshot.
struct LiveFiles<'m> {
    files: &'m TableFiles,
    /// In canonical order.
    data: Vec<&'m Entry>,
    deletes: Vec<&'m Entry>,
    specs: HashMap<i32, PartitionSpec>,
}

impl<'m> LiveFiles<'m> {
    fn new(files: &'m TableFiles, metadata: &TableMetadata, manifests: &'m [Arc<Manifest>]) -> Result<Self> {
        let entries = manifests.iter().flat_map(|manifest| &manifest.entries);
        let (mut data, deletes): (Vec<_>, Vec<_>) = entries.partition(|entry| entry.content == Content::Data);
        data.sort_by(|a, b| a.path.cmp(&b.path));
        let mut specs = HashMap::new();
        for entry in data.iter().chain(&deletes) {
            if let hash_map::Entry::Vacant(spec) = specs.entry(entry.spec_id) {
                spec.insert(metadata.partition_spec(entry.spec_id)?);
            }
        }
        Ok(Self { files, data, deletes, specs })
    }

    fn data_files(&self, schema: &Schema, logical: &TableSchema) -> Result<Vec<DataFile>> {
        let is_unpartitioned = |id: i32| self.specs.get(&id).is_some_and(PartitionSpec::is_unpartitioned);
        let index = DeleteIndex::new(self.files, self.deletes.iter().copied(), is_unpartitioned)?;
        let file = |entry: &&Entry| {
            if entry.format != "parquet" {
                let problem = format!("data files in format {} are not supported", entry.format);
                return Err(self.files.broken(ErrorKind::Feature, "data file", &entry.path, problem));
            }
            let url = self.files.resolve(&entry.path)?;
            Ok(DataFile {
                deletes: index.of(entry, &url)?,
                url,
                path: entry.path.clone(),
                size: entry.size,
                generation: entry.sequence,
                etag: None,
                row_count: Some(entry.records),
                constants: self.constants(schema, logical, entry)?,
                constants_override: false,
            })
        };
        self.data.iter().map(file).collect()
    }

    /// The columns that an identity partition fixes for a file.
    fn constants(
        &self,
        schema: &Schema,
        logical: &TableSchema,
        entry: &Entry,
    ) -> Result<Vec<(usize, arrow::array::ArrayRef)>> {
        let mut constants = Vec::new();
        for (column, field) in logical.arrow.fields().iter().enumerate() {
            if let Some(value) = self.constant(schema, column, entry)? {
                constants.push((column, scalar::array(&[value], field.data_type())?));
            }
        }
        Ok(constants)
    }

    /// The value of `column` that an identity partition fixes for a file: `Some(None)` is null.
    fn constant(&self, schema: &Schema, column: usize, entry: &Entry) -> Result<Option<Option<Scalar>>> {
        let (Some(field), Some(spec)) = (schema.fields.get(column), self.specs.get(&entry.spec_id)) else {
            return Ok(None);
        };
        let Type::Primitive(kind) = &field.kind else {
            return Ok(None);
        };
        let identity =
            |part: &super::metadata::PartitionField| part.transform == "identity" && part.source_id == Some(field.id);
        let Some((position, part)) = spec.fields.iter().enumerate().find(|(_, part)| identity(part)) else {
            return Ok(None);
        };
        let tuple = &entry.partition.0;
        // Files without field ids have the fields of the spec in its order.
        let by_id = tuple.iter().find(|(id, _)| Some(*id) == part.field_id);
        let value = by_id.or_else(|| tuple.get(position).filter(|(id, _)| *id < 0));
        match value {
            None => Ok(None),
            Some((_, PartitionValue::Null)) => Ok(Some(None)),
            Some((_, value)) => match Scalar::from_avro(&value.as_avro(), kind) {
                Some(value) => Ok(Some(Some(value))),
                None => {
                    let problem =
                        format!("its partition value of '{}' does not fit column '{}'", part.name, field.name);
                    Err(self.files.broken(ErrorKind::Corrupt, "data file", &entry.path, problem))
                }
            },
        }
    }
}
