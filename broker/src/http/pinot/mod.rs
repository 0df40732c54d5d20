//! What Apache Pinot's clients call: queries with Pinot's request, response and error codes, and the
//! look-ups of tables and schemas that they make before the first query.

mod catalog;
mod request;
mod response;

use axum::extract::State;
use axum::response::Response;
use http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode, Uri};
use lakeserve_common::{Error, ErrorKind};
use lakeserve_query::dialect::StatementKind;
use serde_json::json;

use super::stream::respond;
use super::{App, body, errors};
use crate::engine::Rights;
use request::PinotRequest;
use response::{About, PinotJson};

pub(super) use catalog::{
    brokers, databases, schemas, segments, table, table_config, table_metadata, table_schema, table_size, tables,
};

const ERROR_CODE: HeaderName = HeaderName::from_static("x-pinot-error-code");
const USE_STATUS: HeaderName = HeaderName::from_static("pinot-use-http-status-for-errors");

/// An error with the code that Pinot's clients get, and the status they get it under.
struct Refusal {
    error: Error,
    code: i32,
    /// The status to use even when the client did not ask for statuses: the request itself was bad.
    status: Option<StatusCode>,
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        let code = errors::pinot_code(error.kind());
        Self { error, code, status: None }
    }
}

impl Refusal {
    /// An error of the request's body, before there was a statement.
    fn of_body(error: Error) -> Self {
        let status = errors::status(error.kind());
        let code = match error.kind() {
            ErrorKind::Parse | ErrorKind::Option => errors::PINOT_JSON,
            kind => errors::pinot_code(kind),
        };
        Self { error, code, status: Some(status) }
    }
}

/// `POST /query/sql` and `POST /query`.
pub(in crate::http) async fn post(State(app): State<App>, request: Request<axum::body::Body>) -> Response {
    let (parts, body) = request.into_parts();
    let read = body::read(&parts.headers, body, app.options.max_body_bytes, app.options.body_timeout).await;
    let request = read.and_then(|bytes| PinotRequest::from_json(&bytes)).map_err(Refusal::of_body);
    run(app, &parts.headers, request).await
}

/// `GET /query/sql?sql=…`.
pub(in crate::http) async fn get(State(app): State<App>, headers: HeaderMap, uri: Uri) -> Response {
    let request = PinotRequest::from_uri(&uri).map_err(Refusal::of_body);
    run(app, &headers, request).await
}

async fn run(app: App, headers: &HeaderMap, request: Result<PinotRequest, Refusal>) -> Response {
    let started = app.engine.clock().instant();
    let query_id = app.engine.fresh_id();
    let mut about = About {
        query_id,
        client_id: None,
        broker_id: app.broker_id.clone(),
        started,
        clock: app.engine.clock().clone(),
    };
    let refusal = match request {
        Ok(request) => {
            let query = request.query(about.query_id.clone());
            match query {
                Ok(query) => {
                    let client_id = query.client_query_id.clone();
                    let executed = app.engine.session(Rights::Read).execute(query).await;
                    // Asked only now: the statement itself may have set it.
                    about.client_id = client_id.get();
                    match executed {
                        Ok(answer) => {
                            let encoder = PinotJson::new(about.clone(), answer.settings.drop_results);
                            match respond(answer, encoder, app.metrics.broken.clone()).await {
                                Ok(response) => return response,
                                Err(error) => Refusal::from(error),
                            }
                        }
                        Err(error) => Refusal::from(error),
                    }
                }
                Err(error) => Refusal::from(error),
            }
        }
        Err(refusal) => refusal,
    };
    refuse(&about, headers, &refusal)
}

fn refuse(about: &About, headers: &HeaderMap, refusal: &Refusal) -> Response {
    let wants_status = headers.get(USE_STATUS).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"true"));
    let status = match refusal.status {
        Some(status) => status,
        None if wants_status => errors::status(refusal.error.kind()),
        None => StatusCode::OK,
    };
    let mut response = errors::json(status, about.error_body(refusal.code, &refusal.error));
    if status != StatusCode::OK {
        errors::retry_after(refusal.error.kind(), &mut response);
    }
    response.headers_mut().insert(ERROR_CODE, HeaderValue::from(refusal.code));
    response
}

/// `POST /query/sql/validateSyntax`: `{"valid":true,"sqlType":"DQL"}`, or `valid` false with the
/// parser's message.
pub(in crate::http) async fn validate(State(app): State<App>, request: Request<axum::body::Body>) -> Response {
    let (parts, body) = request.into_parts();
    let read = body::read(&parts.headers, body, app.options.max_body_bytes, app.options.body_timeout).await;
    let request = match read.and_then(|bytes| PinotRequest::from_json(&bytes)) {
        Ok(request) => request,
        Err(error) => return errors::respond(&error),
    };
    match app.engine.statement_kinds(&request.sql).await {
        Ok(kinds) => {
            let kind = match kinds.first() {
                Some(StatementKind::Query | StatementKind::Explain | StatementKind::Show) | None => "DQL",
                Some(StatementKind::Set | StatementKind::Prepared) => "DCL",
                Some(StatementKind::SessionDdl) => "DDL",
                Some(StatementKind::SessionInsert) => "DML",
            };
            errors::json_value(&json!({"valid": true, "sqlType": kind}))
        }
        Err(error) => errors::json_value(&json!({"valid": false, "errorMessage": error.to_string()})),
    }
}
