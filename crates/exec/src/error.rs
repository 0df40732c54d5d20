//! How errors of the Parquet reader become ours, and ours DataFusion's.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use datafusion::error::DataFusionError;
use lakeserve_common::{Error, ErrorKind, Result};
use parquet::errors::ParquetError;
use url::Url;

/// Wraps an error for the way through DataFusion; the broker unwraps it again.
pub(crate) fn external(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// A data file that is not as it should be.
pub(crate) fn damaged(url: &Url, what: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Corrupt, format!("data file {url}: {what}"))
}

/// Runs a piece of the Parquet reader over bytes that may be damaged. The reader returns errors for
/// most damage and panics for some: both become an error that names the file.
///
/// # Errors
/// `Corrupt`.
pub(crate) fn guard<T>(url: &Url, work: impl FnOnce() -> Result<T, ParquetError>) -> Result<T> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(damaged(url, &error).with_source(error)),
        Err(panic) => Err(damaged(url, format_args!("cannot be decoded: {}", panic_text(panic.as_ref())))),
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("unknown fault")
}

/// What a failed read of a data file means: one that is gone is damage to the table.
pub(crate) fn read_failed(url: &Url, error: Error) -> Error {
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::NoSuchTable => {
            damaged(url, "the snapshot names it, but it is gone").with_source(error)
        }
        _ => error,
    }
}
