//! The threads that plan and run queries: a runtime of its own, so that the threads which answer
//! sockets are never held up by a query, with stacks that deep expressions do not overflow.

use std::future::Future;

use lakeserve_common::{Error, ErrorKind, Result, spawn};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinHandle;

/// Stack of each compute thread. Only what is touched takes memory; parsing, planning and
/// evaluating a deeply nested expression recurse once or more a level.
const STACK_BYTES: usize = 64 << 20;

/// The compute runtime. It ends when this is dropped; what still runs is then abandoned.
#[derive(Debug)]
pub(crate) struct Compute {
    runtime: Option<Runtime>,
    handle: Handle,
}

impl Compute {
    /// Starts `threads` threads.
    ///
    /// # Errors
    /// `Internal` when the operating system gives no threads.
    pub(crate) fn start(threads: usize) -> Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads.max(1))
            .thread_name("lakeserve-query")
            .thread_stack_size(STACK_BYTES)
            .enable_all()
            .build()
            .map_err(|error| Error::new(ErrorKind::Internal, format!("cannot start the query threads: {error}")))?;
        Ok(Self { handle: runtime.handle().clone(), runtime: Some(runtime) })
    }

    /// Runs `future` there.
    pub(crate) fn spawn<F>(&self, name: &'static str, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        spawn::spawn_on(&self.handle, name, future)
    }
}

impl Drop for Compute {
    fn drop(&mut self) {
        // Waiting for the threads is not allowed on an async thread, where this may happen.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
