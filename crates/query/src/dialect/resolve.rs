//! Names as written to names as they are: the public functions and the walk over statements, queries.
//! FROM is walked by [`super::from`], expressions by [`super::exprs`].
//!
//! Names that are not found stay as they are: the planner knows best what is visible and says what is
//! missing. Only ambiguous names and unknown tables are errors here.

use arrow::datatypes::{Schema, SchemaRef};
use datafusion::sql::parser::Statement as Ast;
use datafusion::sql::sqlparser::ast::{
    Cte, Distinct, ExcludeSelectItem, Expr, GroupByExpr, Ident, JoinConstraint, NamedWindowExpr, ObjectName,
    ObjectNamePart, ObjectType, OrderByKind, PipeOperator, Query, Select, SelectItem, SelectItemQualifiedWildcardKind,
    SetExpr, Statement as Sql, TableObject, WildcardAdditionalOptions,
};
use lakeserve_common::error::Result;

use super::Statement;
use super::from::{constraint, idents};
use super::scope::{ColumnName, Columns, Found, Relation, Scope, find, spell};
use super::tokens::RESERVED_PREFIX;
use crate::error::no_such_table;
use crate::stack::{recurse, with_stack};

/// The tables that the statement reads, as written without quotes, parts joined by dots, each once;
/// without CTEs and without the stand-ins of [`super::VersionedTable`].
#[must_use]
pub fn table_names(statement: &Statement) -> Vec<String> {
    let mut resolver = Resolver {
        tables: &|_| Some(std::sync::Arc::new(Schema::empty())),
        all: &[],
        collecting: true,
        ..Resolver::new()
    };
    // Ambiguous names do not matter for the list of tables.
    let _ = with_stack(0, || resolver.ast(&mut statement.ast.clone()));
    let mut names = Vec::new();
    for name in resolver.seen {
        if !name.starts_with(RESERVED_PREFIX) && !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// The one of `all` that `name` means: exactly, else without case when that is unique.
///
/// # Errors
/// [`lakeserve_common::error::ErrorKind::NoSuchTable`] when there is none or more than one.
pub fn resolve_table(name: &str, all: &[String]) -> Result<String> {
    match find(name, all.iter().map(String::as_str), "table")? {
        Found::Exact => Ok(name.to_owned()),
        Found::Spelled(spelled) => Ok(spelled),
        Found::Nothing => Err(no_such_table(name, all.iter().map(String::as_str))),
    }
}

/// Puts the exact spelling of tables, aliases and columns in the place of what was written: exactly
/// the same name wins, else the one that differs in case only when that is unique. `tables` gives the
/// schema of a table by its exact name (stand-ins of older states and tables of the session
/// included), `all_table_names` are the names that may be meant.
///
/// # Errors
/// [`lakeserve_common::error::ErrorKind::NoSuchTable`] or `NoSuchColumn` when a name is ambiguous, listing the candidates, or a
/// table does not exist.
pub fn resolve_identifiers(
    statement: &mut Statement,
    tables: &dyn Fn(&str) -> Option<SchemaRef>,
    all_table_names: &[String],
) -> Result<()> {
    let mut resolver = Resolver { tables, all: all_table_names, ..Resolver::new() };
    with_stack(0, || resolver.ast(&mut statement.ast))
}

/// One walk over a statement.
pub(super) struct Resolver<'a> {
    pub(super) tables: &'a dyn Fn(&str) -> Option<SchemaRef>,
    pub(super) all: &'a [String],
    /// Only the names of tables are asked for.
    pub(super) collecting: bool,
    pub(super) seen: Vec<String>,
    /// The CTEs visible, innermost last.
    pub(super) ctes: Vec<(String, Columns)>,
    /// The recursive CTE whose columns its first branch will tell.
    recursive: Option<usize>,
    /// Scopes of the enclosing selects, innermost last.
    pub(super) scopes: Vec<Scope>,
}

impl<'a> Resolver<'a> {
    fn new() -> Self {
        Self {
            tables: &|_| None,
            all: &[],
            collecting: false,
            seen: Vec::new(),
            ctes: Vec::new(),
            recursive: None,
            scopes: Vec::new(),
        }
    }

    fn ast(&mut self, ast: &mut Ast) -> Result<()> {
        match ast {
            Ast::Statement(sql) => self.sql(sql),
            Ast::Explain(explain) => self.ast(&mut explain.statement),
            Ast::CreateExternalTable(_) | Ast::CopyTo(_) | Ast::Reset(_) => Ok(()),
        }
    }

    fn sql(&mut self, sql: &mut Sql) -> Result<()> {
        match sql {
            Sql::Query(query) => self.query(query).map(drop),
            Sql::Explain { statement, .. } | Sql::Prepare { statement, .. } => self.sql(statement),
            Sql::CreateTable(create) => create.query.as_deref_mut().map_or(Ok(()), |query| self.query(query).map(drop)),
            Sql::CreateView(create) => self.query(&mut create.query).map(drop),
            Sql::ExplainTable { table_name, .. } => self.table(table_name).map(drop),
            Sql::ShowCreate { obj_name, .. } => self.table(obj_name).map(drop),
            Sql::ShowColumns { show_options, .. } => {
                let parent = show_options.show_in.as_mut().and_then(|show_in| show_in.parent_name.as_mut());
                parent.map_or(Ok(()), |name| self.table(name).map(drop))
            }
            Sql::Drop { object_type: ObjectType::Table | ObjectType::View, names, .. } => {
                for name in names {
                    // The planner decides what a missing one means (IF EXISTS).
                    if let [ObjectNamePart::Identifier(ident)] = name.0.as_mut_slice() {
                        spell(ident, self.all.iter().map(String::as_str), "table")?;
                    }
                }
                Ok(())
            }
            Sql::Insert(insert) => {
                if let TableObject::TableName(name) = &mut insert.table {
                    let target = self.table(name)?;
                    for column in &mut insert.columns {
                        if let [ObjectNamePart::Identifier(ident)] = column.0.as_mut_slice() {
                            spell(ident, target.columns.columns.iter().map(|column| column.name.as_str()), "column")?;
                        }
                    }
                }
                insert.source.as_deref_mut().map_or(Ok(()), |query| self.query(query).map(drop))
            }
            _ => Ok(()),
        }
    }

    /// Resolves a query and tells its columns.
    pub(super) fn query(&mut self, query: &mut Query) -> Result<Columns> {
        recurse(|| {
            let ctes_before = self.ctes.len();
            let outcome = self.query_with_ctes(query);
            self.ctes.truncate(ctes_before);
            outcome
        })
    }

    fn query_with_ctes(&mut self, query: &mut Query) -> Result<Columns> {
        if let Some(with) = &mut query.with {
            for cte in &mut with.cte_tables {
                self.cte(cte, with.recursive)?;
            }
        }
        let (mut scope, mut columns) = match query.body.as_mut() {
            SetExpr::Select(select) => self.select(select)?,
            body => {
                let columns = self.set_expr(body)?;
                let relation = Relation { path: Vec::new(), columns: columns.clone(), lower: false };
                (Scope { relations: vec![relation], ..Scope::default() }, columns)
            }
        };
        scope.aliases = columns.names().map(str::to_owned).collect();
        if let Some(order) = &mut query.order_by
            && let OrderByKind::Expressions(exprs) = &mut order.kind
        {
            self.within(scope.clone(), |resolver| exprs.iter_mut().try_for_each(|key| resolver.expr(&mut key.expr)))?;
        }
        if let Some(limit) = &mut query.limit_clause {
            self.within(Scope::default(), |resolver| resolver.node(limit))?;
        }
        for operator in &mut query.pipe_operators {
            self.pipe(operator, &mut scope)?;
            // What the operators make of the columns is not followed.
            columns = Columns::default();
        }
        Ok(columns)
    }

    fn cte(&mut self, cte: &mut Cte, recursive: bool) -> Result<()> {
        let name = cte.alias.name.value.clone();
        let names: Vec<String> = cte.alias.columns.iter().map(|column| column.name.value.clone()).collect();
        if !recursive {
            let mut columns = self.query(&mut cte.query)?;
            columns.rename(names.iter().map(String::as_str));
            self.ctes.push((name, columns));
            return Ok(());
        }
        let mut known = Columns { columns: Vec::new(), complete: !names.is_empty() };
        known.rename(names.iter().map(String::as_str));
        let at = self.ctes.len();
        self.ctes.push((name, known));
        let before = std::mem::replace(&mut self.recursive, names.is_empty().then_some(at));
        let outcome = self.query(&mut cte.query);
        self.recursive = before;
        let mut columns = outcome?;
        columns.rename(names.iter().map(String::as_str));
        if let Some(entry) = self.ctes.get_mut(at) {
            entry.1 = columns;
        }
        Ok(())
    }

    fn set_expr(&mut self, body: &mut SetExpr) -> Result<Columns> {
        recurse(|| match body {
            SetExpr::Select(select) => Ok(self.select(select)?.1),
            SetExpr::Query(query) => self.query(query),
            SetExpr::SetOperation { left, right, .. } => {
                let pending = self.recursive.take();
                let columns = self.set_expr(left)?;
                if let Some(entry) = pending.and_then(|at| self.ctes.get_mut(at)) {
                    entry.1 = columns.clone();
                }
                self.set_expr(right)?;
                Ok(columns)
            }
            SetExpr::Values(values) => {
                self.within(Scope::default(), |resolver| resolver.node(values))?;
                let width = values.rows.first().map_or(0, |row| row.content.len());
                let columns =
                    (1..=width).map(|at| ColumnName { name: format!("column{at}"), data_type: None }).collect();
                Ok(Columns { columns, complete: true })
            }
            _ => Ok(Columns::default()),
        })
    }

    /// Runs `work` with one more scope.
    fn within<T>(&mut self, scope: Scope, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.scopes.push(scope);
        let outcome = work(self);
        self.scopes.pop();
        outcome
    }

    fn select(&mut self, select: &mut Select) -> Result<(Scope, Columns)> {
        let relations = self.from(&mut select.from)?;
        let windows = select.named_window.iter().map(|window| window.0.value.clone()).collect();
        self.scopes.push(Scope { relations, aliases: Vec::new(), windows });
        let outcome = self.select_in_scope(select);
        let scope = self.scopes.pop().unwrap_or_default();
        Ok((scope, outcome?))
    }

    fn select_in_scope(&mut self, select: &mut Select) -> Result<Columns> {
        for window in &mut select.named_window {
            if let NamedWindowExpr::WindowSpec(spec) = &mut window.1 {
                self.node(spec)?;
            }
        }
        let mut columns = Columns { columns: Vec::new(), complete: true };
        for item in &mut select.projection {
            self.select_item(item, &mut columns)?;
        }
        if let Some(filter) = &mut select.selection {
            self.expr(filter)?;
        }
        let aliases = columns.names().map(str::to_owned).collect();
        if let Some(scope) = self.scopes.last_mut() {
            scope.aliases = aliases;
        }
        if let GroupByExpr::Expressions(exprs, _) = &mut select.group_by {
            exprs.iter_mut().try_for_each(|expr| self.expr(expr))?;
        }
        for expr in [&mut select.having, &mut select.qualify].into_iter().flatten() {
            self.expr(expr)?;
        }
        if let Some(Distinct::On(exprs)) = &mut select.distinct {
            exprs.iter_mut().try_for_each(|expr| self.expr(expr))?;
        }
        Ok(columns)
    }

    fn select_item(&mut self, item: &mut SelectItem, columns: &mut Columns) -> Result<()> {
        match item {
            SelectItem::UnnamedExpr(expr) => {
                self.expr(expr)?;
                match column_name(expr) {
                    Some(name) => {
                        columns.columns.push(ColumnName { data_type: self.data_type(name), name: name.to_owned() })
                    }
                    None => columns.complete = false,
                }
            }
            SelectItem::ExprWithAlias { expr, alias } => {
                self.expr(expr)?;
                let data_type = column_name(expr).and_then(|name| self.data_type(name));
                columns.columns.push(ColumnName { name: alias.value.clone(), data_type });
            }
            SelectItem::ExprWithAliases { expr, .. } => {
                self.expr(expr)?;
                columns.complete = false;
            }
            SelectItem::Wildcard(options) => {
                let relations = self.scopes.last().map(|scope| scope.relations.clone()).unwrap_or_default();
                self.wildcard(relations, options, columns)?;
            }
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options) => {
                let relation = self.qualifier(name)?;
                self.wildcard(relation.into_iter().collect(), options, columns)?;
            }
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::Expr(expr), _) => {
                self.expr(expr)?;
                columns.complete = false;
            }
        }
        Ok(())
    }

    fn wildcard(
        &mut self,
        relations: Vec<Relation>,
        options: &mut WildcardAdditionalOptions,
        columns: &mut Columns,
    ) -> Result<()> {
        let known: Vec<String> =
            relations.iter().flat_map(|relation| relation.columns.names()).map(str::to_owned).collect();
        let all = || known.iter().map(String::as_str);
        let mut left_out = Vec::new();
        let mut leave_out = |ident: &mut Ident| -> Result<()> {
            spell(ident, all(), "column")?;
            left_out.push(ident.value.clone());
            Ok(())
        };
        match &mut options.opt_exclude {
            Some(ExcludeSelectItem::Single(name)) => idents(name).into_iter().try_for_each(&mut leave_out)?,
            Some(ExcludeSelectItem::Multiple(names)) => {
                names.iter_mut().flat_map(idents).try_for_each(&mut leave_out)?
            }
            None => {}
        }
        if let Some(except) = &mut options.opt_except {
            leave_out(&mut except.first_element)?;
            except.additional_elements.iter_mut().try_for_each(&mut leave_out)?;
        }
        if let Some(replace) = &mut options.opt_replace {
            for item in &mut replace.items {
                spell(&mut item.column_name, all(), "column")?;
                self.expr(&mut item.expr)?;
            }
        }
        for relation in relations {
            columns.complete &= relation.columns.complete;
            columns
                .columns
                .extend(relation.columns.columns.into_iter().filter(|column| !left_out.contains(&column.name)));
        }
        Ok(())
    }

    fn data_type(&self, name: &str) -> Option<arrow::datatypes::DataType> {
        self.scopes.last()?.data_type(name).cloned()
    }

    /// The relation that a name before `.*` means.
    pub(super) fn qualifier(&mut self, name: &mut ObjectName) -> Result<Option<Relation>> {
        let mut parts: Vec<Ident> = name.0.iter().filter_map(|part| part.as_ident().cloned()).collect();
        for scope in self.scopes.iter().rev() {
            if let Some(relation) = scope.relation(&mut parts)? {
                name.0 = parts.into_iter().map(ObjectNamePart::Identifier).collect();
                return Ok(Some(relation.clone()));
            }
        }
        Ok(None)
    }

    /// Pipe operators see the columns of FROM and those named so far; nothing is lost when they see
    /// too many, because the planner has the last word.
    fn pipe(&mut self, operator: &mut PipeOperator, scope: &mut Scope) -> Result<()> {
        match operator {
            PipeOperator::Join(join) => {
                self.table_factor(&mut join.relation, &mut scope.relations)?;
                if let Some(JoinConstraint::On(expr)) = constraint(&mut join.join_operator) {
                    self.within(scope.clone(), |resolver| resolver.expr(expr))?;
                }
            }
            PipeOperator::As { alias } => {
                let columns = scope.relations.iter().flat_map(|relation| relation.columns.columns.clone()).collect();
                let columns = Columns { columns, complete: false };
                scope.relations.push(Relation { path: vec![alias.value.clone()], columns, lower: false });
            }
            PipeOperator::Union { queries, .. }
            | PipeOperator::Intersect { queries, .. }
            | PipeOperator::Except { queries, .. } => {
                queries.iter_mut().try_for_each(|query| self.query(query).map(drop))?;
            }
            other => {
                self.within(scope.clone(), |resolver| resolver.node(other))?;
                let items = match other {
                    PipeOperator::Select { exprs } | PipeOperator::Extend { exprs } => exprs.as_slice(),
                    PipeOperator::Aggregate { full_table_exprs, group_by_expr } => {
                        let named = full_table_exprs.iter().chain(group_by_expr.iter());
                        scope
                            .aliases
                            .extend(named.filter_map(|item| item.expr.alias.as_ref()).map(|alias| alias.value.clone()));
                        &[]
                    }
                    _ => &[],
                };
                scope.aliases.extend(items.iter().filter_map(|item| match item {
                    SelectItem::ExprWithAlias { alias, .. } => Some(alias.value.clone()),
                    _ => None,
                }));
            }
        }
        Ok(())
    }
}

/// The name that an expression without an alias gives its column, where it is a column itself.
fn column_name(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Identifier(ident) => Some(&ident.value),
        Expr::CompoundIdentifier(parts) if parts.len() == 2 => parts.last().map(|part| part.value.as_str()),
        Expr::Nested(inner) => column_name(inner),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
