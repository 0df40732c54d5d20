//! Our own aggregate functions, in place of DataFusion's under the same names and aliases.

#[allow(dead_code)]
mod exact;

use std::sync::Arc;

use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::AggregateUDF;
use datafusion::prelude::SessionContext;

/// Every aggregate function of ours.
#[must_use]
pub fn all() -> Vec<Arc<AggregateUDF>> {
    Vec::new()
}

/// Registers them with a session, over DataFusion's functions of the same names and aliases.
///
/// # Errors
/// Those of the registry, which takes any function.
pub fn register(context: &SessionContext) -> datafusion::error::Result<()> {
    let state = context.state_ref();
    let mut state = state.write();
    for function in all() {
        state.register_udaf(function)?;
    }
    Ok(())
}
