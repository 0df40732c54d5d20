//! Against a real S3 server. Runs when `LAKESERVE_TEST_S3_ENDPOINT` names one (for example
//! `http://127.0.0.1:18333`) whose bucket `lake` the key `K` with the secret `S` may write
//! (`LAKESERVE_TEST_S3_BUCKET`, `…_KEY` and `…_SECRET` name others); else every test says that it
//! was skipped.

#![expect(clippy::unwrap_used, reason = "a test says what broke by panicking")]
#![expect(clippy::single_range_in_vec_init, reason = "a list of byte ranges may hold one")]

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use lakeserve_common::ErrorKind;
use lakeserve_storage::{
    FileKey, ReadCounters, Secret, Storage, StorageOptions, StoreLocation, StoreOptions, location, store_error, testing,
};
use object_store::{ObjectStoreExt, PutPayload};
use url::Url;

struct Server {
    options: StoreOptions,
    root: Url,
}

impl Server {
    fn storage(&self) -> Arc<Storage> {
        let stores = vec![self.options.clone()];
        testing::storage(StorageOptions { stores, ..StorageOptions::default() }).unwrap()
    }

    fn url(&self, name: &str) -> Url {
        location::child(&self.root, name)
    }
}

/// The server, with a folder for this test; else says on standard error that `test` is skipped.
fn server(test: &str) -> Option<Server> {
    let variable = |name: &str| std::env::var(format!("LAKESERVE_TEST_S3_{name}")).ok();
    let Some(endpoint) = variable("ENDPOINT") else {
        let _ = writeln!(std::io::stderr(), "skipped: s3::{test} (LAKESERVE_TEST_S3_ENDPOINT is not set)");
        return None;
    };
    let bucket = variable("BUCKET").unwrap_or_else(|| "lake".into());
    let options = StoreOptions {
        prefix: format!("s3://{bucket}"),
        endpoint: Some(endpoint),
        access_key_id: Some(variable("KEY").unwrap_or_else(|| "K".into())),
        secret_access_key: Some(Secret::new(variable("SECRET").unwrap_or_else(|| "S".into()))),
        ..StoreOptions::default()
    };
    let root = Storage::parse_location(&format!("s3://{bucket}/storage-test/{test}-{}", std::process::id())).unwrap();
    Some(Server { options, root })
}

async fn put(storage: &Storage, url: &Url, body: Bytes) {
    let StoreLocation { store, path } = storage.open(url).unwrap();
    store.put(&path, PutPayload::from(body)).await.unwrap();
}

#[tokio::test]
async fn objects_of_any_name_are_written_listed_and_read() {
    let Some(server) = server("objects_of_any_name_are_written_listed_and_read") else { return };
    let storage = server.storage();
    let names = ["a b", "50%", "a%20b", "x=y+z", "é 日本", "p=1%2F2/f.parquet", "q&r;s", "(beta)", "'q'"];
    for name in names {
        put(&storage, &server.url(name), Bytes::from(name)).await;
    }
    let StoreLocation { store, path } = storage.open(&server.root).unwrap();
    let objects: Vec<_> = store.list(Some(&path)).try_collect().await.unwrap();
    let mut listed: Vec<Url> =
        objects.iter().map(|object| location::object_url(&server.root, &object.location)).collect();
    let mut expected: Vec<Url> = names.iter().map(|name| server.url(name)).collect();
    listed.sort();
    expected.sort();
    assert_eq!(listed, expected);
    for name in names {
        let key = FileKey {
            table: "t".into(),
            url: server.url(name),
            size: name.len().try_into().unwrap(),
            generation: 0,
            etag: objects
                .iter()
                .find(|o| location::object_url(&server.root, &o.location) == server.url(name))
                .unwrap()
                .e_tag
                .clone(),
        };
        let reader = storage.reader(&key, Arc::default()).unwrap();
        assert_eq!(reader.ranges(vec![0..key.size]).await.unwrap()[0], name.as_bytes());
    }
}

#[tokio::test]
async fn listings_of_many_pages_are_whole() {
    let Some(server) = server("listings_of_many_pages_are_whole") else { return };
    let storage = server.storage();
    let puts = (0..1_100).map(|at| {
        let (storage, url) = (Arc::clone(&storage), server.url(&format!("part-{at:05}")));
        async move { put(&storage, &url, Bytes::from_static(b"x")).await }
    });
    stream::iter(puts).buffer_unordered(16).collect::<Vec<_>>().await;
    let StoreLocation { store, path } = storage.open(&server.root).unwrap();
    let objects: Vec<_> = store.list(Some(&path)).try_collect().await.unwrap();
    assert_eq!(objects.len(), 1_100);
    assert!(objects.is_sorted_by(|a, b| a.location < b.location));
}

#[tokio::test]
async fn ranges_are_coalesced_cached_and_bound_to_one_version() {
    let Some(server) = server("ranges_are_coalesced_cached_and_bound_to_one_version") else { return };
    let storage = server.storage();
    let body = Bytes::from((0..3_000_000_u32).map(|at| u8::try_from(at % 251).unwrap()).collect::<Vec<_>>());
    let url = server.url("data.parquet");
    put(&storage, &url, body.clone()).await;
    let key = FileKey { table: "t".into(), url: url.clone(), size: 3_000_000, generation: 0, etag: None };
    let counters = Arc::new(ReadCounters::default());
    let reader = storage.reader(&key, Arc::clone(&counters)).unwrap();
    let answer = reader.ranges(vec![2_999_990..3_000_000, 0..100, 500..700]).await.unwrap();
    assert_eq!(answer, vec![body.slice(2_999_990..), body.slice(0..100), body.slice(500..700)]);
    reader.ranges(vec![0..100]).await.unwrap();
    assert_eq!(counters.requests(), 2);

    put(&storage, &url, Bytes::from(vec![1; 3_000_000])).await;
    let error = reader.ranges(vec![1_000_000..1_000_010]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("file replaced"), "{error}");

    put(&storage, &url, Bytes::from_static(b"short")).await;
    let other = FileKey { generation: 1, ..key };
    for range in [0..3, 2_000_000..2_000_010] {
        let error = storage.reader(&other, Arc::default()).unwrap().ranges(vec![range]).await.unwrap_err();
        assert!(error.to_string().contains("it has 5 bytes, the table's log says 3000000"), "{error}");
    }
}

#[tokio::test]
async fn what_is_wrong_is_said() {
    let Some(server) = server("what_is_wrong_is_said") else { return };
    let url = server.url("absent.parquet");
    let key = FileKey { table: "t".into(), url: url.clone(), size: 5, generation: 0, etag: None };
    let error = server.storage().reader(&key, Arc::default()).unwrap().ranges(vec![0..5]).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Corrupt && error.to_string().contains("missing from the store"), "{error}");

    let wrong = StoreOptions { secret_access_key: Some(Secret::new("wrong")), ..server.options.clone() };
    let unknown = StoreOptions { access_key_id: Some("nobody".into()), ..server.options.clone() };
    for options in [wrong, unknown] {
        let storage = testing::storage(StorageOptions { stores: vec![options], ..StorageOptions::default() }).unwrap();
        let StoreLocation { store, path } = storage.open(&url).unwrap();
        let got = store_error(url.as_str(), store.get(&path).await.unwrap_err());
        let listed = store_error(url.as_str(), store.list(Some(&path)).try_next().await.unwrap_err());
        for error in [got, listed] {
            assert_eq!(error.kind(), ErrorKind::Storage);
            assert!(error.to_string().contains("AWS_ACCESS_KEY_ID"), "{error}");
            assert!(error.to_string().contains(url.as_str()), "{error}");
        }
    }

    let any = StoreOptions { prefix: "s3://".into(), ..server.options.clone() };
    let storage = testing::storage(StorageOptions { stores: vec![any], ..StorageOptions::default() }).unwrap();
    let nowhere = Storage::parse_location("s3://no-such-bucket-here/t").unwrap();
    let StoreLocation { store, path } = storage.open(&nowhere).unwrap();
    let listed = tokio::time::timeout(Duration::from_secs(10), store.list(Some(&path)).try_next()).await.unwrap();
    let error = store_error(nowhere.as_str(), listed.unwrap_err());
    assert!(error.to_string().contains("the bucket does not exist"), "{error}");
}
