//! Integer arithmetic that fails where it would wrap around.
//!
//! The engine's `+`, `-`, `*` and unary `-` on integers wrap silently; a wrong number is the one
//! answer that may never be given. This rule puts checked functions in their place. They evaluate
//! rows that are not null only, and spell themselves like the operators, so names of columns stay.
//! Decimals, dates and intervals are checked by the engine, doubles do not overflow.

use std::sync::Arc;

use arrow::compute::kernels::numeric::{add, mul, sub};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, ScalarValue, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::expr::{BinaryExpr, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::physical_expr_common::datum::apply;

/// Replaces integer `+`, `-`, `*` and unary `-` by checked ones. Runs after types are coerced.
#[derive(Debug)]
pub struct CheckArithmetic;

impl AnalyzerRule for CheckArithmetic {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.transform_up_with_subqueries(check_node)?.data)
    }

    fn name(&self) -> &str {
        "check_arithmetic"
    }
}

fn check_node(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let mut schema = merge_schema(&plan.inputs());
    if let LogicalPlan::TableScan(scan) = &plan
        && !scan.filters.is_empty()
    {
        schema.merge(&DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?);
    }
    let names = NamePreserver::new(&plan);
    let checked = plan.map_expressions(|expr| {
        let name = names.save(&expr);
        Ok(expr.transform_up(|expr| Ok(check(expr, &schema)))?.update_data(|expr| name.restore(expr)))
    })?;
    if checked.transformed { checked.map_data(LogicalPlan::recompute_schema) } else { Ok(checked) }
}

fn check(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    match expr {
        Expr::BinaryExpr(BinaryExpr {
            left,
            op: op @ (Operator::Plus | Operator::Minus | Operator::Multiply),
            right,
        }) => match (integer_type(&left, schema), integer_type(&right, schema)) {
            (Some(data_type), Some(other)) if data_type == other => {
                Transformed::yes(call(op, data_type, vec![*left, *right]))
            }
            _ => Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })),
        },
        Expr::Negative(inner) if !matches!(*inner, Expr::Literal(..)) => match integer_type(&inner, schema) {
            Some(data_type) if data_type.is_signed_integer() => {
                Transformed::yes(call(Operator::Minus, data_type, vec![*inner]))
            }
            _ => Transformed::no(Expr::Negative(inner)),
        },
        other => Transformed::no(other),
    }
}

fn call(op: Operator, data_type: DataType, args: Vec<Expr>) -> Expr {
    let function = Checked { op, data_type, signature: Signature::any(args.len(), Volatility::Immutable) };
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(ScalarUDF::from(function)), args))
}

/// The type if it is an integer. A checked operand knows its own, so that long chains are cheap.
fn integer_type(expr: &Expr, schema: &DFSchema) -> Option<DataType> {
    let data_type = match expr {
        Expr::ScalarFunction(function) => match function.func.inner().downcast_ref::<Checked>() {
            Some(checked) => checked.data_type.clone(),
            None => expr.get_type(schema).ok()?,
        },
        _ => expr.get_type(schema).ok()?,
    };
    data_type.is_integer().then_some(data_type)
}

/// Operator and arguments, if the expression is a checked one.
fn operation(expr: &Expr) -> Option<(Operator, &[Expr])> {
    let Expr::ScalarFunction(function) = expr else { return None };
    let checked = function.func.inner().downcast_ref::<Checked>()?;
    Some((checked.op, &function.args))
}

/// One checked operator on one type; unary minus has one argument.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Checked {
    op: Operator,
    data_type: DataType,
    signature: Signature,
}

impl ScalarUDFImpl for Checked {
    fn name(&self) -> &str {
        match self.op {
            Operator::Plus => "checked_add",
            Operator::Multiply => "checked_multiply",
            _ => "checked_subtract",
        }
    }

    fn display_name(&self, args: &[Expr]) -> Result<String> {
        self.schema_name(args)
    }

    /// Spelled like the operators. Chains lean to the left and are spelled from there in one go, so
    /// that a long one costs its length and not its square.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let mut tail = Vec::new();
        let (mut op, mut args) = (self.op, args);
        let mut name = loop {
            match args {
                [left, right] => {
                    tail.push((op, right));
                    match operation(left) {
                        Some((inner, inner_args)) => (op, args) = (inner, inner_args),
                        None => break left.schema_name().to_string(),
                    }
                }
                [inner] => break format!("(- {})", inner.schema_name()),
                _ => return internal_err!("{} takes one or two arguments", self.name()),
            }
        };
        for (op, right) in tail.into_iter().rev() {
            name.push_str(&format!(" {op} {}", right.schema_name()));
        }
        Ok(name)
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(self.data_type.clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Field::new(self.name(), self.data_type.clone(), nullable).into())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match (args.args.as_slice(), self.op) {
            ([left, right], Operator::Plus) => apply(left, right, add),
            ([left, right], Operator::Minus) => apply(left, right, sub),
            ([left, right], Operator::Multiply) => apply(left, right, mul),
            ([inner], Operator::Minus) => {
                apply(&ColumnarValue::Scalar(ScalarValue::new_zero(&self.data_type)?), inner, sub)
            }
            _ => internal_err!("{} cannot be called so", self.name()),
        }
    }
}
