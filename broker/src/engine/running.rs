//! The queries that run now: listed, cancelled by id, and all ended when a drain takes too long.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use lakeserve_common::id::QueryId;
use lakeserve_common::{Error, ErrorKind};
use tokio_util::sync::CancellationToken;

/// The id that a client gives its query, to cancel it by. Clones are the same id: a `SET` of the
/// statement gives or changes it while the query is under way already.
#[derive(Debug, Clone, Default)]
pub struct ClientQueryId(Arc<Mutex<Option<String>>>);

impl ClientQueryId {
    /// An id that was given with the request, or none.
    #[must_use]
    pub fn new(id: Option<String>) -> Self {
        Self(Arc::new(Mutex::new(id)))
    }

    /// The id as it is now.
    #[must_use]
    pub fn get(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set(&self, id: &str) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(id.to_owned());
    }
}

/// One query under way.
#[derive(Debug)]
pub struct RunningQuery {
    /// Its id.
    pub id: QueryId,
    /// The id that the client gave it.
    pub client_id: ClientQueryId,
    /// The text as it came.
    pub sql: Arc<str>,
    /// When it came, milliseconds since the Unix epoch.
    pub started_ms: i64,
    cancelled: CancellationToken,
    reason: OnceLock<ErrorKind>,
}

impl RunningQuery {
    /// Ends the query; its client gets an error of `kind`.
    pub(crate) fn cancel(&self, kind: ErrorKind) {
        let _ = self.reason.set(kind);
        self.cancelled.cancel();
    }

    /// Waits until somebody cancels the query and returns the error for its client.
    pub(crate) async fn cancelled(&self) -> Error {
        self.cancelled.cancelled().await;
        self.error()
    }

    /// The error for the query's client if somebody has cancelled it.
    pub(crate) fn cancellation(&self) -> Option<Error> {
        self.cancelled.is_cancelled().then(|| self.error())
    }

    fn error(&self) -> Error {
        match self.reason.get().copied().unwrap_or(ErrorKind::Cancelled) {
            ErrorKind::Draining => {
                Error::new(ErrorKind::Draining, "the broker shuts down and the query did not end in time")
                    .with_hint("send it to another broker")
            }
            kind => Error::new(kind, format!("query {} was cancelled", self.id)),
        }
    }
}

/// All running queries. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Running(Arc<Mutex<HashMap<QueryId, Arc<RunningQuery>>>>);

/// Keeps a query in the list; dropped when it has ended, however it ended.
#[derive(Debug)]
pub(crate) struct Listed {
    running: Running,
    pub(crate) query: Arc<RunningQuery>,
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.running.lock().remove(&self.query.id);
    }
}

impl Running {
    pub(crate) fn start(&self, id: QueryId, client_id: ClientQueryId, sql: Arc<str>, started_ms: i64) -> Listed {
        let query = Arc::new(RunningQuery {
            id,
            client_id,
            sql,
            started_ms,
            cancelled: CancellationToken::new(),
            reason: OnceLock::new(),
        });
        self.lock().insert(query.id.clone(), Arc::clone(&query));
        Listed { running: self.clone(), query }
    }

    /// Cancels the query of this id, or with `client` the ones to which clients gave it. How many.
    pub(crate) fn cancel(&self, id: &str, client: bool) -> usize {
        let found = self.all().into_iter().filter(|query| {
            if client { query.client_id.get().as_deref() == Some(id) } else { query.id.as_str() == id }
        });
        found.map(|query| query.cancel(ErrorKind::Cancelled)).count()
    }

    /// Ends them all because the process ends.
    pub(crate) fn drain(&self) {
        for query in self.all() {
            query.cancel(ErrorKind::Draining);
        }
    }

    /// The oldest first.
    pub(crate) fn all(&self) -> Vec<Arc<RunningQuery>> {
        let mut all: Vec<_> = self.lock().values().cloned().collect();
        all.sort_by(|left, right| left.id.cmp(&right.id));
        all
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<QueryId, Arc<RunningQuery>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_query_is_cancelled_by_either_id_and_leaves_the_list() {
        let running = Running::default();
        let one = running.start(QueryId::new("1"), ClientQueryId::new(Some("mine".into())), "select 1".into(), 0);
        let two = running.start(QueryId::new("2"), ClientQueryId::default(), "select 2".into(), 0);
        assert_eq!(running.cancel("mine", false), 0);
        assert_eq!(running.cancel("mine", true), 1);
        assert_eq!(one.query.cancelled().await.kind(), ErrorKind::Cancelled);
        drop(one);
        assert_eq!(running.all().len(), 1);
        running.drain();
        assert_eq!(two.query.cancelled().await.kind(), ErrorKind::Draining);
    }
}
