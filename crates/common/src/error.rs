//! The outward error: a kind that says what the caller should do, a message that names the thing
//! and the value, and where there is one a hint.
//!
//! Inside a crate errors are rich `thiserror` enums; at the crate's edge they become this type.
//! The maps from [`ErrorKind`] to HTTP statuses and to Pinot's codes stand in the broker, one each.

use std::fmt;

/// The result of everything that can fail towards a client.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What kind of failure it is, by what the caller should do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ErrorKind {
    /// The statement or request body is not well formed: fix the text.
    Parse,
    /// The statement is well formed but cannot be planned (types, functions, arguments).
    Plan,
    /// An option, setting or parameter is unknown or has an impossible value.
    Option,
    /// The statement asks for something that Lakeserve does not do (for example a write).
    Unsupported,
    /// A value went out of its type's range while the query ran, or a cast failed.
    Value,
    /// No credentials or wrong ones.
    Unauthenticated,
    /// The credentials do not allow it.
    Denied,
    /// No table, view or snapshot of that name.
    NoSuchTable,
    /// No column of that name, or the name is ambiguous.
    NoSuchColumn,
    /// Nothing stands at that address of the HTTP interface, or no query has that id.
    NotFound,
    /// Request or result is larger than a limit allows.
    TooLarge,
    /// The query would exceed its share of memory, or expressions are too complex.
    Resource,
    /// A quota is used up: slow down.
    Quota,
    /// The client went away or cancelled.
    Cancelled,
    /// The deadline passed.
    Deadline,
    /// At capacity: retry elsewhere or later.
    Capacity,
    /// Shutting down: retry elsewhere.
    Draining,
    /// Object storage or a catalog cannot be reached or refuses us: tell the operator.
    Storage,
    /// A file or log of the table is damaged, missing or replaced: tell the table's owner.
    Corrupt,
    /// The table uses a format feature that Lakeserve does not know: it is refused, never guessed.
    Feature,
    /// A fault of Lakeserve's own.
    Internal,
}

impl ErrorKind {
    /// The stable name that stands in responses, logs and metric labels.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Parse => "parse",
            Self::Plan => "plan",
            Self::Option => "option",
            Self::Unsupported => "unsupported",
            Self::Value => "value",
            Self::Unauthenticated => "unauthenticated",
            Self::Denied => "denied",
            Self::NoSuchTable => "no_such_table",
            Self::NoSuchColumn => "no_such_column",
            Self::NotFound => "not_found",
            Self::TooLarge => "too_large",
            Self::Resource => "resource",
            Self::Quota => "quota",
            Self::Cancelled => "cancelled",
            Self::Deadline => "deadline",
            Self::Capacity => "capacity",
            Self::Draining => "draining",
            Self::Storage => "storage",
            Self::Corrupt => "corrupt",
            Self::Feature => "feature",
            Self::Internal => "internal",
        }
    }

    /// Every kind, for exhaustive tests and for pre-registered metric labels.
    pub const ALL: [Self; 21] = [
        Self::Parse,
        Self::Plan,
        Self::Option,
        Self::Unsupported,
        Self::Value,
        Self::Unauthenticated,
        Self::Denied,
        Self::NoSuchTable,
        Self::NoSuchColumn,
        Self::NotFound,
        Self::TooLarge,
        Self::Resource,
        Self::Quota,
        Self::Cancelled,
        Self::Deadline,
        Self::Capacity,
        Self::Draining,
        Self::Storage,
        Self::Corrupt,
        Self::Feature,
        Self::Internal,
    ];
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An error on its way to a client: kind, message, optional hint, optional cause (for the log).
///
/// Messages are lower case, name the thing and the value, and say what to do where that is known.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    hint: Option<String>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// An error of `kind` with a message.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: None, source: None }
    }

    /// Adds what the caller could do about it.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Keeps the cause for the log; it is not shown to clients.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Puts `what` and a colon before the message, keeping kind and hint.
    #[must_use]
    pub fn context(mut self, what: impl fmt::Display) -> Self {
        self.message = format!("{what}: {}", self.message);
        self
    }

    /// The kind.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The message, without hint and cause.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What the caller could do about it.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn std::error::Error + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn context_keeps_kind_and_hint() {
        let error =
            Error::new(ErrorKind::Corrupt, "no magic bytes").with_hint("rewrite the file").context("data/a.parquet");
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert_eq!(error.to_string(), "data/a.parquet: no magic bytes (rewrite the file)");
    }

    #[test]
    fn every_kind_has_a_name_of_its_own() {
        let names: std::collections::BTreeSet<_> = ErrorKind::ALL.iter().map(|kind| kind.as_str()).collect();
        assert_eq!(names.len(), ErrorKind::ALL.len());
    }
}
