//! Position deletes: from delete files (Parquet) and deletion vectors (Puffin blobs) to the row
//! ordinals that they delete.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use bytes::Bytes;
use lakeserve_common::{Error, ErrorKind, Result};
use moka::future::Cache;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use roaring::RoaringTreemap;
use url::Url;

use super::files::{TableFiles, shared};
use super::manifest::{DELETE_FILE_PATH, DELETE_POSITION};
use super::paths::Paths;
use crate::deletes::{DeleteSet, PositionDeletes, PuffinVector};
use crate::snapshot::DataFile;

/// Bytes of decoded delete files that one table keeps: one delete file may be for many data files.
const CACHE_BYTES: u64 = 32 << 20;

const DELETE_FILE: &str = "delete file";
const VECTOR: &str = "deletion vector";

/// The rows that one delete file deletes, by the URL of the data file.
type RowsByFile = HashMap<String, RoaringTreemap>;

/// Resolves delete sets of one table.
#[derive(Debug)]
pub(super) struct DeleteReader {
    decoded: Cache<(Url, u64), Arc<RowsByFile>>,
}

impl Default for DeleteReader {
    fn default() -> Self {
        let weigh = |_: &(Url, u64), rows: &Arc<RowsByFile>| {
            let bytes: usize = rows.iter().map(|(path, rows)| path.len() + rows.serialized_size() + 64).sum();
            u32::try_from(bytes).unwrap_or(u32::MAX)
        };
        Self { decoded: Cache::builder().max_capacity(CACHE_BYTES).weigher(weigh).build() }
    }
}

impl DeleteReader {
    /// The ordinals of the rows of `file` that its delete set deletes.
    ///
    /// # Errors
    /// `Corrupt` when a delete file is missing or damaged, `Storage` when the store fails.
    pub(super) async fn deleted_rows(&self, files: &TableFiles, file: &DataFile) -> Result<RoaringTreemap> {
        let mut rows = match &file.deletes {
            DeleteSet::None => RoaringTreemap::new(),
            DeleteSet::Positions(deletes) => {
                let mut rows = RoaringTreemap::new();
                for delete in deletes.iter() {
                    let decoded = self.decoded(files, delete).await?;
                    if let Some(deleted) = decoded.get(file.url.as_str()) {
                        rows |= deleted;
                    }
                }
                rows
            }
            DeleteSet::PuffinVector(vector) => read_vector(files, vector).await?,
            DeleteSet::DeltaVector(_) => {
                return Err(Error::new(
                    ErrorKind::Internal,
                    format!("{}: a Delta vector in an Iceberg table", file.path),
                ));
            }
        };
        if let Some(count) = file.row_count {
            // A position after the last row deletes nothing.
            rows.remove_range(count..);
        }
        Ok(rows)
    }

    async fn decoded(&self, files: &TableFiles, delete: &PositionDeletes) -> Result<Arc<RowsByFile>> {
        let key = (delete.url.clone(), delete.size);
        let decode = async {
            let bytes = files.read(DELETE_FILE, &delete.url, Some(delete.size)).await?;
            let (paths, about) = (files.paths.clone(), (files.clone(), delete.url.clone()));
            let decode = move || {
                decode_positions(bytes, &paths)
                    .map_err(|problem| about.0.broken(ErrorKind::Corrupt, DELETE_FILE, about.1.as_str(), problem))
            };
            files.decode(DELETE_FILE, delete.url.as_str(), decode).await.map(Arc::new)
        };
        self.decoded.try_get_with(key, decode).await.map_err(|error| shared(&error))
    }
}

/// Decodes a position-delete file. The error says what is wrong with it.
fn decode_positions(bytes: Bytes, paths: &Paths) -> Result<RowsByFile, String> {
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let builder = ParquetRecordBatchReaderBuilder::try_new_with_options(bytes, options).map_err(|e| e.to_string())?;
    let path_column = column(&builder, DELETE_FILE_PATH, "file_path")?;
    let position_column = column(&builder, DELETE_POSITION, "pos")?;
    let mask = ProjectionMask::roots(builder.parquet_schema(), [path_column, position_column]);
    let (path_at, position_at) = if path_column < position_column { (0, 1) } else { (1, 0) };
    let mut rows = RowsByFile::new();
    // Delete files are sorted by path: resolve each path once.
    let mut current: Option<(String, String)> = None;
    for batch in builder.with_projection(mask).build().map_err(|e| e.to_string())? {
        let batch = batch.map_err(|e| e.to_string())?;
        let as_type = |at: usize, kind| batch.columns().get(at).map(|array| cast(array, kind));
        let (Some(Ok(spelled)), Some(Ok(positions))) =
            (as_type(path_at, &DataType::Utf8), as_type(position_at, &DataType::Int64))
        else {
            return Err("its columns file_path and pos are not text and number".into());
        };
        if spelled.null_count() + positions.null_count() > 0 {
            return Err("it has a null path or position".into());
        }
        let positions = positions.as_primitive::<Int64Type>().values();
        for (spelled, position) in spelled.as_string::<i32>().iter().flatten().zip(positions) {
            let position = u64::try_from(*position).map_err(|_| format!("it has the position {position}"))?;
            if current.as_ref().is_none_or(|(last, _)| last != spelled) {
                let url = paths.resolve(spelled).map_err(|error| error.to_string())?;
                current = Some((spelled.to_owned(), url.into()));
            }
            if let Some((_, url)) = &current {
                match rows.get_mut(url) {
                    Some(known) => known.insert(position),
                    None => rows.entry(url.clone()).or_default().insert(position),
                };
            }
        }
    }
    Ok(rows)
}

/// The position of a top-level column, by field id, else by name.
fn column<T>(
    builder: &parquet::arrow::arrow_reader::ArrowReaderBuilder<T>,
    id: i32,
    name: &str,
) -> Result<usize, String> {
    let fields = builder.parquet_schema().root_schema().get_fields();
    let by_id = fields.iter().position(|field| {
        let info = field.get_basic_info();
        info.has_id() && info.id() == id
    });
    by_id
        .or_else(|| fields.iter().position(|field| field.name() == name))
        .ok_or_else(|| format!("it has no column '{name}'"))
}

async fn read_vector(files: &TableFiles, vector: &PuffinVector) -> Result<RoaringTreemap> {
    let broken = |problem: String| files.broken(ErrorKind::Corrupt, VECTOR, vector.url.as_str(), problem);
    let end = vector.offset.checked_add(vector.length).ok_or_else(|| broken("its offset is out of range".into()))?;
    let blob = files.read_range(VECTOR, &vector.url, vector.offset..end).await?;
    let (cardinality, about) = (vector.cardinality, (files.clone(), vector.url.clone()));
    let decode = move || {
        decode_vector(&blob, cardinality)
            .map_err(|problem| about.0.broken(ErrorKind::Corrupt, VECTOR, about.1.as_str(), problem))
    };
    files.decode(VECTOR, vector.url.as_str(), decode).await
}

/// Decodes a `deletion-vector-v1` blob: length (big endian), magic, 64-bit roaring bitmap in its
/// portable form, CRC-32 of magic and bitmap (big endian). The error says what is wrong with it.
fn decode_vector(blob: &[u8], cardinality: u64) -> Result<RoaringTreemap, String> {
    const MAGIC: [u8; 4] = [0xd1, 0xd3, 0x39, 0x64];
    let damaged = || "its blob is damaged".to_owned();
    let (length, rest) = blob.split_first_chunk::<4>().ok_or_else(damaged)?;
    let (body, checksum) = rest.split_last_chunk::<4>().ok_or_else(damaged)?;
    if usize::try_from(u32::from_be_bytes(*length)) != Ok(body.len()) {
        return Err("its blob's length is wrong".into());
    }
    if crc32fast::hash(body) != u32::from_be_bytes(*checksum) {
        return Err("its blob's checksum does not match".into());
    }
    let (magic, bitmap) = body.split_first_chunk::<4>().ok_or_else(damaged)?;
    if *magic != MAGIC {
        return Err("its blob is no deletion vector of version 1".into());
    }
    let rows = RoaringTreemap::deserialize_from(bitmap).map_err(|error| format!("its bitmap is damaged: {error}"))?;
    if rows.len() != cardinality {
        return Err(format!("it deletes {} rows where the manifest says {cardinality}", rows.len()));
    }
    Ok(rows)
}

#[cfg(test)]
mod tests;
