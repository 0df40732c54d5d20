//! Rows on standard output, in one of the formats. Statements without columns (`CREATE TABLE`, `SET`)
//! write nothing.

use std::io::{self, BufWriter, Write};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::ipc::writer::StreamWriter;
use lakeserve_query::render::{CsvWriter, RowEncoder, Spelling, json_string, sql_type, text_table};

use crate::cli::Format;
use crate::failure::Failure;

/// Writes the answers of a command's statements.
pub(super) struct Output {
    format: Format,
    out: BufWriter<io::Stdout>,
    buffer: Vec<u8>,
    current: Option<Current>,
}

/// The statement whose rows are being written.
struct Current {
    schema: SchemaRef,
    /// Rows so far.
    rows: usize,
    /// Kept until the end, for the widths of a text table's columns.
    batches: Vec<RecordBatch>,
    arrow: Option<StreamWriter<Vec<u8>>>,
}

impl Output {
    pub(super) fn new(format: Format) -> Self {
        Self { format, out: BufWriter::new(io::stdout()), buffer: Vec::new(), current: None }
    }

    pub(super) fn format(&self) -> Format {
        self.format
    }

    /// A statement's answer begins. The JSON format tells `query_id`.
    pub(super) fn begin(&mut self, schema: &SchemaRef, query_id: &str) -> Result<(), Failure> {
        if schema.fields().is_empty() {
            self.current = None;
            return Ok(());
        }
        let mut arrow = None;
        match self.format {
            Format::Csv => CsvWriter::new().header(schema, &mut self.buffer),
            Format::Json => {
                self.buffer.extend_from_slice(b"{\"query_id\":");
                json_string(query_id, &mut self.buffer);
                self.buffer.extend_from_slice(b",\"columns\":[");
                for (nth, field) in schema.fields().iter().enumerate() {
                    if nth > 0 {
                        self.buffer.push(b',');
                    }
                    self.buffer.extend_from_slice(b"{\"name\":");
                    json_string(field.name(), &mut self.buffer);
                    self.buffer.extend_from_slice(b",\"type\":");
                    json_string(&sql_type(field.data_type()), &mut self.buffer);
                    self.buffer.push(b'}');
                }
                self.buffer.extend_from_slice(b"],\"rows\":[");
            }
            Format::Arrow => {
                arrow = Some(StreamWriter::try_new(Vec::new(), schema).map_err(|error| unwritable(&error))?);
            }
            Format::Table | Format::Jsonl => {}
        }
        self.current = Some(Current { schema: Arc::clone(schema), rows: 0, batches: Vec::new(), arrow });
        self.flush()
    }

    /// More rows of the statement.
    pub(super) fn batch(&mut self, batch: &RecordBatch) -> Result<(), Failure> {
        let Some(current) = &mut self.current else { return Ok(()) };
        match self.format {
            Format::Table => current.batches.push(batch.clone()),
            Format::Csv => CsvWriter::new().batch(batch, &mut self.buffer)?,
            Format::Json => {
                if current.rows > 0 && batch.num_rows() > 0 {
                    self.buffer.push(b',');
                }
                RowEncoder::arrays(batch, Spelling::Canonical)?.encode_all(b',', &mut self.buffer);
            }
            Format::Jsonl => {
                RowEncoder::objects(batch, Spelling::Canonical)?.encode_all(b'\n', &mut self.buffer);
                if batch.num_rows() > 0 {
                    self.buffer.push(b'\n');
                }
            }
            Format::Arrow => {
                if let Some(writer) = &mut current.arrow {
                    writer.write(batch).map_err(|error| unwritable(&error))?;
                    self.buffer.append(writer.get_mut());
                }
            }
        }
        current.rows += batch.num_rows();
        self.flush()
    }

    /// The statement's answer is whole. `tail` holds what the JSON format tells beside the rows.
    pub(super) fn end(&mut self, tail: &serde_json::Value) -> Result<(), Failure> {
        let Some(mut current) = self.current.take() else { return Ok(()) };
        match self.format {
            Format::Table => self.buffer.extend_from_slice(text_table(&current.schema, &current.batches)?.as_bytes()),
            Format::Json => {
                self.buffer.push(b']');
                for (key, value) in tail.as_object().into_iter().flatten() {
                    self.buffer.push(b',');
                    json_string(key, &mut self.buffer);
                    self.buffer.push(b':');
                    self.buffer.extend_from_slice(value.to_string().as_bytes());
                }
                self.buffer.extend_from_slice(b"}\n");
            }
            Format::Arrow => {
                if let Some(writer) = &mut current.arrow {
                    writer.finish().map_err(|error| unwritable(&error))?;
                    self.buffer.append(writer.get_mut());
                }
            }
            Format::Jsonl | Format::Csv => {}
        }
        self.flush()?;
        self.out.flush().map_err(closed)
    }

    /// A JSON answer that a broker has written already.
    pub(super) fn raw(&mut self, text: &str) -> Result<(), Failure> {
        self.buffer.extend_from_slice(text.trim_end().as_bytes());
        self.buffer.push(b'\n');
        self.flush()
    }

    /// Everything is written.
    pub(super) fn finish(mut self) -> Result<(), Failure> {
        self.flush()?;
        self.out.flush().map_err(closed)
    }

    fn flush(&mut self) -> Result<(), Failure> {
        let written = self.out.write_all(&self.buffer);
        self.buffer.clear();
        written.map_err(closed)
    }
}

fn closed(error: io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::OutputClosed,
        _ => Failure::failed(format!("the output cannot be written: {error}")),
    }
}

fn unwritable(error: &arrow::error::ArrowError) -> Failure {
    Failure::failed(format!("the rows cannot be written as an Arrow stream: {error}"))
}
