//! From DataFusion's logical filters to [`Node`]s.
//!
//! The planner has already coerced types, so a comparison that reaches us has equal types on both
//! sides; one that has not is not understood. Chains of `AND` and `OR` are walked without
//! recursion (a generated filter may have tens of thousands of terms).

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, StringArray};
use arrow::compute::{cast, concat, sort};
use arrow::datatypes::{DataType, Schema, TimeUnit};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::{Between, BinaryExpr, InList, Like, ScalarFunction};
use datafusion::logical_expr::{Expr, Operator};

use super::{Comparison, Node, Operand};

/// Deeper nesting than this (beyond chains of one operator) is not looked into.
const MAX_DEPTH: usize = 64;

pub(super) fn conjunction(filters: &[Expr], schema: &Schema) -> Node {
    let terms: Vec<&Expr> = filters.iter().flat_map(|filter| flatten(filter, Operator::And)).collect();
    Compiler { schema }.all(&terms, 0)
}

struct Compiler<'a> {
    schema: &'a Schema,
}

impl Compiler<'_> {
    fn node(&self, expr: &Expr, depth: usize) -> Node {
        if depth > MAX_DEPTH {
            return Node::Unknown;
        }
        let depth = depth + 1;
        match expr {
            Expr::Alias(alias) => self.node(&alias.expr, depth),
            Expr::Literal(ScalarValue::Boolean(value), _) => Node::Constant(*value),
            Expr::Literal(ScalarValue::Null, _) => Node::Constant(None),
            Expr::Column(_) => self.is_true_column(expr),
            Expr::Not(inner) => Node::Not(Box::new(self.node(inner, depth))),
            Expr::IsTrue(inner) => Node::IsTrue(Box::new(self.node(inner, depth))),
            Expr::IsFalse(inner) => Node::IsTrue(Box::new(Node::Not(Box::new(self.node(inner, depth))))),
            Expr::IsNull(inner) => self.is_null(inner),
            Expr::IsNotNull(inner) => Node::Not(Box::new(self.is_null(inner))),
            Expr::BinaryExpr(BinaryExpr { op: Operator::And, .. }) => self.all(&flatten(expr, Operator::And), depth),
            Expr::BinaryExpr(BinaryExpr { op: Operator::Or, .. }) => self.any(&flatten(expr, Operator::Or), depth),
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => self.comparison(left, *op, right),
            Expr::Between(Between { expr, negated, low, high }) => {
                let terms =
                    vec![self.comparison(expr, Operator::GtEq, low), self.comparison(expr, Operator::LtEq, high)];
                negate_if(*negated, Node::All(with_ranges(terms)))
            }
            Expr::InList(list) => negate_if(list.negated, self.in_list(list)),
            Expr::Like(like) => negate_if(like.negated, self.like(like)),
            Expr::ScalarFunction(function) => self.function(function),
            _ => Node::Unknown,
        }
    }

    fn all(&self, terms: &[&Expr], depth: usize) -> Node {
        Node::All(with_ranges(terms.iter().map(|term| self.node(term, depth)).collect()))
    }

    fn any(&self, terms: &[&Expr], depth: usize) -> Node {
        Node::Any(with_sets(terms.iter().map(|term| self.node(term, depth)).collect()))
    }

    /// The column below monotone casts, with the type it has there.
    fn operand(&self, expr: &Expr) -> Option<(Operand, DataType)> {
        let mut casts = Vec::new();
        let mut inner = expr;
        let column = loop {
            match inner {
                Expr::Alias(alias) => inner = &alias.expr,
                Expr::Cast(cast) => {
                    casts.push(cast.field.data_type().clone());
                    inner = &cast.expr;
                }
                Expr::TryCast(cast) => {
                    casts.push(cast.field.data_type().clone());
                    inner = &cast.expr;
                }
                Expr::Column(column) => break column,
                _ => return None,
            }
        };
        casts.reverse();
        let index = self.schema.index_of(&column.name).ok()?;
        let mut data_type = self.schema.field(index).data_type().clone();
        for to in &casts {
            if !is_monotone(&data_type, to) {
                return None;
            }
            data_type = to.clone();
        }
        Some((Operand { column: index, casts }, data_type))
    }

    fn is_true_column(&self, expr: &Expr) -> Node {
        self.comparison(expr, Operator::Eq, &Expr::Literal(ScalarValue::Boolean(Some(true)), None))
    }

    fn is_null(&self, expr: &Expr) -> Node {
        match self.operand(expr) {
            // A cast that fails is an error or (TRY_CAST) a NULL of its own: only bare columns.
            Some((operand, _)) if operand.casts.is_empty() => Node::IsNull { column: operand.column },
            _ => Node::Unknown,
        }
    }

    fn comparison(&self, left: &Expr, op: Operator, right: &Expr) -> Node {
        let (operand, op, literal) = match (literal(left), literal(right)) {
            (None, Some(value)) => (self.operand(left), Some(op), value),
            (Some(value), None) => (self.operand(right), op.swap(), value),
            _ => return Node::Unknown,
        };
        let (Some((operand, data_type)), Some(op)) = (operand, op) else { return Node::Unknown };
        let (comparison, negated) = match op {
            Operator::Eq => (Comparison::Equal, false),
            Operator::NotEq => (Comparison::Equal, true),
            Operator::Lt => (Comparison::Less, false),
            Operator::LtEq => (Comparison::LessOrEqual, false),
            Operator::Gt => (Comparison::Greater, false),
            Operator::GtEq => (Comparison::GreaterOrEqual, false),
            _ => return Node::Unknown,
        };
        if literal.is_null() {
            return Node::Constant(None);
        }
        if literal.data_type() != data_type || is_nan(literal) {
            return Node::Unknown;
        }
        match literal.to_array() {
            Ok(value) => negate_if(negated, Node::Compare { operand, comparison, value }),
            Err(_) => Node::Unknown,
        }
    }

    /// The list itself, not its negation.
    fn in_list(&self, list: &InList) -> Node {
        let Some((operand, data_type)) = self.operand(&list.expr) else { return Node::Unknown };
        let mut values = Vec::with_capacity(list.list.len());
        let mut has_null = false;
        for item in &list.list {
            match literal(item) {
                Some(value) if value.is_null() => has_null = true,
                Some(value) if value.data_type() == data_type && !is_nan(value) => values.push(value.clone()),
                _ => return Node::Unknown,
            }
        }
        if values.is_empty() {
            return Node::Constant((!has_null).then_some(false));
        }
        match ScalarValue::iter_to_array(values).ok().and_then(|values| sort(&values, None).ok()) {
            Some(values) => Node::InSet { operand, values, has_null },
            None => Node::Unknown,
        }
    }

    /// The pattern itself, not its negation.
    fn like(&self, like: &Like) -> Node {
        let Some(Some(pattern)) = literal(&like.pattern).map(ScalarValue::try_as_str) else { return Node::Unknown };
        let Some(pattern) = pattern else { return Node::Constant(None) };
        if like.case_insensitive {
            return Node::Unknown;
        }
        let end = pattern.find(['%', '_']).unwrap_or(pattern.len());
        let (prefix, rest) = pattern.split_at(end);
        // An escape before the first wildcard: the prefix is not what it looks like.
        if prefix.contains('\\') || like.escape_char.is_some_and(|escape| prefix.contains(escape)) {
            return Node::Unknown;
        }
        let only_prefix = !rest.is_empty() && rest.chars().all(|c| c == '%');
        self.prefix(&like.expr, prefix, only_prefix)
    }

    fn function(&self, function: &ScalarFunction) -> Node {
        match (function.func.name(), function.args.as_slice()) {
            ("starts_with", [text, prefix]) => match literal(prefix).and_then(ScalarValue::try_as_str) {
                Some(Some(prefix)) => self.prefix(text, prefix, true),
                Some(None) => Node::Constant(None),
                None => Node::Unknown,
            },
            _ => Node::Unknown,
        }
    }

    fn prefix(&self, expr: &Expr, prefix: &str, exact: bool) -> Node {
        let Some((operand, data_type)) = self.operand(expr) else { return Node::Unknown };
        if prefix.is_empty() || !is_text(&data_type) {
            return Node::Unknown;
        }
        let text = |text: &str| -> Option<ArrayRef> {
            cast(&(Arc::new(StringArray::from(vec![text])) as ArrayRef), &data_type).ok()
        };
        match text(prefix) {
            Some(value) => {
                Node::Prefix { operand, prefix: value, end: successor(prefix).and_then(|end| text(&end)), exact }
            }
            None => Node::Unknown,
        }
    }
}

/// The terms of a chain of one operator, left to right, without recursion.
fn flatten(expr: &Expr, op: Operator) -> Vec<&Expr> {
    let mut terms = Vec::new();
    let mut stack = vec![expr];
    while let Some(expr) = stack.pop() {
        match expr {
            Expr::BinaryExpr(binary) if binary.op == op => {
                stack.push(&binary.right);
                stack.push(&binary.left);
            }
            _ => terms.push(expr),
        }
    }
    terms
}

fn negate_if(negated: bool, node: Node) -> Node {
    if negated { Node::Not(Box::new(node)) } else { node }
}

fn literal(expr: &Expr) -> Option<&ScalarValue> {
    match expr {
        Expr::Literal(value, _) => Some(value),
        Expr::Alias(alias) => literal(&alias.expr),
        _ => None,
    }
}

fn is_nan(value: &ScalarValue) -> bool {
    match value {
        ScalarValue::Float16(Some(value)) => value.is_nan(),
        ScalarValue::Float32(Some(value)) => value.is_nan(),
        ScalarValue::Float64(Some(value)) => value.is_nan(),
        _ => false,
    }
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// Adds, for every float column that a conjunction bounds from both sides, the two-sided range:
/// neither side alone prunes, because of NaN, but both together do.
fn with_ranges(mut terms: Vec<Node>) -> Vec<Node> {
    let mut lows: HashMap<Operand, (ArrayRef, bool)> = HashMap::new();
    let mut highs: HashMap<Operand, (ArrayRef, bool)> = HashMap::new();
    for term in &terms {
        let Node::Compare { operand, comparison, value } = term else { continue };
        if !value.data_type().is_floating() {
            continue;
        }
        let (sides, inclusive) = match comparison {
            Comparison::Greater => (&mut lows, false),
            Comparison::GreaterOrEqual => (&mut lows, true),
            Comparison::Less => (&mut highs, false),
            Comparison::LessOrEqual => (&mut highs, true),
            Comparison::Equal => continue,
        };
        sides.entry(operand.clone()).or_insert_with(|| (value.clone(), inclusive));
    }
    for (operand, (low, low_inclusive)) in lows {
        if let Some((high, high_inclusive)) = highs.remove(&operand) {
            terms.push(Node::Within { operand, low, low_inclusive, high, high_inclusive });
        }
    }
    terms
}

/// Turns the equalities of a disjunction into one set for each column.
fn with_sets(terms: Vec<Node>) -> Vec<Node> {
    let mut equalities: HashMap<Operand, Vec<ArrayRef>> = HashMap::new();
    let mut others = Vec::new();
    for term in terms {
        match term {
            Node::Compare { operand, comparison: Comparison::Equal, value } => {
                equalities.entry(operand).or_default().push(value);
            }
            other => others.push(other),
        }
    }
    for (operand, values) in equalities {
        let parts: Vec<_> = values.iter().map(AsRef::as_ref).collect();
        others.push(match concat(&parts).and_then(|values| sort(&values, None)) {
            Ok(values) => Node::InSet { operand, values, has_null: false },
            Err(_) => Node::Unknown,
        });
    }
    others
}

/// The least text that is greater than every text that starts with `prefix`; `None` if there is
/// none. Texts are ordered by their bytes, which is the order of their code points.
pub(super) fn successor(prefix: &str) -> Option<String> {
    let mut chars: Vec<char> = prefix.chars().collect();
    while let Some(last) = chars.pop() {
        let next = match last {
            '\u{D7FF}' => Some('\u{E000}'),
            other => char::from_u32(u32::from(other) + 1),
        };
        if let Some(next) = next {
            chars.push(next);
            return Some(chars.into_iter().collect());
        }
    }
    None
}

/// Whether a cast keeps the order of values (it may map neighbours to one value). Bounds can be
/// cast along with the values then.
pub(crate) fn is_monotone(from: &DataType, to: &DataType) -> bool {
    use DataType::{Binary, BinaryView, Date32, Date64, Decimal128, Float16, Float32, Float64, LargeBinary, Timestamp};
    if from == to {
        return true;
    }
    match (from, to) {
        _ if is_text(from) && is_text(to) => true,
        (Binary | LargeBinary | BinaryView, Binary | LargeBinary | BinaryView) => true,
        (Float16, Float32 | Float64) | (Float32, Float64) => true,
        (Decimal128(_, from_scale), Decimal128(_, to_scale)) => to_scale >= from_scale,
        (Decimal128(..), Float64) => true,
        (Date32, Date64) => true,
        (Date32, Timestamp(_, zone)) => is_utc(zone.as_deref()),
        (Timestamp(_, from_zone), Timestamp(_, to_zone)) => {
            from_zone == to_zone || (is_utc(from_zone.as_deref()) && is_utc(to_zone.as_deref()))
        }
        (DataType::Time32(_), DataType::Time64(_)) => true,
        (DataType::Time64(TimeUnit::Nanosecond), DataType::Time64(TimeUnit::Microsecond)) => true,
        _ if from.is_integer() => match to {
            Float64 => true,
            Decimal128(_, scale) => *scale >= 0,
            _ => to.is_integer(),
        },
        _ => false,
    }
}

fn is_utc(zone: Option<&str>) -> bool {
    matches!(zone, None | Some("UTC" | "+00:00" | "Z"))
}
