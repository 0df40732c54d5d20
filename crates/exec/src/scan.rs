//! The execution plan of a scan.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Statistics, internal_err};
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, RecordOutput};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions};
use futures::StreamExt;

use crate::partition::Task;
use crate::read::{ScanRead, read_partition};

/// A scan of some files of a snapshot. Rows of a partition come in the table's canonical order.
#[derive(Debug)]
pub(crate) struct LakeScan {
    read: Arc<ScanRead>,
    partitions: Vec<Vec<Task>>,
    /// Files left after pruning.
    files: usize,
    rows: Precision<usize>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl LakeScan {
    pub(crate) fn new(read: Arc<ScanRead>, partitions: Vec<Vec<Task>>, files: usize, rows: Precision<usize>) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&read.schema)),
            Partitioning::UnknownPartitioning(partitions.len()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        let metrics = ExecutionPlanMetricsSet::new();
        Self { read, partitions, files, rows, properties: Arc::new(properties), metrics }
    }
}

impl DisplayAs for LakeScan {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let snapshot = &self.read.source.snapshot;
        let columns: Vec<&str> = self.read.schema.fields().iter().map(|field| field.name().as_str()).collect();
        write!(
            f,
            "LakeScan: table={}, version={}, files={}/{}, partitions={}, columns=[{}]",
            snapshot.location,
            snapshot.version,
            self.files,
            snapshot.files.len(),
            self.partitions.len(),
            columns.join(", ")
        )?;
        match self.read.limit {
            Some(limit) => write!(f, ", limit={limit}"),
            None => Ok(()),
        }
    }
}

impl ExecutionPlan for LakeScan {
    fn name(&self) -> &'static str {
        "LakeScan"
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.read.schema)
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if children.is_empty() { Ok(self) } else { internal_err!("a lake scan has no children") }
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        if children.is_empty() { Ok(self) } else { internal_err!("a lake scan has no children") }
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let Some(tasks) = self.partitions.get(partition) else {
            return internal_err!("a lake scan of {} partitions has no {partition}", self.partitions.len());
        };
        let reservation = MemoryConsumer::new(format!("LakeScan[{partition}]")).register(context.memory_pool());
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let rows = read_partition(Arc::clone(&self.read), tasks.clone(), reservation);
        let counted = rows.map(move |batch| batch.record_output(&metrics));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), counted)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(&self, _: &[Arc<Statistics>], args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        let mut statistics = Statistics::new_unknown(&self.schema());
        if args.partition().is_none() {
            statistics.num_rows = self.rows;
            statistics.calculate_total_byte_size(&self.schema());
            statistics.total_byte_size = statistics.total_byte_size.to_inexact();
        }
        Ok(Arc::new(statistics))
    }
}
