//! Delta tables, read through `delta_kernel`.
//!
//! The kernel is synchronous: everything that calls it runs on a blocking thread, over our own
//! decorated object store. It sees the table's folder as the root of its store, so that its URLs
//! hold only names that the Delta protocol makes up, whatever the folder is called.
//!
//! No type of the kernel leaves this module.

mod advance;
mod engine;
mod files;
mod log;
mod paths;
mod schema;
mod statistics;
mod values;
mod vectors;

use std::sync::Arc;

use async_trait::async_trait;
use delta_kernel::Version;
use delta_kernel::history_manager::error::{LogHistoryError, NearestTimestamp};
use delta_kernel::history_manager::{HistoryCommitType, latest_version_as_of};
use delta_kernel::snapshot::{Snapshot, SnapshotRef};
use delta_kernel::{Engine, KernelError};
use lakeserve_common::{Error, ErrorKind, Result};
use lakeserve_storage::{Storage, StoreLocation};
use roaring::RoaringTreemap;
use tokio::sync::Mutex;
use url::Url;

use crate::deletes::DeleteSet;
use crate::delta::advance::Base;
use crate::delta::engine::{Engines, TABLE_ROOT};
use crate::delta::log::CommitStamp;
use crate::delta::paths::TableRoot;
use crate::snapshot::{DataFile, TableFormat, TableSnapshot};
use crate::table::{FormatReader, SnapshotChoice, utc};
use crate::token::snapshot_token;

/// Refreshes that the kernel's list of commits may grow by before it takes in a checkpoint.
const STEPS_WITHOUT_CHECKPOINT: u32 = 64;

/// Reads one Delta table.
pub(crate) struct DeltaReader {
    root: TableRoot,
    place: StoreLocation,
    engines: Arc<Engines>,
    /// The newest state that was built, from which a refresh goes on.
    latest: Mutex<Option<Latest>>,
}

/// The newest known state with what the kernel needs to go on from it.
struct Latest {
    kernel: SnapshotRef,
    stamp: Option<CommitStamp>,
    table: Arc<TableSnapshot>,
    /// Refreshes since the kernel last took in a checkpoint.
    steps: u32,
}

impl std::fmt::Debug for DeltaReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeltaReader").field("location", &self.root.location().as_str()).finish_non_exhaustive()
    }
}

impl DeltaReader {
    /// Takes the folder at `location` as a Delta table; `NoSuchTable` when its log holds nothing.
    pub(crate) async fn open(storage: Arc<Storage>, location: &Url) -> Result<Self> {
        let place = storage.open(location)?;
        if !log::has_versions(&place, location).await? {
            let message = format!("not a Delta table: {location} has no commit or checkpoint in _delta_log/");
            return Err(Error::new(ErrorKind::NoSuchTable, message));
        }
        let engines = Arc::new(Engines::new(&place));
        Ok(Self { root: TableRoot::new(location.clone()), place, engines, latest: Mutex::default() })
    }

    fn location(&self) -> &Url {
        self.root.location()
    }

    /// The kernel's snapshot of `version`, or of the newest one.
    async fn kernel_snapshot(&self, version: Option<Version>) -> Result<SnapshotRef> {
        let error = match self.kernel_build(version).await {
            Err(error) if error.kind() == ErrorKind::Corrupt => error,
            other => return other,
        };
        // `_last_checkpoint` is only a hint, but the kernel gives up on a wrong one. Asked for the
        // version that the listing shows to be the newest, it does not believe what goes beyond.
        if version.is_none()
            && let Ok(Some(newest)) = log::newest_version(&self.place, self.location()).await
            && let Ok(snapshot) = self.kernel_build(Some(newest)).await
        {
            tracing::warn!(table = %self.location(), %error, "read the log by its listing instead of _last_checkpoint");
            return Ok(snapshot);
        }
        Err(log::explain(&self.place, self.location(), error).await)
    }

    async fn kernel_build(&self, version: Option<Version>) -> Result<SnapshotRef> {
        let engines = Arc::clone(&self.engines);
        let built = engine::run(self.location(), "delta snapshot", move || {
            let mut builder = Snapshot::builder_for(TABLE_ROOT);
            if let Some(version) = version {
                builder = builder.at_version(version);
            }
            builder.build(engines.table.as_ref())
        });
        built.await
    }

    async fn build(&self, kernel: SnapshotRef, base: Option<Base>) -> Result<Arc<TableSnapshot>> {
        let (engines, root) = (Arc::clone(&self.engines), self.root.clone());
        let work = move || table_snapshot(&kernel, base.as_ref(), engines.table.as_ref(), &root);
        engine::run_lake(self.location(), "delta files", work).await
    }

    /// Builds the newest state from nothing and remembers it.
    async fn load_latest(&self) -> Result<Arc<TableSnapshot>> {
        let kernel = self.kernel_snapshot(None).await?;
        self.remember(kernel, None, 0).await
    }

    async fn remember(&self, kernel: SnapshotRef, base: Option<Base>, steps: u32) -> Result<Arc<TableSnapshot>> {
        // The stamp is read before the files: should the commit be replaced in between, the next
        // refresh sees another stamp and builds anew.
        let stamp = log::stamp(&self.place, self.location(), kernel.version()).await?;
        if stamp.as_ref().is_some_and(CommitStamp::is_empty) {
            let name = log::commit_name(kernel.version());
            let message = format!("Delta table {}: _delta_log/{name} is empty, half written", self.location());
            return Err(Error::new(ErrorKind::Corrupt, message));
        }
        let mut table = self.build(Arc::clone(&kernel), base).await?;
        let mut latest = self.latest.lock().await;
        // Another caller may have been first; what is equal stays the same `Arc`.
        if let Some(known) = latest.as_ref().filter(|known| known.table.token == table.token) {
            table = Arc::clone(&known.table);
        }
        *latest = Some(Latest { kernel, stamp, table: Arc::clone(&table), steps });
        Ok(table)
    }

    /// Goes on from `base` to the newest version. A new checkpoint is taken in only now and then:
    /// until then the commits since `base` are all there and no checkpoint need be read.
    async fn advance(&self, base: Base, steps: u32) -> Result<Arc<TableSnapshot>> {
        let (engines, kernel) = (Arc::clone(&self.engines), Arc::clone(&base.kernel));
        let keep_commits = steps < STEPS_WITHOUT_CHECKPOINT;
        let newer = engine::run(self.location(), "delta refresh", move || {
            let mut builder = Snapshot::builder_from(kernel);
            if keep_commits {
                builder = builder.skip_new_checkpoints();
            }
            builder.build(engines.table.as_ref())
        });
        self.remember(newer.await?, Some(base), if keep_commits { steps + 1 } else { 0 }).await
    }

    async fn at_version(&self, version: i64) -> Result<Arc<TableSnapshot>> {
        let newest = self.kernel_snapshot(None).await?.version();
        let wanted = Version::try_from(version).ok().filter(|version| *version <= newest);
        let Some(wanted) = wanted else {
            let message = format!("{} has no version {version}; the newest is {newest}", self.location());
            return Err(Error::new(ErrorKind::NoSuchTable, message));
        };
        match self.kernel_snapshot(Some(wanted)).await {
            Ok(kernel) => self.build(kernel, None).await,
            Err(_) if log::stamp(&self.place, self.location(), wanted).await?.is_none() => {
                let message = format!("{}: version {version} is no longer in the log", self.location());
                Err(Error::new(ErrorKind::NoSuchTable, message).with_hint("old versions go when a log is cleaned up"))
            }
            Err(error) => Err(error),
        }
    }

    async fn at_timestamp(&self, ms: i64) -> Result<Arc<TableSnapshot>> {
        let newest = self.kernel_snapshot(None).await?;
        let engines = Arc::clone(&self.engines);
        let location = self.location().clone();
        let version = engine::run_lake(self.location(), "delta history", move || {
            let engine = engines.table.as_ref();
            match latest_version_as_of(&newest, engine, ms, HistoryCommitType::Recreatable) {
                Ok(commit) => Ok(commit.version),
                Err(KernelError::LogHistory(error)) => match *error {
                    LogHistoryError::TimestampOutOfRange { nearest_timestamp, .. } => {
                        let message = format!("{location} has no version at or before {}", utc(ms));
                        let error = Error::new(ErrorKind::NoSuchTable, message);
                        Err(match nearest_timestamp {
                            NearestTimestamp::Earliest(first) => {
                                error.with_hint(format!("the first one is of {}", utc(first)))
                            }
                            _ => error,
                        })
                    }
                    other => Err(Error::new(ErrorKind::NoSuchTable, format!("{location}: {other}"))),
                },
                Err(error) => Err(engine::kernel_error(&location, error)),
            }
        });
        let version = version.await?;
        self.build(self.kernel_snapshot(Some(version)).await?, None).await
    }
}

#[async_trait]
impl FormatReader for DeltaReader {
    async fn snapshot(&self, choice: &SnapshotChoice) -> Result<Arc<TableSnapshot>> {
        match choice {
            SnapshotChoice::Latest => self.load_latest().await,
            SnapshotChoice::Version(version) => self.at_version(*version).await,
            SnapshotChoice::Timestamp(ms) => self.at_timestamp(*ms).await,
            SnapshotChoice::Reference(name) => {
                let message =
                    format!("{} is a Delta table and has no branches or tags; asked for '{name}'", self.location());
                Err(Error::new(ErrorKind::Option, message).with_hint("name a version or a timestamp"))
            }
        }
    }

    async fn refresh(&self, current: &Arc<TableSnapshot>) -> Result<Arc<TableSnapshot>> {
        let known = {
            let latest = self.latest.lock().await;
            let latest = latest.as_ref().filter(|latest| latest.table.token == current.token);
            latest.map(|latest| (Arc::clone(&latest.kernel), latest.stamp.clone(), latest.steps))
        };
        let Some((kernel, Some(stamp), steps)) = known else {
            return self.load_latest().await;
        };
        match log::changes(&self.place, self.location(), kernel.version(), &stamp).await? {
            log::Change::None => Ok(Arc::clone(current)),
            // Another log stands at the same place: nothing that is known of the old one counts.
            log::Change::Replaced => self.load_latest().await,
            log::Change::Newer => {
                let base = Base { kernel, table: Arc::clone(current) };
                match self.advance(base, steps).await {
                    Ok(table) => Ok(table),
                    Err(error) => {
                        tracing::debug!(table = %self.location(), %error, "incremental refresh failed, reading the whole log");
                        self.load_latest().await
                    }
                }
            }
        }
    }

    async fn deleted_rows(&self, file: &DataFile) -> Result<RoaringTreemap> {
        let DeleteSet::DeltaVector(vector) = &file.deletes else {
            return Err(Error::new(
                ErrorKind::Internal,
                format!("{}: not a Delta delete set: {:?}", file.url, file.deletes),
            ));
        };
        let (engines, root, vector) = (Arc::clone(&self.engines), self.root.clone(), Arc::clone(vector));
        let (url, row_count) = (file.url.clone(), file.row_count);
        let what = "delta deletion vector";
        engine::run_lake(self.location(), what, move || vectors::read(&engines, &root, &vector, &url, row_count)).await
    }
}

/// Builds the snapshot that the rest of the system sees.
fn table_snapshot(
    kernel: &SnapshotRef,
    base: Option<&Base>,
    engine: &dyn Engine,
    root: &TableRoot,
) -> Result<Arc<TableSnapshot>> {
    let location = root.location();
    schema::check_features(kernel, location)?;
    let columns = schema::columns(kernel, location)?;
    let advanced = base.map(|base| advance::list(base, kernel, engine, root, &columns)).transpose()?.flatten();
    let listed = match advanced {
        Some(listed) => listed,
        None => files::list(kernel, engine, root, &columns)?,
    };
    let configuration = kernel.table_configuration();
    let version = kernel.version().to_string();
    let schema_id =
        format!("{:016x}", lakeserve_common::hash::hash64(configuration.metadata().schema_string().as_bytes()));
    let token = snapshot_token(configuration.metadata().id(), &version, &schema_id, &listed.files);
    let committed_ms = match kernel.get_timestamp(engine) {
        Ok(ms) => Some(ms),
        Err(error) => {
            tracing::debug!(table = %location, %error, "the commit's time is not known");
            None
        }
    };
    Ok(Arc::new(TableSnapshot {
        location: location.clone(),
        format: TableFormat::Delta,
        token,
        version,
        committed_ms,
        schema: columns.into_schema(),
        files: listed.files.into(),
        statistics: listed.statistics,
    }))
}
