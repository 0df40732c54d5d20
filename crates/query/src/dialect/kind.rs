//! What a statement does, as far as who may run it is concerned.

use super::Statement;

/// What a statement does. Whatever is none of these is refused when it is parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatementKind {
    /// Reads: SELECT, VALUES, TABLE, WITH, set operations.
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
        StatementKind::Query
    }

    /// The table or view of the session that the statement creates, drops or inserts into, as
    /// written without quotes.
    #[must_use]
    pub fn target(&self) -> Option<String> {
        None
    }
}
