//! How a command ends when it does not end well: 1 when the work failed (a query error, a table that
//! cannot be opened), 2 when it was asked for in a wrong way (usage, configuration). The message
//! goes to standard error.

use std::process::ExitCode;

use lakeserve_common::Error;

/// A failed command.
#[derive(Debug, PartialEq, Eq)]
pub enum Failure {
    /// Exit status 1.
    Failed(String),
    /// Exit status 2.
    Usage(String),
    /// Whoever read our output has closed it: end quietly, with status 0.
    OutputClosed,
}

impl Failure {
    /// The work failed.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::Failed(message.into())
    }

    /// It was asked for in a wrong way.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::Usage(message.into())
    }

    /// A role that has no process of its own yet.
    #[must_use]
    pub fn role(role: &str) -> Self {
        Self::usage(format!(
            "the role `{role}` cannot run in a process of its own yet: `lakeserve up` runs all roles in one process"
        ))
    }

    /// An error of the configuration or of an argument.
    #[must_use]
    pub fn wrong_argument(error: &Error) -> Self {
        Self::Usage(error.to_string())
    }

    /// Tells standard error and gives the exit status.
    #[must_use]
    pub fn report(&self) -> ExitCode {
        match self {
            Self::Failed(message) => {
                eprintln!("error: {message}");
                ExitCode::from(1)
            }
            Self::Usage(message) => {
                eprintln!("error: {message}");
                ExitCode::from(2)
            }
            Self::OutputClosed => ExitCode::SUCCESS,
        }
    }
}

/// Prints a line for people. A closed standard output is nobody's failure.
pub(crate) fn say(line: impl std::fmt::Display) {
    use std::io::Write;
    let _closed = writeln!(std::io::stdout(), "{line}");
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Failed(error.to_string())
    }
}
