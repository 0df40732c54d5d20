//! DataFusion's view of a pinned snapshot.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Statistics;
use datafusion::common::stats::Precision;
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use futures::{StreamExt, TryStreamExt, stream};
use lakeserve_common::{Error, ErrorKind, Result};
use lakeserve_lake::{DataFile, LakeTable, TableSnapshot};
use lakeserve_query::ties::{OrderedTable, ROW_ORDINAL};

use crate::context::ScanContext;
use crate::counters::{QueryCounters, add};
use crate::error::external;
use crate::partition::{Piece, deal};
use crate::pruning::{FileContainers, Predicate};
use crate::read::{DeletedRows, ScanRead, Source, surviving_row_groups};
use crate::scan::LakeScan;

/// Files beyond this have no ordinal (24 bits).
const MAX_FILES: usize = 1 << 24;

/// The table `table` as of `snapshot`, for one query: its columns and rows, and (for stable ties)
/// the same with each row's position.
///
/// # Errors
/// `Unsupported` when a column has the name of the hidden position, or there are more files than
/// positions can tell apart.
pub fn provider(
    table: LakeTable,
    snapshot: Arc<TableSnapshot>,
    context: Arc<ScanContext>,
    counters: Arc<QueryCounters>,
) -> Result<Arc<dyn TableProvider>> {
    let deletes: DeletedRows = Arc::new(move |file: DataFile| {
        let table = table.clone();
        Box::pin(async move { table.deleted_rows(&file).await })
    });
    provider_over(deletes, snapshot, context, counters)
}

/// The same over any way to resolve deletes.
pub(crate) fn provider_over(
    deletes: DeletedRows,
    snapshot: Arc<TableSnapshot>,
    context: Arc<ScanContext>,
    counters: Arc<QueryCounters>,
) -> Result<Arc<dyn TableProvider>> {
    if snapshot.files.len() > MAX_FILES {
        let message = format!("a table of {} data files is not supported (at most {MAX_FILES})", snapshot.files.len());
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    let visible = Arc::clone(&snapshot.schema.arrow);
    let ordinal = Arc::new(Field::new(ROW_ORDINAL, DataType::UInt64, false));
    let fields: Vec<_> = visible.fields().iter().cloned().chain([ordinal]).collect();
    let with_ordinal = Arc::new(Schema::new_with_metadata(fields, visible.metadata().clone()));
    let source = Arc::new(Source { snapshot, context, counters, deletes });
    let form = |schema: SchemaRef| -> Arc<dyn TableProvider> {
        Arc::new(LakeTableProvider { source: Arc::clone(&source), schema })
    };
    Ok(Arc::new(OrderedTable::new(form(visible), form(with_ordinal))?))
}

/// One form of the table: with or without the hidden last column.
#[derive(Debug)]
struct LakeTableProvider {
    source: Arc<Source>,
    schema: SchemaRef,
}

impl LakeTableProvider {
    /// Indexes of the files that may hold rows that the filters accept.
    fn surviving_files(&self, predicate: &Predicate, limit: Option<usize>) -> Vec<usize> {
        let snapshot = &self.source.snapshot;
        let mut files: Vec<usize> = if predicate.is_trivial() {
            (0..snapshot.files.len()).collect()
        } else {
            predicate.may_match(&FileContainers::new(snapshot)).set_indices().collect()
        };
        if let Some(limit) = limit {
            // Enough files for the limit, by rows that are known to live.
            let mut rows = 0_u64;
            let wanted = limit as u64;
            let enough = files.iter().position(|index| {
                rows = rows.saturating_add(live_rows(&snapshot.files[*index]).unwrap_or(0));
                rows >= wanted
            });
            if let Some(last) = enough {
                files.truncate(last + 1);
            }
        }
        files
    }

    /// The pieces to deal out: whole files if there are plenty, else row groups.
    async fn pieces(&self, read: &ScanRead, files: &[usize], target: usize) -> Result<Vec<Piece>> {
        let snapshot = &self.source.snapshot;
        let bytes: u64 = files.iter().map(|index| snapshot.files[*index].size).sum();
        let whole = target <= 1 || files.len() >= target * 2 || bytes < self.source.context.options.split_bytes.0;
        if whole {
            let piece = |index: &usize| Piece { file: *index, row_group: None, bytes: snapshot.files[*index].size };
            return Ok(files.iter().map(piece).collect());
        }
        let reads = self.source.context.options.footer_reads.max(1);
        let footers = stream::iter(files.iter().copied())
            .map(|index| async move { Ok::<_, Error>((index, self.source.open(index).await?)) })
            .buffered(reads)
            .try_collect::<Vec<_>>()
            .await?;
        let mut pieces = Vec::new();
        for (file, opened) in footers {
            for row_group in surviving_row_groups(read, &opened) {
                let bytes = u64::try_from(opened.footer.metadata().row_group(row_group).compressed_size()).unwrap_or(0);
                pieces.push(Piece { file, row_group: Some(row_group), bytes });
            }
        }
        Ok(pieces)
    }
}

#[async_trait]
impl TableProvider for LakeTableProvider {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        let source = &self.source;
        let visible = &source.snapshot.schema.arrow;
        let projection = projection.cloned().unwrap_or_else(|| (0..self.schema.fields().len()).collect());
        let schema = Arc::new(self.schema.project(&projection)?);
        let predicate = Predicate::compile(filters, visible);
        // A limit counts rows after the filters, which are checked above us.
        let limit = if filters.is_empty() { limit } else { None };
        let files = self.surviving_files(&predicate, limit);

        let total = source.snapshot.files.len();
        add(&source.counters.files_total, total);
        add(&source.counters.files_pruned, total - files.len());
        source.context.metrics.files.with_label_values(&["pruned"]).inc_by((total - files.len()) as u64);

        let read = ScanRead {
            source: Arc::clone(source),
            schema,
            projection,
            predicate,
            batch_size: state.config().batch_size(),
            limit,
        };
        let target = state.config().target_partitions();
        let pieces = self.pieces(&read, &files, target).await.map_err(external)?;
        // Rows to expect, for the order of joins; an answer only where nothing was skipped.
        let rows = self.rows(&files, filters.is_empty() && limit.is_none());
        let small = files.iter().map(|index| source.snapshot.files[*index].size).sum::<u64>()
            < source.context.options.split_bytes.0;
        let partitions = deal(&pieces, if small { 1 } else { target });
        Ok(Arc::new(LakeScan::new(Arc::new(read), partitions, files.len(), rows)))
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> DataFusionResult<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    fn statistics(&self) -> Option<Statistics> {
        let files: Vec<usize> = (0..self.source.snapshot.files.len()).collect();
        Some(Statistics { num_rows: self.rows(&files, true), ..Statistics::new_unknown(&self.schema) })
    }
}

impl LakeTableProvider {
    /// How many rows some files have. Exact only if `all` rows are wanted, every file's count is in
    /// the log, and nothing is deleted.
    fn rows(&self, files: &[usize], all: bool) -> Precision<usize> {
        let files = files.iter().map(|index| &self.source.snapshot.files[*index]);
        let mut rows = 0_u64;
        let mut exact = all;
        for file in files {
            exact &= file.deletes.is_none() && file.row_count.is_some();
            match file.row_count {
                Some(count) => rows = rows.saturating_add(count),
                None => return Precision::Absent,
            }
        }
        match usize::try_from(rows) {
            Ok(rows) if exact => Precision::Exact(rows),
            Ok(rows) => Precision::Inexact(rows),
            Err(_) => Precision::Absent,
        }
    }
}

/// Rows of a file that are known to live.
fn live_rows(file: &DataFile) -> Option<u64> {
    if file.deletes.is_none() { file.row_count } else { None }
}
