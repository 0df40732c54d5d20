//! The rule.

use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::AnalyzerRule;

/// Breaks ties of sorts, top-k and first/last by the position of the row.
#[derive(Debug)]
pub struct BreakTies;

impl AnalyzerRule for BreakTies {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan)
    }

    fn name(&self) -> &str {
        "break_ties"
    }
}
