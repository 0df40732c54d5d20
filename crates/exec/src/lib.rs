//! From a pinned snapshot to rows: pruning, our Parquet scan, and DataFusion's `TableProvider`
//! over them.
