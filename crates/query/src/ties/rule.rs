//! The analyzer rule: finds the places where row positions decide something.

use std::sync::Arc;

use datafusion::catalog::default_table_source::source_as_provider;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::{Distinct, Expr, LogicalPlan, TableScan};
use datafusion::optimizer::AnalyzerRule;

use super::OrderedTable;
use super::carry::{Carry, is_hidden};
use super::functions::{aggregate_needs_position, window_needs_position};

/// Breaks ties of sorts, of DISTINCT ON, of first/last/array aggregates and of order-sensitive window
/// functions by row position. Idempotent; leaves plans without an [`OrderedTable`] alone.
#[derive(Debug)]
pub struct BreakTies;

impl AnalyzerRule for BreakTies {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        if concerns(&plan)? { Carry::default().rewrite(plan) } else { Ok(plan) }
    }

    fn name(&self) -> &str {
        "break_ties"
    }
}

/// Whether the plan reads an ordered table, has something that positions decide, and was not
/// rewritten before.
fn concerns(plan: &LogicalPlan) -> Result<bool> {
    let (mut ordered, mut decides, mut done) = (false, false, false);
    plan.apply_with_subqueries(|node| {
        match node {
            LogicalPlan::TableScan(scan) => ordered |= ordered_table(scan).is_some(),
            LogicalPlan::Sort(_) | LogicalPlan::Distinct(Distinct::On(_)) => decides = true,
            LogicalPlan::Aggregate(aggregate) => decides |= aggregate.aggr_expr.iter().any(aggregate_needs_position),
            LogicalPlan::Window(window) => decides |= window.window_expr.iter().any(window_needs_position),
            LogicalPlan::Projection(projection) => {
                done |= projection.expr.iter().any(|expr| matches!(expr, Expr::Alias(alias) if is_hidden(&alias.name)));
            }
            _ => {}
        }
        Ok(if done { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(ordered && decides && !done)
}

/// The ordered table that is scanned, if it is one.
pub(super) fn ordered_table(scan: &TableScan) -> Option<OrderedForms> {
    let provider = source_as_provider(&scan.source).ok()?;
    let table = provider.downcast_ref::<OrderedTable>()?;
    Some(OrderedForms {
        columns: table.visible().schema().fields().len(),
        with_ordinal: Arc::clone(table.with_ordinal()),
    })
}

/// What carrying needs to know of an [`OrderedTable`].
pub(super) struct OrderedForms {
    /// How many columns users see.
    pub columns: usize,
    /// The form with the position as the last column.
    pub with_ordinal: Arc<dyn datafusion::catalog::TableProvider>,
}

/// Whether an ordered table is scanned below, outside of subqueries in expressions.
pub(super) fn reads_ordered(plan: &LogicalPlan) -> bool {
    let mut found = false;
    // The closure never fails.
    let _ = plan.apply(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && ordered_table(scan).is_some()
        {
            found = true;
            return Ok(TreeNodeRecursion::Stop);
        }
        Ok(TreeNodeRecursion::Continue)
    });
    found
}
