//! Names in expressions. Subqueries are resolved by the walk over queries: the visitor takes each out
//! before it would descend into it, and puts it back afterwards.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    AccessExpr, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Query, SetExpr, Value, Values,
    VisitMut, VisitorMut, WindowType,
};
use lakeserve_common::error::{Error, Result};

use super::resolve::Resolver;
use super::scope::spell;

impl Resolver<'_> {
    pub(super) fn expr(&mut self, expr: &mut Expr) -> Result<()> {
        self.node(expr)
    }

    /// Resolves all names in the expressions of a part of the tree, seen from the innermost scope.
    pub(super) fn node(&mut self, node: &mut impl VisitMut) -> Result<()> {
        let mut walk = Walk { resolver: self, taken: Vec::new() };
        match node.visit(&mut walk) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(error) => Err(*error),
        }
    }

    fn identifier(&self, ident: &mut Ident) -> Result<()> {
        if ident.value.starts_with('@') && ident.quote_style.is_none() {
            return Ok(());
        }
        for scope in self.scopes.iter().rev() {
            if scope.column(ident)? {
                return Ok(());
            }
        }
        if ident.quote_style.is_none() && self.scopes.iter().any(super::scope::Scope::lower) {
            ident.value = ident.value.to_lowercase();
        }
        Ok(())
    }

    fn compound(&self, parts: &mut [Ident]) -> Result<()> {
        for scope in self.scopes.iter().rev() {
            if scope.compound(parts)? {
                return Ok(());
            }
        }
        Ok(())
    }
}

struct Walk<'r, 'a> {
    resolver: &'r mut Resolver<'a>,
    taken: Vec<Query>,
}

impl Walk<'_, '_> {
    fn visit(&mut self, expr: &mut Expr) -> Result<()> {
        match expr {
            Expr::Identifier(ident) => self.resolver.identifier(ident),
            Expr::CompoundIdentifier(parts) => self.resolver.compound(parts),
            Expr::QualifiedWildcard(name, _) => self.resolver.qualifier(name).map(drop),
            Expr::Function(function) => self.function(function),
            Expr::CompoundFieldAccess { access_chain, .. } => {
                for access in access_chain {
                    // A field's name, not a column's; the planner reads both forms alike.
                    if let AccessExpr::Dot(field @ Expr::Identifier(_)) = access
                        && let Expr::Identifier(ident) = &*field
                    {
                        *field = Expr::Value(Value::SingleQuotedString(ident.value.clone()).into());
                    }
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn function(&mut self, function: &mut Function) -> Result<()> {
        if let Some(WindowType::NamedWindow(name)) = &mut function.over
            && let Some(scope) = self.resolver.scopes.last()
        {
            spell(name, scope.windows.iter().map(String::as_str), "window")?;
        }
        if let FunctionArguments::List(list) = &mut function.args {
            for argument in &mut list.args {
                if let FunctionArg::Unnamed(FunctionArgExpr::QualifiedWildcard(name)) = argument {
                    self.resolver.qualifier(name)?;
                }
            }
        }
        Ok(())
    }
}

impl VisitorMut for Walk<'_, '_> {
    type Break = Box<Error>;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Self::Break> {
        let mut taken = std::mem::replace(query, nothing());
        let outcome = self.resolver.query(&mut taken);
        self.taken.push(taken);
        match outcome {
            Ok(_) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(Box::new(error)),
        }
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<Self::Break> {
        if let Some(taken) = self.taken.pop() {
            *query = taken;
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        match self.visit(expr) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(Box::new(error)),
        }
    }
}

/// A query without names.
fn nothing() -> Query {
    Query {
        with: None,
        body: Box::new(SetExpr::Values(Values { explicit_row: false, value_keyword: false, rows: Vec::new() })),
        order_by: None,
        limit_clause: None,
        fetch: None,
        locks: Vec::new(),
        for_clause: None,
        settings: None,
        format_clause: None,
        pipe_operators: Vec::new(),
    }
}
