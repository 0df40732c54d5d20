//! A table of Parquet files that is built by hand, and the same rows in memory.

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, UInt64Array};
use arrow::compute::{concat_batches, take_record_batch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::catalog::TableProvider;
use datafusion::common::ScalarValue;
use datafusion::datasource::MemTable;
use datafusion::prelude::{SessionConfig, SessionContext};
use lakeserve_common::clock;
use lakeserve_common::id::SnapshotToken;
use lakeserve_common::random::Random;
use lakeserve_lake::deletes::{DeleteSet, PositionDeletes};
use lakeserve_lake::{
    ColumnMapping, ColumnStatistics, DataFile, TableFormat, TableSchema, TableSnapshot, TableStatistics,
};
use lakeserve_storage::{Storage, StorageOptions};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use prometheus::Registry;
use roaring::RoaringTreemap;
use url::Url;

use crate::provider::provider_over;
use crate::read::DeletedRows;
use crate::{QueryCounters, ScanContext, ScanOptions};

/// A row as text, for comparison.
pub(crate) type Row = String;

/// One data file of a test table.
pub(crate) struct TestFile {
    /// What the file stores.
    pub stored: RecordBatch,
    /// What a reader must see of it (all rows, in the order of the table's schema).
    pub logical: RecordBatch,
    /// Rows that the snapshot deletes.
    pub deleted: RoaringTreemap,
    /// Columns that come from the log.
    pub constants: Vec<(usize, ArrayRef)>,
    /// How it is written.
    pub properties: WriterProperties,
}

/// A snapshot over files in a temporary folder.
pub(crate) struct TestTable {
    pub snapshot: Arc<TableSnapshot>,
    pub counters: Arc<QueryCounters>,
    deletes: HashMap<Url, Arc<RoaringTreemap>>,
    live: RecordBatch,
    ordinals: UInt64Array,
    context: Arc<ScanContext>,
    folder: tempfile::TempDir,
}

/// A scan context over local files.
pub(crate) fn storage_context() -> Arc<ScanContext> {
    let registry = Registry::new();
    let random = Arc::new(Random::seeded(1));
    let storage = Storage::new(StorageOptions::default(), clock::system(), random, &registry).unwrap();
    // Split even the smallest files, so that tests meet the splits.
    let options = ScanOptions { split_bytes: lakeserve_common::units::ByteSize(0), ..ScanOptions::default() };
    ScanContext::new(storage, options, &registry)
}

impl TestTable {
    /// Writes the files. `mappings` says how each column is found in them; `with_statistics` says
    /// for which (file, column) the log knows bounds and NULL counts.
    pub fn build(
        schema: &SchemaRef,
        mappings: Vec<ColumnMapping>,
        files: Vec<TestFile>,
        with_statistics: &dyn Fn(usize, usize) -> bool,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut data_files = Vec::new();
        let mut deletes = HashMap::new();
        let mut live = Vec::new();
        let mut ordinals = Vec::new();
        for (index, file) in files.iter().enumerate() {
            let path = folder.path().join(format!("{index:04}.parquet"));
            write(&path, &file.stored, &file.properties);
            let url = Url::from_file_path(&path).unwrap();
            let keep: Vec<u64> =
                (0..file.logical.num_rows() as u64).filter(|row| !file.deleted.contains(*row)).collect();
            ordinals.extend(keep.iter().map(|row| ((index as u64) << 40) | row));
            live.push(take_record_batch(&file.logical, &UInt64Array::from(keep)).unwrap());
            let delete_set = if file.deleted.is_empty() {
                DeleteSet::None
            } else {
                deletes.insert(url.clone(), Arc::new(file.deleted.clone()));
                let positions = PositionDeletes { url: url.clone(), size: 1, sequence: 1 };
                DeleteSet::Positions(Arc::from([positions]))
            };
            data_files.push(DataFile {
                size: path.metadata().unwrap().len(),
                path: url.to_string(),
                url,
                generation: 1,
                etag: None,
                row_count: Some(file.logical.num_rows() as u64),
                constants: file.constants.clone(),
                constants_override: true,
                deletes: delete_set,
            });
        }
        let statistics = (0..schema.fields().len())
            .map(|column| statistics(schema.field(column).data_type(), column, &files, with_statistics))
            .collect();
        let snapshot = TableSnapshot {
            location: Url::from_directory_path(folder.path()).unwrap(),
            format: TableFormat::Delta,
            token: SnapshotToken::new("test"),
            version: "0".into(),
            committed_ms: None,
            schema: TableSchema { arrow: Arc::clone(schema), columns: mappings },
            files: data_files.into(),
            statistics: TableStatistics { columns: statistics },
        };
        Self {
            snapshot: Arc::new(snapshot),
            counters: Arc::default(),
            deletes,
            live: concat_batches(schema, &live).unwrap(),
            ordinals: ordinals.into(),
            context: storage_context(),
            folder,
        }
    }

    /// The folder with the files.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The snapshot with its files changed.
    pub fn change(&mut self, change: impl FnOnce(&mut Vec<DataFile>)) {
        self.change_as(self.snapshot.format, change);
    }

    /// The same, as a table of another format.
    pub fn change_as(&mut self, format: TableFormat, change: impl FnOnce(&mut Vec<DataFile>)) {
        let old = &self.snapshot;
        let mut files = old.files.to_vec();
        change(&mut files);
        self.snapshot = Arc::new(TableSnapshot {
            location: old.location.clone(),
            format,
            token: old.token.clone(),
            version: old.version.clone(),
            committed_ms: old.committed_ms,
            schema: old.schema.clone(),
            files: files.into(),
            statistics: old.statistics.clone(),
        });
    }

    /// Rows that live.
    pub fn live_rows(&self) -> usize {
        self.live.num_rows()
    }

    /// The provider under test.
    pub fn provider(&self) -> Arc<dyn TableProvider> {
        let deletes = self.deletes.clone();
        let resolve: DeletedRows = Arc::new(move |file| {
            let rows = deletes.get(&file.url).cloned();
            Box::pin(async move { Ok(rows) })
        });
        provider_over(resolve, Arc::clone(&self.snapshot), Arc::clone(&self.context), Arc::clone(&self.counters))
            .unwrap()
    }

    /// A session with `t` (the provider), `o` (with the hidden ordinal) and the same rows in memory as `m` and `mo`.
    pub fn session(&self, partitions: usize, batch_size: usize) -> SessionContext {
        let config = SessionConfig::new().with_target_partitions(partitions).with_batch_size(batch_size);
        let session = SessionContext::new_with_config(config);
        let provider = self.provider();
        let ordered = provider.downcast_ref::<lakeserve_query::ties::OrderedTable>().unwrap();
        session.register_table("o", Arc::clone(ordered.with_ordinal())).unwrap();
        session.register_table("t", Arc::clone(&provider)).unwrap();
        let memory = |batch: RecordBatch| Arc::new(MemTable::try_new(batch.schema(), vec![vec![batch]]).unwrap());
        session.register_table("m", memory(self.live.clone())).unwrap();
        let mut fields: Vec<_> = self.live.schema().fields().iter().cloned().collect();
        fields.push(Arc::new(Field::new("__lakeserve_row", DataType::UInt64, false)));
        let mut columns = self.live.columns().to_vec();
        columns.push(Arc::new(self.ordinals.clone()));
        session
            .register_table("mo", memory(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()))
            .unwrap();
        session
    }
}

/// The rows of a query, as text.
pub(crate) async fn run(session: &SessionContext, sql: &str) -> Result<Vec<Row>, datafusion::error::DataFusionError> {
    let batches = session.sql(sql).await?.collect().await?;
    let options = FormatOptions::default().with_null("NULL");
    let mut rows = Vec::new();
    for batch in &batches {
        let columns: Vec<_> =
            batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options).unwrap()).collect();
        for row in 0..batch.num_rows() {
            rows.push(columns.iter().map(|column| column.value(row).to_string()).collect::<Vec<_>>().join("|"));
        }
    }
    Ok(rows)
}

fn write(path: &Path, batch: &RecordBatch, properties: &WriterProperties) {
    let file = File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties.clone())).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
}

/// Bounds as a log would have them: of all rows (also deleted ones), without NaN.
fn statistics(
    data_type: &DataType,
    column: usize,
    files: &[TestFile],
    with_statistics: &dyn Fn(usize, usize) -> bool,
) -> Option<ColumnStatistics> {
    if data_type.is_nested() || files.is_empty() {
        return None;
    }
    let missing = ScalarValue::try_from(data_type).unwrap();
    let mut lower = Vec::new();
    let mut upper = Vec::new();
    let mut nulls = Vec::new();
    for (index, file) in files.iter().enumerate() {
        let known = with_statistics(index, column);
        let values: &dyn Array = file.logical.column(column);
        let mut bounds: Option<(ScalarValue, ScalarValue)> = None;
        for row in 0..values.len() {
            let value = ScalarValue::try_from_array(values, row).unwrap();
            let nan = matches!(value, ScalarValue::Float32(Some(v)) if v.is_nan())
                || matches!(value, ScalarValue::Float64(Some(v)) if v.is_nan());
            if value.is_null() || nan {
                continue;
            }
            bounds = Some(match bounds {
                None => (value.clone(), value),
                Some((low, high)) => {
                    (if value < low { value.clone() } else { low }, if value > high { value } else { high })
                }
            });
        }
        let bounds = bounds.filter(|_| known);
        lower.push(bounds.as_ref().map_or_else(|| missing.clone(), |(low, _)| low.clone()));
        upper.push(bounds.map_or_else(|| missing.clone(), |(_, high)| high));
        nulls.push(known.then(|| values.null_count() as u64));
    }
    Some(ColumnStatistics {
        lower: ScalarValue::iter_to_array(lower).unwrap(),
        upper: ScalarValue::iter_to_array(upper).unwrap(),
        null_count: nulls.into(),
    })
}
