//! Catalogs and table formats: from a location to a [`TableSnapshot`].
//!
//! Only this crate reads Delta or Iceberg. No type of the `iceberg` crate leaves `iceberg/`, and
//! no type of `delta_kernel` leaves `delta/`.

pub mod deletes;
pub mod snapshot;

pub use snapshot::{ColumnMapping, ColumnStatistics, DataFile, TableFormat, TableSchema, TableSnapshot, TableStatistics};
