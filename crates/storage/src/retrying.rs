//! Retries of transient failures, in one place for all backends (their own retries are off, so
//! that attempts do not multiply).
//!
//! * Reads are retried, bounded by attempts and by time: a retry does not begin when, taking as
//!   long as the last attempt, it would end after `retry_timeout`. So a dead endpoint is reported
//!   within seconds.
//! * A body that breaks off is resumed where it broke, on the same version of the object
//!   (`If-Match`), so that bytes of two versions are never joined.
//! * A read that makes no progress for `request_timeout` counts as failed.
//! * A listing is retried only until its first object; then an error is handed on.
//! * Writes are retried only when they overwrite: a conditional write that failed half-way may
//!   have happened.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use lakeserve_common::clock::Clock;
use lakeserve_common::random::Random;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetRange, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use prometheus::IntCounterVec;

use crate::error::{Transient, is_transient};

/// How patient to be.
#[derive(Debug, Clone)]
pub(crate) struct Patience {
    /// Attempts after the first.
    pub retries: u32,
    /// Bound of all attempts together.
    pub total: Duration,
    /// Bound of one attempt without progress.
    pub stall: Duration,
}

/// Retries what may be retried. See the module's documentation.
#[derive(Debug)]
pub(crate) struct Retrying {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    inner: Arc<dyn ObjectStore>,
    store: &'static str,
    patience: Patience,
    retries: IntCounterVec,
    clock: Arc<dyn Clock>,
    random: Arc<Random>,
}

/// The attempts of one operation.
struct Attempts {
    operation: &'static str,
    began: Instant,
    last_began: Instant,
    done: u32,
}

const LISTING_PATIENCE: u32 = 6;
const FIRST_PAUSE: Duration = Duration::from_millis(50);

impl Shared {
    fn begin(&self, operation: &'static str) -> Attempts {
        let now = self.clock.instant();
        Attempts { operation, began: now, last_began: now, done: 0 }
    }

    /// Waits before the next attempt, or says that there is none.
    async fn again(&self, attempts: &mut Attempts, error: &object_store::Error) -> bool {
        if !is_transient(error) || attempts.done >= self.patience.retries {
            return false;
        }
        let now = self.clock.instant();
        let pause = FIRST_PAUSE.saturating_mul(1 << attempts.done.min(6)).mul_f64(self.random.jitter(0.5));
        let elapsed = now.duration_since(attempts.began);
        if elapsed + pause + now.duration_since(attempts.last_began) > self.patience.total {
            return false;
        }
        tracing::debug!(store = self.store, operation = attempts.operation, %error, "trying again");
        self.retries.with_label_values(&[self.store, attempts.operation]).inc();
        tokio::time::sleep(pause).await;
        attempts.done += 1;
        attempts.last_began = self.clock.instant();
        true
    }

    async fn bounded<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        match tokio::time::timeout(self.patience.stall, work).await {
            Ok(result) => result,
            Err(_) => Err(self.stalled()),
        }
    }

    /// A listing by folder comes whole, after as many exchanges as it has pages.
    async fn bounded_listing(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let patience = self.patience.stall.saturating_mul(LISTING_PATIENCE);
        match tokio::time::timeout(patience, self.inner.list_with_delimiter(prefix)).await {
            Ok(result) => result,
            Err(_) => Err(self.stalled()),
        }
    }

    fn stalled(&self) -> object_store::Error {
        Transient(format!("no answer within {:?}", self.patience.stall)).into_store_error()
    }

    async fn get(&self, location: &Path, options: &GetOptions, attempts: &mut Attempts) -> Result<GetResult> {
        loop {
            match self.bounded(self.inner.get_opts(location, options.clone())).await {
                Err(error) if self.again(attempts, &error).await => {}
                result => return result,
            }
        }
    }
}

impl Retrying {
    pub(crate) fn new(
        inner: Arc<dyn ObjectStore>,
        store: &'static str,
        patience: Patience,
        retries: IntCounterVec,
        clock: Arc<dyn Clock>,
        random: Arc<Random>,
    ) -> Self {
        Self { shared: Arc::new(Shared { inner, store, patience, retries, clock, random }) }
    }

    fn retry_list(
        &self,
        start: impl Fn(&dyn ObjectStore) -> BoxStream<'static, Result<ObjectMeta>> + Send + Sync + 'static,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        let shared = Arc::clone(&self.shared);
        let listing = async move {
            let mut attempts = shared.begin("list");
            loop {
                let mut objects = start(shared.inner.as_ref());
                let first = match tokio::time::timeout(shared.patience.stall, objects.next()).await {
                    Ok(first) => first,
                    Err(_) => Some(Err(shared.stalled())),
                };
                match first {
                    Some(Err(error)) if shared.again(&mut attempts, &error).await => {}
                    // A stream that has ended, in whatever way, must not be asked again.
                    Some(Ok(first)) => return stream::iter([Ok(first)]).chain(unstalled(shared, objects)).boxed(),
                    ended => return stream::iter(ended).boxed(),
                }
            }
        };
        stream::once(listing).flatten().boxed()
    }
}

/// Ends a stream with an error when its next item does not come in time.
fn unstalled<T: Send + 'static>(
    shared: Arc<Shared>,
    items: BoxStream<'static, Result<T>>,
) -> BoxStream<'static, Result<T>> {
    let next = move |state: Option<BoxStream<'static, Result<T>>>| {
        let shared = Arc::clone(&shared);
        async move {
            let mut items = state?;
            match tokio::time::timeout(shared.patience.stall, items.next()).await {
                Ok(Some(Ok(item))) => Some((Ok(item), Some(items))),
                Ok(Some(Err(error))) => Some((Err(error), None)),
                Ok(None) => None,
                Err(_) => Some((Err(shared.stalled()), None)),
            }
        }
    };
    stream::unfold(Some(items), next).boxed()
}

/// A body under way: what is still wanted, and of which version.
struct Body {
    shared: Arc<Shared>,
    location: Path,
    options: GetOptions,
    etag: Option<String>,
    left: Range<u64>,
    pieces: BoxStream<'static, Result<Bytes>>,
    attempts: Attempts,
}

impl Body {
    async fn next(mut self) -> Result<Option<(Bytes, Self)>> {
        loop {
            let piece = match tokio::time::timeout(self.shared.patience.stall, self.pieces.next()).await {
                Ok(piece) => piece,
                Err(_) => Some(Err(self.shared.stalled())),
            };
            match piece {
                Some(Ok(piece)) => {
                    self.left.start += u64::try_from(piece.len()).unwrap_or(u64::MAX);
                    return Ok(Some((piece, self)));
                }
                None => return Ok(None),
                Some(Err(error)) => self.resume(error).await?,
            }
        }
    }

    /// Asks for the rest. Without an ETag the rest might be another version's: then the error stands.
    async fn resume(&mut self, error: object_store::Error) -> Result<()> {
        let Some(etag) = self.etag.clone().filter(|_| self.left.start < self.left.end) else {
            return Err(error);
        };
        // Every failure of a body is worth another attempt, whatever the backend calls it.
        let error = Transient(error.to_string()).into_store_error();
        if !self.shared.again(&mut self.attempts, &error).await {
            return Err(error);
        }
        let mut options = self.options.clone();
        options.range = Some(GetRange::Bounded(self.left.clone()));
        let result = self.shared.get(&self.location, &options, &mut self.attempts).await?;
        if result.meta.e_tag.as_ref() != Some(&etag) {
            return Err(object_store::Error::Precondition {
                path: self.location.to_string(),
                source: "the object was replaced while it was read".into(),
            });
        }
        self.pieces = result.into_stream();
        Ok(())
    }
}

impl fmt::Display for Retrying {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Retrying({})", self.shared.inner)
    }
}

#[async_trait]
impl ObjectStore for Retrying {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        let mut attempts = self.shared.begin("put");
        loop {
            match self.shared.inner.put_opts(location, payload.clone(), opts.clone()).await {
                Err(error) if opts.mode == PutMode::Overwrite && self.shared.again(&mut attempts, &error).await => {}
                result => return result,
            }
        }
    }

    async fn put_multipart_opts(&self, location: &Path, opts: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.shared.inner.put_multipart_opts(location, opts).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let mut attempts = self.shared.begin(if options.head { "head" } else { "get" });
        let mut result = self.shared.get(location, &options, &mut attempts).await?;
        if options.head {
            return Ok(result);
        }
        result.payload = match result.payload {
            GetResultPayload::Stream(pieces) => {
                let body = Body {
                    shared: Arc::clone(&self.shared),
                    location: location.clone(),
                    options,
                    etag: result.meta.e_tag.clone(),
                    left: result.range.clone(),
                    pieces,
                    attempts,
                };
                GetResultPayload::Stream(stream::try_unfold(body, Body::next).boxed())
            }
            file => file,
        };
        Ok(result)
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.shared.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let prefix = prefix.cloned();
        self.retry_list(move |store| store.list(prefix.as_ref()))
    }

    fn list_with_offset(&self, prefix: Option<&Path>, offset: &Path) -> BoxStream<'static, Result<ObjectMeta>> {
        let (prefix, offset) = (prefix.cloned(), offset.clone());
        self.retry_list(move |store| store.list_with_offset(prefix.as_ref(), &offset))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let mut attempts = self.shared.begin("list");
        loop {
            match self.shared.bounded_listing(prefix).await {
                Err(error) if self.shared.again(&mut attempts, &error).await => {}
                result => return result,
            }
        }
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.shared.inner.copy_opts(from, to, options).await
    }
}

#[cfg(test)]
mod tests;
