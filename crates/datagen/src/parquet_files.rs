//! Data files: the parts of tables written as Parquet, on all cores.
//!
//! Each worker generates and encodes one part at a time, so memory is bounded by one row group per
//! worker. Snappy, statistics for every column chunk and page (column and offset index), untruncated
//! minima and maxima in the footer, so that bounds taken from it are exact.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};
use arrow::datatypes::{Schema, SchemaRef};
use futures::{StreamExt, TryStreamExt, stream};
use lakeserve_common::spawn::spawn_blocking;
use parquet::arrow::{ArrowWriter, PARQUET_FIELD_ID_META_KEY};
use parquet::basic::Compression;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::properties::{EnabledStatistics, WriterProperties};

use crate::progress::Progress;
use crate::tpch::{TpchTable, conform};

/// One file to be written: part `part` (from 1) of `parts` of a table.
#[derive(Debug, Clone)]
pub(crate) struct PartFile {
    /// Which of the caller's targets the file belongs to.
    pub(crate) target: usize,
    pub(crate) table: TpchTable,
    pub(crate) scale: f64,
    pub(crate) part: u32,
    pub(crate) parts: u32,
    pub(crate) path: PathBuf,
    /// Whether columns carry field ids (1, 2, … in schema order), as Iceberg wants them.
    pub(crate) field_ids: bool,
    pub(crate) row_group_rows: usize,
}

/// A file that stands.
#[derive(Debug)]
pub(crate) struct WrittenFile {
    pub(crate) target: usize,
    pub(crate) part: u32,
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
    pub(crate) rows: u64,
    pub(crate) footer: ParquetMetaData,
}

/// Writes all `files`, in the order given, one per core at a time.
///
/// # Errors
/// The first failure; the other workers stop at their next batch. Dropping the future stops them too.
pub(crate) async fn write_files(files: Vec<PartFile>, progress: &Progress) -> Result<Vec<WrittenFile>> {
    let workers = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    let stop = StopOnDrop(Arc::new(AtomicBool::new(false)));
    let tasks = stream::iter(files).map(|file| {
        let (stop, progress) = (Arc::clone(&stop.0), progress.clone());
        async move {
            let path = file.path.clone();
            let written = spawn_blocking("datagen", move || write_file(&file, &progress, &stop)).await;
            written.context("a data generation worker died")?.with_context(|| format!("writing {}", path.display()))
        }
    });
    tasks.buffer_unordered(workers).try_collect().await
}

struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn write_file(file: &PartFile, progress: &Progress, stop: &AtomicBool) -> Result<WrittenFile> {
    let schema = if file.field_ids { with_field_ids(&file.table.schema()) } else { file.table.schema() };
    if let Some(folder) = file.path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut writer =
        ArrowWriter::try_new(File::create(&file.path)?, Arc::clone(&schema), Some(properties(file.row_group_rows)))?;
    for batch in file.table.batches(file.scale, file.part, file.parts) {
        if stop.load(Ordering::Relaxed) {
            bail!("stopped");
        }
        let batch = conform(&batch?, &schema)?;
        writer.write(&batch)?;
        progress.rows(batch.num_rows() as u64);
    }
    let footer = writer.close()?;
    Ok(WrittenFile {
        target: file.target,
        part: file.part,
        path: file.path.clone(),
        bytes: std::fs::metadata(&file.path)?.len(),
        rows: u64::try_from(footer.file_metadata().num_rows())?,
        footer,
    })
}

fn properties(row_group_rows: usize) -> WriterProperties {
    WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_max_row_group_row_count(Some(row_group_rows))
        .set_statistics_enabled(EnabledStatistics::Page)
        .set_statistics_truncate_length(None)
        .set_created_by(concat!("lakeserve-datagen ", env!("CARGO_PKG_VERSION")).to_owned())
        .build()
}

fn with_field_ids(schema: &SchemaRef) -> SchemaRef {
    let fields = schema.fields().iter().zip(1_u32..).map(|(field, id)| {
        let id = (PARQUET_FIELD_ID_META_KEY.to_owned(), id.to_string());
        field.as_ref().clone().with_metadata([id].into())
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}
