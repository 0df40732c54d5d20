//! The kernel's engine over our own store, and the bridge from its threads and errors to ours.

use std::num::NonZero;
use std::sync::Arc;

use delta_kernel::{Engine, KernelError, KernelResult};
use delta_kernel_default_engine::DefaultEngineBuilder;
use delta_kernel_default_engine::executor::tokio::{TokioBackgroundExecutor, TokioMultiThreadExecutor};
use lakeserve_common::spawn::spawn_blocking;
use lakeserve_common::{Error, ErrorKind, Result};
use lakeserve_storage::{StoreLocation, store_error};
use object_store::ObjectStore;
use object_store::prefix::PrefixStore;
use tokio::runtime::{Handle, RuntimeFlavor};
use url::Url;

/// What the kernel takes for the table's root. The scheme makes it sort listings, which not every
/// store does of itself.
pub(crate) const TABLE_ROOT: &str = "file:///";

/// Log files that the kernel reads ahead of what it works on.
const READ_AHEAD: NonZero<usize> = NonZero::<usize>::MIN.saturating_add(31);

/// The two views of one store.
pub(crate) struct Engines {
    /// The table's folder is the root.
    pub(crate) table: Arc<dyn Engine>,
    /// The bucket is the root: for files that a log names by absolute paths.
    pub(crate) bucket: Arc<dyn Engine>,
}

impl Engines {
    pub(crate) fn new(place: &StoreLocation) -> Self {
        let table = PrefixStore::new(Arc::clone(&place.store), place.path.clone());
        Self { table: engine(Arc::new(table)), bucket: engine(Arc::clone(&place.store)) }
    }
}

/// The kernel's own executor panics on a runtime with one thread, so such a runtime (a test's) gets
/// the kind that brings its own thread.
fn engine(store: Arc<dyn ObjectStore>) -> Arc<dyn Engine> {
    let builder = DefaultEngineBuilder::new(store).with_buffer_size(READ_AHEAD);
    match Handle::try_current() {
        Ok(handle) if handle.runtime_flavor() == RuntimeFlavor::MultiThread => {
            Arc::new(builder.with_task_executor(Arc::new(TokioMultiThreadExecutor::new(handle))).build())
        }
        _ => Arc::new(builder.with_task_executor(Arc::new(TokioBackgroundExecutor::new())).build()),
    }
}

/// Runs kernel work on a blocking thread.
pub(crate) async fn run<T: Send + 'static>(
    location: &Url,
    name: &'static str,
    work: impl FnOnce() -> KernelResult<T> + Send + 'static,
) -> Result<T> {
    let at = location.clone();
    run_lake(location, name, move || work().map_err(|error| kernel_error(&at, error))).await
}

/// Runs work whose errors are ours already on a blocking thread. A panic of the kernel is an error
/// of this table, not the end of the process.
pub(crate) async fn run_lake<T: Send + 'static>(
    location: &Url,
    name: &'static str,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    match spawn_blocking(name, work).await {
        Ok(result) => result,
        Err(failure) => Err(Error::new(ErrorKind::Corrupt, format!("{location}: the Delta log cannot be read"))
            .with_hint("the log holds something that its reader does not expect; see the server's log")
            .with_source(failure)),
    }
}

/// The outward form of a kernel error, naming the table.
pub(crate) fn kernel_error(location: &Url, error: KernelError) -> Error {
    let table = format!("{}/", location.as_str().trim_end_matches('/'));
    let text = error.to_string().replace(TABLE_ROOT, &table);
    // A backtrace, where the kernel adds one, is for the log only.
    let text = text.lines().next().unwrap_or_default().to_owned();
    let said = |kind: ErrorKind, text: String| Error::new(kind, format!("Delta table {location}: {text}"));
    match error {
        KernelError::Backtraced { source, .. } => kernel_error(location, *source),
        KernelError::ObjectStore(error) => store_error(location.as_str(), error),
        KernelError::Unsupported(what) => said(ErrorKind::Feature, what),
        KernelError::InvalidProtocol(what) => {
            said(ErrorKind::Feature, format!("the protocol in _delta_log/ is not supported: {what}"))
        }
        KernelError::EmptyLog => {
            let message = format!("not a Delta table: {location} has no commit or checkpoint in _delta_log/");
            Error::new(ErrorKind::NoSuchTable, message)
        }
        KernelError::MissingMetadata => said(ErrorKind::Corrupt, "no metaData action in _delta_log/".into()),
        KernelError::MissingProtocol => said(ErrorKind::Corrupt, "no protocol action in _delta_log/".into()),
        KernelError::MissingMetadataAndProtocol => {
            said(ErrorKind::Corrupt, "neither metaData nor protocol action in _delta_log/".into())
        }
        KernelError::MissingVersion(version) => {
            said(ErrorKind::Corrupt, format!("version {version} is missing: _delta_log/{version:020}.json"))
        }
        KernelError::FileNotFound(_) => {
            said(ErrorKind::Corrupt, format!("a file that its log names is missing: {text}"))
        }
        // The kernel meets types that it does not know while it parses the schema.
        KernelError::Schema(what) if what.contains("Unsupported Delta table type") => said(ErrorKind::Feature, what),
        KernelError::MalformedJson(error) => {
            said(ErrorKind::Corrupt, format!("the schema or an action in _delta_log/ is not well-formed JSON: {error}"))
        }
        KernelError::Cancelled => said(ErrorKind::Cancelled, text),
        other => said(ErrorKind::Corrupt, text).with_source(other),
    }
}
