//! Which aggregates and window functions depend on the order of equal rows, and how the position is
//! added to their ORDER BY without changing the name of their result.

use datafusion::logical_expr::expr::{AggregateFunction, WindowFunction, WindowFunctionDefinition};
use datafusion::logical_expr::{Expr, SortExpr, WindowFrameBound, WindowFrameUnits};

/// Aggregates that pick or list rows in an order.
const POSITIONAL: [&str; 5] = ["first_value", "last_value", "nth_value", "array_agg", "string_agg"];

/// Whether the aggregate's result depends on row positions.
pub(super) fn aggregate_needs_position(expr: &Expr) -> bool {
    match unaliased(expr) {
        // ORDER BY inside DISTINCT may name arguments only, and equal arguments are one.
        Expr::AggregateFunction(AggregateFunction { func, params }) => {
            POSITIONAL.contains(&func.name()) && !params.distinct
        }
        _ => false,
    }
}

/// Whether the window function's result depends on the order of peers, and adding the position to
/// its ORDER BY changes nothing but that order. Under RANGE and GROUPS frames peers belong together,
/// so there it may be added only where the frame does not end among them.
pub(super) fn window_needs_position(expr: &Expr) -> bool {
    let Expr::WindowFunction(window) = unaliased(expr) else { return false };
    let WindowFunction { fun, params } = window.as_ref();
    if params.distinct {
        return false;
    }
    let frame = &params.window_frame;
    let from_start = matches!(&frame.start_bound, WindowFrameBound::Preceding(bound) if bound.is_null());
    let to_end = matches!(&frame.end_bound, WindowFrameBound::Following(bound) if bound.is_null());
    let by_rows = frame.units == WindowFrameUnits::Rows;
    match fun.name() {
        "row_number" | "ntile" | "lag" | "lead" => true,
        "rank" | "dense_rank" | "percent_rank" | "cume_dist" => false,
        "first_value" => by_rows || from_start,
        "last_value" => by_rows || to_end,
        name if POSITIONAL.contains(&name) => by_rows || (from_start && to_end),
        _ => matches!(fun, WindowFunctionDefinition::AggregateUDF(_)) && by_rows && !(from_start && to_end),
    }
}

/// The same expression, its ORDER BY followed by `positions`, its result named as before.
pub(super) fn with_positions(expr: Expr, positions: &[SortExpr]) -> Expr {
    match expr {
        Expr::Alias(mut alias) => {
            alias.expr = Box::new(extend(*alias.expr, positions));
            Expr::Alias(alias)
        }
        expr => {
            let name = expr.schema_name().to_string();
            extend(expr, positions).alias(name)
        }
    }
}

fn extend(expr: Expr, positions: &[SortExpr]) -> Expr {
    match expr {
        Expr::AggregateFunction(mut function) => {
            append(&mut function.params.order_by, positions);
            Expr::AggregateFunction(function)
        }
        Expr::WindowFunction(mut function) => {
            append(&mut function.params.order_by, positions);
            Expr::WindowFunction(function)
        }
        Expr::Alias(mut alias) => {
            alias.expr = Box::new(extend(*alias.expr, positions));
            Expr::Alias(alias)
        }
        other => other,
    }
}

/// Appends those keys that are not there yet.
pub(super) fn append(order_by: &mut Vec<SortExpr>, positions: &[SortExpr]) {
    for position in positions {
        if order_by.iter().all(|key| key.expr != position.expr) {
            order_by.push(position.clone());
        }
    }
}

fn unaliased(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => unaliased(&alias.expr),
        expr => expr,
    }
}
