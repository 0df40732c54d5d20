//! From a pinned snapshot to rows: pruning, our Parquet scan, and DataFusion's `TableProvider`
//! over them.
//!
//! ```text
//! provider   LakeTableProvider: files pruned by the log's statistics, partitions made
//! scan       LakeScan, the ExecutionPlan: one stream per partition
//! read       one data file: footer, row groups pruned, deletes applied, columns mapped
//! pruning    the one place where bounds decide what is skipped
//! schema_map how the table's columns are found in a file, and what may be cast
//! footer     footers, checked before they are trusted
//! ```
//!
//! Invariants: a row's ordinal is its position in the whole data file, whatever was skipped before
//! it; a row that a snapshot deletes never leaves this crate; a file that is damaged, gone, or not
//! the one that the log describes is an error that names it, and never fewer rows.

mod context;
mod counters;
mod error;
mod footer;
mod partition;
mod provider;
mod pruning;
mod read;
mod scan;
mod schema_map;

pub use context::{ScanContext, ScanOptions};
pub use counters::QueryCounters;
pub use provider::provider;

#[cfg(test)]
mod tests;
