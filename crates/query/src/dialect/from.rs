//! Names in FROM: tables, CTEs, subqueries and joins, and the relations that they make visible.

use datafusion::sql::sqlparser::ast::{
    Ident, JoinConstraint, JoinOperator, ObjectName, ObjectNamePart, TableAlias, TableFactor, TableWithJoins,
};
use lakeserve_common::error::{Error, ErrorKind, Result};

use super::kind::plain;
use super::resolve::Resolver;
use super::scope::{Columns, Relation, Scope, spell};
use crate::error::no_such_table;
use crate::session::{DEFAULT_CATALOG, DEFAULT_SCHEMA};
use crate::stack::recurse;

impl Resolver<'_> {
    pub(super) fn from(&mut self, tables: &mut [TableWithJoins]) -> Result<Vec<Relation>> {
        let mut relations = Vec::new();
        for table in tables {
            self.table_factor(&mut table.relation, &mut relations)?;
            for join in &mut table.joins {
                let before = relations.len();
                self.table_factor(&mut join.relation, &mut relations)?;
                match constraint(&mut join.join_operator) {
                    Some(JoinConstraint::On(expr)) => {
                        let scope = Scope { relations: std::mem::take(&mut relations), ..Scope::default() };
                        self.scopes.push(scope);
                        let outcome = self.expr(expr);
                        relations = self.scopes.pop().unwrap_or_default().relations;
                        outcome?;
                    }
                    Some(JoinConstraint::Using(names)) => using(names, &relations, before)?,
                    _ => {}
                }
            }
        }
        Ok(relations)
    }

    /// Adds the relations of one item of FROM; `relations` are those to its left.
    pub(super) fn table_factor(&mut self, factor: &mut TableFactor, relations: &mut Vec<Relation>) -> Result<()> {
        match factor {
            TableFactor::Table { name, alias, args: None, .. } => {
                let relation = self.table(name)?;
                relations.push(aliased(relation, alias.as_ref()));
            }
            TableFactor::Table { name, alias, args: Some(args), .. } => {
                if let Some(ObjectNamePart::Identifier(ident)) = name.0.first_mut()
                    && ident.quote_style.is_none()
                {
                    ident.value = ident.value.to_lowercase();
                }
                self.lateral(relations, |resolver| resolver.node(&mut args.args))?;
                let relation = Relation { path: vec![plain(name)], columns: Columns::default(), lower: true };
                relations.push(aliased(relation, alias.as_ref()));
            }
            TableFactor::Derived { lateral, subquery, alias, .. } => {
                let columns = if *lateral {
                    self.lateral(relations, |resolver| resolver.query(subquery))?
                } else {
                    self.query(subquery)?
                };
                relations.push(aliased(Relation { path: Vec::new(), columns, lower: false }, alias.as_ref()));
            }
            TableFactor::UNNEST { array_exprs, alias, .. } => {
                self.lateral(relations, |resolver| resolver.node(array_exprs))?;
                relations.push(aliased(
                    Relation { path: Vec::new(), columns: Columns::default(), lower: false },
                    alias.as_ref(),
                ));
            }
            TableFactor::Function { args, alias, .. } => {
                self.lateral(relations, |resolver| resolver.node(args))?;
                relations.push(aliased(
                    Relation { path: Vec::new(), columns: Columns::default(), lower: true },
                    alias.as_ref(),
                ));
            }
            TableFactor::NestedJoin { table_with_joins, alias } => {
                let inner = recurse(|| self.from(std::slice::from_mut(table_with_joins.as_mut())))?;
                match alias {
                    None => relations.extend(inner),
                    Some(alias) => {
                        let complete = inner.iter().all(|relation| relation.columns.complete);
                        let columns = inner.into_iter().flat_map(|relation| relation.columns.columns).collect();
                        let relation =
                            Relation { path: Vec::new(), columns: Columns { columns, complete }, lower: false };
                        relations.push(aliased(relation, Some(alias)));
                    }
                }
            }
            _ => relations.push(Relation { path: Vec::new(), columns: Columns::default(), lower: false }),
        }
        Ok(())
    }

    /// Runs `work` where the relations to the left are visible.
    fn lateral<T>(&mut self, relations: &mut Vec<Relation>, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.scopes.push(Scope { relations: std::mem::take(relations), ..Scope::default() });
        let outcome = work(self);
        *relations = self.scopes.pop().unwrap_or_default().relations;
        outcome
    }

    /// Spells a table's name and tells its columns.
    pub(super) fn table(&mut self, name: &mut ObjectName) -> Result<Relation> {
        let mut parts = idents(name);
        if let [catalog, schema, _] = parts.as_mut_slice()
            && catalog.value.eq_ignore_ascii_case(DEFAULT_CATALOG)
        {
            DEFAULT_CATALOG.clone_into(&mut catalog.value);
            if schema.value.eq_ignore_ascii_case(DEFAULT_SCHEMA) {
                DEFAULT_SCHEMA.clone_into(&mut schema.value);
            }
        }
        if let [.., schema, _] = parts.as_mut_slice() {
            if schema.value.eq_ignore_ascii_case("information_schema") {
                parts
                    .iter_mut()
                    .filter(|part| part.quote_style.is_none())
                    .for_each(|part| part.value = part.value.to_lowercase());
                let path = parts.iter().map(|part| part.value.clone()).collect();
                return Ok(Relation { path, columns: Columns::default(), lower: true });
            }
            if schema.value.eq_ignore_ascii_case(DEFAULT_SCHEMA) {
                DEFAULT_SCHEMA.clone_into(&mut schema.value);
            }
        }
        let qualified = parts.len() > 1;
        let in_default = parts.len() < 4
            && parts.iter().rev().skip(1).zip([DEFAULT_SCHEMA, DEFAULT_CATALOG]).all(|(part, name)| part.value == name);
        let Some(last) = parts.last_mut() else {
            return Ok(Relation { path: Vec::new(), columns: Columns::default(), lower: false });
        };
        let columns = if in_default {
            self.bare_table(last, qualified)?
        } else {
            let full = plain(name);
            self.seen.push(full.clone());
            match (self.tables)(&full) {
                Some(schema) => Columns::of_schema(&schema),
                None => return Err(no_such_table(&full, self.all.iter().map(String::as_str))),
            }
        };
        let path = idents(name).iter().map(|part| part.value.clone()).collect();
        Ok(Relation { path, columns, lower: false })
    }

    /// A table of the default schema, or a CTE when the name is not qualified.
    fn bare_table(&mut self, ident: &mut Ident, qualified: bool) -> Result<Columns> {
        let ctes = if qualified { &[] } else { self.ctes.as_slice() };
        if self.collecting {
            let lower = ident.value.to_lowercase();
            if ctes.iter().any(|(name, _)| name.to_lowercase() == lower) {
                return Ok(Columns::default());
            }
            self.seen.push(ident.value.clone());
            return Ok(Columns::default());
        }
        if let Some((_, columns)) = ctes.iter().rev().find(|(name, _)| *name == ident.value) {
            return Ok(columns.clone());
        }
        if let Some(schema) = (self.tables)(&ident.value) {
            return Ok(Columns::of_schema(&schema));
        }
        let names = ctes.iter().map(|(name, _)| name.as_str()).chain(self.all.iter().map(String::as_str));
        if !spell(ident, names.clone(), "table")? {
            return Err(no_such_table(&ident.value, names));
        }
        if let Some((_, columns)) = ctes.iter().rev().find(|(name, _)| *name == ident.value) {
            return Ok(columns.clone());
        }
        Ok((self.tables)(&ident.value).map(|schema| Columns::of_schema(&schema)).unwrap_or_default())
    }
}

pub(super) fn idents(name: &mut ObjectName) -> Vec<&mut Ident> {
    let parts = name.0.iter_mut();
    let idents = parts.filter_map(|part| match part {
        ObjectNamePart::Identifier(ident) => Some(ident),
        ObjectNamePart::Function(_) => None,
    });
    idents.collect()
}

fn aliased(mut relation: Relation, alias: Option<&TableAlias>) -> Relation {
    if let Some(alias) = alias {
        relation.path = vec![alias.name.value.clone()];
        relation.columns.rename(alias.columns.iter().map(|column| column.name.value.as_str()));
    }
    relation
}

pub(super) fn constraint(operator: &mut JoinOperator) -> Option<&mut JoinConstraint> {
    match operator {
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint)
        | JoinOperator::Right(constraint)
        | JoinOperator::RightOuter(constraint)
        | JoinOperator::FullOuter(constraint)
        | JoinOperator::CrossJoin(constraint)
        | JoinOperator::Semi(constraint)
        | JoinOperator::LeftSemi(constraint)
        | JoinOperator::RightSemi(constraint)
        | JoinOperator::Anti(constraint)
        | JoinOperator::LeftAnti(constraint)
        | JoinOperator::RightAnti(constraint)
        | JoinOperator::StraightJoin(constraint)
        | JoinOperator::AsOf { constraint, .. } => Some(constraint),
        _ => None,
    }
}

/// USING needs one spelling for both sides: the first `left` relations and the others.
fn using(names: &mut [ObjectName], relations: &[Relation], left: usize) -> Result<()> {
    let (left, right) = relations.split_at(left.min(relations.len()));
    let known = |side: &'_ [Relation]| -> Vec<String> {
        side.iter().flat_map(|relation| relation.columns.names()).map(str::to_owned).collect()
    };
    let (left, right) = (known(left), known(right));
    for name in names {
        for ident in idents(name) {
            let mut other = ident.clone();
            let in_left = spell(ident, left.iter().map(String::as_str), "column")?;
            let in_right = spell(&mut other, right.iter().map(String::as_str), "column")?;
            if in_left && in_right && ident.value != other.value {
                return Err(Error::new(
                    ErrorKind::NoSuchColumn,
                    format!(
                        "USING: the column is spelled {} on the left and {} on the right",
                        ident.value, other.value
                    ),
                )
                .with_hint("write ON with both names"));
            }
        }
    }
    Ok(())
}
