//! `POST /v1/query`: one statement as JSON, answered as JSON or, when `Accept` asks for it, as an
//! Arrow IPC stream.

use std::collections::BTreeMap;
use std::time::Duration;

use arrow::compute::kernels::cast_utils::string_to_timestamp_nanos;
use axum::extract::State;
use axum::response::Response;
use http::{HeaderMap, Request, header};
use lakeserve_common::{Error, ErrorKind, Result};
use lakeserve_lake::SnapshotChoice;
use lakeserve_query::params::Params;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::encode::{ArrowStream, NativeJson, QUERY_ID, insert};
use super::stream::{Encoder, respond};
use super::{App, body, errors};
use crate::engine::{QueryRequest, Rights};

/// The request's body.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NativeRequest<'a> {
    /// The statement.
    sql: String,
    /// A list for `$1`…, an object for `$name`.
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    /// How long the query may take, milliseconds.
    #[serde(default)]
    timeout_ms: Option<u64>,
    /// Table → version (a number), timestamp, branch or tag (a text).
    #[serde(default)]
    snapshot: Option<BTreeMap<String, Value>>,
}

pub(super) async fn query(State(app): State<App>, request: Request<axum::body::Body>) -> Response {
    let query_id = app.engine.fresh_id();
    let (parts, body) = request.into_parts();
    let answer = run(&app, &parts.headers, body, query_id.clone()).await;
    answer.unwrap_or_else(|error| {
        let mut response = errors::respond(&error);
        insert(response.headers_mut(), QUERY_ID, query_id.as_str().into());
        response
    })
}

async fn run(
    app: &App,
    headers: &HeaderMap,
    body: axum::body::Body,
    query_id: lakeserve_common::id::QueryId,
) -> Result<Response> {
    let bytes = body::read(headers, body, app.options.max_body_bytes, app.options.body_timeout).await?;
    let request = parse(&bytes)?;
    drop(bytes);
    let session = app.engine.session(Rights::Read);
    let answer = session.execute(QueryRequest { query_id: Some(query_id), ..request }).await?;
    if wants_arrow(headers) {
        send(app, answer, ArrowStream::default()).await
    } else {
        send(app, answer, NativeJson::new()).await
    }
}

async fn send<E: Encoder>(app: &App, answer: crate::engine::QueryAnswer, encoder: E) -> Result<Response> {
    respond(answer, encoder, app.metrics.broken.clone()).await
}

fn parse(bytes: &[u8]) -> Result<QueryRequest> {
    body::check_object(bytes)?;
    let request: NativeRequest<'_> = serde_json::from_slice(bytes).map_err(|error| {
        body::malformed(&error).with_hint(r#"send {"sql":"SELECT …"}, optionally with params, timeout_ms and snapshot"#)
    })?;
    let params = match request.params {
        Some(json) => Params::from_json(json.get())?,
        None => Params::default(),
    };
    let timeout = match request.timeout_ms {
        Some(0) => {
            return Err(Error::new(ErrorKind::Option, "timeout_ms cannot be 0: it takes milliseconds above zero"));
        }
        timeout => timeout.map(Duration::from_millis),
    };
    let chosen = request.snapshot.unwrap_or_default().into_iter();
    let snapshot = chosen.map(|(table, state)| {
        let choice = choice(&table, state)?;
        Ok((table, choice))
    });
    let snapshot = snapshot.collect::<Result<_>>()?;
    Ok(QueryRequest { sql: request.sql, params, timeout, snapshot, ..QueryRequest::default() })
}

/// A number, or a text of digits, is a version; a text that reads as a date or timestamp (UTC unless
/// it says otherwise) is a time; any other text is a branch or tag.
fn choice(table: &str, state: Value) -> Result<SnapshotChoice> {
    let text = match &state {
        Value::String(text) => text,
        Value::Number(number) => match number.as_i64() {
            Some(version) => return Ok(SnapshotChoice::Version(version)),
            None => return Err(no_choice(table, &state)),
        },
        other => return Err(no_choice(table, other)),
    };
    if let Ok(version) = text.parse() {
        return Ok(SnapshotChoice::Version(version));
    }
    Ok(match string_to_timestamp_nanos(text) {
        Ok(nanos) => SnapshotChoice::Timestamp(nanos.div_euclid(1_000_000)),
        Err(_) => SnapshotChoice::Reference(text.clone()),
    })
}

fn no_choice(table: &str, state: &Value) -> Error {
    Error::new(ErrorKind::Option, format!("snapshot of table {table} cannot be {state}"))
        .with_hint("it takes a version, a timestamp, or the name of a branch or tag")
}

fn wants_arrow(headers: &HeaderMap) -> bool {
    let accepts = headers.get_all(header::ACCEPT).iter().filter_map(|accept| accept.to_str().ok());
    accepts.flat_map(|accept| accept.split(',')).any(|media| {
        let name = media.split(';').next().unwrap_or_default().trim();
        name.eq_ignore_ascii_case(ArrowStream::CONTENT_TYPE)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_names_a_state() {
        for (json, expected) in [
            ("3", SnapshotChoice::Version(3)),
            (r#""3051729675574597004""#, SnapshotChoice::Version(3_051_729_675_574_597_004)),
            (r#""1970-01-01T00:00:01Z""#, SnapshotChoice::Timestamp(1_000)),
            (r#""1970-01-02""#, SnapshotChoice::Timestamp(86_400_000)),
            (r#""main""#, SnapshotChoice::Reference("main".into())),
        ] {
            assert_eq!(choice("t", serde_json::from_str(json).unwrap()).unwrap(), expected, "{json}");
        }
    }

    #[test]
    fn a_body_that_is_not_right_is_refused_by_name() {
        for (body, named) in [
            ("{", "EOF"),
            ("[]", "list"),
            (r#" ["SELECT 1", null, null, null]"#, "list"),
            (r#"{"sql":1}"#, "string"),
            (r#"{"query":"SELECT 1"}"#, "query"),
            (r#"{"params":[]}"#, "sql"),
            (r#"{"sql":"SELECT 1","timeout_ms":0}"#, "timeout_ms"),
            (r#"{"sql":"SELECT 1","params":3}"#, "params"),
            (r#"{"sql":"SELECT 1","snapshot":{"t":1.5}}"#, "1.5"),
            (r#"{"sql":"SELECT 1","snapshot":{"t":{}}}"#, "{}"),
        ] {
            let error = parse(body.as_bytes()).unwrap_err();
            assert_eq!(errors::status(error.kind()), http::StatusCode::BAD_REQUEST, "{body}");
            assert!(error.message().contains(named), "{body}: {error}");
        }
    }
}
