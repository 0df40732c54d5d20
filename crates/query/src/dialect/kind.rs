//! What a statement does, as far as who may run it is concerned: the one list of what is allowed.

use datafusion::sql::parser::Statement as Ast;
use datafusion::sql::sqlparser::ast::{Expr, ObjectName, ObjectType, Set, Statement as Sql, TableObject, Value};
use lakeserve_common::error::{Error, ErrorKind, Result};

use super::Statement;

/// What a statement does. Whatever is none of these is refused when it is parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatementKind {
    /// Reads: SELECT, VALUES, WITH, set operations.
    Query,
    /// EXPLAIN of a query, with or without ANALYZE.
    Explain,
    /// SHOW and DESCRIBE.
    Show,
    /// SET and RESET of session settings.
    Set,
    /// Creates or drops tables or views of the session.
    SessionDdl,
    /// INSERT into a table of the session.
    SessionInsert,
    /// PREPARE, EXECUTE and DEALLOCATE.
    Prepared,
}

impl Statement {
    /// What the statement does.
    #[must_use]
    pub fn kind(&self) -> StatementKind {
        // Parsing refuses whatever has no kind.
        classify(&self.ast).unwrap_or(StatementKind::Query)
    }

    /// The table or view of the session that the statement creates, drops or inserts into, as
    /// written without quotes, parts joined by dots.
    #[must_use]
    pub fn target(&self) -> Option<String> {
        match &self.ast {
            Ast::CreateExternalTable(create) => Some(plain(&create.name)),
            Ast::Statement(sql) => match sql.as_ref() {
                Sql::CreateTable(create) => Some(plain(&create.name)),
                Sql::CreateView(create) => Some(plain(&create.name)),
                Sql::Drop { names, .. } => names.first().map(plain),
                Sql::Insert(insert) => match &insert.table {
                    TableObject::TableName(name) => Some(plain(name)),
                    _ => None,
                },
                _ => None,
            },
            _ => None,
        }
    }

    /// Key and value of a `SET key = value` statement, without quotes; `SET TIME ZONE` has the key
    /// `time_zone`.
    #[must_use]
    pub fn setting(&self) -> Option<(String, String)> {
        let Ast::Statement(sql) = &self.ast else { return None };
        match sql.as_ref() {
            Sql::Set(Set::SingleAssignment { variable, values, .. }) => match values.as_slice() {
                [value] => Some((plain(variable), literal(value))),
                _ => None,
            },
            Sql::Set(Set::SetTimeZone { value, .. }) => Some(("time_zone".to_owned(), literal(value))),
            _ => None,
        }
    }
}

/// The name's parts without quotes, joined by dots.
pub(super) fn plain(name: &ObjectName) -> String {
    let parts: Vec<&str> = name.0.iter().filter_map(|part| part.as_ident()).map(|part| part.value.as_str()).collect();
    parts.join(".")
}

fn literal(value: &Expr) -> String {
    match value {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) | Value::DoubleQuotedString(text) => text.clone(),
            other => other.to_string(),
        },
        Expr::Identifier(ident) => ident.value.clone(),
        other => other.to_string(),
    }
}

/// The kind of an allowed statement.
///
/// # Errors
/// [`ErrorKind::Unsupported`], naming the statement, for all others.
pub(super) fn classify(ast: &Ast) -> Result<StatementKind> {
    match ast {
        Ast::Statement(sql) => classify_sql(sql),
        Ast::CreateExternalTable(create) if create.unbounded => Err(refuse("CREATE UNBOUNDED EXTERNAL TABLE")),
        Ast::CreateExternalTable(_) => Ok(StatementKind::SessionDdl),
        Ast::Explain(explain) => match classify(&explain.statement)? {
            StatementKind::Query | StatementKind::Prepared => Ok(StatementKind::Explain),
            _ => Err(refuse("EXPLAIN of anything but a query")),
        },
        Ast::Reset(_) => Ok(StatementKind::Set),
        Ast::CopyTo(_) => Err(refuse("COPY")),
    }
}

fn classify_sql(sql: &Sql) -> Result<StatementKind> {
    match sql {
        Sql::Query(_) => Ok(StatementKind::Query),
        Sql::Explain { statement, .. } => match statement.as_ref() {
            Sql::Query(_) => Ok(StatementKind::Explain),
            _ => Err(refuse("EXPLAIN of anything but a query")),
        },
        Sql::ExplainTable { .. }
        | Sql::ShowVariable { .. }
        | Sql::ShowTables { .. }
        | Sql::ShowColumns { .. }
        | Sql::ShowFunctions { .. }
        | Sql::ShowCreate { .. } => Ok(StatementKind::Show),
        Sql::Set(Set::SingleAssignment { .. } | Set::SetTimeZone { .. }) => Ok(StatementKind::Set),
        Sql::Set(_) => Err(refuse("this form of SET").with_hint("write SET name = value")),
        Sql::CreateTable(_) | Sql::CreateView(_) => Ok(StatementKind::SessionDdl),
        Sql::Drop { object_type: ObjectType::Table | ObjectType::View, names, .. } if names.len() == 1 => {
            Ok(StatementKind::SessionDdl)
        }
        Sql::Drop { object_type: ObjectType::Table | ObjectType::View, .. } => {
            Err(refuse("DROP of several names at once"))
        }
        Sql::Insert(_) => Ok(StatementKind::SessionInsert),
        Sql::Prepare { statement, .. } => match statement.as_ref() {
            Sql::Query(_) => Ok(StatementKind::Prepared),
            _ => Err(refuse("PREPARE of anything but a query")),
        },
        Sql::Execute { .. } | Sql::Deallocate { .. } => Ok(StatementKind::Prepared),
        other => Err(refuse(&first_words(&other.to_string()))),
    }
}

fn refuse(what: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("{what} is not supported"))
        .with_hint("served tables are read-only; CREATE TABLE, CREATE VIEW and INSERT work on tables of the session")
}

/// The words in capitals that a statement begins with, at most three.
fn first_words(text: &str) -> String {
    let capital = |word: &&str| word.chars().all(|letter| letter.is_ascii_uppercase() || letter == '_');
    let words: Vec<&str> = text.split_whitespace().take_while(capital).take(3).collect();
    if words.is_empty() { "this statement".to_owned() } else { words.join(" ") }
}
