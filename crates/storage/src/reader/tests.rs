#![expect(clippy::single_range_in_vec_init, reason = "a list of byte ranges may hold one")]

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use lakeserve_common::ErrorKind;
use lakeserve_common::units::ByteSize;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStoreExt, PutPayload};
use url::Url;

use crate::options::StorageOptions;
use crate::store::Storage;
use crate::testing::{self, FailingStore, Fault, Operation};
use crate::{DataReader, FileKey, ReadCounters};

struct World {
    storage: Arc<Storage>,
    memory: Arc<InMemory>,
    failing: Arc<FailingStore>,
    body: Bytes,
    url: Url,
}

async fn world(options: StorageOptions) -> World {
    let body: Vec<u8> = (0..100_000_u32).map(|at| u8::try_from(at * 31 % 253).unwrap()).collect();
    let body = Bytes::from(body);
    let memory = Arc::new(InMemory::new());
    memory.put(&Path::from("f"), PutPayload::from(body.clone())).await.unwrap();
    let failing = FailingStore::new(Arc::clone(&memory) as Arc<_>);
    let storage = testing::storage(options).unwrap();
    let url = Url::parse("s3://bucket/f").unwrap();
    storage.set_backend(&url, Arc::clone(&failing) as Arc<_>);
    World { storage, memory, failing, body, url }
}

impl World {
    fn key(&self) -> FileKey {
        FileKey { table: "t".into(), url: self.url.clone(), size: 100_000, generation: 1, etag: None }
    }

    fn reader(&self, counters: &Arc<ReadCounters>) -> DataReader {
        self.storage.reader(&self.key(), Arc::clone(counters)).unwrap()
    }

    fn gets(&self) -> usize {
        self.failing.requests(Operation::Get)
    }
}

#[tokio::test]
async fn ranges_come_back_in_order_coalesced_and_cached() {
    let gap = StorageOptions { coalesce_gap: ByteSize(100), ..StorageOptions::default() };
    let world = world(gap).await;
    let counters = Arc::new(ReadCounters::default());
    let reader = world.reader(&counters);
    let ranges = vec![500..600, 0..10, 50..60, 7..7, 500..600, 90_000..100_000];
    let answer = reader.ranges(ranges.clone()).await.unwrap();
    for (range, bytes) in ranges.iter().zip(&answer) {
        let expected = world.body.slice(usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap());
        assert_eq!(*bytes, expected, "{range:?}");
    }
    assert_eq!(world.gets(), 3);
    assert_eq!(counters.requests(), 3);
    assert_eq!(counters.bytes_store(), 60 + 100 + 10_000);
    assert_eq!(counters.bytes_cache(), 100, "the range that was asked for twice");
    assert!(counters.wait_nanos() > 0);
    reader.ranges(ranges).await.unwrap();
    assert_eq!(world.gets(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sixty_four_readers_of_a_cold_range_make_one_request() {
    let world = world(StorageOptions::default()).await;
    world.failing.fail_next(Operation::Get, 1, &Fault::Delay(Duration::from_millis(50)));
    let counters = Arc::new(ReadCounters::default());
    let reads = (0..64).map(|_| {
        let reader = world.reader(&counters);
        lakeserve_common::spawn::spawn("test", async move { reader.ranges(vec![10..20, 40..90]).await })
    });
    for read in join_all(reads.collect::<Vec<_>>()).await {
        assert_eq!(read.unwrap().unwrap(), vec![world.body.slice(10..20), world.body.slice(40..90)]);
    }
    assert_eq!(world.gets(), 1);
    assert_eq!(counters.requests(), 1);
}

#[tokio::test]
async fn a_reader_that_goes_away_does_not_take_the_fetch_with_it() {
    let world = world(StorageOptions::default()).await;
    world.failing.fail_next(Operation::Get, 1, &Fault::Delay(Duration::from_millis(100)));
    let counters = Arc::new(ReadCounters::default());
    let (first, second) = (world.reader(&counters), world.reader(&counters));
    let gone = tokio::time::timeout(Duration::from_millis(20), first.ranges(vec![0..10])).await;
    assert!(gone.is_err());
    assert_eq!(second.ranges(vec![0..10]).await.unwrap()[0], world.body.slice(0..10));
    assert_eq!(world.gets(), 1);
}

#[test]
fn reads_go_on_when_the_runtime_for_io_has_gone() {
    let runtime = || tokio::runtime::Builder::new_multi_thread().enable_all().worker_threads(1).build().unwrap();
    let first = runtime();
    let world = first.block_on(world(StorageOptions::default()));
    let reader = world.reader(&Arc::default());
    runtime().block_on(reader.ranges(vec![0..10])).unwrap();
    assert!(world.gets() == 1);
    drop(first);
    let bytes = runtime().block_on(reader.ranges(vec![20..30])).unwrap();
    assert_eq!(bytes[0], world.body.slice(20..30));
}

#[tokio::test]
async fn a_fetch_that_nobody_waits_for_does_not_begin() {
    let one = StorageOptions { parallel_requests: 1, ..StorageOptions::default() };
    let world = world(one).await;
    world.failing.fail_next(Operation::Get, 1, &Fault::Delay(Duration::from_millis(100)));
    let counters = Arc::new(ReadCounters::default());
    let (busy, gone, later) = (world.reader(&counters), world.reader(&counters), world.reader(&counters));
    let first = busy.ranges(vec![0..10]);
    let second = async {
        let left = tokio::time::timeout(Duration::from_millis(20), gone.ranges(vec![50_000..50_010])).await;
        assert!(left.is_err());
    };
    let (read, ()) = tokio::join!(first, second);
    read.unwrap();
    tokio::task::yield_now().await;
    assert_eq!(later.ranges(vec![20..30]).await.unwrap()[0], world.body.slice(20..30));
    assert_eq!(world.gets(), 2);
}

#[tokio::test]
async fn errors_reach_every_reader_and_are_not_kept() {
    let world = world(StorageOptions::default()).await;
    let counters = Arc::new(ReadCounters::default());
    let reader = world.reader(&counters);
    world.failing.fail_next(Operation::Get, 1, &Fault::Fatal("bad sector".into()));
    let error = reader.ranges(vec![0..10]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Storage);
    assert!(error.to_string().contains("s3://bucket/f") && error.to_string().contains("bad sector"), "{error}");
    assert_eq!(reader.ranges(vec![0..10]).await.unwrap()[0], world.body.slice(0..10));
}

#[tokio::test]
async fn long_ranges_are_fetched_in_pieces() {
    let small = StorageOptions { max_request: ByteSize(1_000), ..StorageOptions::default() };
    let world = world(small).await;
    let reader = world.reader(&Arc::default());
    assert_eq!(reader.ranges(vec![10..9_510]).await.unwrap()[0], world.body.slice(10..9_510));
    assert_eq!(world.gets(), 10);
}

#[tokio::test]
async fn a_replaced_file_is_an_error_never_new_data() {
    let world = world(StorageOptions::default()).await;
    let reader = world.reader(&Arc::default());
    reader.ranges(vec![0..10]).await.unwrap();
    let other = Bytes::from(vec![7; 100_000]);
    world.memory.put(&Path::from("f"), PutPayload::from(other)).await.unwrap();
    let error = reader.ranges(vec![20..30]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("file replaced"), "{error}");
}

#[tokio::test]
async fn a_file_of_another_size_or_none_is_an_error() {
    let world = world(StorageOptions::default()).await;
    let read = async |key: FileKey, range: std::ops::Range<u64>| {
        world.storage.reader(&key, Arc::default()).unwrap().ranges(vec![range]).await.unwrap_err()
    };
    let larger = FileKey { size: 200_000, ..world.key() };
    for range in [0..10, 150_000..150_010] {
        let error = read(larger.clone(), range).await;
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.to_string().contains("has 100000 bytes, the table's log says 200000"), "{error}");
    }
    let beyond = read(world.key(), 99_999..100_001).await;
    assert!(beyond.to_string().contains("99999..100001"), "{beyond}");
    let url = Url::parse("s3://bucket/gone").unwrap();
    let gone = read(FileKey { url, ..world.key() }, 0..10).await;
    assert_eq!(gone.kind(), ErrorKind::Corrupt);
    assert!(gone.to_string().contains("s3://bucket/gone: the data file is missing"), "{gone}");
}

#[tokio::test]
async fn local_files_are_read_and_replacement_is_seen() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a b%.parquet");
    std::fs::write(&path, b"0123456789").unwrap();
    let storage = testing::storage(StorageOptions::default()).unwrap();
    let url = Storage::parse_location(path.to_str().unwrap()).unwrap();
    let key = FileKey { table: "t".into(), url, size: 10, generation: 0, etag: None };
    let reader = storage.reader(&key, Arc::default()).unwrap();
    assert_eq!(reader.ranges(vec![2..5]).await.unwrap()[0], "234");
    std::fs::remove_file(&path).unwrap();
    std::fs::write(folder.path().join("other"), b"9876543210").unwrap();
    std::fs::rename(folder.path().join("other"), &path).unwrap();
    let error = reader.ranges(vec![5..6]).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Corrupt && error.to_string().contains("file replaced"), "{error}");
}
