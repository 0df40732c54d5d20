//! The live files of a version: paths, partition values, deletion vectors and statistics, read
//! from the kernel's scan rows as arrays.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Int64Array, MapArray, RecordBatch, StringArray, StructArray, UInt64Array,
};
use arrow::datatypes::{Int32Type, Int64Type};
use arrow::error::ArrowError;
use delta_kernel::engine::arrow_data::EngineDataArrowExt;
use delta_kernel::expressions::ColumnName;
use delta_kernel::scan::{Scan, ScanMetadata, StatsOptions};
use delta_kernel::snapshot::SnapshotRef;
use delta_kernel::{Engine, KernelResult};
use lakeserve_common::{Error, ErrorKind, Result};
use serde::Deserialize;

use crate::deletes::{DeleteSet, DeltaVector};
use crate::delta::engine::kernel_error;
use crate::delta::paths::TableRoot;
use crate::delta::schema::Columns;
use crate::delta::statistics::{self, StatisticsBatch};
use crate::delta::values::partition_value;
use crate::snapshot::{DataFile, TableStatistics};

/// The live files in canonical order, with their statistics in the same order.
pub(crate) struct Listed {
    pub(crate) files: Vec<DataFile>,
    pub(crate) statistics: TableStatistics,
}

/// Lists the live files of `kernel` by replaying its whole log.
pub(crate) fn list(kernel: &SnapshotRef, engine: &dyn Engine, root: &TableRoot, columns: &Columns) -> Result<Listed> {
    let failed = |error| kernel_error(root.location(), error);
    let scan = scan(kernel, columns).map_err(failed)?;
    read_rows(scan.scan_metadata(engine).map_err(failed)?, root, columns)
}

/// A scan that yields all live files, with structured statistics of the columns that have any.
pub(crate) fn scan(kernel: &SnapshotRef, columns: &Columns) -> KernelResult<Scan> {
    let wanted = statistics::columns_with_bounds(columns);
    let names: Vec<_> = wanted.iter().map(|&at| ColumnName::new([columns.fields[at].name()])).collect();
    let stats = if names.is_empty() { StatsOptions::json_only() } else { StatsOptions::struct_columns(names) };
    Arc::clone(kernel).scan_builder().with_stats(stats).without_row_transforms().build()
}

/// Collects scan rows into files in canonical order, and their statistics.
pub(crate) fn read_rows(
    rows: impl Iterator<Item = KernelResult<ScanMetadata>>,
    root: &TableRoot,
    columns: &Columns,
) -> Result<Listed> {
    let failed = |error| kernel_error(root.location(), error);
    let mut reader = RowReader { root, columns, values: HashMap::new() };
    let (mut files, mut batches) = (Vec::new(), Vec::new());
    for rows in rows {
        let rows = rows.map_err(failed)?.scan_files.apply_selection_vector().map_err(failed)?;
        let batch = rows.try_into_record_batch().map_err(failed)?;
        let statistics = StatisticsBatch::new(batch.num_rows(), batch.column_by_name("stats_parsed"));
        reader.read(&batch, &statistics, &mut files)?;
        batches.push(statistics);
    }
    let statistics = statistics::table_statistics(columns, &batches, &files);
    let statistics = statistics.map_err(|error| corrupt_statistics(root, &error))?;
    Listed { files, statistics }.in_canonical_order(root)
}

fn corrupt_statistics(root: &TableRoot, error: &ArrowError) -> Error {
    Error::new(ErrorKind::Corrupt, format!("Delta table {}: statistics: {error}", root.location()))
}

impl Listed {
    /// Sorts by path, files and statistics alike. A path that occurs twice is an error.
    pub(crate) fn in_canonical_order(self, root: &TableRoot) -> Result<Self> {
        let Self { files, statistics } = self;
        let mut ordered: Vec<_> = files.into_iter().zip(0_u64..).collect();
        ordered.sort_by(|(a, _), (b, _)| a.path.cmp(&b.path));
        let (files, order): (Vec<_>, Vec<_>) = ordered.into_iter().unzip();
        if let Some(twice) = files.windows(2).find(|pair| pair[0].path == pair[1].path) {
            let message = format!("Delta table {}: the log holds the file '{}' twice", root.location(), twice[0].path);
            return Err(Error::new(ErrorKind::Corrupt, message));
        }
        let order = UInt64Array::from(order);
        let statistics =
            statistics::reordered(&statistics, &order).map_err(|error| corrupt_statistics(root, &error))?;
        Ok(Self { files, statistics })
    }
}

/// Turns scan rows into data files.
struct RowReader<'a> {
    root: &'a TableRoot,
    columns: &'a Columns,
    /// Partition values seen before: most files share theirs with many others.
    values: HashMap<(usize, Option<String>), ArrayRef>,
}

impl RowReader<'_> {
    fn corrupt(&self, what: &str) -> Error {
        Error::new(ErrorKind::Corrupt, format!("Delta table {}: {what}", self.root.location()))
    }

    fn read(&mut self, batch: &RecordBatch, statistics: &StatisticsBatch, files: &mut Vec<DataFile>) -> Result<()> {
        let missing = |name: &str| self.corrupt(&format!("the log's rows lack '{name}'"));
        let paths: &StringArray = column(batch, "path").ok_or_else(|| missing("path"))?;
        let sizes: &Int64Array = column(batch, "size").ok_or_else(|| missing("size"))?;
        let modified: &Int64Array = column(batch, "modificationTime").ok_or_else(|| missing("modificationTime"))?;
        let json: Option<&StringArray> = column(batch, "stats");
        let vectors: Option<&StructArray> = column(batch, "deletionVector");
        let constants: Option<&StructArray> = column(batch, "fileConstantValues");
        let partitions = constants.and_then(|constants| constants.column_by_name("partitionValues")?.as_map_opt());
        for row in 0..batch.num_rows() {
            if paths.is_null(row) {
                return Err(self.corrupt("the log holds a file without a path"));
            }
            let path = paths.value(row);
            let size = (!sizes.is_null(row)).then(|| sizes.value(row));
            let size = size.and_then(|size| u64::try_from(size).ok());
            let size = size.ok_or_else(|| self.corrupt(&format!("the file '{path}' has no size")))?;
            let row_count = statistics.row_count(row).or_else(|| {
                let text = json.filter(|json| !json.is_null(row))?.value(row);
                serde_json::from_str::<JsonStatistics>(text).ok()?.num_records
            });
            files.push(DataFile {
                url: self.root.resolve(path)?,
                path: path.to_owned(),
                size,
                generation: if modified.is_null(row) { 0 } else { modified.value(row) },
                etag: None,
                row_count,
                constants: self.constants(path, partitions, row)?,
                constants_override: true,
                deletes: vectors.map_or(Ok(DeleteSet::None), |vectors| self.deletes(path, vectors, row))?,
            });
        }
        Ok(())
    }

    fn constants(&mut self, path: &str, partitions: Option<&MapArray>, row: usize) -> Result<Vec<(usize, ArrayRef)>> {
        let mut constants = Vec::with_capacity(self.columns.partitions.len());
        for &at in &self.columns.partitions {
            let (field, mapping) = (&self.columns.fields[at], &self.columns.mappings[at]);
            let text = partitions.and_then(|map| entry(map, row, &mapping.physical_name, field.name()));
            let Some(text) = text else {
                let what = format!("the file '{path}' has no value for the partition column '{}'", field.name());
                return Err(self.corrupt(&what));
            };
            let key = (at, text);
            if let Some(value) = self.values.get(&key) {
                constants.push((at, Arc::clone(value)));
                continue;
            }
            let primitive = self.columns.primitives[at].as_ref();
            let value = primitive.and_then(|primitive| partition_value(key.1.as_deref(), primitive, field.data_type()));
            let Some(value) = value else {
                let (name, text) = (field.name(), key.1.unwrap_or_default());
                let what = format!("'{text}' in '{path}' is no {} of the partition column '{name}'", field.data_type());
                return Err(self.corrupt(&what));
            };
            constants.push((at, Arc::clone(&value)));
            self.values.insert(key, value);
        }
        Ok(constants)
    }

    fn deletes(&self, path: &str, vectors: &StructArray, row: usize) -> Result<DeleteSet> {
        let text = |name: &str| {
            vectors.column_by_name(name)?.as_string_opt::<i32>().filter(|a| !a.is_null(row)).map(|a| a.value(row))
        };
        let small = |name: &str| {
            let array = vectors.column_by_name(name)?.as_primitive_opt::<Int32Type>()?;
            (!array.is_null(row)).then(|| array.value(row))
        };
        let cardinality = || {
            let array = vectors.column_by_name("cardinality")?.as_primitive_opt::<Int64Type>()?;
            (!array.is_null(row)).then(|| array.value(row))
        };
        if vectors.is_null(row) {
            return Ok(DeleteSet::None);
        }
        let Some(storage_type) = text("storageType") else { return Ok(DeleteSet::None) };
        let incomplete = || self.corrupt(&format!("the deletion vector of '{path}' is incomplete"));
        let path_or_inline = text("pathOrInlineDv").ok_or_else(incomplete)?;
        let offset = small("offset");
        Ok(DeleteSet::DeltaVector(Arc::new(DeltaVector {
            id: match offset {
                Some(offset) => format!("{storage_type}{path_or_inline}@{offset}"),
                None => format!("{storage_type}{path_or_inline}"),
            },
            storage_type: storage_type.to_owned(),
            path_or_inline: path_or_inline.to_owned(),
            offset,
            size_in_bytes: small("sizeInBytes").ok_or_else(incomplete)?,
            cardinality: cardinality().ok_or_else(incomplete)?,
        })))
    }
}

/// What we take from a file's JSON statistics where the kernel could not parse them all.
#[derive(Deserialize)]
struct JsonStatistics {
    #[serde(rename = "numRecords")]
    num_records: Option<u64>,
}

fn column<'a, T: Array + 'static>(batch: &'a RecordBatch, name: &str) -> Option<&'a T> {
    batch.column_by_name(name)?.as_any().downcast_ref()
}

/// The value of one row of a map of strings: `None` where the key is absent, `Some(None)` for NULL.
/// Keys are physical names; a writer that used the logical one, or another case, is understood.
#[expect(clippy::option_option, reason = "an absent key and a NULL value mean different things")]
fn entry(map: &MapArray, row: usize, physical: &str, logical: &str) -> Option<Option<String>> {
    if map.is_null(row) {
        return None;
    }
    let entries = map.value(row);
    let keys = entries.column(0).as_string_opt::<i32>()?;
    let values = entries.column(1).as_string_opt::<i32>()?;
    let position = |wanted: &dyn Fn(&str) -> bool| (0..keys.len()).find(|&at| wanted(keys.value(at)));
    let at = position(&|key| key == physical)
        .or_else(|| position(&|key| key == logical))
        .or_else(|| position(&|key| key.eq_ignore_ascii_case(physical)))?;
    Some((!values.is_null(at)).then(|| values.value(at).to_owned()))
}
