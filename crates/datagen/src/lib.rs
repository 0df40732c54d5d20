//! TPC-H data written as Delta, Iceberg or plain Parquet: the tables of the demo, of the load
//! tester and of the tests.
//!
//! Rows come from `tpchgen` and are the benchmark's own, so published answers hold. Data files are
//! written by our Parquet writer part by part, on as many threads as there are cores and with one
//! row group per thread in memory; the Delta log is written by the `deltalake` crate and the Iceberg
//! metadata by the `iceberg` crate, both from the footers of those files.
//!
//! `tpchgen` keeps its text pool (300 MiB) until the process ends; a process that only serves a demo
//! written earlier never builds it.

mod delta;
mod demo;
mod iceberg_table;
mod parquet_files;
mod progress;
#[cfg(test)]
mod tests;
mod tpch;
mod write;

pub use demo::{DEFAULT_SCALE, Demo, DemoTable, ICEBERG_LINEITEM, ensure_demo};
pub use progress::Progress;
pub use tpch::TpchTable;
pub use write::{Format, WriteOptions, WrittenTable, write_tpch};
