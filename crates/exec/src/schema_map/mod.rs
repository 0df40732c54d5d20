//! How the columns of a table are found in one data file.
//!
//! A column is resolved by field id where the file carries ids and the mapping has one, else by
//! physical name, then by alias; never by position. What the file lacks is a constant: the value
//! that the log gives for the file, else the column's initial default, else NULL. What the file
//! stores in another type is cast if the table formats allow that change, else it is an error that
//! names the column ([`casts`]); the same holds inside structs, lists and maps ([`adapter`]).

mod adapter;
mod casts;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, UInt32Array, new_null_array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, FieldRef};
use arrow::error::ArrowError;
use lakeserve_common::{Error, ErrorKind, Result};
use lakeserve_lake::{DataFile, TableSchema};
use parquet::arrow::ProjectionMask;

#[cfg(test)]
pub(crate) use adapter::mapping_of;
pub(crate) use adapter::{Adapter, field_id};

use crate::footer::Footer;

/// Where the values of one column come from.
#[derive(Debug, Clone)]
pub(crate) enum ColumnSource {
    /// A root column of the file, made into the logical type.
    File {
        /// Index among the root columns of the file.
        root: usize,
        /// What makes its arrays into the logical type.
        adapter: Adapter,
    },
    /// The same value (an array of length one, of the logical type) in every row.
    Constant(ArrayRef),
}

/// The columns of a table in one file.
pub(crate) struct FileSchema<'a> {
    table: &'a TableSchema,
    file: &'a DataFile,
    footer: &'a Footer,
}

impl<'a> FileSchema<'a> {
    pub(crate) fn new(table: &'a TableSchema, file: &'a DataFile, footer: &'a Footer) -> Self {
        Self { table, file, footer }
    }

    /// The logical type of a column.
    pub(crate) fn logical(&self, index: usize) -> Option<&DataType> {
        self.table.arrow.fields().get(index).map(|field| field.data_type())
    }

    /// Finds a column of the table in the file.
    ///
    /// # Errors
    /// `Corrupt` when the file stores another type than may become the logical one, or lacks a
    /// column that must have a value.
    pub(crate) fn resolve(&self, index: usize) -> Result<ColumnSource> {
        let logical =
            self.table.arrow.fields().get(index).ok_or_else(|| {
                Error::new(ErrorKind::Internal, format!("column {index} is not in the table's schema"))
            })?;
        let constant = self.file.constants.iter().find(|(column, _)| *column == index).map(|(_, value)| value);
        if let Some(value) = constant
            && self.file.constants_override
        {
            return Ok(ColumnSource::Constant(value.clone()));
        }
        let by_name = adapter::mapping_of(logical);
        let mapping = self.table.columns.get(index).unwrap_or(&by_name);
        let fields = self.footer.arrow_schema().fields();
        let has_ids = self.footer.has_field_ids();
        if let Some(root) = adapter::find(fields, mapping, has_ids) {
            let adapter = Adapter::between(&fields[root], logical, mapping, has_ids)
                .map_err(|problem| self.problem(&problem.under(logical.name())))?;
            return Ok(ColumnSource::File { root, adapter });
        }
        if let Some(value) = constant {
            return Ok(ColumnSource::Constant(value.clone()));
        }
        match adapter::missing(logical, mapping) {
            Ok(value) => Ok(ColumnSource::Constant(value)),
            Err(problem) => Err(self.problem(&problem.under(logical.name()))),
        }
    }

    fn problem(&self, problem: &adapter::Problem) -> Error {
        Error::new(ErrorKind::Corrupt, format!("data file {}: {problem}", self.file.url))
    }
}

/// What to read of a file, and how to make the table's columns of it.
#[derive(Debug)]
pub(crate) struct FileProjection {
    /// One per wanted column: its name, its logical type, and for a column of the file its
    /// position among `roots`.
    columns: Vec<(FieldRef, Projected)>,
    /// Root columns to read, ascending.
    roots: Vec<usize>,
}

#[derive(Debug)]
enum Projected {
    File { position: usize, adapter: Adapter },
    Constant(ArrayRef),
}

impl FileProjection {
    /// Resolves the wanted columns (indexes in the table's schema).
    ///
    /// # Errors
    /// As [`FileSchema::resolve`].
    pub(crate) fn new(schema: &FileSchema<'_>, wanted: &[usize]) -> Result<Self> {
        let sources = wanted.iter().map(|index| schema.resolve(*index)).collect::<Result<Vec<_>>>()?;
        let mut roots: Vec<usize> = sources
            .iter()
            .filter_map(|source| match source {
                ColumnSource::File { root, .. } => Some(*root),
                ColumnSource::Constant(_) => None,
            })
            .collect();
        roots.sort_unstable();
        roots.dedup();
        let columns = wanted
            .iter()
            .zip(sources)
            .map(|(index, source)| {
                let field = Arc::clone(&schema.table.arrow.fields()[*index]);
                let projected = match source {
                    ColumnSource::File { root, adapter } => {
                        Projected::File { position: roots.partition_point(|other| *other < root), adapter }
                    }
                    ColumnSource::Constant(value) => Projected::Constant(value),
                };
                (field, projected)
            })
            .collect();
        Ok(Self { columns, roots })
    }

    /// Root columns of the file that must be read.
    pub(crate) fn roots(&self) -> &[usize] {
        &self.roots
    }

    /// The same for the Parquet reader.
    pub(crate) fn mask(&self, footer: &Footer) -> ProjectionMask {
        ProjectionMask::roots(footer.metadata().file_metadata().schema_descr(), self.roots.iter().copied())
    }

    /// Makes the wanted columns of `rows` rows from the root columns that were read.
    ///
    /// # Errors
    /// `Corrupt`, naming the column: a value does not fit the logical type, or is NULL in a column
    /// that must have values.
    pub(crate) fn apply(&self, read: &[ArrayRef], rows: usize) -> Result<Vec<ArrayRef>> {
        let column = |(field, projected): &(FieldRef, Projected)| -> Result<ArrayRef> {
            let array = match projected {
                Projected::Constant(value) => repeat(value, rows),
                Projected::File { position, adapter } => match read.get(*position) {
                    Some(array) => adapter.apply(array),
                    None => Err(ArrowError::SchemaError("the file's reader left a column out".into())),
                },
            };
            let array = array.map_err(|error| bad_values(field, &error.to_string()))?;
            if !field.is_nullable() && array.logical_null_count() > 0 {
                return Err(bad_values(field, "NULL in a column that is declared to have none"));
            }
            Ok(array)
        };
        self.columns.iter().map(column).collect()
    }
}

fn bad_values(field: &Field, what: &str) -> Error {
    Error::new(ErrorKind::Corrupt, format!("column \"{}\": {what}", field.name()))
}

/// `rows` copies of the one value of `value`.
pub(crate) fn repeat(value: &ArrayRef, rows: usize) -> Result<ArrayRef, ArrowError> {
    if value.len() == rows {
        return Ok(Arc::clone(value));
    }
    if value.is_empty() || value.logical_null_count() == value.len() {
        return Ok(new_null_array(value.data_type(), rows));
    }
    take(value, &UInt32Array::from(vec![0; rows]), None)
}

#[cfg(test)]
mod tests;
