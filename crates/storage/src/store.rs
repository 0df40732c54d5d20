//! Stores by location: one decorated store per bucket (or host, or file system), made at first use.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use lakeserve_common::Result;
use lakeserve_common::clock::Clock;
use lakeserve_common::random::Random;
use object_store::ObjectStore;
use object_store::path::Path;
use prometheus::Registry;
use url::Url;

use crate::backend;
use crate::counters::ReadCounters;
use crate::instrumented::Instrumented;
use crate::location;
use crate::metrics::Metrics;
use crate::options::{StorageOptions, StoreOptions};
use crate::reader::{DataReader, FileKey, ReadShared};
use crate::retrying::{Patience, Retrying};

/// A store, and a path in it. The store's root is the bucket's (or the file system's).
#[derive(Debug, Clone)]
pub struct StoreLocation {
    /// The decorated store.
    pub store: Arc<dyn ObjectStore>,
    /// The path below its root.
    pub path: Path,
}

/// All stores of the process, and the range cache above them.
#[derive(Debug)]
pub struct Storage {
    options: StorageOptions,
    clock: Arc<dyn Clock>,
    random: Arc<Random>,
    metrics: Metrics,
    stores: Mutex<HashMap<StoreKey, Arc<dyn ObjectStore>>>,
    read: Arc<ReadShared>,
}

/// One store: scheme and authority, and which of the configured exceptions applies.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct StoreKey {
    root: String,
    exception: Option<usize>,
}

impl Storage {
    /// Storage with these options. Nothing is connected yet. I/O runs on the multi-threaded runtime
    /// that this is called in, whichever runtime asks for it; called elsewhere, on the asker's own.
    ///
    /// # Errors
    /// `Option` when a prefix in `options.stores` is no location.
    pub fn new(
        options: StorageOptions,
        clock: Arc<dyn Clock>,
        random: Arc<Random>,
        registry: &Registry,
    ) -> Result<Arc<Self>> {
        backend::check(&options)?;
        let metrics = Metrics::new(registry)?;
        let read = ReadShared::new(&options, metrics.clone(), Arc::clone(&clock));
        Ok(Arc::new(Self { options, clock, random, metrics, stores: Mutex::default(), read }))
    }

    /// Reads a location as a person writes it; see [`location::parse`].
    ///
    /// # Errors
    /// `Option` for an unknown scheme, an absent bucket, or a query string.
    pub fn parse_location(text: &str) -> Result<Url> {
        location::parse(text)
    }

    /// The store and path of `url`. The store is made at first use and then shared.
    ///
    /// # Errors
    /// `Option` when the URL or the store's configuration cannot be used; nothing is requested from
    /// the store yet.
    pub fn open(&self, url: &Url) -> Result<StoreLocation> {
        let path = location::store_path(url)?;
        let exception = self.exception(url);
        let key = StoreKey { root: root_of(url), exception: exception.map(|(index, _)| index) };
        let mut stores = self.stores.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(store) = stores.get(&key) {
            return Ok(StoreLocation { store: Arc::clone(store), path });
        }
        let backend = backend::build(url, &self.options, exception.map(|(_, options)| options), self.read.io.as_ref())?;
        let store = self.decorate(backend, backend::kind(url));
        stores.insert(key, Arc::clone(&store));
        Ok(StoreLocation { store, path })
    }

    /// A reader of one data file that counts into `counters`.
    ///
    /// # Errors
    /// As [`Storage::open`].
    pub fn reader(&self, key: &FileKey, counters: Arc<ReadCounters>) -> Result<DataReader> {
        let location = self.open(&key.url)?;
        Ok(DataReader::new(Arc::clone(&self.read), location, key.clone(), counters))
    }

    /// The options it was made with.
    #[must_use]
    pub fn options(&self) -> &StorageOptions {
        &self.options
    }

    /// Puts `backend` (undecorated) in the place of the store that holds `url`: for tests and
    /// simulations with a store in memory or a failing one.
    pub fn set_backend(&self, url: &Url, backend: Arc<dyn ObjectStore>) {
        let exception = self.exception(url).map(|(index, _)| index);
        let store = self.decorate(backend, backend::kind(url));
        let key = StoreKey { root: root_of(url), exception };
        self.stores.lock().unwrap_or_else(PoisonError::into_inner).insert(key, store);
    }

    /// The stacking order of a store, written once.
    fn decorate(&self, backend: Arc<dyn ObjectStore>, kind: &'static str) -> Arc<dyn ObjectStore> {
        let patience = Patience {
            retries: self.options.retry_attempts,
            total: self.options.retry_timeout.0,
            stall: self.options.request_timeout.0,
        };
        let retries = self.metrics.retries.clone();
        let retrying =
            Retrying::new(backend, kind, patience, retries, Arc::clone(&self.clock), Arc::clone(&self.random));
        Arc::new(Instrumented::new(Arc::new(retrying), kind, self.metrics.clone(), Arc::clone(&self.clock)))
    }

    /// The configured exception with the longest prefix that fits.
    fn exception(&self, url: &Url) -> Option<(usize, &StoreOptions)> {
        let fits = |options: &StoreOptions| backend::prefix_fits(&options.prefix, url);
        let stores = self.options.stores.iter().enumerate();
        stores.filter(|(_, options)| fits(options)).max_by_key(|(_, options)| options.prefix.len())
    }
}

/// Scheme and authority.
fn root_of(url: &Url) -> String {
    format!("{}://{}", url.scheme(), url.authority())
}

#[cfg(test)]
mod tests {
    use object_store::memory::InMemory;
    use object_store::{ObjectStoreExt, PutPayload};

    use super::*;
    use crate::testing;

    #[test]
    fn the_stacking_order_is_the_documented_one() {
        let storage = testing::storage(StorageOptions::default()).unwrap();
        let url = Url::parse("s3://bucket/x").unwrap();
        storage.set_backend(&url, testing::FailingStore::new(Arc::new(InMemory::new())));
        let store = storage.open(&url).unwrap().store;
        assert_eq!(store.to_string(), "Instrumented(Retrying(Failing(InMemory)))");
    }

    #[test]
    fn one_store_serves_a_bucket() {
        let storage = testing::storage(StorageOptions::default()).unwrap();
        let a = storage.open(&Url::parse("s3://bucket/a").unwrap()).unwrap();
        let b = storage.open(&Url::parse("s3://bucket/b").unwrap()).unwrap();
        let other = storage.open(&Url::parse("s3://other/b").unwrap()).unwrap();
        assert!(Arc::ptr_eq(&a.store, &b.store));
        assert!(!Arc::ptr_eq(&a.store, &other.store));
        assert_eq!(b.path.as_ref(), "b");
    }

    #[tokio::test]
    async fn local_files_of_any_name_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let storage = testing::storage(StorageOptions::default()).unwrap();
        for name in [
            "a b.parquet",
            "50%.parquet",
            "a%20b.parquet",
            "x=y+z.parquet",
            "é 日本.parquet",
            "#hash.parquet",
            "q?.parquet",
        ] {
            let path = folder.path().join("p = 1%").join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, name).unwrap();
            let url = Storage::parse_location(path.to_str().unwrap()).unwrap();
            let opened = storage.open(&url).unwrap();
            let body = opened.store.get(&opened.path).await.unwrap().bytes().await.unwrap();
            assert_eq!(body, name.as_bytes());
            let parent = Storage::parse_location(path.parent().unwrap().to_str().unwrap()).unwrap();
            let listing = opened.store.list_with_delimiter(Some(&storage.open(&parent).unwrap().path)).await.unwrap();
            let listed: Vec<Url> = listing.objects.iter().map(|o| location::object_url(&parent, &o.location)).collect();
            assert!(listed.contains(&url), "{name}: {listed:?}");
        }
    }

    #[tokio::test]
    async fn operations_are_counted() {
        let registry = Registry::new();
        let storage = Storage::new(
            StorageOptions::default(),
            lakeserve_common::clock::system(),
            Arc::new(Random::seeded(1)),
            &registry,
        )
        .unwrap();
        let url = Url::parse("s3://bucket/x").unwrap();
        storage.set_backend(&url, Arc::new(InMemory::new()));
        let StoreLocation { store, path } = storage.open(&url).unwrap();
        store.put(&path, PutPayload::from_static(b"abc")).await.unwrap();
        store.get(&path).await.unwrap().bytes().await.unwrap();
        assert!(store.get(&Path::from("absent")).await.is_err());
        let text = prometheus::TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
        for line in [
            "lakeserve_storage_requests_total{operation=\"get\",store=\"s3\"} 2",
            "lakeserve_storage_requests_total{operation=\"put\",store=\"s3\"} 1",
            "lakeserve_storage_read_bytes_total{store=\"s3\"} 3",
        ] {
            assert!(text.contains(line), "{line} not in\n{text}");
        }
        assert!(!text.contains("lakeserve_storage_errors_total{"), "absence is an answer");
    }
}
