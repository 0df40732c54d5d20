//! Rewrites of the tree that keep its meaning: long chains of AND and OR are regrouped so that the
//! tree is shallow, FETCH becomes LIMIT, timestamps with a zone count microseconds. The depth that
//! remains is bounded.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, BinaryOperator, DataType, Expr, LimitClause, Query, StructField, TimezoneInfo, TypedString,
    Value, VisitorMut,
};
use lakeserve_common::error::Error;

use crate::error::too_complex;

/// Chains of so many terms are left as they are.
const SHORT_CHAIN: usize = 16;

/// Walks a statement.
pub(super) struct Normalise {
    depth: usize,
    limit: usize,
}

impl Normalise {
    /// Refuses trees deeper than `limit`.
    pub(super) fn new(limit: usize) -> Self {
        Self { depth: 0, limit }
    }
}

impl VisitorMut for Normalise {
    type Break = Box<Error>;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Self::Break> {
        if let Some(fetch) = &query.fetch
            && !fetch.percent
            && !fetch.with_ties
        {
            let count = fetch.quantity.clone().unwrap_or_else(|| Expr::Value(Value::Number("1".into(), false).into()));
            match &mut query.limit_clause {
                None => {
                    query.limit_clause =
                        Some(LimitClause::LimitOffset { limit: Some(count), offset: None, limit_by: vec![] })
                }
                Some(LimitClause::LimitOffset { limit: limit @ None, .. }) => *limit = Some(count),
                Some(_) => return ControlFlow::Continue(()),
            }
            query.fetch = None;
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        self.depth += 1;
        if self.depth > self.limit {
            return ControlFlow::Break(Box::new(too_complex(&format!(
                "an expression is nested deeper than {} levels",
                self.limit
            ))));
        }
        match expr {
            Expr::BinaryOp { op: BinaryOperator::And | BinaryOperator::Or, .. } => regroup(expr),
            Expr::Cast { data_type, .. } | Expr::TypedString(TypedString { data_type, .. }) => microseconds(data_type),
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, _expr: &mut Expr) -> ControlFlow<Self::Break> {
        self.depth = self.depth.saturating_sub(1);
        ControlFlow::Continue(())
    }
}

/// Makes `((a OR b) OR c) OR d` into `(a OR b) OR (c OR d)`: the same order of terms and, with three
/// truth values, the same result.
fn regroup(expr: &mut Expr) {
    let Expr::BinaryOp { op, .. } = &*expr else { return };
    let op = op.clone();
    let mut length = 1;
    let mut walk = &*expr;
    while let Expr::BinaryOp { left, op: inner, .. } = walk
        && *inner == op
    {
        length += 1;
        walk = left;
    }
    if length <= SHORT_CHAIN {
        return;
    }
    let mut terms = Vec::with_capacity(length);
    let mut rest = std::mem::replace(expr, Expr::Value(Value::Null.into()));
    loop {
        match rest {
            Expr::BinaryOp { left, op: inner, right } if inner == op => {
                terms.push(*right);
                rest = *left;
            }
            first => {
                terms.push(first);
                break;
            }
        }
    }
    terms.reverse();
    while terms.len() > 1 {
        let mut pairs = Vec::with_capacity(terms.len().div_ceil(2));
        let mut terms_left = terms.into_iter();
        while let Some(left) = terms_left.next() {
            pairs.push(match terms_left.next() {
                Some(right) => Expr::BinaryOp { left: Box::new(left), op: op.clone(), right: Box::new(right) },
                None => left,
            });
        }
        terms = pairs;
    }
    if let Some(root) = terms.pop() {
        *expr = root;
    }
}

/// `TIMESTAMP WITH TIME ZONE` without a precision counts microseconds like the one without a zone.
pub(super) fn microseconds(data_type: &mut DataType) {
    match data_type {
        DataType::Timestamp(precision @ None, TimezoneInfo::WithTimeZone | TimezoneInfo::Tz) => *precision = Some(6),
        DataType::Array(ArrayElemTypeDef::AngleBracket(inner) | ArrayElemTypeDef::SquareBracket(inner, _)) => {
            microseconds(inner)
        }
        DataType::Struct(fields, _) => {
            for StructField { field_type, .. } in fields {
                microseconds(field_type);
            }
        }
        _ => {}
    }
}
