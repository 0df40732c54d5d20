//! Writing tables in a format of choice: data files first, then the format's metadata.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::delta::commit_delta;
use crate::iceberg_table::commit_iceberg;
use crate::parquet_files::{PartFile, WrittenFile, write_files};
use crate::progress::Progress;
use crate::tpch::TpchTable;

/// The format that a table is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// A Delta table of one version.
    Delta,
    /// An Iceberg v2 table of one snapshot.
    Iceberg,
    /// A folder of Parquet files.
    Parquet,
}

/// How tables are cut into files and row groups.
#[derive(Debug, Clone, Copy)]
pub struct WriteOptions {
    /// The TPC-H scale factor, from 0.001 to 1,000.
    pub scale: f64,
    /// Files per table; `None` chooses by size (lineitem at scale 1: eight, the smallest tables: two).
    /// Never more than the table has rows.
    pub files: Option<u32>,
    /// The most rows in a row group.
    pub row_group_rows: usize,
}

impl WriteOptions {
    /// Files by size and row groups of 131,072 rows.
    #[must_use]
    pub fn at_scale(scale: f64) -> Self {
        Self { scale, files: None, row_group_rows: 131_072 }
    }

    pub(crate) fn check(&self) -> Result<()> {
        ensure!(
            (0.001..=1_000.0).contains(&self.scale),
            "scale {} is out of range: choose one from 0.001 to 1000",
            self.scale
        );
        ensure!(self.files != Some(0), "a table cannot be cut into 0 files");
        ensure!(self.row_group_rows > 0, "row groups cannot have 0 rows");
        Ok(())
    }

    pub(crate) fn files_of(&self, table: TpchTable) -> u32 {
        let (per_scale, least) = match table {
            TpchTable::Lineitem => (8.0, 4),
            TpchTable::Orders | TpchTable::Partsupp => (4.0, 2),
            TpchTable::Customer | TpchTable::Part => (2.0, 2),
            TpchTable::Supplier => (0.2, 2),
            TpchTable::Nation | TpchTable::Region => (0.0, 2),
        };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "at most 8,000 files at the largest scale"
        )]
        let by_size = ((per_scale * self.scale).ceil() as u32).max(least);
        self.files.unwrap_or(by_size).min(table.most_parts(self.scale))
    }
}

/// A table that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenTable {
    /// Its name.
    pub name: String,
    /// Its folder.
    pub location: PathBuf,
    /// Its format.
    pub format: Format,
    /// How many rows it has.
    pub rows: u64,
    /// How many data files it has.
    pub files: usize,
}

/// Writes `tables` in `format` under `folder`, each into a folder of its own that has the table's name.
/// A table's folder must not exist yet. Must be called within a multi-threaded tokio runtime.
///
/// # Errors
/// When an option is out of range, a table's folder exists, or writing fails; what was written stays.
pub async fn write_tpch(
    tables: &[TpchTable],
    format: Format,
    folder: &Path,
    options: &WriteOptions,
    progress: &Progress,
) -> Result<Vec<WrittenTable>> {
    let folder = std::path::absolute(folder)?;
    let targets =
        tables.iter().map(|table| Target { name: table.name().to_owned(), table: *table, format }).collect::<Vec<_>>();
    let mut written = write_data(&targets, &folder, options, progress).await?;
    for (target, files) in targets.iter().zip(&mut written) {
        target.commit(&folder, files).await?;
    }
    progress.finish(&format!("{} tables written to {}", tables.len(), folder.display()));
    Ok(targets.iter().zip(&written).map(|(target, files)| target.describe(&folder, files)).collect())
}

/// A table to be written under a name in a format.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) table: TpchTable,
    pub(crate) format: Format,
}

impl Target {
    /// Writes the format's metadata over `files`, which lie under `folder`.
    pub(crate) async fn commit(&self, folder: &Path, files: &[WrittenFile]) -> Result<()> {
        let location = folder.join(&self.name);
        match self.format {
            Format::Delta => commit_delta(&location, &self.name).await,
            Format::Iceberg => commit_iceberg(&location, &self.name, &self.table.schema(), files).await,
            Format::Parquet => Ok(()),
        }
    }

    fn describe(&self, folder: &Path, files: &[WrittenFile]) -> WrittenTable {
        WrittenTable {
            name: self.name.clone(),
            location: folder.join(&self.name),
            format: self.format,
            rows: files.iter().map(|file| file.rows).sum(),
            files: files.len(),
        }
    }

    fn parts(&self, index: usize, folder: &Path, options: &WriteOptions) -> impl Iterator<Item = PartFile> {
        let parts = options.files_of(self.table);
        let iceberg = self.format == Format::Iceberg;
        let folder = if iceberg { folder.join(&self.name).join("data") } else { folder.join(&self.name) };
        let (table, scale, row_group_rows) = (self.table, options.scale, options.row_group_rows);
        (1..=parts).map(move |part| PartFile {
            target: index,
            table,
            scale,
            part,
            parts,
            path: folder.join(format!("part-{:05}.snappy.parquet", part - 1)),
            field_ids: iceberg,
            row_group_rows,
        })
    }
}

/// Writes the data files of all `targets` under `folder`; the answer has one list per target, in part order.
pub(crate) async fn write_data(
    targets: &[Target],
    folder: &Path,
    options: &WriteOptions,
    progress: &Progress,
) -> Result<Vec<Vec<WrittenFile>>> {
    options.check()?;
    for target in targets {
        let location = folder.join(&target.name);
        ensure!(!location.try_exists()?, "{} exists already: remove it or choose another folder", location.display());
    }
    let rows = targets.iter().map(|target| target.table.approximate_rows(options.scale)).sum();
    progress.begin(&format!("writing TPC-H at scale {}", options.scale), rows);
    let parts = targets.iter().enumerate().flat_map(|(index, target)| target.parts(index, folder, options)).collect();
    let mut written: Vec<Vec<WrittenFile>> = targets.iter().map(|_| Vec::new()).collect();
    for file in write_files(parts, progress).await? {
        written.get_mut(file.target).context("a file belongs to no target")?.push(file);
    }
    for files in &mut written {
        files.sort_by_key(|file| file.part);
    }
    Ok(written)
}
