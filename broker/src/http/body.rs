//! Reading a request's body within its limits.

use std::error::Error as _;
use std::io;
use std::time::Duration;

use axum::body::{Body, Bytes};
use futures::StreamExt;
use http::{HeaderMap, header};
use lakeserve_common::units::{ByteSize, Span};
use lakeserve_common::{Error, ErrorKind, Result};

use crate::engine::options::sized;

/// How much of a body that is too large is read on and thrown away, so that a client which sends
/// before it listens still sees the answer instead of a reset connection.
const THROWN_AWAY: u64 = 256 << 20;

/// The whole body, at most `limit` bytes of it.
///
/// # Errors
/// `TooLarge` beyond the limit, `Option` for an encoding that we do not read, `Deadline` when it does
/// not arrive in time, `Cancelled` when the client breaks off.
pub(super) async fn read(headers: &HeaderMap, body: Body, limit: ByteSize, timeout: Span) -> Result<Bytes> {
    // What the decompression layer understood, it has removed from the headers.
    if let Some(encoding) = headers.get(header::CONTENT_ENCODING).filter(|encoding| *encoding != "identity") {
        let name = String::from_utf8_lossy(encoding.as_bytes()).into_owned();
        return Err(Error::new(ErrorKind::Option, format!("content-encoding {name} is not understood"))
            .with_hint("send gzip or no encoding"));
    }
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    let asks_first = headers.get(header::EXPECT).is_some_and(|expect| expect == "100-continue");
    if asks_first && announced.is_some_and(|length| length > limit.0) {
        return Err(too_large(limit));
    }
    match tokio::time::timeout(timeout.0.max(Duration::from_millis(1)), collect(body, limit, announced)).await {
        Ok(read) => read,
        Err(_) => Err(Error::new(ErrorKind::Deadline, format!("the request's body did not arrive within {timeout}"))),
    }
}

async fn collect(body: Body, limit: ByteSize, announced: Option<u64>) -> Result<Bytes> {
    let mut stream = body.into_data_stream();
    let expected = announced.unwrap_or(0).min(limit.0);
    let mut collected = Vec::with_capacity(usize::try_from(expected).unwrap_or(0));
    let mut received = 0_u64;
    while let Some(piece) = stream.next().await {
        let piece = piece.map_err(|error| broken(&error))?;
        received = received.saturating_add(u64::try_from(piece.len()).unwrap_or(u64::MAX));
        if received <= limit.0 {
            collected.extend_from_slice(&piece);
        } else {
            collected = Vec::new();
            if received > THROWN_AWAY {
                break;
            }
        }
    }
    match received > limit.0 {
        true => Err(too_large(limit)),
        false => Ok(collected.into()),
    }
}

/// Our end of the connection reports errors of its own type; a bare I/O error is the decompressor's.
fn broken(error: &axum::Error) -> Error {
    let mut cause: &(dyn std::error::Error + 'static) = error;
    while let Some(inner) = cause.downcast_ref::<axum::Error>().and_then(|outer| outer.source()) {
        cause = inner;
    }
    if cause.is::<io::Error>() {
        return Error::new(ErrorKind::Parse, format!("the request's body cannot be decompressed: {cause}"))
            .with_hint("send whole gzip data, or no content-encoding");
    }
    Error::new(ErrorKind::Cancelled, format!("the request's body cannot be read: {error}"))
}

/// Refuses a list where an object belongs: serde would take its elements for the fields.
pub(super) fn check_object(bytes: &[u8]) -> Result<()> {
    match bytes.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'[') => Err(Error::new(ErrorKind::Option, "the request's body is invalid: a JSON list, not an object")
            .with_hint(r#"send {"sql":"SELECT …"}"#)),
        _ => Ok(()),
    }
}

fn too_large(limit: ByteSize) -> Error {
    Error::new(ErrorKind::TooLarge, format!("the request's body is larger than the {} that are accepted", sized(limit)))
        .with_hint("send less, or raise max_body_bytes")
}

/// The error for a body that is not the JSON that it should be.
pub(super) fn malformed(error: &serde_json::Error) -> Error {
    let kind = match error.classify() {
        serde_json::error::Category::Data => ErrorKind::Option,
        _ => ErrorKind::Parse,
    };
    Error::new(kind, format!("the request's body is not right: {error}"))
}
