//! The outermost decorator: counts operations, errors, seconds and body bytes by store kind.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::BoxStream;
use lakeserve_common::clock::Clock;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

use crate::metrics::Metrics;

/// Counts what passes through. `store` is the kind of store, one of a closed set.
#[derive(Debug)]
pub(crate) struct Instrumented {
    inner: Arc<dyn ObjectStore>,
    store: &'static str,
    metrics: Metrics,
    clock: Arc<dyn Clock>,
}

impl Instrumented {
    pub(crate) fn new(
        inner: Arc<dyn ObjectStore>,
        store: &'static str,
        metrics: Metrics,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self { inner, store, metrics, clock }
    }

    async fn observe<T>(&self, operation: &'static str, work: impl Future<Output = Result<T>>) -> Result<T> {
        let labels = [self.store, operation];
        self.metrics.requests.with_label_values(&labels).inc();
        let started = self.clock.instant();
        let result = work.await;
        let seconds = self.clock.instant().duration_since(started).as_secs_f64();
        self.metrics.seconds.with_label_values(&labels).observe(seconds);
        if result.as_ref().is_err_and(is_failure) {
            self.metrics.errors.with_label_values(&labels).inc();
        }
        result
    }

    fn observe_list(&self, listing: BoxStream<'static, Result<ObjectMeta>>) -> BoxStream<'static, Result<ObjectMeta>> {
        let labels = [self.store, "list"];
        self.metrics.requests.with_label_values(&labels).inc();
        let errors = self.metrics.errors.with_label_values(&labels);
        let seconds = self.metrics.seconds.with_label_values(&labels);
        let clock = Arc::clone(&self.clock);
        let started = clock.instant();
        let end = futures::stream::poll_fn(move |_| {
            seconds.observe(clock.instant().duration_since(started).as_secs_f64());
            std::task::Poll::Ready(None)
        });
        let counted = listing.inspect(move |item| {
            if item.as_ref().is_err_and(is_failure) {
                errors.inc();
            }
        });
        counted.chain(end).boxed()
    }
}

/// Absence and unmet conditions are answers, not failures of the store.
fn is_failure(error: &object_store::Error) -> bool {
    use object_store::Error as E;
    !matches!(error, E::NotFound { .. } | E::AlreadyExists { .. } | E::Precondition { .. } | E::NotModified { .. })
}

impl fmt::Display for Instrumented {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Instrumented({})", self.inner)
    }
}

#[async_trait]
impl ObjectStore for Instrumented {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        self.observe("put", self.inner.put_opts(location, payload, opts)).await
    }

    async fn put_multipart_opts(&self, location: &Path, opts: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.observe("put", self.inner.put_multipart_opts(location, opts)).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let operation = if options.head { "head" } else { "get" };
        let is_head = options.head;
        let mut result = self.observe(operation, self.inner.get_opts(location, options)).await?;
        if is_head {
            return Ok(result);
        }
        let read = self.metrics.read_bytes.with_label_values(&[self.store]);
        result.payload = match result.payload {
            GetResultPayload::File(file, path) => {
                read.inc_by(result.range.end - result.range.start);
                GetResultPayload::File(file, path)
            }
            GetResultPayload::Stream(stream) => {
                let counted = stream.inspect(move |piece| {
                    if let Ok(piece) = piece {
                        read.inc_by(u64::try_from(piece.len()).unwrap_or(u64::MAX));
                    }
                });
                GetResultPayload::Stream(counted.boxed())
            }
        };
        Ok(result)
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let requests = self.metrics.requests.with_label_values(&[self.store, "delete"]);
        let errors = self.metrics.errors.with_label_values(&[self.store, "delete"]);
        let deleted = self.inner.delete_stream(locations).inspect(move |item| {
            requests.inc();
            if item.as_ref().is_err_and(is_failure) {
                errors.inc();
            }
        });
        deleted.boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.observe_list(self.inner.list(prefix))
    }

    fn list_with_offset(&self, prefix: Option<&Path>, offset: &Path) -> BoxStream<'static, Result<ObjectMeta>> {
        self.observe_list(self.inner.list_with_offset(prefix, offset))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.observe("list", self.inner.list_with_delimiter(prefix)).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.observe("copy", self.inner.copy_opts(from, to, options)).await
    }
}
