//! Names as written to names as they are.

use arrow::datatypes::SchemaRef;
use lakeserve_common::error::Result;

use super::Statement;

/// The tables that the statement reads, as written without quotes, parts joined by dots, each once;
/// without CTEs and without the stand-ins of [`super::VersionedTable`].
#[must_use]
pub fn table_names(_statement: &Statement) -> Vec<String> {
    Vec::new()
}

/// The one of `all` that `name` means: exactly, else without case when that is unique.
///
/// # Errors
/// [`lakeserve_common::error::ErrorKind::NoSuchTable`] when there is none or more than one.
pub fn resolve_table(name: &str, _all: &[String]) -> Result<String> {
    Ok(name.to_owned())
}

/// Puts the exact spelling of tables, aliases and columns in the place of what was written: exactly
/// the same name wins, else the one that differs in case only when that is unique. `tables` gives the
/// schema of a table by its exact name (stand-ins of older states included), `all_table_names` are
/// the names that may be meant.
///
/// # Errors
/// [`lakeserve_common::error::ErrorKind::NoSuchTable`] or `NoSuchColumn` when a name is ambiguous,
/// listing the candidates, or a table does not exist.
pub fn resolve_identifiers(
    _statement: &mut Statement,
    _tables: &dyn Fn(&str) -> Option<SchemaRef>,
    _all_table_names: &[String],
) -> Result<()> {
    Ok(())
}
