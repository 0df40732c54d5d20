//! Rows that a snapshot deletes from a data file, and how they are resolved to row ordinals.

use std::sync::Arc;

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

impl DeleteSet {
    /// Whether nothing is deleted.
    #[must_use]
    pub fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }
}
