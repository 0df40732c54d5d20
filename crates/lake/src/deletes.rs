//! Rows that a snapshot deletes from a data file, and how they are resolved to row ordinals.
//!
//! A [`DeleteSet`] is only an identity: what the log or manifest says. Its rows are decoded on
//! demand by the table's format and kept in a small cache, bounded by bytes. A delete file that is
//! missing or damaged is an error, never 'nothing deleted'.

use std::future::Future;
use std::sync::Arc;

use lakeserve_common::{Error, Result};
use moka::future::Cache;
use roaring::RoaringTreemap;

use crate::snapshot::DataFile;

/// Bytes of decoded delete sets that one table keeps.
const CACHE_BYTES: u64 = 64 << 20;

/// The deletes that apply to one data file, by identity. `None` means that every row is live.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum DeleteSet {
    /// No deletes.
    #[default]
    None,
    /// A Delta deletion vector.
    DeltaVector(Arc<DeltaVector>),
    /// Iceberg position-delete files that may name this data file.
    Positions(Arc<[PositionDeletes]>),
    /// An Iceberg deletion vector: one blob of a Puffin file.
    PuffinVector(Arc<PuffinVector>),
}

/// A Delta deletion vector descriptor as the log spells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeltaVector {
    /// Unique id: storage type, path or inline data, offset.
    pub id: String,
    /// `u`, `i` or `p`.
    pub storage_type: String,
    /// Relative, inline or absolute.
    pub path_or_inline: String,
    /// Offset in the file.
    pub offset: Option<i32>,
    /// Size in bytes.
    pub size_in_bytes: i32,
    /// Number of deleted rows.
    pub cardinality: i64,
}

/// One Iceberg position-delete file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PositionDeletes {
    /// Full URL.
    pub url: url::Url,
    /// Size in bytes.
    pub size: u64,
    /// Data sequence number.
    pub sequence: i64,
}

/// An Iceberg deletion vector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PuffinVector {
    /// Full URL of the Puffin file.
    pub url: url::Url,
    /// Offset of the blob, bytes.
    pub offset: u64,
    /// Length of the blob, bytes.
    pub length: u64,
    /// Number of deleted rows.
    pub cardinality: u64,
    /// Data sequence number.
    pub sequence: i64,
}

impl DeleteSet {
    /// A text that is the same exactly for equal delete sets of one data file.
    #[must_use]
    pub fn identity(&self) -> String {
        match self {
            Self::None => String::new(),
            Self::DeltaVector(vector) => format!("delta:{}:{}:{}", vector.id, vector.size_in_bytes, vector.cardinality),
            Self::Positions(files) => {
                let files: Vec<_> =
                    files.iter().map(|file| format!("{}:{}:{}", file.sequence, file.size, file.url)).collect();
                format!("positions:{}", files.join("\n"))
            }
            Self::PuffinVector(vector) => {
                format!("puffin:{}:{}:{}:{}", vector.sequence, vector.offset, vector.length, vector.url)
            }
        }
    }

    /// Whether nothing is deleted.
    #[must_use]
    pub fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }
}

/// Decoded delete sets of one table by (data file, identity), bounded by bytes, decoded once
/// however many ask at the same time.
#[derive(Debug)]
pub(crate) struct DeleteCache(Cache<(String, String), Arc<RoaringTreemap>>);

impl Default for DeleteCache {
    fn default() -> Self {
        let weigh = |key: &(String, String), rows: &Arc<RoaringTreemap>| {
            let bytes = key.0.len() + key.1.len() + rows.serialized_size();
            u32::try_from(bytes).unwrap_or(u32::MAX)
        };
        Self(Cache::builder().max_capacity(CACHE_BYTES).weigher(weigh).build())
    }
}

impl DeleteCache {
    /// The decoded deletes of `file`, by `decode` if they are not known. An error is not kept.
    pub(crate) async fn get_or_decode(
        &self,
        file: &DataFile,
        decode: impl Future<Output = Result<RoaringTreemap>>,
    ) -> Result<Arc<RoaringTreemap>> {
        let key = (file.path.clone(), file.deletes.identity());
        let decode = async { decode.await.map(Arc::new) };
        self.0.try_get_with(key, decode).await.map_err(|shared: Arc<Error>| {
            // The error is shared by all that waited: rebuild it for each.
            let error = Error::new(shared.kind(), shared.message());
            match shared.hint() {
                Some(hint) => error.with_hint(hint),
                None => error,
            }
        })
    }
}
