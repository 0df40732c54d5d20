//! Makes operators yield that give more rows than they take.
//!
//! DataFusion counts a task's budget at the leaves of a plan, which is enough where each operator asks
//! its input again before it has given much. A join may give millions of batches for one batch of
//! its input; within such a loop nothing can be cancelled and no other query gets the thread. This
//! rule puts the same counting above every operator whose output is not bounded by its input.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::{CardinalityEffect, SchedulingType};

/// The rule of DataFusion's that this one completes, and after which it runs.
const AFTER: &str = "EnsureCooperative";

/// The rule.
#[derive(Debug)]
struct YieldWhereRowsMultiply;

impl PhysicalOptimizerRule for YieldWhereRowsMultiply {
    fn name(&self) -> &str {
        "yield_where_rows_multiply"
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let wrapped = plan.transform_up(|node| {
            let multiplies =
                matches!(node.cardinality_effect(), CardinalityEffect::Unknown | CardinalityEffect::GreaterEqual);
            let yields = node.properties().scheduling_type == SchedulingType::Cooperative;
            if node.children().is_empty() || yields || !multiplies {
                return Ok(Transformed::no(node));
            }
            Ok(Transformed::yes(Arc::new(CooperativeExec::new(node)) as Arc<dyn ExecutionPlan>))
        });
        wrapped.map(|wrapped| wrapped.data)
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// `state` with the rule at its place.
pub(super) fn install(state: SessionState) -> SessionState {
    let mut rules = state.physical_optimizers().to_vec();
    let place = rules.iter().position(|rule| rule.name() == AFTER).map_or(rules.len(), |at| at + 1);
    rules.insert(place, Arc::new(YieldWhereRowsMultiply));
    SessionStateBuilder::new_from_existing(state).with_physical_optimizer_rules(rules).build()
}

#[cfg(test)]
mod tests {
    use datafusion::physical_plan::displayable;
    use datafusion::prelude::SessionContext;

    use super::*;

    #[tokio::test]
    async fn a_join_yields_and_a_filter_is_left_alone() {
        let state = install(SessionContext::new().state());
        let context = SessionContext::new_with_state(state);
        let shown = async |sql: &str| {
            let plan = context.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
            displayable(plan.as_ref()).indent(false).to_string()
        };
        let joined =
            shown("SELECT count(*) FROM generate_series(1, 9) a(x) CROSS JOIN generate_series(1, 9) b(y)").await;
        let (above, _) = joined.split_once("CrossJoinExec").unwrap();
        assert!(above.trim_end().ends_with("CooperativeExec"), "{joined}");
        let filtered = shown("SELECT x FROM generate_series(1, 9) a(x) WHERE x > 3").await;
        assert!(!filtered.trim_start().starts_with("CooperativeExec"), "{filtered}");
    }
}
