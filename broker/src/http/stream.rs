//! Answers on their way out. A small answer is held back until it is whole, so that an error in it
//! comes with its own status; a large one is streamed with bounded memory, and an error after its
//! first byte breaks the body off, so that the client notices.

use std::io;

use arrow::array::RecordBatch;
use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};
use futures::StreamExt;
use http::{HeaderMap, HeaderValue, header};
use http_body_util::StreamBody;
use lakeserve_common::Result;
use prometheus::IntCounter;

use crate::engine::QueryAnswer;

/// An answer up to this many bytes is sent as one piece.
const WHOLE_BYTES: usize = 1 << 20;

/// One way to write an answer.
pub(super) trait Encoder: Send + Sized + 'static {
    /// The media type.
    const CONTENT_TYPE: &'static str;
    /// Writes what comes before the rows.
    fn begin(&mut self, answer: &QueryAnswer, out: &mut Vec<u8>) -> Result<()>;
    /// Writes the rows of a batch.
    fn batch(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()>;
    /// Writes what comes after the rows.
    fn end(&mut self, answer: &QueryAnswer, out: &mut Vec<u8>) -> Result<()>;
    /// Adds what is known before the rows.
    fn headers(&self, _answer: &QueryAnswer, _headers: &mut HeaderMap) {}
    /// Adds what is known after the rows: to the headers of an answer that is sent as one piece, else
    /// to the trailers.
    fn figures(&self, _answer: &QueryAnswer, _headers: &mut HeaderMap) {}
    /// The names of what `figures` adds.
    const FIGURES: Option<&'static str> = None;
}

/// Writes `answer`, whole or streamed. Counts streams that had to be broken off in `broken`.
///
/// # Errors
/// What the query failed with before anything was sent.
pub(super) async fn respond<E: Encoder>(
    mut answer: QueryAnswer,
    mut encoder: E,
    broken: IntCounter,
) -> Result<Response> {
    let mut out = Vec::with_capacity(1024);
    encoder.begin(&answer, &mut out)?;
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(E::CONTENT_TYPE));
    encoder.headers(&answer, &mut headers);
    while out.len() <= WHOLE_BYTES {
        match answer.batches.next().await {
            Some(batch) => encoder.batch(&batch?, &mut out)?,
            None => {
                encoder.end(&answer, &mut out)?;
                encoder.figures(&answer, &mut headers);
                return Ok((headers, out).into_response());
            }
        }
    }
    if let Some(names) = E::FIGURES {
        headers.insert(header::TRAILER, HeaderValue::from_static(names));
    }
    Ok((headers, Body::new(StreamBody::new(pieces(answer, encoder, out, broken)))).into_response())
}

enum Next<E> {
    Piece(Box<(QueryAnswer, E)>, Vec<u8>),
    Rows(Box<(QueryAnswer, E)>),
    Trailers(HeaderMap),
    Nothing,
}

type Frame = http_body::Frame<Bytes>;

fn pieces<E: Encoder>(
    answer: QueryAnswer,
    encoder: E,
    first: Vec<u8>,
    broken: IntCounter,
) -> impl futures::Stream<Item = Result<Frame, io::Error>> + Send {
    let start = Next::Piece(Box::new((answer, encoder)), first);
    futures::stream::unfold(start, move |next| {
        let broken = broken.clone();
        async move {
            match next {
                Next::Piece(parts, piece) => Some((Ok(Frame::data(piece.into())), Next::Rows(parts))),
                Next::Rows(parts) => Some(match rows(parts).await {
                    Ok(more) => more,
                    Err(error) => {
                        broken.inc();
                        (Err(io::Error::other(error)), Next::Nothing)
                    }
                }),
                Next::Trailers(trailers) => Some((Ok(Frame::trailers(trailers)), Next::Nothing)),
                Next::Nothing => None,
            }
        }
    })
    // The compressing layer asks once more after the end.
    .fuse()
}

/// The next piece of the body and what comes after it.
async fn rows<E: Encoder>(mut parts: Box<(QueryAnswer, E)>) -> Result<(Result<Frame, io::Error>, Next<E>)> {
    let mut out = Vec::new();
    let (answer, encoder) = &mut *parts;
    match answer.batches.next().await {
        Some(batch) => {
            encoder.batch(&batch?, &mut out)?;
            Ok((Ok(Frame::data(out.into())), Next::Rows(parts)))
        }
        None => {
            encoder.end(answer, &mut out)?;
            let mut trailers = HeaderMap::new();
            encoder.figures(answer, &mut trailers);
            let next = if trailers.is_empty() { Next::Nothing } else { Next::Trailers(trailers) };
            Ok((Ok(Frame::data(out.into())), next))
        }
    }
}
