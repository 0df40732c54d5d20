//! The two maps from error kinds outward: to HTTP statuses and to Pinot's codes, one each, both
//! exhaustive; and the JSON that an error becomes.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use lakeserve_common::{Error, ErrorKind};
use lakeserve_query::render::json_string;

/// What nginx answers with when the client closed the request.
const CLIENT_CLOSED_REQUEST: u16 = 499;

/// Pinot's code for a body that is not the JSON it should be.
pub(super) const PINOT_JSON: i32 = 100;

/// The HTTP status of an error.
#[must_use]
pub fn status(kind: ErrorKind) -> StatusCode {
    match kind {
        ErrorKind::Parse
        | ErrorKind::Plan
        | ErrorKind::Option
        | ErrorKind::Unsupported
        | ErrorKind::Value
        | ErrorKind::Resource => StatusCode::BAD_REQUEST,
        ErrorKind::Unauthenticated => StatusCode::UNAUTHORIZED,
        ErrorKind::Denied => StatusCode::FORBIDDEN,
        ErrorKind::NoSuchTable | ErrorKind::NoSuchColumn | ErrorKind::NotFound => StatusCode::NOT_FOUND,
        ErrorKind::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        ErrorKind::Quota => StatusCode::TOO_MANY_REQUESTS,
        ErrorKind::Cancelled => {
            StatusCode::from_u16(CLIENT_CLOSED_REQUEST).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
        }
        ErrorKind::Deadline => StatusCode::GATEWAY_TIMEOUT,
        ErrorKind::Capacity | ErrorKind::Draining => StatusCode::SERVICE_UNAVAILABLE,
        ErrorKind::Storage => StatusCode::BAD_GATEWAY,
        ErrorKind::Feature => StatusCode::NOT_IMPLEMENTED,
        ErrorKind::Corrupt | ErrorKind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// Pinot's code of an error, which is also `code` in the native interface.
#[must_use]
pub fn pinot_code(kind: ErrorKind) -> i32 {
    match kind {
        ErrorKind::Parse => 150,
        ErrorKind::Unauthenticated | ErrorKind::Denied => 180,
        ErrorKind::NoSuchTable => 190,
        ErrorKind::Value | ErrorKind::Corrupt | ErrorKind::Feature => 200,
        ErrorKind::Draining => 210,
        ErrorKind::Capacity => 211,
        ErrorKind::TooLarge | ErrorKind::Resource => 245,
        ErrorKind::Deadline => 250,
        ErrorKind::Storage => 305,
        ErrorKind::Quota => 429,
        ErrorKind::Internal => 450,
        ErrorKind::Cancelled => 503,
        ErrorKind::Option | ErrorKind::Unsupported => 700,
        ErrorKind::NoSuchColumn => 710,
        ErrorKind::Plan => 720,
        ErrorKind::NotFound => 1000,
    }
}

/// An error as the native interface answers it:
/// `{"error":{"kind":…,"code":…,"message":…,"hint":…}}` with its status.
pub(super) fn respond(error: &Error) -> Response {
    respond_as(status(error.kind()), error)
}

/// The same under another status.
pub(super) fn respond_as(status: StatusCode, error: &Error) -> Response {
    let mut response = json(status, body(error));
    retry_after(error.kind(), &mut response);
    response
}

fn body(error: &Error) -> Vec<u8> {
    let mut out = br#"{"error":{"kind":"#.to_vec();
    json_string(error.kind().as_str(), &mut out);
    out.extend_from_slice(format!(",\"code\":{},\"message\":", pinot_code(error.kind())).as_bytes());
    json_string(error.message(), &mut out);
    out.extend_from_slice(b",\"hint\":");
    match error.hint() {
        Some(hint) => json_string(hint, &mut out),
        None => out.extend_from_slice(b"null"),
    }
    out.extend_from_slice(b"}}");
    out
}

/// Tells a client that was turned away when to come back.
pub(super) fn retry_after(kind: ErrorKind, response: &mut Response) {
    if matches!(kind, ErrorKind::Capacity | ErrorKind::Draining | ErrorKind::Quota) {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
}

/// A JSON answer.
pub(super) fn json(status: StatusCode, body: Vec<u8>) -> Response {
    let mut response = (status, Body::from(body)).into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// A JSON answer with status 200.
pub(super) fn json_value(value: &impl serde::Serialize) -> Response {
    match serde_json::to_vec(value) {
        Ok(body) => json(StatusCode::OK, body),
        Err(error) => respond(&Error::new(ErrorKind::Internal, format!("the answer cannot be written: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_an_error_status_and_has_a_code() {
        for kind in ErrorKind::ALL {
            let status = status(kind).as_u16();
            assert!((400..600).contains(&status), "{kind} {status}");
            assert!(pinot_code(kind) >= 100, "{kind}");
        }
    }

    #[test]
    fn an_error_is_json_whatever_it_says() {
        let error = Error::new(ErrorKind::NoSuchTable, "no table named \"x\"\n").with_hint("did you mean y?");
        let json: serde_json::Value = serde_json::from_slice(&body(&error)).unwrap();
        assert_eq!(
            json,
            serde_json::json!({"error": {"kind": "no_such_table", "code": 190,
                "message": "no table named \"x\"\n", "hint": "did you mean y?"}})
        );
    }
}
