//! Ends joins that are deep in a loop of their own.
//!
//! A join whose filter accepts next to nothing may compare for minutes before it has a batch to give,
//! and gives its thread back to nobody meanwhile: neither an abort nor a deadline reaches it. So the
//! filter itself is asked to look, each time it is evaluated, whether anybody still waits.

use std::fmt::{self, Display, Formatter};
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result as PlanResult;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec, NestedLoopJoinExecBuilder};
use lakeserve_common::clock::Clock;
use lakeserve_common::{Error, ErrorKind, Result};
use lakeserve_query::error::{from_datafusion, to_datafusion};

use super::deadline::Deadline;
use super::running::RunningQuery;

/// Whether a query's answer is still wanted.
#[derive(Debug)]
pub(crate) struct Alive {
    abandoned: Arc<AtomicBool>,
    query: Arc<RunningQuery>,
    deadline: Arc<Deadline>,
    clock: Arc<dyn Clock>,
}

impl Alive {
    /// `abandoned` is set when the answer is dropped.
    pub(crate) fn new(
        abandoned: Arc<AtomicBool>,
        query: Arc<RunningQuery>,
        deadline: Arc<Deadline>,
        clock: Arc<dyn Clock>,
    ) -> Arc<Self> {
        Arc::new(Self { abandoned, query, deadline, clock })
    }

    fn check(&self) -> Result<()> {
        if self.abandoned.load(Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::Cancelled, "the client went away"));
        }
        if let Some(error) = self.query.cancellation() {
            return Err(error);
        }
        self.deadline.check(self.clock.as_ref())
    }

    /// `plan` with joins that look at this while they compare.
    ///
    /// # Errors
    /// What rebuilding a join fails with.
    pub(crate) fn watch(self: &Arc<Self>, plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let watched = plan.transform_up(|node| {
            if let Some(join) = node.downcast_ref::<NestedLoopJoinExec>()
                && let Some(filter) = join.filter()
            {
                let join = NestedLoopJoinExecBuilder::from(join).with_filter(Some(self.filter(filter))).build()?;
                return Ok(Transformed::yes(Arc::new(join) as Arc<dyn ExecutionPlan>));
            }
            if let Some(join) = node.downcast_ref::<HashJoinExec>()
                && let Some(filter) = join.filter()
            {
                let join = join.builder().with_filter(Some(self.filter(filter))).build()?;
                return Ok(Transformed::yes(Arc::new(join) as Arc<dyn ExecutionPlan>));
            }
            Ok(Transformed::no(node))
        });
        watched.map(|watched| watched.data).map_err(from_datafusion)
    }

    fn filter(self: &Arc<Self>, filter: &JoinFilter) -> JoinFilter {
        let inner = Arc::clone(filter.expression());
        let expression = Arc::new(WhileAlive { inner, alive: Arc::clone(self) });
        JoinFilter::new(expression, filter.column_indices().to_vec(), Arc::clone(filter.schema()))
    }
}

/// An expression that fails once nobody wants its value any more.
#[derive(Debug)]
struct WhileAlive {
    inner: Arc<dyn PhysicalExpr>,
    alive: Arc<Alive>,
}

impl Display for WhileAlive {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl PartialEq for WhileAlive {
    fn eq(&self, other: &Self) -> bool {
        self.inner.eq(&other.inner)
    }
}

impl Eq for WhileAlive {}

impl Hash for WhileAlive {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inner.hash(state);
    }
}

impl PhysicalExpr for WhileAlive {
    fn data_type(&self, schema: &Schema) -> PlanResult<DataType> {
        self.inner.data_type(schema)
    }

    fn nullable(&self, schema: &Schema) -> PlanResult<bool> {
        self.inner.nullable(schema)
    }

    fn return_field(&self, schema: &Schema) -> PlanResult<FieldRef> {
        self.inner.return_field(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> PlanResult<ColumnarValue> {
        self.alive.check().map_err(to_datafusion)?;
        self.inner.evaluate(batch)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.inner]
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> PlanResult<Arc<dyn PhysicalExpr>> {
        let Some(inner) = children.pop() else { return Ok(self) };
        Ok(Arc::new(Self { inner, alive: Arc::clone(&self.alive) }))
    }

    fn fmt_sql(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.inner.fmt_sql(f)
    }
}
