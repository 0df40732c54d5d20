//! One immutable state of one table, whatever its format.
//!
//! A [`TableSnapshot`] holds everything that planning and scanning need: the schema with its
//! column mapping, the live data files in canonical order (by path), their typed statistics and
//! their delete sets. It is built by a format's reader, then only shared.

use std::sync::Arc;

use arrow::array::{ArrayRef, UInt64Array};
use arrow::datatypes::SchemaRef;
use lakeserve_common::id::SnapshotToken;
use url::Url;

use crate::deletes::DeleteSet;

/// The format that a table was opened as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TableFormat {
    /// A Delta log beside the data.
    Delta,
    /// Iceberg metadata.
    Iceberg,
    /// A plain Parquet file or a folder of them: the listing is the snapshot.
    Parquet,
}

impl TableFormat {
    /// The name in responses and messages.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Delta => "delta",
            Self::Iceberg => "iceberg",
            Self::Parquet => "parquet",
        }
    }
}

/// One immutable state of one table.
#[derive(Debug)]
pub struct TableSnapshot {
    /// The table's root, as it was opened.
    pub location: Url,
    /// The format.
    pub format: TableFormat,
    /// Identity of this state, see DESIGN: table UUID, version, schema id, hash of (file, deletes).
    pub token: SnapshotToken,
    /// What a person calls this state: the Delta version, the Iceberg snapshot id, or for plain
    /// Parquet the token itself.
    pub version: String,
    /// When the state was committed, milliseconds since the Unix epoch; `None` where not recorded.
    pub committed_ms: Option<i64>,
    /// Columns as SQL sees them, and how each is found in a data file.
    pub schema: TableSchema,
    /// Live data files in canonical order: sorted by path. A file's index here is its ordinal.
    pub files: Arc<[DataFile]>,
    /// Statistics over `files`, one entry per top-level column of `schema`.
    pub statistics: TableStatistics,
}

/// The columns of a table and how to find each in a data file.
#[derive(Debug, Clone)]
pub struct TableSchema {
    /// Logical schema. Strings are `Utf8View`-free (`Utf8`), binaries `Binary`, decimals
    /// `Decimal128`, timestamps microseconds (nanoseconds only for Iceberg's `_ns` types) with
    /// zone `UTC` or none.
    pub arrow: SchemaRef,
    /// One mapping per top-level field of `arrow`, in the same order.
    pub columns: Vec<ColumnMapping>,
}

/// How a (possibly nested) column is found in a data file.
///
/// Resolution: by `field_id` where the file carries field ids and the mapping has one; else by
/// `physical_name`, then `aliases`. Never by position. Where nothing matches, the column takes
/// `initial_default`, else NULL.
#[derive(Debug, Clone, Default)]
pub struct ColumnMapping {
    /// Iceberg field id or Delta column-mapping id.
    pub field_id: Option<i32>,
    /// The name in the data files.
    pub physical_name: String,
    /// Further names from an Iceberg name mapping, used only for files without field ids.
    pub aliases: Vec<String>,
    /// Value (an array of length one, of the logical type) of rows in files that lack the column.
    pub initial_default: Option<ArrayRef>,
    /// Mappings of the children: struct fields in order; a list's element; a map's key and value.
    pub children: Vec<ColumnMapping>,
}

/// One live data file.
#[derive(Debug, Clone)]
pub struct DataFile {
    /// Full URL of the file.
    pub url: Url,
    /// The path as the table's log or manifest spells it; the canonical sort key.
    pub path: String,
    /// Size in bytes as the log says; a mismatch with the store is an error.
    pub size: u64,
    /// Delta modification time (ms), Iceberg data sequence number, or for plain Parquet the
    /// last-modified time (ms): part of the file key.
    pub generation: i64,
    /// ETag, where the listing told one (plain Parquet only; else learnt at the first read).
    pub etag: Option<String>,
    /// Rows in the file before deletes; `None` where the log does not say.
    pub row_count: Option<u64>,
    /// Columns whose value is the same for the whole file and is taken from the log, not from the
    /// file: (column index in the schema, array of length one of the logical type, may be null).
    /// For Delta these are the partition columns; for Iceberg the identity-partition columns,
    /// which are used only where the file itself lacks the column.
    pub constants: Vec<(usize, ArrayRef)>,
    /// Whether `constants` win over a column of that name in the file (Delta: yes).
    pub constants_override: bool,
    /// Rows of this file that are deleted in this snapshot.
    pub deletes: DeleteSet,
}

/// Typed statistics of all files, columnar, so that pruning is a kernel and not a loop over maps.
#[derive(Debug, Clone, Default)]
pub struct TableStatistics {
    /// One entry per top-level column; `None` where no file has any statistics of it.
    pub columns: Vec<Option<ColumnStatistics>>,
}

/// Bounds of one column; every array has one slot per data file. A null slot means *not known*,
/// which always means *cannot prune*.
#[derive(Debug, Clone)]
pub struct ColumnStatistics {
    /// A value that no non-null, non-NaN value of the file lies below. May be truncated: it is a
    /// bound, not necessarily a value that occurs.
    pub lower: ArrayRef,
    /// A value that no non-null, non-NaN value of the file lies above.
    pub upper: ArrayRef,
    /// How many values are NULL, before deletes.
    pub null_count: UInt64Array,
}
