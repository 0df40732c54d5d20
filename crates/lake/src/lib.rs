//! Catalogs and table formats: from a location to a [`TableSnapshot`].
//!
//! Only this crate reads Delta or Iceberg. No type of `delta_kernel` leaves `delta/`, none of
//! Avro or of Iceberg's metadata leaves `iceberg/`: each format is a reader behind one internal trait
//! (`table::FormatReader`) and yields snapshots.

pub mod deletes;
mod delta;
mod iceberg;
mod parquet_folder;
pub mod snapshot;
pub mod table;
mod token;

pub use snapshot::{
    ColumnMapping, ColumnStatistics, DataFile, TableFormat, TableSchema, TableSnapshot, TableStatistics,
};
pub use table::{LakeTable, SnapshotChoice, TableOptions};
