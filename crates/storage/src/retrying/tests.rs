use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::TryStreamExt;
use lakeserve_common::units::Span;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStoreExt, PutPayload};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use url::Url;

use crate::options::{StorageOptions, StoreOptions};
use crate::store::StoreLocation;
use crate::testing::{self, FailingStore, Fault, Operation};
use crate::{Secret, store_error};

fn options() -> StorageOptions {
    StorageOptions { request_timeout: Span::millis(200), retry_timeout: Span::secs(2), ..StorageOptions::default() }
}

async fn failing_with(body: &[u8]) -> (Arc<FailingStore>, StoreLocation) {
    let memory = InMemory::new();
    memory.put(&Path::from("x"), PutPayload::from(Bytes::copy_from_slice(body))).await.unwrap();
    let failing = FailingStore::new(Arc::new(memory));
    let storage = testing::storage(options()).unwrap();
    let url = Url::parse("s3://bucket/x").unwrap();
    storage.set_backend(&url, Arc::clone(&failing) as Arc<_>);
    let location = storage.open(&url).unwrap();
    (failing, location)
}

#[tokio::test]
async fn passing_failures_are_retried_and_lasting_ones_are_not() {
    let (failing, StoreLocation { store, path }) = failing_with(b"hello").await;
    failing.fail_next(Operation::Get, 3, &Fault::Transient);
    assert_eq!(store.get(&path).await.unwrap().bytes().await.unwrap(), "hello");
    assert_eq!(failing.requests(Operation::Get), 4);
    failing.fail_next(Operation::Get, 1, &Fault::Fatal("broken".into()));
    assert!(store.get(&path).await.unwrap_err().to_string().contains("broken"));
    assert_eq!(failing.requests(Operation::Get), 5);
    failing.fail_next(Operation::Head, 1, &Fault::Transient);
    assert_eq!(store.head(&path).await.unwrap().size, 5);
    failing.fail_next(Operation::List, 2, &Fault::Transient);
    assert_eq!(store.list(None).try_collect::<Vec<_>>().await.unwrap().len(), 1);
}

/// Some clients' listings panic when they are asked again after their end.
#[tokio::test]
async fn an_empty_listing_is_asked_once() {
    let (failing, StoreLocation { store, .. }) = failing_with(b"hello").await;
    let nothing = Path::from("nothing/here");
    assert!(store.list(Some(&nothing)).try_next().await.unwrap().is_none());
    assert_eq!(failing.requests(Operation::List), 1);
}

#[tokio::test]
async fn attempts_are_bounded() {
    let (failing, StoreLocation { store, path }) = failing_with(b"hello").await;
    failing.fail_next(Operation::Get, 100, &Fault::Transient);
    assert!(store.get(&path).await.is_err());
    assert_eq!(failing.requests(Operation::Get), 5);
}

#[tokio::test]
async fn a_body_that_breaks_off_is_resumed_where_it_broke() {
    let body: Vec<u8> = (0..=255).collect();
    let (failing, StoreLocation { store, path }) = failing_with(&body).await;
    failing.fail_next(Operation::Get, 1, &Fault::CutBody(100));
    failing.fail_next(Operation::Get, 1, &Fault::CutBody(50));
    assert_eq!(store.get(&path).await.unwrap().bytes().await.unwrap(), body);
    assert_eq!(failing.requests(Operation::Get), 3);
    failing.fail_next(Operation::Get, 1, &Fault::CutBody(3));
    assert_eq!(store.get_range(&path, 10..20).await.unwrap(), body[10..20]);
}

#[tokio::test]
async fn a_stalled_store_is_given_up_in_time() {
    let (failing, StoreLocation { store, path }) = failing_with(b"hello").await;
    failing.fail_next(Operation::Get, 1, &Fault::Stall);
    failing.fail_next(Operation::List, 1, &Fault::Stall);
    assert_eq!(store.get(&path).await.unwrap().bytes().await.unwrap(), "hello");
    assert_eq!(store.list(None).try_collect::<Vec<_>>().await.unwrap().len(), 1);
    failing.fail_next(Operation::Get, 100, &Fault::Stall);
    let ended = tokio::time::timeout(Duration::from_secs(3), store.get(&path)).await;
    assert!(store_error("s3://bucket/x", ended.unwrap().unwrap_err()).to_string().contains("cannot be reached"));
}

/// A server on loopback that gives each connection the next of `answers`.
async fn server(answers: Vec<&'static str>) -> (StoreLocation, tokio::task::JoinHandle<usize>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let task = lakeserve_common::spawn::spawn("test_server", async move {
        let mut served = 0;
        for answer in answers {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut request = [0; 4096];
            let _read = socket.read(&mut request).await.unwrap();
            socket.write_all(answer.as_bytes()).await.unwrap();
            socket.shutdown().await.unwrap();
            served += 1;
        }
        served
    });
    (s3_at(&endpoint), task)
}

fn s3_at(endpoint: &str) -> StoreLocation {
    let store = StoreOptions {
        prefix: "s3://".into(),
        endpoint: Some(endpoint.into()),
        access_key_id: Some("K".into()),
        secret_access_key: Some(Secret::new("S")),
        ..StoreOptions::default()
    };
    let storage = testing::storage(StorageOptions { stores: vec![store], ..StorageOptions::default() }).unwrap();
    storage.open(&Url::parse("s3://bucket/x").unwrap()).unwrap()
}

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nETag: \"e\"\r\n\
    Last-Modified: Tue, 01 Jan 2030 00:00:00 GMT\r\nConnection: close\r\n\r\nhello";
const BUSY: &str = "HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
const THROTTLED: &str = "HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
const DENIED: &str = "HTTP/1.1 403 Forbidden\r\nContent-Length: 51\r\nConnection: close\r\n\r\n\
    <Error><Code>SignatureDoesNotMatch</Code>    </Error>";

#[tokio::test]
async fn a_real_client_s_statuses_are_told_apart() {
    let (StoreLocation { store, path }, server_task) = server(vec![BUSY, THROTTLED, "", OK]).await;
    assert_eq!(store.get(&path).await.unwrap().bytes().await.unwrap(), "hello");
    assert_eq!(server_task.await.unwrap(), 4);

    let (StoreLocation { store, path }, server_task) = server(vec![DENIED]).await;
    let error = store_error("s3://bucket/x", store.get(&path).await.unwrap_err());
    assert!(error.to_string().contains("refused access (SignatureDoesNotMatch)"), "{error}");
    assert_eq!(server_task.await.unwrap(), 1);
}

#[tokio::test]
async fn a_refused_connection_is_reported_in_seconds() {
    let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", unused.local_addr().unwrap());
    drop(unused);
    let StoreLocation { store, path } = s3_at(&endpoint);
    let ended = tokio::time::timeout(Duration::from_secs(10), store.get(&path)).await;
    let error = store_error("s3://bucket/x", ended.unwrap().unwrap_err());
    assert!(
        error.to_string().contains("cannot be reached") && error.to_string().contains("AWS_ENDPOINT_URL"),
        "{error}"
    );
}
