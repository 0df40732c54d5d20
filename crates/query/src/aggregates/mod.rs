//! Our own aggregate functions, in place of DataFusion's under the same names and aliases.
//!
//! One meaning on every path, whatever the order of rows, the number of partitions or the shape of the merge:
//! - sums of whole numbers and decimals are exact, and a total beyond the result type is an error, never a wrap;
//! - sums, means, variances and deviations of doubles are the exact results, rounded once; so are means and
//!   deviations of whole numbers; means of decimals have four more places, rounded half away from zero;
//! - estimates (`approx_distinct`, `approx_percentile_cont`, `approx_median`) depend on the multiset of values alone.
//!
//! All of them but `approx_distinct` can take values out again and so run over sliding window frames.

mod accumulate;
mod approx_distinct;
mod buckets;
mod exact;
mod finish;
mod function;
mod interval;
mod moments;
mod percentile;
mod single_distinct;
#[cfg(test)]
mod tests;
mod total;

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::error::DataFusionError;
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::AggregateUDF;
use datafusion::prelude::SessionContext;
use lakeserve_common::error::{Error, ErrorKind};

pub use self::exact::ExactSum;
use self::function::{ExactAggregate, Function};
use crate::error::to_datafusion;
use crate::render::sql_type;

/// Every aggregate function of ours.
#[must_use]
pub fn all() -> Vec<Arc<AggregateUDF>> {
    let exact = |function| AggregateUDF::from(ExactAggregate::new(function));
    let spread = |sample, root| exact(Function::Spread { sample, root });
    [
        exact(Function::Sum),
        exact(Function::Avg),
        spread(true, false),
        spread(false, false),
        spread(true, true),
        spread(false, true),
        AggregateUDF::from(approx_distinct::ApproxDistinct::new()),
        AggregateUDF::from(percentile::ApproxPercentile::new(false)),
        AggregateUDF::from(percentile::ApproxPercentile::new(true)),
        AggregateUDF::from(percentile::WeightedPercentile::new()),
    ]
    .into_iter()
    .map(Arc::new)
    .collect()
}

/// Registers them with a session, over DataFusion's functions of the same names and aliases, and takes out the
/// optimisation that would change what they mean.
///
/// # Errors
/// Those of the registry, which takes any function.
pub fn register(context: &SessionContext) -> datafusion::error::Result<()> {
    if context.remove_optimizer_rule(single_distinct::NAME) {
        context.add_optimizer_rule(Arc::new(single_distinct::SingleDistinct::default()));
    }
    let state = context.state_ref();
    let mut state = state.write();
    for function in all() {
        state.register_udaf(function)?;
    }
    Ok(())
}

/// The error for a total that the result type cannot hold.
fn overflow(function: &str, total: impl fmt::Display, result: &DataType) -> DataFusionError {
    let message = format!("{function}: overflow: the result {total} does not fit {}", sql_type(result));
    let error = Error::new(ErrorKind::Value, message);
    to_datafusion(error.with_hint("cast the argument to a wider type, for example DECIMAL(38,0)"))
}
