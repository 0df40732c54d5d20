//! Health, metrics, the running queries, and pushing a refresh.

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, Uri, header};
use lakeserve_common::{Error, ErrorKind};
use prometheus::Encoder;
use serde_json::json;

use super::{App, errors};

/// `OK` when queries can be answered, else 503 with the reason.
pub(super) async fn ready(State(app): State<App>) -> Response {
    if app.shutdown.is_triggered() {
        return not_ready("the broker shuts down");
    }
    if !app.engine.is_ready() {
        return not_ready("tables are being opened");
    }
    text(StatusCode::OK, "OK".into())
}

fn not_ready(reason: &str) -> Response {
    text(StatusCode::SERVICE_UNAVAILABLE, reason.to_owned())
}

/// `OK` as long as the process answers at all.
pub(super) async fn live() -> Response {
    text(StatusCode::OK, "OK".into())
}

/// All metrics in Prometheus' text format.
pub(super) async fn metrics(State(app): State<App>) -> Response {
    let encoder = prometheus::TextEncoder::new();
    let mut out = Vec::new();
    match encoder.encode(&app.engine.gather_metrics(), &mut out) {
        Ok(()) => {
            let mut response = out.into_response();
            let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
            response.headers_mut().insert(header::CONTENT_TYPE, kind);
            response
        }
        Err(error) => errors::respond(&Error::new(ErrorKind::Internal, format!("metrics cannot be written: {error}"))),
    }
}

/// `{"<query id>":"<sql>"}`, the oldest first.
pub(super) async fn queries(State(app): State<App>) -> Response {
    let running = app.engine.running();
    let queries = running.iter().map(|query| (query.id.to_string(), json!(query.sql.as_ref())));
    errors::json_value(&serde_json::Value::Object(queries.collect()))
}

/// Cancels by the query's id, or with `?client=true` by the one that the client gave it.
pub(super) async fn cancel(State(app): State<App>, Path(id): Path<String>, uri: Uri) -> Response {
    let query = uri.query().unwrap_or_default();
    let client = query.split('&').any(|pair| pair.eq_ignore_ascii_case("client=true"));
    match app.engine.cancel(&id, client) {
        0 => errors::respond(&Error::new(ErrorKind::NotFound, format!("no query with the id {id} is running"))),
        _ => text(StatusCode::OK, format!("Cancelled query: {id}")),
    }
}

/// Reads the table's newest state now: `{"table","changed","state",…}`.
pub(super) async fn refresh(State(app): State<App>, Path(name): Path<String>) -> Response {
    let refreshed = app.engine.refresh_table(&name).await;
    let answer = refreshed.and_then(|changed| Ok((changed, app.engine.tables().find(&name)?)));
    match answer {
        Ok((changed, table)) => {
            errors::json_value(&json!({"table": table.name(), "changed": changed, "status": app.engine.status(&table)}))
        }
        Err(error) => errors::respond(&error),
    }
}

/// What each table is served as: `{"tables":[{…}]}`.
pub(super) async fn tables(State(app): State<App>) -> Response {
    let all = app.engine.tables().all();
    let status: Vec<_> = all.iter().map(|table| app.engine.status(table)).collect();
    errors::json_value(&json!({"tables": status}))
}

pub(super) async fn no_such_path(uri: Uri) -> Response {
    let error = Error::new(ErrorKind::NotFound, format!("nothing stands at {}", uri.path()));
    errors::respond(&error.with_hint("POST /v1/query or POST /query/sql answers SQL"))
}

pub(super) async fn wrong_method(method: http::Method, uri: Uri) -> Response {
    let error = Error::new(ErrorKind::NotFound, format!("{} does not take {method}", uri.path()));
    errors::respond_as(StatusCode::METHOD_NOT_ALLOWED, &error)
}

pub(super) fn text(status: StatusCode, text: String) -> Response {
    (status, text).into_response()
}
