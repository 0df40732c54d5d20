//! Comma-separated values, quoted as RFC 4180 says. NULL is an empty field, the empty string a quoted one. Lines end
//! in a line feed, as those of the usual database clients do.

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use lakeserve_common::error::Result;

use super::Spelling;
use super::row::columns;

/// Writes a header and then batches of one schema.
#[derive(Debug, Default)]
pub struct CsvWriter {
    scratch: Vec<u8>,
}

impl CsvWriter {
    /// A writer with no state but a buffer.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends the line of column names.
    pub fn header(&mut self, schema: &Schema, out: &mut Vec<u8>) {
        for (nth, field) in schema.fields().iter().enumerate() {
            if nth > 0 {
                out.push(b',');
            }
            self.field(out, |scratch| scratch.extend_from_slice(field.name().as_bytes()));
        }
        out.push(b'\n');
    }

    /// Appends the rows of a batch.
    ///
    /// # Errors
    /// `Unsupported` naming the column whose type has no spelling (unions).
    pub fn batch(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
        let cells = columns(batch, Spelling::Text)?;
        let nulls: Vec<_> = batch.columns().iter().map(|column| column.logical_nulls()).collect();
        for row in 0..batch.num_rows() {
            for (nth, (cell, nulls)) in cells.iter().zip(&nulls).enumerate() {
                if nth > 0 {
                    out.push(b',');
                }
                if !nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                    self.field(out, |scratch| cell(row, scratch));
                }
            }
            out.push(b'\n');
        }
        Ok(())
    }

    fn field(&mut self, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
        self.scratch.clear();
        write(&mut self.scratch);
        let plain =
            !self.scratch.is_empty() && !self.scratch.iter().any(|byte| matches!(byte, b'"' | b',' | b'\n' | b'\r'));
        if plain {
            out.extend_from_slice(&self.scratch);
            return;
        }
        out.push(b'"');
        for &byte in &self.scratch {
            if byte == b'"' {
                out.push(b'"');
            }
            out.push(byte);
        }
        out.push(b'"');
    }
}
