//! Reading a data file: ranges are looked up in the cache, the missing ones coalesced into few
//! requests, fetched with a bound on what is in flight, and checked against the file that the
//! table's log names.
//!
//! Fetches run as tasks of their own. A query that goes away does not end a fetch that another
//! query may be waiting for; a fetch that nobody waits for any more is given up before it begins.

use std::ops::Range;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures::{StreamExt, TryStreamExt, stream};
use lakeserve_common::clock::Clock;
use lakeserve_common::{Error, ErrorKind, Result, spawn};
use object_store::{GetOptions, GetResult, GetResultPayload, ObjectStoreExt};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use url::Url;

use crate::coalesce::{self, Fetch};
use crate::counters::ReadCounters;
use crate::error::{REPLACED_HINT, store_error};
use crate::metrics::Metrics;
use crate::options::StorageOptions;
use crate::range_cache::{FileState, Lead, Lookup, Outcome, RangeCache, RangeKey, Waiting};
use crate::store::StoreLocation;

/// The identity of an immutable data file. Caches key on all of it, never on the path alone.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FileKey {
    /// UUID (or other stable identity) of the table.
    pub table: String,
    /// Full URL of the file.
    pub url: Url,
    /// Size in bytes as the table's log says.
    pub size: u64,
    /// Delta modification time, Iceberg data sequence number, or a listing's last-modified time.
    pub generation: i64,
    /// The ETag, where the listing told one; else it is learnt at the first read.
    pub etag: Option<String>,
}

/// What all readers share.
#[derive(Debug)]
pub(crate) struct ReadShared {
    pub cache: Arc<RangeCache>,
    pub permits: Arc<Semaphore>,
    pub gap: u64,
    pub max_request: u64,
    pub metrics: Metrics,
    pub clock: Arc<dyn Clock>,
    /// The runtime for I/O. `None`: the one that asks.
    pub io: Option<Handle>,
}

impl ReadShared {
    pub(crate) fn new(options: &StorageOptions, metrics: Metrics, clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self {
            cache: RangeCache::new(options.cache_bytes.0, metrics.clone()),
            permits: Arc::new(Semaphore::new(options.parallel_requests.clamp(1, Semaphore::MAX_PERMITS))),
            gap: options.coalesce_gap.0,
            max_request: options.max_request.0.max(1),
            metrics,
            clock,
            // A runtime of one thread makes no progress while nobody blocks on it.
            io: Handle::try_current().ok().filter(|io| io.runtime_flavor() == RuntimeFlavor::MultiThread),
        })
    }
}

/// Reads byte ranges of one data file. Cheap to clone.
#[derive(Debug, Clone)]
pub struct DataReader {
    file: Arc<OpenFile>,
    counters: Arc<ReadCounters>,
}

#[derive(Debug)]
struct OpenFile {
    shared: Arc<ReadShared>,
    location: StoreLocation,
    key: FileKey,
    state: Arc<FileState>,
}

/// How many pieces of one over-long range are fetched at a time.
const PIECES_AT_A_TIME: usize = 4;
/// How often a range is asked for anew when the fetch that it waited for was given up.
const LOOKUPS: usize = 3;

impl DataReader {
    pub(crate) fn new(
        shared: Arc<ReadShared>,
        location: StoreLocation,
        key: FileKey,
        counters: Arc<ReadCounters>,
    ) -> Self {
        let state = shared.cache.file(&key);
        Self { file: Arc::new(OpenFile { shared, location, key, state }), counters }
    }

    /// The file's size in bytes, as the table's log says.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.file.key.size
    }

    /// The file's URL.
    #[must_use]
    pub fn url(&self) -> &Url {
        &self.file.key.url
    }

    /// The bytes of `ranges`, in the same order. Empty ranges give empty bytes.
    ///
    /// # Errors
    /// `Corrupt` when a range lies outside the file, when the file is missing, or when it is not
    /// the one that the log names (other size, or another ETag than first seen); `Storage` when the
    /// store fails.
    pub async fn ranges(&self, ranges: Vec<Range<u64>>) -> Result<Vec<Bytes>> {
        if let Some(range) = ranges.iter().find(|range| range.start > range.end || range.end > self.size()) {
            return Err(Error::new(
                ErrorKind::Corrupt,
                format!(
                    "{}: bytes {}..{} were asked of a file of {} bytes",
                    self.url(),
                    range.start,
                    range.end,
                    self.size()
                ),
            )
            .with_hint("the file's footer or the table's log is damaged"));
        }
        let mut answer = vec![Bytes::new(); ranges.len()];
        let mut open: Vec<usize> = (0..ranges.len()).filter(|index| !ranges[*index].is_empty()).collect();
        for round in 0..LOOKUPS {
            // Should the runtime for I/O be gone, its fetches are given up; then the asker's serves.
            let io = self.file.shared.io.as_ref().filter(|_| round == 0);
            open = self.round(&ranges, open, &mut answer, io).await?;
            if open.is_empty() {
                return Ok(answer);
            }
        }
        Err(Error::new(ErrorKind::Internal, format!("{}: the read was given up repeatedly", self.url())))
    }

    /// Answers the `open` ranges; returns those whose fetch was given up.
    async fn round(
        &self,
        ranges: &[Range<u64>],
        open: Vec<usize>,
        answer: &mut [Bytes],
        io: Option<&Handle>,
    ) -> Result<Vec<usize>> {
        let file = &self.file;
        let mut waiting = Vec::new();
        let mut wanted = Vec::new();
        let mut leads = Vec::new();
        for index in open {
            let range = &ranges[index];
            match file.shared.cache.lookup(RangeKey::new(&file.state, range)) {
                Lookup::Hit(bytes) => {
                    self.counters.add_cache(range.end - range.start);
                    answer[index] = bytes;
                }
                Lookup::Join(flight) => {
                    self.counters.add_cache(range.end - range.start);
                    waiting.push((index, flight));
                }
                Lookup::Lead(lead, flight) => {
                    waiting.push((index, flight));
                    wanted.push(range.clone());
                    leads.push(Some(lead));
                }
            }
        }
        if waiting.is_empty() {
            return Ok(Vec::new());
        }
        for fetch in coalesce::plan(&wanted, file.shared.gap, file.shared.max_request) {
            let leads =
                fetch.members.iter().filter_map(|member| Some((leads[*member].take()?, wanted[*member].clone())));
            let (leads, parts): (Vec<_>, Vec<_>) = leads.unzip();
            let task = Arc::clone(file).fetch(fetch, leads, parts, Arc::clone(&self.counters));
            let _runs_on = match io {
                Some(io) => spawn::spawn_on(io, "storage_fetch", task),
                None => spawn::spawn("storage_fetch", task),
            };
        }
        let began = file.shared.clock.instant();
        let result = self.collect(waiting, answer).await;
        self.counters.add_wait(file.shared.clock.instant().duration_since(began));
        result
    }

    async fn collect(&self, waiting: Vec<(usize, Waiting)>, answer: &mut [Bytes]) -> Result<Vec<usize>> {
        let mut given_up = Vec::new();
        for (index, flight) in waiting {
            match flight.outcome().await {
                Some(Ok(bytes)) => answer[index] = bytes,
                Some(Err(error)) => return Err(shared_error(error)),
                None => given_up.push(index),
            }
        }
        Ok(given_up)
    }
}

/// An error of its own for each of those who waited for one fetch.
fn shared_error(error: Arc<Error>) -> Error {
    let copy = Error::new(error.kind(), error.message());
    match error.hint() {
        Some(hint) => copy.with_hint(hint),
        None => copy,
    }
    .with_source(error)
}

impl OpenFile {
    async fn fetch(
        self: Arc<Self>,
        fetch: Fetch,
        leads: Vec<Lead>,
        parts: Vec<Range<u64>>,
        counters: Arc<ReadCounters>,
    ) {
        let permit = self.permit().await;
        if self.shared.cache.abandon_if_unwanted(&leads) {
            return;
        }
        let mut permit = Some(permit);
        let pieces = coalesce::pieces(&fetch.bytes, self.shared.max_request).into_iter();
        let requests = pieces.map(|piece| self.request(piece, permit.take(), &counters));
        let fetched =
            stream::iter(requests.collect::<Vec<_>>()).buffered(PIECES_AT_A_TIME).try_collect::<Vec<_>>().await;
        let whole = fetched.map(|mut pieces| match pieces.pop() {
            Some(only) if pieces.is_empty() => only,
            last => pieces
                .into_iter()
                .chain(last)
                .fold(BytesMut::new(), |mut all, piece| {
                    all.extend_from_slice(&piece);
                    all
                })
                .freeze(),
        });
        let whole = whole.map_err(Arc::new);
        for (lead, part) in leads.into_iter().zip(parts) {
            lead.finish(whole.clone().and_then(|bytes| cut(&bytes, &fetch.bytes, &part)));
        }
        self.shared.cache.publish_size();
    }

    async fn permit(&self) -> Option<OwnedSemaphorePermit> {
        let began = self.shared.clock.instant();
        // Never closed; without a permit the request would still be right.
        let permit = Arc::clone(&self.shared.permits).acquire_owned().await.ok();
        let waited = self.shared.clock.instant().duration_since(began);
        self.shared.metrics.permit_seconds.observe(waited.as_secs_f64());
        permit
    }

    async fn request(
        &self,
        bytes: Range<u64>,
        permit: Option<Option<OwnedSemaphorePermit>>,
        counters: &ReadCounters,
    ) -> Result<Bytes> {
        let _permit = match permit {
            Some(permit) => permit,
            None => self.permit().await,
        };
        counters.add_request(bytes.end - bytes.start);
        let options = GetOptions::new().with_range(Some(bytes.clone())).with_if_match(self.if_match());
        let result = match self.location.store.get_opts(&self.location.path, options).await {
            Ok(result) => result,
            Err(error) => return Err(self.explain(error).await),
        };
        if result.meta.size != self.key.size {
            return Err(self.replaced_size(result.meta.size));
        }
        if !self.state.learn(result.meta.e_tag.as_deref()) {
            let message = format!("{}: file replaced: its ETag is no longer the one first seen", self.key.url);
            return Err(Error::new(ErrorKind::Corrupt, message).with_hint(REPLACED_HINT));
        }
        let wanted = bytes.end - bytes.start;
        let body = match collect(result, wanted).await {
            Ok(body) => body,
            Err(error) => return Err(self.explain(error).await),
        };
        if u64::try_from(body.len()).ok() != Some(wanted) {
            let message = format!("{}: {} bytes came where {wanted} were asked for", self.key.url, body.len());
            return Err(Error::new(ErrorKind::Corrupt, message).with_hint(REPLACED_HINT));
        }
        Ok(body)
    }

    /// The condition to send. A weak ETag never matches; then only the answer's is compared.
    /// Azure's listings leave out the quotes that its conditions need.
    fn if_match(&self) -> Option<String> {
        let etag = self.state.etag().filter(|etag| !etag.starts_with("W/"))?;
        let lacks_quotes = matches!(self.key.url.scheme(), "abfss" | "az") && !etag.starts_with('"');
        Some(if lacks_quotes { format!("\"{etag}\"") } else { etag.to_owned() })
    }

    /// Finds out what an error means for this file: gone, replaced, or out of reach.
    async fn explain(&self, error: object_store::Error) -> Error {
        match &error {
            object_store::Error::NotFound { .. } => {
                let message = format!("{}: the data file is missing from the store", self.key.url);
                return Error::new(ErrorKind::Corrupt, message)
                    .with_hint("the table still names it: was the table vacuumed or its files deleted?")
                    .with_source(error);
            }
            object_store::Error::Generic { .. } if !crate::error::is_transient(&error) => {
                // A range beyond the end is refused in many words; the size says it plainly.
                if let Ok(meta) = self.location.store.head(&self.location.path).await
                    && meta.size != self.key.size
                {
                    return self.replaced_size(meta.size);
                }
            }
            _ => {}
        }
        store_error(self.key.url.as_str(), error)
    }

    fn replaced_size(&self, size: u64) -> Error {
        let message = format!(
            "{}: file replaced or cut short: it has {size} bytes, the table's log says {}",
            self.key.url, self.key.size
        );
        Error::new(ErrorKind::Corrupt, message).with_hint(REPLACED_HINT)
    }
}

/// The body in one buffer of exactly its size, so that the cache weighs what it holds.
async fn collect(result: GetResult, size: u64) -> object_store::Result<Bytes> {
    match result.payload {
        GetResultPayload::File(..) => result.bytes().await,
        GetResultPayload::Stream(mut pieces) => {
            let mut body = BytesMut::with_capacity(usize::try_from(size).unwrap_or_default());
            while let Some(piece) = pieces.try_next().await? {
                body.extend_from_slice(&piece);
            }
            Ok(body.freeze())
        }
    }
}

/// `part` of the fetched bytes, as a copy unless it is all of them: a slice would keep the whole
/// request alive in the cache.
fn cut(fetched: &Bytes, bytes: &Range<u64>, part: &Range<u64>) -> Outcome {
    if part == bytes {
        return Ok(fetched.clone());
    }
    let from = usize::try_from(part.start - bytes.start).unwrap_or(usize::MAX);
    let to = usize::try_from(part.end - bytes.start).unwrap_or(usize::MAX);
    let short = || Arc::new(Error::new(ErrorKind::Internal, "a fetch returned fewer bytes than it was checked for"));
    fetched.get(from..to).map(Bytes::copy_from_slice).ok_or_else(short)
}

#[cfg(test)]
mod tests;
