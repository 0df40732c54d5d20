//! Rows of a batch as JSON arrays or objects.

use std::collections::HashSet;

use arrow::array::RecordBatch;
use lakeserve_common::error::{Error, ErrorKind, Result};

use super::cell::{Cell, cell};
use super::{Spelling, json};

/// Writes the rows of one batch: made once per batch, then called once per row, so that types are looked at once.
pub struct RowEncoder<'a> {
    /// The writer of each column; its label with a colon stands before it when rows are objects.
    columns: Vec<(Vec<u8>, Cell<'a>)>,
    brackets: [u8; 2],
    rows: usize,
}

impl<'a> RowEncoder<'a> {
    /// Rows as JSON arrays of their values in schema order.
    ///
    /// # Errors
    /// `Unsupported` naming the column whose type has no spelling (unions).
    pub fn arrays(batch: &'a RecordBatch, spelling: Spelling) -> Result<Self> {
        let columns = columns(batch, spelling)?.into_iter().map(|cell| (Vec::new(), cell)).collect();
        Ok(Self { columns, brackets: *b"[]", rows: batch.num_rows() })
    }

    /// Rows as JSON objects with their keys in schema order, as JSON lines want them.
    ///
    /// # Errors
    /// As [`Self::arrays`], and `Unsupported` when two columns have the same name: one of them would be lost in
    /// most readers.
    pub fn objects(batch: &'a RecordBatch, spelling: Spelling) -> Result<Self> {
        let mut seen = HashSet::new();
        let mut labelled = Vec::with_capacity(batch.num_columns());
        for (field, cell) in batch.schema_ref().fields().iter().zip(columns(batch, spelling)?) {
            if !seen.insert(field.name()) {
                let message =
                    format!("two columns are named \"{}\", so rows cannot be written as objects", field.name());
                return Err(Error::new(ErrorKind::Unsupported, message).with_hint("give one of them an alias"));
            }
            let mut label = Vec::new();
            json::string(field.name(), &mut label);
            label.push(b':');
            labelled.push((label, cell));
        }
        Ok(Self { columns: labelled, brackets: *b"{}", rows: batch.num_rows() })
    }

    /// The rows of the batch.
    #[must_use]
    pub fn num_rows(&self) -> usize {
        self.rows
    }

    /// Appends one row to `out`, without anything after it. `row` must be below [`Self::num_rows`].
    pub fn encode_row(&self, row: usize, out: &mut Vec<u8>) {
        out.push(self.brackets[0]);
        for (nth, (label, write)) in self.columns.iter().enumerate() {
            if nth > 0 {
                out.push(b',');
            }
            out.extend_from_slice(label);
            write(row, out);
        }
        out.push(self.brackets[1]);
    }

    /// Appends all rows to `out` with `separator` between them.
    pub fn encode_all(&self, separator: u8, out: &mut Vec<u8>) {
        for row in 0..self.rows {
            if row > 0 {
                out.push(separator);
            }
            self.encode_row(row, out);
        }
    }
}

/// The writers of a batch's columns; errors name the column.
pub(super) fn columns(batch: &RecordBatch, spelling: Spelling) -> Result<Vec<Cell<'_>>> {
    let fields = batch.schema_ref().fields();
    fields
        .iter()
        .zip(batch.columns())
        .map(|(field, column)| {
            cell(column.as_ref(), spelling).map_err(|error| error.context(format!("column \"{}\"", field.name())))
        })
        .collect()
}
