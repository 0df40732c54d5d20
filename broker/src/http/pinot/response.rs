//! Pinot's response, in the order of fields that its clients know; ours come after them.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::RecordBatch;
use http::{HeaderMap, HeaderValue};
use lakeserve_common::clock::Clock;
use lakeserve_common::id::QueryId;
use lakeserve_common::{Error, Result};
use lakeserve_query::render::{Spelling, json_string, pinot_type};

use super::ERROR_CODE;
use crate::engine::{QueryAnswer, QueryStats, SnapshotUse};
use crate::http::encode::{self, QUERY_ID, Rows};
use crate::http::stream::Encoder;

/// What a response says about the request itself.
#[derive(Debug, Clone)]
pub(super) struct About {
    pub(super) query_id: QueryId,
    pub(super) client_id: Option<String>,
    pub(super) broker_id: Arc<str>,
    pub(super) started: Instant,
    pub(super) clock: Arc<dyn Clock>,
}

/// The figures of a response; all zero when the query failed.
#[derive(Debug, Default)]
struct Figures {
    rows: u64,
    scanned: u64,
    total: u64,
    files: u64,
    read: u64,
    pruned: u64,
    tables: Vec<String>,
}

impl Figures {
    fn of(rows: u64, stats: &QueryStats, snapshots: &[SnapshotUse]) -> Self {
        let mut tables: Vec<String> =
            snapshots.iter().map(|used| used.table.split('@').next().unwrap_or_default().to_owned()).collect();
        tables.dedup();
        Self {
            rows,
            scanned: stats.rows_scanned.saturating_sub(stats.rows_deleted),
            total: snapshots.iter().filter_map(|used| used.rows).sum(),
            files: stats.files_total,
            read: stats.files_scanned,
            pruned: stats.files_pruned,
            tables,
        }
    }
}

impl About {
    /// Everything from `numRowsResultSet` to `tablesQueried`, without the closing brace. `exceptions`
    /// is a JSON list.
    fn fields(&self, figures: &Figures, exceptions: &[u8], out: &mut Vec<u8>) {
        let took = self.clock.instant().duration_since(self.started).as_millis();
        let mut text = String::new();
        // Writing into a String cannot fail.
        let _ = write!(text, "\"numRowsResultSet\":{},\"partialResult\":false,\"exceptions\":", figures.rows);
        out.extend_from_slice(text.as_bytes());
        out.extend_from_slice(exceptions);
        text.clear();
        let _ = write!(text, ",\"numGroupsLimitReached\":false,\"timeUsedMs\":{took},\"requestId\":");
        out.extend_from_slice(text.as_bytes());
        json_string(self.query_id.as_str(), out);
        out.extend_from_slice(b",\"clientRequestId\":");
        match &self.client_id {
            Some(id) => json_string(id, out),
            None => out.extend_from_slice(b"null"),
        }
        out.extend_from_slice(b",\"brokerId\":");
        json_string(&self.broker_id, out);
        text.clear();
        let _ = write!(
            text,
            ",\"numDocsScanned\":{},\"totalDocs\":{},\"numEntriesScannedInFilter\":0,\"numEntriesScannedPostFilter\":0,\
             \"numServersQueried\":1,\"numServersResponded\":1,\"numSegmentsQueried\":{},\"numSegmentsProcessed\":{},\
             \"numSegmentsMatched\":{},\"minConsumingFreshnessTimeMs\":0,\"numSegmentsPrunedByBroker\":{},\
             \"numSegmentsPrunedByServer\":0,\"brokerReduceTimeMs\":0,\"traceInfo\":{{}},\"tablesQueried\":[",
            figures.scanned, figures.total, figures.files, figures.read, figures.read, figures.pruned,
        );
        out.extend_from_slice(text.as_bytes());
        for (nth, table) in figures.tables.iter().enumerate() {
            if nth > 0 {
                out.push(b',');
            }
            json_string(table, out);
        }
        out.push(b']');
    }

    /// The body of a response to a query that failed.
    pub(super) fn error_body(&self, code: i32, error: &Error) -> Vec<u8> {
        let mut exceptions = format!("[{{\"errorCode\":{code},\"message\":").into_bytes();
        json_string(&error.to_string(), &mut exceptions);
        exceptions.extend_from_slice(b"}]");
        let mut out = b"{".to_vec();
        self.fields(&Figures::default(), &exceptions, &mut out);
        out.push(b'}');
        out
    }
}

/// Writes an answer as Pinot does, then `snapshots` and `stats`.
#[derive(Debug)]
pub(super) struct PinotJson {
    about: About,
    rows: Rows,
    drop_results: bool,
    has_table: bool,
}

impl PinotJson {
    pub(super) fn new(about: About, drop_results: bool) -> Self {
        Self { about, rows: Rows::new(Spelling::Pinot), drop_results, has_table: false }
    }
}

impl Encoder for PinotJson {
    const CONTENT_TYPE: &'static str = "application/json";

    fn begin(&mut self, answer: &QueryAnswer, out: &mut Vec<u8>) -> Result<()> {
        out.push(b'{');
        let fields = answer.schema.fields();
        self.has_table = !self.drop_results && !fields.is_empty();
        if !self.has_table {
            return Ok(());
        }
        out.extend_from_slice(b"\"resultTable\":{\"dataSchema\":{\"columnNames\":[");
        for (nth, field) in fields.iter().enumerate() {
            if nth > 0 {
                out.push(b',');
            }
            json_string(field.name(), out);
        }
        out.extend_from_slice(b"],\"columnDataTypes\":[");
        for (nth, field) in fields.iter().enumerate() {
            if nth > 0 {
                out.push(b',');
            }
            json_string(pinot_type(field.data_type()), out);
        }
        out.extend_from_slice(b"]},\"rows\":[");
        Ok(())
    }

    fn batch(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
        if self.has_table {
            self.rows.write(batch, out)?;
        }
        Ok(())
    }

    fn end(&mut self, answer: &QueryAnswer, out: &mut Vec<u8>) -> Result<()> {
        if self.has_table {
            out.extend_from_slice(b"]},");
        }
        let stats = answer.stats();
        let figures = Figures::of(self.rows.written(), &stats, &answer.snapshots);
        self.about.fields(&figures, b"[]", out);
        out.extend_from_slice(b",\"snapshots\":");
        encode::snapshots(&answer.snapshots, out);
        out.extend_from_slice(b",\"stats\":");
        encode::stats(&stats, out)?;
        out.push(b'}');
        Ok(())
    }

    fn headers(&self, answer: &QueryAnswer, headers: &mut HeaderMap) {
        headers.insert(ERROR_CODE, HeaderValue::from_static("-1"));
        encode::insert(headers, QUERY_ID, answer.query_id.as_str().into());
    }
}
