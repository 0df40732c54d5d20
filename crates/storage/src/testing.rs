//! A store that fails on demand, for tests and simulations of everything above storage.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::BoxStream;
use futures::{StreamExt, stream};
use lakeserve_common::clock;
use lakeserve_common::random::Random;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

use crate::error::Transient;
use crate::options::StorageOptions;
use crate::store::Storage;

/// Storage with a seeded source of randomness and a registry of its own.
///
/// # Errors
/// As [`Storage::new`].
pub fn storage(options: StorageOptions) -> lakeserve_common::Result<Arc<Storage>> {
    Storage::new(options, clock::system(), Arc::new(Random::seeded(1)), &prometheus::Registry::new())
}

/// An operation of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// `get_opts` with a body.
    Get,
    /// `get_opts` without a body.
    Head,
    /// Any listing.
    List,
    /// Any write.
    Put,
}

/// What goes wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// A failure that a retry may cure.
    Transient,
    /// A failure that stays.
    Fatal(String),
    /// The object is not there.
    NotFound,
    /// No answer, ever.
    Stall,
    /// The answer comes this much later.
    Delay(Duration),
    /// The body breaks off after this many bytes (of [`Operation::Get`] only).
    CutBody(usize),
}

/// Passes everything on to another store, except where a fault is due. Counts what it is asked.
#[derive(Debug)]
pub struct FailingStore {
    inner: Arc<dyn ObjectStore>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    due: HashMap<Operation, VecDeque<Fault>>,
    requests: HashMap<Operation, usize>,
}

impl FailingStore {
    /// A store without faults yet.
    pub fn new(inner: Arc<dyn ObjectStore>) -> Arc<Self> {
        Arc::new(Self { inner, state: Mutex::default() })
    }

    /// Lets the next `times` operations of this kind meet `fault`, after those already due.
    pub fn fail_next(&self, operation: Operation, times: usize, fault: &Fault) {
        self.state().due.entry(operation).or_default().extend(std::iter::repeat_n(fault.clone(), times));
    }

    /// How often the operation was asked for, failures included.
    #[must_use]
    pub fn requests(&self, operation: Operation) -> usize {
        self.state().requests.get(&operation).copied().unwrap_or(0)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn due(&self, operation: Operation) -> Option<Fault> {
        let mut state = self.state();
        *state.requests.entry(operation).or_default() += 1;
        state.due.get_mut(&operation).and_then(VecDeque::pop_front)
    }

    /// Meets the fault that is due, if any; a cut body is left to the caller.
    async fn meet(&self, operation: Operation, location: &str) -> Result<Option<usize>> {
        match self.due(operation) {
            None => Ok(None),
            Some(Fault::CutBody(after)) => Ok(Some(after)),
            Some(Fault::Delay(by)) => {
                tokio::time::sleep(by).await;
                Ok(None)
            }
            Some(Fault::Stall) => std::future::pending().await,
            Some(Fault::Transient) => Err(transient()),
            Some(Fault::Fatal(message)) => {
                Err(object_store::Error::Generic { store: "failing", source: message.into() })
            }
            Some(Fault::NotFound) => {
                Err(object_store::Error::NotFound { path: location.to_owned(), source: "made to be absent".into() })
            }
        }
    }
}

/// Panics, as some clients' listings do, when it is asked again after its end.
#[expect(clippy::panic, reason = "a caller that asks again is at fault, and tests must see it")]
fn strict<T: Send + 'static>(items: BoxStream<'static, T>) -> BoxStream<'static, T> {
    let mut items = Some(items);
    let next = move |context: &mut std::task::Context<'_>| {
        let Some(open) = &mut items else { panic!("the listing was asked again after its end") };
        let polled = open.poll_next_unpin(context);
        if matches!(polled, std::task::Poll::Ready(None)) {
            items = None;
        }
        polled
    };
    stream::poll_fn(next).boxed()
}

fn transient() -> object_store::Error {
    Transient("made to fail".into()).into_store_error()
}

impl fmt::Display for FailingStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Failing({})", self.inner)
    }
}

#[async_trait]
impl ObjectStore for FailingStore {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        self.meet(Operation::Put, location.as_ref()).await?;
        self.inner.put_opts(location, payload, opts).await
    }

    async fn put_multipart_opts(&self, location: &Path, opts: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.meet(Operation::Put, location.as_ref()).await?;
        self.inner.put_multipart_opts(location, opts).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let operation = if options.head { Operation::Head } else { Operation::Get };
        let cut = self.meet(operation, location.as_ref()).await?;
        let result = self.inner.get_opts(location, options).await?;
        let Some(after) = cut else {
            return Ok(result);
        };
        let (meta, range, attributes) = (result.meta.clone(), result.range.clone(), result.attributes.clone());
        let bytes = result.bytes().await?;
        let kept = bytes.slice(..after.min(bytes.len()));
        let body = stream::iter([Ok(kept), Err(transient())]).boxed();
        Ok(GetResult { payload: GetResultPayload::Stream(body), meta, range, attributes })
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let objects = strict(self.inner.list(prefix));
        match self.due(Operation::List) {
            Some(Fault::Stall) => stream::pending().boxed(),
            Some(Fault::Delay(by)) => {
                stream::once(tokio::time::sleep(by)).flat_map(|()| stream::empty()).chain(objects).boxed()
            }
            Some(Fault::Fatal(message)) => {
                let error = object_store::Error::Generic { store: "failing", source: message.into() };
                stream::iter([Err(error)]).boxed()
            }
            Some(_) => stream::iter([Err(transient())]).boxed(),
            None => objects,
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.meet(Operation::List, prefix.map(Path::as_ref).unwrap_or_default()).await?;
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.meet(Operation::Put, to.as_ref()).await?;
        self.inner.copy_opts(from, to, options).await
    }
}
