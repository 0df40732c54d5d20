//! DataFusion's rewrite of `count(DISTINCT x)` into two groupings, where it keeps the meaning.
//!
//! The rewrite computes a plain `sum` beside the distinct aggregate as a sum of sums. That rounds doubles twice, and
//! an inner sum may overflow where the whole does not, so it is left out there.

use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::single_distinct_to_groupby::SingleDistinctToGroupBy;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

/// The rule, under the name of the one that it wraps.
#[derive(Debug, Default)]
pub(super) struct SingleDistinct(SingleDistinctToGroupBy);

/// The name of DataFusion's rule.
pub(super) const NAME: &str = "single_distinct_aggregation_to_group_by";

impl OptimizerRule for SingleDistinct {
    fn name(&self) -> &str {
        NAME
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        match &plan {
            LogicalPlan::Aggregate(aggregate) if aggregate.aggr_expr.iter().any(is_plain_sum) => {
                Ok(Transformed::no(plan))
            }
            _ => self.0.rewrite(plan, config),
        }
    }
}

fn is_plain_sum(expression: &Expr) -> bool {
    matches!(expression, Expr::AggregateFunction(AggregateFunction { func, params })
        if func.name() == "sum" && !params.distinct)
}
