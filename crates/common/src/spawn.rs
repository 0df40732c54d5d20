//! The spawn seam: every background task has a name, a span and a counter, and none is spawned
//! past this module (a lint bans it).

use std::future::Future;

use tokio::task::JoinHandle;
use tracing::Instrument;

/// Spawns an async task under a name that stands in its span.
#[expect(clippy::disallowed_methods, reason = "this is the seam the ban points to")]
pub fn spawn<F>(name: &'static str, future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    tokio::spawn(future.instrument(tracing::info_span!("task", name)))
}

/// Spawns an async task on another runtime than the one at hand, for example the one that computes.
pub fn spawn_on<F>(runtime: &tokio::runtime::Handle, name: &'static str, future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    runtime.spawn(future.instrument(tracing::info_span!("task", name)))
}

/// Runs blocking or CPU-heavy work away from the async threads.
#[expect(clippy::disallowed_methods, reason = "this is the seam the ban points to")]
pub fn spawn_blocking<F, T>(name: &'static str, work: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let span = tracing::info_span!("blocking", name);
    tokio::task::spawn_blocking(move || span.in_scope(work))
}
