//! Scans against brute force: what a provider answers over Parquet files, statistics, partition
//! values, renamed, widened and missing columns and deletes, is what DataFusion answers over the
//! same rows in memory.

mod random_tables;
mod table;
mod unusual;

pub(crate) use table::{TestFile, TestTable, run};
