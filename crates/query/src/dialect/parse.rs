//! Text to statements.

use std::ops::ControlFlow;

use datafusion::error::DataFusionError;
use datafusion::sql::parser::{DFParserBuilder, Statement as Ast};
use datafusion::sql::sqlparser::ast::helpers::stmt_create_table::CreateTableBuilder;
use datafusion::sql::sqlparser::ast::{Set, SetExpr, Statement as Sql, Visit, VisitMut};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::TokenWithSpan;
use lakeserve_common::error::{Error, ErrorKind, Result};

use super::complexity;
use super::kind::classify;
use super::normalise::{Normalise, microseconds};
use super::refuse::Refuse;
use super::tokens::{Chunk, chunks};
use super::{ParseLimits, Script, Statement, StatementKind, versions};
use crate::error::from_datafusion;
use crate::stack::with_stack;

/// Parses a script: statements separated by semicolons, settings first.
///
/// Leading `SET key = value;` statements become [`Script::settings`] when something else follows
/// them; a script of nothing but SETs keeps them as statements.
///
/// # Errors
/// [`ErrorKind::Parse`] for text that does not parse (line and column are in the message), `TooLarge`
/// and `Resource` beyond the limits, `Unsupported` for statements and clauses that are not supported.
pub fn parse(sql: &str, limits: &ParseLimits) -> Result<Script> {
    let chunks = chunks(sql, limits)?;
    let tokens = chunks.iter().map(|chunk| chunk.tokens.len()).max().unwrap_or(0);
    with_stack(tokens, || parse_chunks(chunks, limits))
}

fn parse_chunks(chunks: Vec<Chunk<'_>>, limits: &ParseLimits) -> Result<Script> {
    let mut statements = Vec::with_capacity(chunks.len());
    let mut versions_before = 0;
    for chunk in chunks {
        let statement = parse_statement(chunk, versions_before, limits)?;
        versions_before += statement.versions.len();
        statements.push(statement);
    }
    if statements.is_empty() {
        return Err(Error::new(ErrorKind::Parse, "the statement is empty"));
    }
    let leading = statements.iter().take_while(|statement| statement.kind() == StatementKind::Set).count();
    let settings: Vec<_> = statements.iter().take(leading).map_while(Statement::setting).collect();
    if leading < statements.len() {
        statements.drain(..settings.len());
        return Ok(Script { settings, statements });
    }
    Ok(Script { settings: Vec::new(), statements })
}

fn parse_statement(chunk: Chunk<'_>, versions_before: usize, limits: &ParseLimits) -> Result<Statement> {
    let (tokens, versions) = versions::rewrite(chunk.tokens, versions_before)?;
    let mut ast = parse_tokens(tokens, limits)?;
    prepare(&mut ast, limits)?;
    classify(&ast)?;
    Ok(Statement { ast, text: chunk.text.to_owned(), versions })
}

fn parse_tokens(tokens: Vec<TokenWithSpan>, limits: &ParseLimits) -> Result<Ast> {
    // Each level of parentheses costs the parser several steps of its own counter.
    let recursion = limits.depth.saturating_mul(8).max(50);
    let mut parser = DFParserBuilder::new(tokens)
        .with_dialect(&GenericDialect {})
        .with_recursion_limit(recursion)
        .build()
        .map_err(from_datafusion)?;
    let ast = parser.parse_statement().map_err(from_datafusion)?;
    parser
        .parser
        .expect_token(&datafusion::sql::sqlparser::tokenizer::Token::EOF)
        .map_err(|error| from_datafusion(DataFusionError::from(error)))?;
    Ok(ast)
}

/// Normalises, then refuses what would be dropped.
fn prepare(ast: &mut Ast, limits: &ParseLimits) -> Result<()> {
    match ast {
        Ast::Statement(sql) => prepare_sql(sql, limits),
        Ast::Explain(explain) => prepare(&mut explain.statement, limits),
        Ast::CreateExternalTable(create) => {
            for column in &mut create.columns {
                microseconds(&mut column.data_type);
            }
            Ok(())
        }
        Ast::CopyTo(_) | Ast::Reset(_) => Ok(()),
    }
}

fn prepare_sql(sql: &mut Sql, limits: &ParseLimits) -> Result<()> {
    select_into_creates(sql);
    match sql {
        Sql::CreateTable(create) => {
            // Tables of a session last as long as the session anyway.
            create.temporary = false;
            for column in &mut create.columns {
                microseconds(&mut column.data_type);
            }
        }
        Sql::CreateView(create) => create.temporary = false,
        Sql::Prepare { data_types, .. } => data_types.iter_mut().for_each(microseconds),
        Sql::Set(Set::SetTimeZone { .. }) => return Ok(()),
        _ => {}
    }
    let depth = limits.depth.saturating_add(limits.chain);
    if let ControlFlow::Break(error) = sql.visit(&mut Normalise::new(depth)) {
        return Err(*error);
    }
    match Visit::visit(&*sql, &mut Refuse) {
        ControlFlow::Break(error) => Err(*error),
        ControlFlow::Continue(()) => complexity::check(sql),
    }
}

/// `SELECT … INTO t` is `CREATE TABLE t AS SELECT …`.
fn select_into_creates(sql: &mut Sql) {
    let Sql::Query(query) = sql else { return };
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    if let Some(into) = select.into.take() {
        let query = query.clone();
        *sql = Sql::CreateTable(CreateTableBuilder::new(into.name).query(Some(query)).build());
    }
}

#[cfg(test)]
mod corpus;
#[cfg(test)]
mod tests;
