//! The range cache: byte ranges of data files in memory, weighed by their real size, and single
//! flight: a range that somebody is fetching is waited for, never fetched twice.
//!
//! Keys hold the id of a [`FileState`], which stands for a whole file key (table, URL, size,
//! generation, ETag) and the ETag learnt for it. Should a state be forgotten and made anew, its id
//! is another, so that bytes read under an older ETag can no longer be met.
//!
//! Lock order: `flights` is held while the cache is asked; nothing is awaited under it.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use lakeserve_common::Error;
use moka::sync::Cache;
use tokio::sync::watch;

use crate::metrics::Metrics;
use crate::reader::FileKey;

/// What is known of one data file while the process lives.
#[derive(Debug)]
pub(crate) struct FileState {
    id: u64,
    etag: OnceLock<String>,
}

impl FileState {
    /// The ETag that the file must have, once known.
    pub(crate) fn etag(&self) -> Option<&str> {
        self.etag.get().map(String::as_str)
    }

    /// Notes the ETag of an answer; says whether it is the one first seen.
    pub(crate) fn learn(&self, etag: Option<&str>) -> bool {
        let Some(etag) = etag else {
            return true;
        };
        opaque(self.etag.get_or_init(|| etag.to_owned())) == opaque(etag)
    }
}

/// An ETag without weakness mark and quotes: services differ in how listings and answers spell it.
fn opaque(etag: &str) -> &str {
    etag.strip_prefix("W/").unwrap_or(etag).trim_matches('"')
}

/// One range of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct RangeKey {
    file: u64,
    start: u64,
    end: u64,
}

impl RangeKey {
    pub(crate) fn new(file: &FileState, range: &Range<u64>) -> Self {
        Self { file: file.id, start: range.start, end: range.end }
    }
}

/// What a fetch ended with, for everyone who waits for it.
pub(crate) type Outcome = Result<Bytes, Arc<Error>>;
type Flight = Arc<watch::Sender<Option<Outcome>>>;

/// What is to be done about a range.
pub(crate) enum Lookup {
    /// Nothing: here it is.
    Hit(Bytes),
    /// Wait for the one who fetches it.
    Join(Waiting),
    /// Fetch it, and let the others know.
    Lead(Lead, Waiting),
}

/// A reader's end of a flight.
pub(crate) struct Waiting(watch::Receiver<Option<Outcome>>);

impl Waiting {
    /// The outcome; `None` when the fetch was given up without one.
    pub(crate) async fn outcome(mut self) -> Option<Outcome> {
        let value = self.0.wait_for(Option::is_some).await.ok()?;
        value.clone()
    }
}

/// The duty to fetch one range. Dropped without an outcome, its waiters are told so.
pub(crate) struct Lead {
    cache: Arc<RangeCache>,
    key: RangeKey,
    flight: Flight,
}

impl Lead {
    /// Keeps `outcome` and hands it to everyone who waits.
    pub(crate) fn finish(self, outcome: Outcome) {
        if let Ok(bytes) = &outcome {
            self.cache.ranges.insert(self.key, bytes.clone());
        }
        self.flight.send_replace(Some(outcome));
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        let mut flights = self.cache.flights();
        if flights.get(&self.key).is_some_and(|flight| Arc::ptr_eq(flight, &self.flight)) {
            flights.remove(&self.key);
        }
    }
}

/// The cache and the fetches under way. One per process.
#[derive(Debug)]
pub(crate) struct RangeCache {
    ranges: Cache<RangeKey, Bytes>,
    files: Cache<FileKey, Arc<FileState>>,
    flights: Mutex<HashMap<RangeKey, Flight>>,
    next_file: AtomicU64,
    metrics: Metrics,
}

/// What an entry costs beside its bytes.
const ENTRY_OVERHEAD: usize = 128;
/// Bound of the memory for file states.
const FILE_STATES_BYTES: u64 = 64 << 20;

impl RangeCache {
    /// A cache of at most `capacity` bytes.
    pub(crate) fn new(capacity: u64, metrics: Metrics) -> Arc<Self> {
        let gauge = metrics.cache_bytes.clone();
        let evictions = metrics.cache_evictions.clone();
        let ranges = Cache::builder()
            .max_capacity(capacity)
            .weigher(|_, bytes: &Bytes| weight(bytes.len() + ENTRY_OVERHEAD))
            .eviction_listener(move |_, _, cause| {
                if cause == moka::notification::RemovalCause::Size {
                    evictions.inc();
                }
            })
            .build();
        let files = Cache::builder()
            .max_capacity(FILE_STATES_BYTES)
            .weigher(|key: &FileKey, _| weight(key.url.as_str().len() + key.table.len() + 2 * ENTRY_OVERHEAD))
            .build();
        gauge.set(0);
        Arc::new(Self { ranges, files, flights: Mutex::default(), next_file: AtomicU64::new(0), metrics })
    }

    /// What is known of the file with this key.
    pub(crate) fn file(&self, key: &FileKey) -> Arc<FileState> {
        self.files.get_with_by_ref(key, || {
            let etag = key.etag.clone().map_or_else(OnceLock::new, OnceLock::from);
            Arc::new(FileState { id: self.next_file.fetch_add(1, Ordering::Relaxed), etag })
        })
    }

    /// Looks a range up, or makes the caller the one who fetches it.
    pub(crate) fn lookup(self: &Arc<Self>, key: RangeKey) -> Lookup {
        if let Some(bytes) = self.ranges.get(&key) {
            self.metrics.cache_hits.inc();
            return Lookup::Hit(bytes);
        }
        let mut flights = self.flights();
        if let Some(flight) = flights.get(&key) {
            self.metrics.cache_joins.inc();
            return Lookup::Join(Waiting(flight.subscribe()));
        }
        // A flight that landed since the first look left its bytes in the cache.
        if let Some(bytes) = self.ranges.get(&key) {
            self.metrics.cache_hits.inc();
            return Lookup::Hit(bytes);
        }
        self.metrics.cache_misses.inc();
        let (sender, receiver) = watch::channel(None);
        let flight = Arc::new(sender);
        flights.insert(key, Arc::clone(&flight));
        Lookup::Lead(Lead { cache: Arc::clone(self), key, flight }, Waiting(receiver))
    }

    /// Gives the leads up when nobody waits for any of them any more, atomically: whoever comes
    /// after starts a fetch of their own.
    pub(crate) fn abandon_if_unwanted(&self, leads: &[Lead]) -> bool {
        let mut flights = self.flights();
        let unwanted = leads.iter().all(|lead| lead.flight.receiver_count() == 0);
        if unwanted {
            for lead in leads {
                flights.remove(&lead.key);
            }
        }
        unwanted
    }

    /// Brings the gauge up to date.
    pub(crate) fn publish_size(&self) {
        self.metrics.cache_bytes.set(i64::try_from(self.ranges.weighted_size()).unwrap_or(i64::MAX));
    }

    fn flights(&self) -> MutexGuard<'_, HashMap<RangeKey, Flight>> {
        self.flights.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn weight(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(capacity: u64) -> Arc<RangeCache> {
        RangeCache::new(capacity, Metrics::new(&prometheus::Registry::new()).unwrap())
    }

    fn key(generation: i64) -> FileKey {
        let url = url::Url::parse("file:///data/f.parquet").unwrap();
        FileKey { table: "t".into(), url, size: 10, generation, etag: None }
    }

    #[test]
    fn the_whole_file_key_tells_files_apart() {
        let cache = cache(1 << 20);
        let first = cache.file(&key(1));
        let Lookup::Lead(lead, _) = cache.lookup(RangeKey::new(&first, &(0..3))) else { panic!("cold") };
        lead.finish(Ok(Bytes::from_static(b"abc")));
        assert!(matches!(cache.lookup(RangeKey::new(&cache.file(&key(1)), &(0..3))), Lookup::Hit(_)));
        assert!(matches!(cache.lookup(RangeKey::new(&cache.file(&key(2)), &(0..3))), Lookup::Lead(..)));
    }

    #[test]
    fn room_is_bounded_by_real_bytes() {
        let cache = cache(64 << 10);
        let file = cache.file(&key(1));
        for start in 0..100_u64 {
            let Lookup::Lead(lead, _) = cache.lookup(RangeKey::new(&file, &(start..start + 4096))) else { continue };
            lead.finish(Ok(Bytes::from(vec![0; 4096])));
        }
        cache.ranges.run_pending_tasks();
        assert!(cache.ranges.weighted_size() <= 64 << 10);
        assert!(cache.ranges.entry_count() > 0);
    }

    #[tokio::test]
    async fn a_dropped_lead_tells_its_waiters() {
        let cache = cache(1 << 20);
        let file = cache.file(&key(1));
        let range = RangeKey::new(&file, &(0..3));
        let Lookup::Lead(lead, mine) = cache.lookup(range) else { panic!("cold") };
        let Lookup::Join(other) = cache.lookup(range) else { panic!("under way") };
        drop(lead);
        assert!(mine.outcome().await.is_none());
        assert!(other.outcome().await.is_none());
        assert!(matches!(cache.lookup(range), Lookup::Lead(..)));
    }

    #[test]
    fn etags_compare_without_quotes_and_weakness() {
        let state = FileState { id: 0, etag: OnceLock::new() };
        assert!(state.learn(Some("\"a\"")) && state.learn(Some("W/\"a\"")) && state.learn(None));
        assert!(!state.learn(Some("\"b\"")));
    }
}
