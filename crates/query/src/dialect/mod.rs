//! Lakeserve's SQL: what DataFusion plans, read with sqlparser's generic dialect, with time travel
//! recognised on the tokens before parsing.
//!
//! What the planner would drop without a word (samples, locks, hints, settings and so on) is refused
//! by name here. Statements are bounded in bytes and depth, so that no text can exhaust the stack.

mod complexity;
mod exprs;
mod from;
mod kind;
mod normalise;
mod parse;
mod refuse;
mod resolve;
mod scope;
mod tokens;
mod versions;

use datafusion::sql::parser::Statement as Ast;

pub use kind::StatementKind;
pub use parse::parse;
pub use resolve::{resolve_identifiers, resolve_table, table_names};

/// Bounds on what one request may say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParseLimits {
    /// Most bytes of SQL text. Default 4 MiB.
    pub bytes: usize,
    /// Deepest nesting of expressions, subqueries and parentheses. Default 200.
    pub depth: usize,
    /// Longest chain of operators that may not be regrouped (`a + b + …`); chains of AND and OR have
    /// no limit of their own. Default 500: the cost of planning one grows with its square.
    pub chain: usize,
    /// Most joins, and most set operations, in one statement. Default 500.
    pub relations: usize,
}

impl Default for ParseLimits {
    fn default() -> Self {
        Self { bytes: 4 << 20, depth: 200, chain: 500, relations: 500 }
    }
}

/// A request: settings first, then statements.
#[derive(Debug, Clone, PartialEq)]
pub struct Script {
    /// The leading `SET key = value;` statements, keys and values as written without quotes.
    pub settings: Vec<(String, String)>,
    /// The statements in order.
    pub statements: Vec<Statement>,
}

/// One parsed statement.
#[derive(Debug, Clone, PartialEq)]
pub struct Statement {
    /// What DataFusion plans.
    pub ast: Ast,
    /// The statement's own text.
    pub text: String,
    /// The tables that are read as of an earlier state, with their stand-ins in `ast`.
    pub versions: Vec<VersionedTable>,
}

/// A table read as of an earlier state: `FROM t FOR VERSION AS OF 3` has become
/// `FROM "__lakeserve_at_0" AS t`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionedTable {
    /// The name under which the state must be registered before planning.
    pub placeholder: String,
    /// The table's name as written, without quotes, parts joined by dots.
    pub table: String,
    /// Which state.
    pub at: VersionChoice,
}

/// Which state of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VersionChoice {
    /// A Delta version or an Iceberg snapshot id.
    Version(i64),
    /// An Iceberg branch or tag.
    Reference(String),
    /// The state that was current at that time, in milliseconds since 1970-01-01 UTC.
    TimestampMs(i64),
}
