//! Reading: a partition's tasks one after the other, and in each file row group by row group.
//!
//! Decoding and fetching alternate: the decoder says which byte ranges it needs, they are fetched,
//! and it is called again. All decoding runs behind [`guard`]. Dropping the stream stops both.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, BooleanBufferBuilder, RecordBatch, RecordBatchOptions, UInt64Array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::filter;
use arrow::datatypes::SchemaRef;
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::memory_pool::MemoryReservation;
use futures::future::BoxFuture;
use futures::stream::{self, Stream, TryStreamExt};
use lakeserve_common::{Error, ErrorKind, Result};
use lakeserve_lake::{DataFile, TableFormat, TableSnapshot};
use lakeserve_storage::{DataReader, FileKey};
use object_store::ObjectStoreExt;
use parquet::DecodeResult;
use parquet::arrow::push_decoder::{ParquetPushDecoder, ParquetPushDecoderBuilder};
use roaring::RoaringTreemap;

use crate::context::ScanContext;
use crate::counters::{QueryCounters, add};
use crate::error::{damaged, external, guard, read_failed};
use crate::footer::Footer;
use crate::partition::Task;
use crate::pruning::{Predicate, RowGroupContainers};
use crate::schema_map::{FileProjection, FileSchema};

/// Bits of a row ordinal that say the row; the rest say the file.
const ROW_BITS: u32 = 40;

/// Resolves the deletes of a file to ordinals.
pub(crate) type DeletedRows =
    Arc<dyn Fn(DataFile) -> BoxFuture<'static, Result<Option<Arc<RoaringTreemap>>>> + Send + Sync>;

/// Where a scan's rows come from.
pub(crate) struct Source {
    pub(crate) snapshot: Arc<TableSnapshot>,
    pub(crate) context: Arc<ScanContext>,
    pub(crate) counters: Arc<QueryCounters>,
    pub(crate) deletes: DeletedRows,
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source")
            .field("location", &self.snapshot.location)
            .field("token", &self.snapshot.token)
            .finish()
    }
}

/// A file whose footer is known.
pub(crate) struct OpenFile {
    pub(crate) index: usize,
    pub(crate) footer: Arc<Footer>,
    reader: DataReader,
}

impl Source {
    /// Opens a file of the snapshot.
    ///
    /// # Errors
    /// As [`crate::footer::load`].
    pub(crate) async fn open(&self, index: usize) -> Result<OpenFile> {
        let file = self.file(index)?;
        let error = match self.open_sized(index, file, file.size).await {
            Err(error) if error.kind() == ErrorKind::Corrupt && self.snapshot.format == TableFormat::Iceberg => error,
            opened => return opened,
        };
        // Iceberg manifests of some writers name a wrong size. Files are never replaced there, and
        // the manifest's row count is checked against the footer, so the store's size is taken.
        match self.stored_size(file).await {
            Some(size) if size != file.size => {
                tracing::warn!(file = %file.url, listed = file.size, stored = size, "a manifest names a wrong file size");
                self.open_sized(index, file, size).await
            }
            _ => Err(error),
        }
    }

    async fn open_sized(&self, index: usize, file: &DataFile, size: u64) -> Result<OpenFile> {
        let key = FileKey {
            table: self.snapshot.location.to_string(),
            url: file.url.clone(),
            size,
            generation: file.generation,
            etag: file.etag.clone(),
        };
        let reader = self.context.storage.reader(&key, Arc::clone(&self.counters.reads))?;
        let footer = self.context.footer(&key, &reader, file).await?;
        footer.agrees_with(file)?;
        if footer.row_count() >> ROW_BITS != 0 {
            let message = format!("data file {}: more than 2^{ROW_BITS} rows are not supported", file.url);
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        Ok(OpenFile { index, footer, reader })
    }

    async fn stored_size(&self, file: &DataFile) -> Option<u64> {
        let place = self.context.storage.open(&file.url).ok()?;
        place.store.head(&place.path).await.ok().map(|found| found.size)
    }

    fn file(&self, index: usize) -> Result<&DataFile> {
        let missing = || Error::new(ErrorKind::Internal, format!("the snapshot has no file {index}"));
        self.snapshot.files.get(index).ok_or_else(missing)
    }
}

/// What a scan wants.
#[derive(Debug)]
pub(crate) struct ScanRead {
    pub(crate) source: Arc<Source>,
    /// The columns to yield.
    pub(crate) schema: SchemaRef,
    /// The same as indexes: of the table's columns, or one past them for the hidden ordinal.
    pub(crate) projection: Vec<usize>,
    pub(crate) predicate: Predicate,
    pub(crate) batch_size: usize,
    /// Rows after which a partition may stop.
    pub(crate) limit: Option<usize>,
}

impl ScanRead {
    fn visible_columns(&self) -> usize {
        self.source.snapshot.schema.arrow.fields().len()
    }
}

/// The row groups of a file that the filters do not exclude; counts them.
pub(crate) fn surviving_row_groups(read: &ScanRead, opened: &OpenFile) -> Vec<usize> {
    let total = opened.footer.row_groups();
    let survivors = match read.source.file(opened.index) {
        Ok(file) if !read.predicate.is_trivial() => {
            let schema = FileSchema::new(&read.source.snapshot.schema, file, &opened.footer);
            let containers = RowGroupContainers::new(&opened.footer, &schema, 0..total);
            read.predicate.may_match(&containers).set_indices().collect()
        }
        _ => (0..total).collect::<Vec<_>>(),
    };
    add(&read.source.counters.row_groups_total, total);
    add(&read.source.counters.row_groups_pruned, total - survivors.len());
    survivors
}

/// All rows of a partition.
pub(crate) fn read_partition(
    read: Arc<ScanRead>,
    tasks: Vec<Task>,
    reservation: MemoryReservation,
) -> impl Stream<Item = DataFusionResult<RecordBatch>> + Send + 'static {
    let remaining = read.limit.unwrap_or(usize::MAX);
    let state = PartitionReader { read, tasks: tasks.into_iter(), file: None, remaining, reservation };
    stream::try_unfold(state, |mut state| async move {
        let batch = state.next().await?;
        Ok(batch.map(|batch| (batch, state)))
    })
    .try_filter(|batch| std::future::ready(batch.num_rows() > 0))
}

struct PartitionReader {
    read: Arc<ScanRead>,
    tasks: std::vec::IntoIter<Task>,
    file: Option<FileReader>,
    remaining: usize,
    reservation: MemoryReservation,
}

impl PartitionReader {
    async fn next(&mut self) -> DataFusionResult<Option<RecordBatch>> {
        while self.remaining > 0 {
            let Some(file) = &mut self.file else {
                let Some(task) = self.tasks.next() else { return Ok(None) };
                self.file = Some(FileReader::open(Arc::clone(&self.read), task).await.map_err(external)?);
                continue;
            };
            match file.next(&self.reservation).await? {
                Some(batch) => {
                    let batch = batch.slice(0, batch.num_rows().min(self.remaining));
                    self.remaining -= batch.num_rows();
                    return Ok(Some(batch));
                }
                None => {
                    self.file = None;
                    self.reservation.free();
                }
            }
        }
        self.reservation.free();
        Ok(None)
    }
}

/// Reads one task.
struct FileReader {
    read: Arc<ScanRead>,
    opened: OpenFile,
    url: url::Url,
    projection: FileProjection,
    deleted: Option<Arc<RoaringTreemap>>,
    row_groups: std::vec::IntoIter<usize>,
    current: Option<RowGroupReader>,
}

/// A row group that is being read: rows `next..end` of the file are still to come.
struct RowGroupReader {
    /// `None` if no column of the file is wanted.
    decoder: Option<ParquetPushDecoder>,
    next: u64,
    end: u64,
}

impl FileReader {
    async fn open(read: Arc<ScanRead>, task: Task) -> Result<Self> {
        let source = &read.source;
        let file = source.file(task.file)?;
        let opened = source.open(task.file).await?;
        let row_groups = match task.row_groups {
            Some(row_groups) => row_groups,
            None => surviving_row_groups(&read, &opened),
        };
        let visible = read.visible_columns();
        let wanted: Vec<usize> = read.projection.iter().copied().filter(|index| *index < visible).collect();
        let projection = FileProjection::new(&FileSchema::new(&source.snapshot.schema, file, &opened.footer), &wanted)?;
        let deleted =
            if file.deletes.is_none() || row_groups.is_empty() { None } else { (source.deletes)(file.clone()).await? };
        add(&source.counters.files_scanned, 1);
        source.context.metrics.files.with_label_values(&["scanned"]).inc();
        let url = file.url.clone();
        Ok(Self { read, opened, url, projection, deleted, row_groups: row_groups.into_iter(), current: None })
    }

    /// The next batch; `None` at the end of the task.
    async fn next(&mut self, reservation: &MemoryReservation) -> DataFusionResult<Option<RecordBatch>> {
        loop {
            let Some(group) = &mut self.current else {
                let Some(index) = self.row_groups.next() else { return Ok(None) };
                self.current = self.start(index, reservation)?;
                continue;
            };
            let step = group.step(&self.opened.reader, &self.url, self.read.batch_size).await.map_err(external)?;
            match step {
                Some((arrays, rows)) => return self.finish(&arrays, rows).map(Some).map_err(external),
                None => self.current = None,
            }
        }
    }

    /// Prepares a row group; `None` if all its rows are deleted.
    fn start(&self, index: usize, reservation: &MemoryReservation) -> DataFusionResult<Option<RowGroupReader>> {
        let footer = &self.opened.footer;
        let rows = footer.rows(index);
        if rows.is_empty() {
            return Ok(None);
        }
        let count = rows.end - rows.start;
        if let Some(deleted) = &self.deleted
            && deleted.range_cardinality(rows.clone()) == count
        {
            let count = usize::try_from(count).unwrap_or(usize::MAX);
            add(&self.read.source.counters.rows_deleted, count);
            return Ok(None);
        }
        let roots = self.projection.roots();
        if roots.is_empty() {
            return Ok(Some(RowGroupReader { decoder: None, next: rows.start, end: rows.end }));
        }
        // The pages of the row group are held until it is decoded.
        reservation.try_resize(footer.stored_bytes(index, roots))?;
        let decoder = guard(&self.url, || {
            ParquetPushDecoderBuilder::new_with_metadata(footer.reader_metadata().clone())
                .with_projection(self.projection.mask(footer))
                .with_row_groups(vec![index])
                .with_batch_size(self.read.batch_size)
                .build()
        })
        .map_err(external)?;
        Ok(Some(RowGroupReader { decoder: Some(decoder), next: rows.start, end: rows.end }))
    }

    /// Drops deleted rows and makes the wanted columns.
    fn finish(&self, arrays: &[ArrayRef], rows: Range<u64>) -> Result<RecordBatch> {
        let counters = &self.read.source.counters;
        let count = usize::try_from(rows.end - rows.start).unwrap_or(usize::MAX);
        add(&counters.rows_scanned, count);
        self.read.source.context.metrics.rows.inc_by(count as u64);

        let live = self.deleted.as_ref().and_then(|deleted| live_rows(deleted, &rows));
        let live_count = live.as_ref().map_or(count, BooleanArray::true_count);
        add(&counters.rows_deleted, count - live_count);
        let kept;
        let arrays = match &live {
            None => arrays,
            Some(live) => {
                let filtered = arrays.iter().map(|array| filter(array, live)).collect::<Result<Vec<_>, _>>();
                kept = filtered.map_err(|error| damaged(&self.url, error))?;
                &kept
            }
        };
        let columns = self.projection.apply(arrays, live_count).map_err(|error| self.named(error))?;
        let columns = self.with_ordinal(columns, rows, live.as_ref());
        let options = RecordBatchOptions::new().with_row_count(Some(live_count));
        RecordBatch::try_new_with_options(Arc::clone(&self.read.schema), columns, &options)
            .map_err(|error| damaged(&self.url, error))
    }

    fn named(&self, error: Error) -> Error {
        error.context(format_args!("data file {}", self.url))
    }

    /// Puts the hidden ordinal where it is wanted.
    fn with_ordinal(&self, columns: Vec<ArrayRef>, rows: Range<u64>, live: Option<&BooleanArray>) -> Vec<ArrayRef> {
        let visible = self.read.visible_columns();
        if self.read.projection.iter().all(|index| *index < visible) {
            return columns;
        }
        let file = (self.opened.index as u64) << ROW_BITS;
        let ordinals: UInt64Array = match live {
            None => rows.map(|row| file | row).collect(),
            Some(live) => live.values().set_indices().map(|i| file | (rows.start + i as u64)).collect(),
        };
        let ordinals: ArrayRef = Arc::new(ordinals);
        let mut columns = columns.into_iter();
        let slot = |index: &usize| if *index < visible { columns.next() } else { Some(Arc::clone(&ordinals)) };
        self.read.projection.iter().filter_map(slot).collect()
    }
}

impl RowGroupReader {
    /// The next rows: root columns and the ordinals of the rows. `None` at the end.
    async fn step(
        &mut self,
        reader: &DataReader,
        url: &url::Url,
        batch_size: usize,
    ) -> Result<Option<(Vec<ArrayRef>, Range<u64>)>> {
        let Some(decoder) = &mut self.decoder else {
            let rows = self.next..self.end.min(self.next + batch_size as u64);
            self.next = rows.end;
            return Ok((!rows.is_empty()).then_some((Vec::new(), rows)));
        };
        loop {
            match guard(url, || decoder.try_decode())? {
                DecodeResult::NeedsData(ranges) => {
                    let data = reader.ranges(ranges.clone()).await.map_err(|error| read_failed(url, error))?;
                    guard(url, || decoder.push_ranges(ranges, data))?;
                }
                DecodeResult::Data(batch) => {
                    let rows = self.next..self.next + batch.num_rows() as u64;
                    if rows.end > self.end {
                        return Err(damaged(url, "a row group has more rows than the footer says"));
                    }
                    self.next = rows.end;
                    return Ok(Some((batch.columns().to_vec(), rows)));
                }
                DecodeResult::Finished if self.next == self.end => return Ok(None),
                DecodeResult::Finished => {
                    let what = format!("a row group ends {} rows before the footer says", self.end - self.next);
                    return Err(damaged(url, what));
                }
            }
        }
    }
}

/// Which of `rows` live; `None` if all do.
fn live_rows(deleted: &RoaringTreemap, rows: &Range<u64>) -> Option<BooleanArray> {
    if deleted.range_cardinality(rows.clone()) == 0 {
        return None;
    }
    let length = usize::try_from(rows.end - rows.start).unwrap_or(usize::MAX);
    let mut live = BooleanBufferBuilder::new(length);
    live.append_n(length, true);
    let mut ordinals = deleted.iter();
    ordinals.advance_to(rows.start);
    for ordinal in ordinals.take_while(|ordinal| *ordinal < rows.end) {
        if let Ok(index) = usize::try_from(ordinal - rows.start) {
            live.set_bit(index, false);
        }
    }
    let live: BooleanBuffer = live.finish();
    Some(BooleanArray::new(live, None))
}
