//! Doubles beside decimals are compared and computed as doubles.
//!
//! Number literals are decimals here. The engine would turn a double that meets one into a decimal
//! of 15 digits: small values become zero, large ones and NaN an error. This rule runs before types
//! are coerced and turns the decimal side into the nearest double instead, as SQL's approximate types
//! ask (ISO 9075-2, 9.5: the result of approximate with exact is approximate).

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, Operator, cast};
use datafusion::optimizer::AnalyzerRule;

/// Functions whose arguments share one type.
const ONE_TYPE: [&str; 7] = ["coalesce", "nullif", "greatest", "least", "nvl", "nvl2", "ifnull"];

/// Turns decimals that meet doubles into doubles. Runs before types are coerced.
#[derive(Debug)]
pub struct DoublesWin;

impl AnalyzerRule for DoublesWin {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.transform_up_with_subqueries(node)?.data)
    }

    fn name(&self) -> &str {
        "doubles_win"
    }
}

fn node(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let mut schema = merge_schema(&plan.inputs());
    if let LogicalPlan::TableScan(scan) = &plan
        && !scan.filters.is_empty()
    {
        schema.merge(&DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?);
    }
    let names = NamePreserver::new(&plan);
    let changed = plan.map_expressions(|expr| {
        let name = names.save(&expr);
        Ok(expr.transform_up(|expr| Ok(settle(expr, &schema)))?.update_data(|expr| name.restore(expr)))
    })?;
    if changed.transformed { changed.map_data(LogicalPlan::recompute_schema) } else { Ok(changed) }
}

fn settle(mut expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let changed = match &mut expr {
        Expr::BinaryExpr(binary) if meets(binary.op) => all(vec![&mut *binary.left, &mut *binary.right], schema),
        Expr::Between(between) => all(vec![&mut *between.expr, &mut *between.low, &mut *between.high], schema),
        Expr::InList(list) => all(std::iter::once(&mut *list.expr).chain(&mut list.list).collect(), schema),
        Expr::Case(case) => {
            let (mut tested, mut results) = (Vec::new(), Vec::new());
            let simple = case.expr.is_some();
            tested.extend(case.expr.as_deref_mut());
            for (when, then) in &mut case.when_then_expr {
                if simple {
                    tested.push(&mut **when);
                }
                results.push(&mut **then);
            }
            results.extend(case.else_expr.as_deref_mut());
            all(tested, schema) | all(results, schema)
        }
        Expr::ScalarFunction(function) if ONE_TYPE.contains(&function.func.name()) => {
            all(function.args.iter_mut().collect(), schema)
        }
        _ => false,
    };
    if changed { Transformed::yes(expr) } else { Transformed::no(expr) }
}

fn meets(op: Operator) -> bool {
    use Operator::{
        Divide, Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, Minus, Modulo, Multiply, NotEq, Plus,
    };
    matches!(
        op,
        Eq | NotEq
            | Lt
            | LtEq
            | Gt
            | GtEq
            | IsDistinctFrom
            | IsNotDistinctFrom
            | Plus
            | Minus
            | Multiply
            | Divide
            | Modulo
    )
}

/// Makes doubles of the decimals among operands of one type, if one of them is a double.
fn all(operands: Vec<&mut Expr>, schema: &DFSchema) -> bool {
    let types: Vec<_> = operands.iter().map(|operand| operand.get_type(schema).ok()).collect();
    if !types.iter().flatten().any(DataType::is_floating) {
        return false;
    }
    let mut changed = false;
    for (operand, data_type) in operands.into_iter().zip(types) {
        if data_type.is_some_and(|data_type| data_type.is_decimal()) {
            let decimal = std::mem::replace(operand, Expr::Literal(ScalarValue::Null, None));
            *operand = as_double(decimal);
            changed = true;
        }
    }
    changed
}

/// A literal becomes the double nearest to its digits; anything else is cast row by row.
fn as_double(decimal: Expr) -> Expr {
    if let Expr::Literal(value, _) = &decimal {
        if value.is_null() {
            return Expr::Literal(ScalarValue::Float64(None), None);
        }
        let digits = value.cast_to(&DataType::Utf8).map(|text| text.to_string());
        if let Some(nearest) = digits.ok().and_then(|digits| digits.parse().ok()) {
            return Expr::Literal(ScalarValue::Float64(Some(nearest)), None);
        }
    }
    cast(decimal, DataType::Float64)
}

#[cfg(test)]
mod tests {
    use crate::session::{SessionOptions, context};

    async fn count(filter: &str) -> String {
        let context = context(&SessionOptions::default()).unwrap();
        let values = "(0, CAST('1e-20' AS DOUBLE)), (1, CAST('0' AS DOUBLE)), (2, CAST('NaN' AS DOUBLE)), \
            (3, CAST('3' AS DOUBLE)), (4, CAST('-1e-20' AS DOUBLE)), (5, CAST('1e300' AS DOUBLE)), (6, CAST('0.1' AS DOUBLE))";
        let sql = format!(
            "SELECT array_to_string(array_agg(id ORDER BY id), ' ') AS ids FROM (VALUES {values}) t(id, x) WHERE {filter}"
        );
        let batches = context.sql(&sql).await.unwrap().collect().await.unwrap();
        arrow::util::display::array_value_to_string(batches[0].column(0), 0).unwrap()
    }

    #[tokio::test]
    async fn decimal_literals_beside_doubles_are_doubles() {
        for (filter, ids) in [
            ("x > 0.0", "0 2 3 5 6"),
            ("x < 0.0", "4"),
            ("x <> 3.0", "0 1 2 4 5 6"),
            ("x = 3.0", "3"),
            ("x = 0.1", "6"),
            ("0.1 = x", "6"),
            ("x IN (0.1, 3.0)", "3 6"),
            ("x NOT IN (0.1, 3.0)", "0 1 2 4 5"),
            ("x BETWEEN 0.05 AND 3.5", "3 6"),
            ("coalesce(x, 0.5) > 1e10", "2 5"),
            ("CASE WHEN id = 0 THEN x ELSE 0.5 END < 0.1", "0"),
            ("x * 10.0 = 30.0", "3"),
            ("CAST(x AS REAL) = 0.1", ""),
        ] {
            assert_eq!(count(filter).await, ids, "{filter}");
        }
    }
}
