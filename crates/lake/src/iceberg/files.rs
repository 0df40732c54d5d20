//! Reading the files that make up a table's metadata, straight from the store.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use lakeserve_common::spawn::spawn_blocking;
use lakeserve_common::{Error, ErrorKind, Result};
use lakeserve_storage::{Storage, StoreLocation, store_error};
use object_store::ObjectStoreExt;
use url::Url;

use super::paths::Paths;

/// Reads files of one table; every error names the table and the file.
#[derive(Debug, Clone)]
pub(super) struct TableFiles {
    pub(super) storage: Arc<Storage>,
    pub(super) table: Url,
    pub(super) paths: Paths,
}

impl TableFiles {
    /// Resolves a path as the metadata spells it.
    pub(super) fn resolve(&self, spelled: &str) -> Result<Url> {
        self.paths.resolve(spelled).map_err(|error| error.context(format!("iceberg table {}", self.table)))
    }

    /// An error about `file`, which is a `what` of this table.
    pub(super) fn broken(&self, kind: ErrorKind, what: &str, file: &str, problem: impl std::fmt::Display) -> Error {
        Error::new(kind, format!("iceberg table {}: {what} {file}: {problem}", self.table))
    }

    /// The whole content of a file whose size is `size`, if that is known.
    ///
    /// # Errors
    /// `Corrupt` when it is missing or of another size, `Storage` when the store fails.
    pub(super) async fn read(&self, what: &str, url: &Url, size: Option<u64>) -> Result<Bytes> {
        let StoreLocation { store, path } = self.storage.open(url)?;
        let object = store.get(&path).await.map_err(|error| self.failed(what, url, error))?;
        if let Some(size) = size.filter(|size| *size != object.meta.size) {
            let problem = format!("it has {} bytes where the table records {size}", object.meta.size);
            return Err(self.broken(ErrorKind::Corrupt, what, url.as_str(), problem));
        }
        object.bytes().await.map_err(|error| self.failed(what, url, error))
    }

    /// A range of a file's bytes.
    pub(super) async fn read_range(&self, what: &str, url: &Url, range: Range<u64>) -> Result<Bytes> {
        let StoreLocation { store, path } = self.storage.open(url)?;
        let wanted = range.end.saturating_sub(range.start);
        let bytes = store.get_range(&path, range).await.map_err(|error| self.failed(what, url, error))?;
        if u64::try_from(bytes.len()) != Ok(wanted) {
            let problem = format!("it ends {} bytes into a blob of {wanted}", bytes.len());
            return Err(self.broken(ErrorKind::Corrupt, what, url.as_str(), problem));
        }
        Ok(bytes)
    }

    /// Runs a decoder away from the async threads. A decoder that panics on damaged bytes is an
    /// error about the file, not the end of the process.
    pub(super) async fn decode<T: Send + 'static>(
        &self,
        what: &'static str,
        file: &str,
        decode: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let done = spawn_blocking(what, decode).await;
        done.unwrap_or_else(|_| Err(self.broken(ErrorKind::Corrupt, what, file, "it is damaged (its decoder gave up)")))
    }

    fn failed(&self, what: &str, url: &Url, error: object_store::Error) -> Error {
        match error {
            object_store::Error::NotFound { .. } => {
                self.broken(ErrorKind::Corrupt, what, url.as_str(), "it is missing, though the table names it")
            }
            error => store_error(url.as_str(), error).context(format!("iceberg table {}: {what}", self.table)),
        }
    }
}

/// An error of its own for each of those that waited for one piece of work.
pub(super) fn shared(error: &Arc<Error>) -> Error {
    let own = Error::new(error.kind(), error.message());
    match error.hint() {
        Some(hint) => own.with_hint(hint),
        None => own,
    }
}
