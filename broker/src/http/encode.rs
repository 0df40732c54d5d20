//! The native encodings of an answer: JSON and Arrow IPC.

use arrow::array::RecordBatch;
use arrow::ipc::writer::StreamWriter;
use http::{HeaderMap, HeaderName, HeaderValue};
use lakeserve_common::{Error, ErrorKind, Result};
use lakeserve_query::error::from_arrow;
use lakeserve_query::render::{RowEncoder, Spelling, json_string, sql_type};

use super::stream::Encoder;
use crate::engine::{QueryAnswer, QueryStats, SnapshotUse};

/// The header that names the query.
pub(super) const QUERY_ID: HeaderName = HeaderName::from_static("x-lakeserve-query-id");
const SNAPSHOTS: HeaderName = HeaderName::from_static("x-lakeserve-snapshots");
const STATS: HeaderName = HeaderName::from_static("x-lakeserve-stats");

/// Rows with commas between them, over all batches of an answer.
#[derive(Debug)]
pub(super) struct Rows {
    spelling: Spelling,
    written: u64,
}

impl Rows {
    pub(super) fn new(spelling: Spelling) -> Self {
        Self { spelling, written: 0 }
    }

    /// How many rows there were.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    pub(super) fn write(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let rows = RowEncoder::arrays(batch, self.spelling)?;
        if self.written > 0 {
            out.push(b',');
        }
        rows.encode_all(b',', out);
        self.written += u64::try_from(rows.num_rows()).unwrap_or(u64::MAX);
        Ok(())
    }
}

/// `{"query_id","columns":[{"name","type"}],"rows":[[…]],"snapshots":{…},"stats":{…}}`.
#[derive(Debug)]
pub(super) struct NativeJson(Rows);

impl NativeJson {
    pub(super) fn new() -> Self {
        Self(Rows::new(Spelling::Canonical))
    }
}

impl Encoder for NativeJson {
    const CONTENT_TYPE: &'static str = "application/json";

    fn begin(&mut self, answer: &QueryAnswer, out: &mut Vec<u8>) -> Result<()> {
        out.extend_from_slice(b"{\"query_id\":");
        json_string(answer.query_id.as_str(), out);
        out.extend_from_slice(b",\"columns\":[");
        for (nth, field) in answer.schema.fields().iter().enumerate() {
            if nth > 0 {
                out.push(b',');
            }
            out.extend_from_slice(b"{\"name\":");
            json_string(field.name(), out);
            out.extend_from_slice(b",\"type\":");
            json_string(&sql_type(field.data_type()), out);
            out.push(b'}');
        }
        out.extend_from_slice(b"],\"rows\":[");
        Ok(())
    }

    fn batch(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
        self.0.write(batch, out)
    }

    fn end(&mut self, answer: &QueryAnswer, out: &mut Vec<u8>) -> Result<()> {
        out.extend_from_slice(b"],\"snapshots\":");
        snapshots(&answer.snapshots, out);
        out.extend_from_slice(b",\"stats\":");
        stats(&answer.stats(), out)?;
        out.push(b'}');
        Ok(())
    }

    fn headers(&self, answer: &QueryAnswer, headers: &mut HeaderMap) {
        insert(headers, QUERY_ID, answer.query_id.as_str().into());
    }
}

/// An Arrow IPC stream; query id and snapshots stand in headers, the figures in a header of a small
/// answer and in a trailer of a streamed one.
#[derive(Default)]
pub(super) struct ArrowStream(Option<StreamWriter<Vec<u8>>>);

impl ArrowStream {
    fn writer(&mut self) -> Result<&mut StreamWriter<Vec<u8>>> {
        self.0.as_mut().ok_or_else(|| Error::new(ErrorKind::Internal, "an arrow stream was written before its schema"))
    }
}

impl Encoder for ArrowStream {
    const CONTENT_TYPE: &'static str = "application/vnd.apache.arrow.stream";
    const FIGURES: Option<&'static str> = Some("x-lakeserve-stats");

    fn begin(&mut self, answer: &QueryAnswer, out: &mut Vec<u8>) -> Result<()> {
        let mut writer = StreamWriter::try_new(Vec::new(), &answer.schema).map_err(from_arrow)?;
        out.append(writer.get_mut());
        self.0 = Some(writer);
        Ok(())
    }

    fn batch(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
        let writer = self.writer()?;
        writer.write(batch).map_err(from_arrow)?;
        out.append(writer.get_mut());
        Ok(())
    }

    fn end(&mut self, _answer: &QueryAnswer, out: &mut Vec<u8>) -> Result<()> {
        let writer = self.writer()?;
        writer.finish().map_err(from_arrow)?;
        out.append(writer.get_mut());
        Ok(())
    }

    fn headers(&self, answer: &QueryAnswer, headers: &mut HeaderMap) {
        insert(headers, QUERY_ID, answer.query_id.as_str().into());
        let mut out = Vec::new();
        snapshots(&answer.snapshots, &mut out);
        insert(headers, SNAPSHOTS, out);
    }

    fn figures(&self, answer: &QueryAnswer, headers: &mut HeaderMap) {
        let mut out = Vec::new();
        if stats(&answer.stats(), &mut out).is_ok() {
            insert(headers, STATS, out);
        }
    }
}

/// `{"t":{"id":…,"version":…,"age_ms":…}}`, with `"stale":true` where it is so.
pub(super) fn snapshots(snapshots: &[SnapshotUse], out: &mut Vec<u8>) {
    out.push(b'{');
    for (nth, used) in snapshots.iter().enumerate() {
        if nth > 0 {
            out.push(b',');
        }
        json_string(&used.table, out);
        out.extend_from_slice(b":{\"id\":");
        json_string(&used.id, out);
        out.extend_from_slice(b",\"version\":");
        json_string(&used.version, out);
        out.extend_from_slice(b",\"age_ms\":");
        match used.age_ms {
            Some(age) => out.extend_from_slice(age.to_string().as_bytes()),
            None => out.extend_from_slice(b"null"),
        }
        if used.stale {
            out.extend_from_slice(b",\"stale\":true");
        }
        out.push(b'}');
    }
    out.push(b'}');
}

/// The figures as a JSON object.
pub(super) fn stats(stats: &QueryStats, out: &mut Vec<u8>) -> Result<()> {
    serde_json::to_writer(out, stats)
        .map_err(|error| Error::new(ErrorKind::Internal, format!("the figures cannot be written: {error}")))
}

/// Sets a header; a value that no header can carry (a table's name may be any text) is percent-encoded.
pub(super) fn insert(headers: &mut HeaderMap, name: HeaderName, value: Vec<u8>) {
    let ascii: Vec<u8> = value
        .iter()
        .flat_map(|&byte| match byte {
            0x20..=0x7e => vec![byte],
            other => format!("%{other:02X}").into_bytes(),
        })
        .collect();
    if let Ok(value) = HeaderValue::from_bytes(&ascii) {
        headers.insert(name, value);
    }
}
