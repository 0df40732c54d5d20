//! The demo's tables: written once under `<root>/sf<scale>/`, kept, and reused when whole.
//!
//! Invariants:
//! - One process at a time writes (an advisory lock on `<root>/.lock`).
//! - Data files are written in a sibling folder that is renamed into place; Iceberg's metadata, which
//!   holds absolute paths, is written after the rename. The marker says `complete` last of all, by an
//!   atomic rename, and lists every file with its size. So a run that was killed, a file that was cut
//!   or lost, another format version, or a folder that was moved is noticed, and the data made anew.
//! - A folder that holds anything else than a demo is never removed.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use lakeserve_common::spawn::spawn_blocking;
use serde::{Deserialize, Serialize};

use crate::progress::Progress;
use crate::tpch::TpchTable;
use crate::write::{Format, Target, WriteOptions, write_data};

/// The name of the Iceberg copy of lineitem.
pub const ICEBERG_LINEITEM: &str = "lineitem_iceberg";

/// The scale that the demo has when none is asked for.
pub const DEFAULT_SCALE: f64 = 1.0;

/// Raised whenever the written data changes, so that older demo data is made anew.
const LAYOUT_VERSION: u32 = 1;

const MARKER: &str = "lakeserve-demo.json";

/// Where a demo lies and how large it is.
#[derive(Debug, Clone)]
pub struct Demo {
    root: PathBuf,
    scale: f64,
}

/// One table of the demo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DemoTable {
    /// The name to serve it under.
    pub name: String,
    /// Its folder, an absolute path.
    pub location: PathBuf,
    /// Its format.
    pub format: Format,
}

#[derive(Debug, Serialize, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct Marker {
    state: State,
    layout: u32,
    scale: f64,
    location: PathBuf,
    files: Vec<ListedFile>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum State {
    Writing,
    Complete,
}

#[derive(Debug, Serialize, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct ListedFile {
    path: PathBuf,
    bytes: u64,
}

/// The demo's tables at `scale` under `root`, written now unless they stand there whole: the eight
/// TPC-H tables as Delta and lineitem once more as Iceberg. See [`Demo::ensure`].
///
/// # Errors
/// As [`Demo::ensure`].
pub async fn ensure_demo(root: &Path, scale: f64, progress: &Progress) -> Result<Vec<DemoTable>> {
    Demo::new(root, scale)?.ensure(progress).await
}

impl Demo {
    /// A demo under `root` (made when missing) at `scale`, 0.001 to 1,000.
    ///
    /// # Errors
    /// When the scale is out of range or the folder cannot be made.
    pub fn new(root: &Path, scale: f64) -> Result<Self> {
        WriteOptions::at_scale(scale).check()?;
        fs::create_dir_all(root).with_context(|| format!("making the folder {}", root.display()))?;
        let root = fs::canonicalize(root).with_context(|| format!("resolving {}", root.display()))?;
        Ok(Self { root, scale })
    }

    /// The folder that holds the tables.
    #[must_use]
    pub fn folder(&self) -> PathBuf {
        self.root.join(format!("sf{}", self.scale))
    }

    /// The tables that the demo consists of, whether or not they are written.
    #[must_use]
    pub fn tables(&self) -> Vec<DemoTable> {
        let folder = self.folder();
        let table = |target: Target| DemoTable {
            location: folder.join(&target.name),
            name: target.name,
            format: target.format,
        };
        targets().into_iter().map(table).collect()
    }

    /// Whether the tables stand there whole.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let folder = self.folder();
        let Some(marker) =
            fs::read(folder.join(MARKER)).ok().and_then(|bytes| serde_json::from_slice::<Marker>(&bytes).ok())
        else {
            return false;
        };
        let stands =
            |file: &ListedFile| fs::metadata(folder.join(&file.path)).is_ok_and(|found| found.len() == file.bytes);
        marker.state == State::Complete
            && marker.layout == LAYOUT_VERSION
            && marker.scale == self.scale
            && marker.location == folder
            && !marker.files.is_empty()
            && marker.files.iter().all(stands)
    }

    /// Gives the tables, writing them first unless they stand there whole. Waits for another process
    /// that writes the same demo. Must be called within a multi-threaded tokio runtime.
    ///
    /// # Errors
    /// When the folder holds something else than a demo, or on failures of the file system.
    pub async fn ensure(&self, progress: &Progress) -> Result<Vec<DemoTable>> {
        let lock = self.lock(progress).await?;
        if self.is_whole() {
            progress.note(&format!("the demo tables at scale {} stand in {}", self.scale, self.folder().display()));
        } else {
            self.write(progress).await?;
        }
        lock.unlock()?;
        Ok(self.tables())
    }

    async fn lock(&self, progress: &Progress) -> Result<File> {
        let path = self.root.join(".lock");
        let file = File::create(&path).with_context(|| format!("opening {}", path.display()))?;
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => {
                progress.note("another process is writing the demo tables; waiting for it")
            }
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("locking {}", path.display()));
            }
        }
        let locked = spawn_blocking("demo-lock", move || file.lock().map(|()| file)).await?;
        locked.with_context(|| format!("locking {}", path.display()))
    }

    async fn write(&self, progress: &Progress) -> Result<()> {
        let (folder, building) = (self.folder(), self.root.join(format!(".sf{}.writing", self.scale)));
        remove_demo(&building)?;
        ensure!(
            is_removable(&folder)?,
            "{} holds other things than demo tables: empty it or choose another folder",
            folder.display()
        );
        fs::create_dir_all(&building)?;
        self.mark(&building, State::Writing, Vec::new())?;

        let targets = targets();
        let mut written = write_data(&targets, &building, &WriteOptions::at_scale(self.scale), progress).await?;
        remove_demo(&folder)?;
        fs::rename(&building, &folder)
            .with_context(|| format!("moving {} to {}", building.display(), folder.display()))?;
        for (target, files) in targets.iter().zip(&mut written) {
            for file in files.iter_mut() {
                file.path = folder.join(file.path.strip_prefix(&building)?);
            }
            target.commit(&folder, files).await?;
        }
        let mut files = Vec::new();
        list_files(&folder, Path::new(""), &mut files)?;
        self.mark(&folder, State::Complete, files)?;
        progress.finish(&format!("demo tables at scale {} written to {}", self.scale, folder.display()));
        Ok(())
    }

    /// Replaces the marker in `folder` atomically.
    fn mark(&self, folder: &Path, state: State, files: Vec<ListedFile>) -> Result<()> {
        let marker = Marker { state, layout: LAYOUT_VERSION, scale: self.scale, location: self.folder(), files };
        let (path, temporary) = (folder.join(MARKER), folder.join(format!("{MARKER}.new")));
        fs::write(&temporary, serde_json::to_vec_pretty(&marker)?)?;
        fs::rename(&temporary, &path).with_context(|| format!("writing {}", path.display()))
    }
}

fn targets() -> Vec<Target> {
    let delta = TpchTable::ALL.iter().map(|table| Target {
        name: table.name().to_owned(),
        table: *table,
        format: Format::Delta,
    });
    let iceberg = Target { name: ICEBERG_LINEITEM.to_owned(), table: TpchTable::Lineitem, format: Format::Iceberg };
    std::iter::once(iceberg).chain(delta).collect()
}

/// Whether `folder` is missing, empty, marked as a demo, or holds nothing but folders of demo tables.
fn is_removable(folder: &Path) -> Result<bool> {
    if !folder.try_exists()? || folder.join(MARKER).try_exists()? {
        return Ok(true);
    }
    let known = targets();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        if !known.iter().any(|target| *target.name == *name) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn remove_demo(folder: &Path) -> Result<()> {
    ensure!(
        is_removable(folder)?,
        "{} holds other things than demo tables: empty it or choose another folder",
        folder.display()
    );
    if folder.try_exists()? {
        fs::remove_dir_all(folder).with_context(|| format!("removing {}", folder.display()))?;
    }
    Ok(())
}

/// Lists all files below `folder`, by paths relative to it, except the marker's.
fn list_files(folder: &Path, below: &Path, files: &mut Vec<ListedFile>) -> Result<()> {
    for entry in fs::read_dir(folder.join(below))? {
        let entry = entry?;
        let path = below.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            list_files(folder, &path, files)?;
        } else if !path.starts_with(MARKER) {
            files.push(ListedFile { path, bytes: entry.metadata()?.len() });
        }
    }
    files.sort_by(|left, right| left.path.cmp(&right.path));
    Ok(())
}
