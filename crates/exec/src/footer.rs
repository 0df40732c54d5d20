//! Parquet footers, checked before anything in them is trusted.
//!
//! Nothing is allocated for a length that the file itself contradicts: the footer lies within the
//! file, each column chunk lies before the footer, the row groups' rows add up, a flat column has a
//! value for each row. All else that a damaged footer may say is met when it is decoded, behind
//! [`guard`].

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef, TimeUnit};
use bytes::{Bytes, BytesMut};
use lakeserve_common::{Error, ErrorKind, Result};
use lakeserve_lake::DataFile;
use lakeserve_storage::DataReader;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::basic::Type;
use parquet::file::metadata::{FileMetaData, ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData};
use parquet::schema::types::SchemaDescriptor;
use url::Url;

use crate::error::{damaged, guard, read_failed};
use crate::schema_map::field_id;

/// What is read from the end of a file at once: most footers fit.
const TAIL_BYTES: u64 = 64 << 10;
/// Length of the footer (4 bytes) and magic (4 bytes).
const SUFFIX_BYTES: u64 = 8;
/// The magic at the start.
const PREFIX_BYTES: u64 = 4;

/// The footer of one data file.
#[derive(Debug)]
pub(crate) struct Footer {
    arrow: ArrowReaderMetadata,
    has_field_ids: bool,
    /// For each root column, its leaf if it has no children and is not repeated.
    flat_leaves: Vec<Option<usize>>,
    /// Ordinal of the first row of each row group, and at the end the number of rows.
    first_rows: Vec<u64>,
    memory_size: usize,
}

impl Footer {
    /// The footer as Parquet spells it.
    pub(crate) fn metadata(&self) -> &Arc<ParquetMetaData> {
        self.arrow.metadata()
    }

    /// The same, ready for a reader.
    pub(crate) fn reader_metadata(&self) -> &ArrowReaderMetadata {
        &self.arrow
    }

    /// The columns as the reader yields them.
    pub(crate) fn arrow_schema(&self) -> &SchemaRef {
        self.arrow.schema()
    }

    /// Whether any column carries a field id.
    pub(crate) fn has_field_ids(&self) -> bool {
        self.has_field_ids
    }

    /// The leaf of a root column without children.
    pub(crate) fn flat_leaf(&self, root: usize) -> Option<usize> {
        self.flat_leaves.get(root).copied().flatten()
    }

    /// Ordinals (in the file) of the rows of a row group.
    pub(crate) fn rows(&self, row_group: usize) -> std::ops::Range<u64> {
        let at = |index: usize| self.first_rows.get(index).copied().unwrap_or(0);
        at(row_group)..at(row_group + 1)
    }

    /// Rows in the file.
    pub(crate) fn row_count(&self) -> u64 {
        self.first_rows.last().copied().unwrap_or(0)
    }

    /// How many row groups.
    pub(crate) fn row_groups(&self) -> usize {
        self.first_rows.len().saturating_sub(1)
    }

    /// Bytes on storage of some root columns of a row group.
    pub(crate) fn stored_bytes(&self, row_group: usize, roots: &[usize]) -> usize {
        let metadata = self.metadata();
        let descriptor = metadata.file_metadata().schema_descr();
        let columns = metadata.row_group(row_group).columns().iter().enumerate();
        columns
            .filter(|(leaf, _)| roots.contains(&descriptor.get_column_root_idx(*leaf)))
            .map(|(_, column)| usize::try_from(column.compressed_size()).unwrap_or(0))
            .sum()
    }

    /// Checks the footer against what the log says of the file.
    ///
    /// # Errors
    /// `Corrupt` when they differ in the number of rows.
    pub(crate) fn agrees_with(&self, file: &DataFile) -> Result<()> {
        let rows = self.row_count();
        match file.row_count {
            Some(expected) if expected != rows => {
                Err(damaged(&file.url, format_args!("the table's log says {expected} rows, the file has {rows}")))
            }
            _ => Ok(()),
        }
    }

    /// Roughly what it takes in memory.
    pub(crate) fn memory_size(&self) -> usize {
        self.memory_size
    }
}

/// Reads and checks the footer of a file.
///
/// # Errors
/// `Corrupt`, naming the file, when the footer is damaged or the file is
/// gone; `Feature` when the file is encrypted or split; storage's errors otherwise.
pub(crate) async fn load(reader: &DataReader, file: &DataFile) -> Result<Footer> {
    let url = &file.url;
    let size = reader.size();
    if size < PREFIX_BYTES + SUFFIX_BYTES {
        return Err(damaged(url, format_args!("{size} bytes are no Parquet file")));
    }
    let read = |range: std::ops::Range<u64>| async move {
        let mut parts = reader.ranges(vec![range]).await.map_err(|error| read_failed(url, error))?;
        parts.pop().ok_or_else(|| Error::new(ErrorKind::Internal, "a read returned nothing"))
    };
    let tail_start = size.saturating_sub(TAIL_BYTES);
    let tail = read(tail_start..size).await?;
    let length = footer_length(url, &tail, size)?;
    let footer_start = size - SUFFIX_BYTES - length;
    let end = tail.len().saturating_sub(8);
    let bytes: Bytes = if footer_start >= tail_start {
        let start = usize::try_from(footer_start - tail_start).unwrap_or(usize::MAX);
        tail.get(start..end).map(|_| tail.slice(start..end)).unwrap_or_default()
    } else {
        let head = read(footer_start..tail_start).await?;
        let mut whole = BytesMut::with_capacity(head.len() + end);
        whole.extend_from_slice(&head);
        whole.extend_from_slice(&tail[..end]);
        whole.freeze()
    };
    decode(url, &bytes, footer_start)
}

/// The length of the footer, checked against the size of the file.
fn footer_length(url: &Url, tail: &[u8], size: u64) -> Result<u64> {
    let suffix = tail.last_chunk::<8>().ok_or_else(|| damaged(url, "too short for a Parquet file"))?;
    let [a, b, c, d, magic @ ..] = *suffix;
    match &magic {
        b"PAR1" => {}
        b"PARE" => {
            return Err(Error::new(ErrorKind::Feature, format!("data file {url}: encrypted Parquet is not supported")));
        }
        _ => return Err(damaged(url, "does not end like a Parquet file (no magic bytes)")),
    }
    let length = u64::from(u32::from_le_bytes([a, b, c, d]));
    if length == 0 || length + SUFFIX_BYTES + PREFIX_BYTES > size {
        return Err(damaged(url, format_args!("a footer of {length} bytes does not fit a file of {size} bytes")));
    }
    Ok(length)
}

fn decode(url: &Url, bytes: &[u8], footer_start: u64) -> Result<Footer> {
    let metadata = guard(url, || ParquetMetaDataReader::decode_metadata(bytes))?;
    let first_rows = check(url, &metadata, footer_start)?;
    let metadata = Arc::new(with_total(metadata, &first_rows));
    let arrow = guard(url, || reader_metadata(&metadata))?;
    let has_field_ids = any_field(arrow.schema().fields(), &|field| field_id(field).is_some());
    let flat_leaves = flat_leaves(metadata.file_metadata().schema_descr());
    // The decoded schema is of the order of the metadata's own.
    let memory_size = metadata.memory_size() + bytes.len();
    Ok(Footer { arrow, has_field_ids, flat_leaves, first_rows, memory_size })
}

/// Checks what the rest of this crate relies on, but for what the log says (a footer is kept over
/// snapshots, see [`Footer::agrees_with`]); yields the first row of each row group.
fn check(url: &Url, metadata: &ParquetMetaData, footer_start: u64) -> Result<Vec<u64>> {
    let mut first_rows = vec![0_u64];
    let mut rows = 0_u64;
    for (index, group) in metadata.row_groups().iter().enumerate() {
        let count = u64::try_from(group.num_rows())
            .map_err(|_| damaged(url, format_args!("row group {index} has {} rows", group.num_rows())))?;
        rows = rows.checked_add(count).ok_or_else(|| damaged(url, "the row groups have too many rows"))?;
        first_rows.push(rows);
        check_columns(url, index, group, footer_start)?;
    }
    let declared = metadata.file_metadata().num_rows();
    if declared != 0 && u64::try_from(declared) != Ok(rows) {
        return Err(damaged(url, format_args!("the footer says {declared} rows, its row groups have {rows}")));
    }
    Ok(first_rows)
}

/// Some writers leave the total at zero; the row groups decide then. The reader sizes its batches by
/// the total, so it has to be right.
fn with_total(metadata: ParquetMetaData, first_rows: &[u64]) -> ParquetMetaData {
    let file = metadata.file_metadata();
    let rows = first_rows.last().copied().and_then(|rows| i64::try_from(rows).ok()).unwrap_or(0);
    if file.num_rows() == rows {
        return metadata;
    }
    let file = FileMetaData::new(
        file.version(),
        rows,
        file.created_by().map(str::to_owned),
        file.key_value_metadata().cloned(),
        file.schema_descr_ptr(),
        file.column_orders().cloned(),
    );
    ParquetMetaData::new(file, metadata.row_groups().to_vec())
}

fn check_columns(url: &Url, index: usize, group: &RowGroupMetaData, footer_start: u64) -> Result<()> {
    for column in group.columns() {
        let name = column.column_path().string();
        if column.file_path().is_some_and(|path| !path.is_empty()) {
            let message = format!("data file {url}: column \"{name}\" lies in another file, which is not supported");
            return Err(Error::new(ErrorKind::Feature, message));
        }
        let offsets = [Some(column.data_page_offset()), column.dictionary_page_offset()];
        let start = offsets.into_iter().flatten().min().and_then(|start| u64::try_from(start).ok());
        let length = u64::try_from(column.compressed_size()).ok();
        let fits = start
            .zip(length)
            .and_then(|(start, length)| start.checked_add(length))
            .is_some_and(|end| end <= footer_start);
        if !fits {
            let what = format_args!("column \"{name}\" of row group {index} does not lie within the file").to_string();
            return Err(damaged(url, what));
        }
        let descriptor = column.column_descr();
        if descriptor.max_rep_level() == 0 && column.num_values() != group.num_rows() {
            let (values, rows) = (column.num_values(), group.num_rows());
            let what = format!("column \"{name}\" of row group {index} has {values} values for {rows} rows");
            return Err(damaged(url, what));
        }
    }
    Ok(())
}

fn flat_leaves(descriptor: &SchemaDescriptor) -> Vec<Option<usize>> {
    let mut flat = vec![None; descriptor.root_schema().get_fields().len()];
    for leaf in 0..descriptor.num_columns() {
        let column = descriptor.column(leaf);
        if column.path().parts().len() == 1 && column.max_rep_level() == 0 {
            let root = descriptor.get_column_root_idx(leaf);
            if let Some(slot) = flat.get_mut(root) {
                *slot = Some(leaf);
            }
        }
    }
    flat
}

/// The file's columns as arrow types. The schema that arrow writers embed is ignored (it would let
/// a file choose dictionaries, views or zones), and INT96 is read as microseconds: nanoseconds
/// would wrap before the year 1678 and after 2262.
fn reader_metadata(metadata: &Arc<ParquetMetaData>) -> parquet::errors::Result<ArrowReaderMetadata> {
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let plain = ArrowReaderMetadata::try_new(Arc::clone(metadata), options.clone())?;
    let descriptor = metadata.file_metadata().schema_descr();
    let has_int96 = (0..descriptor.num_columns()).any(|leaf| descriptor.column(leaf).physical_type() == Type::INT96);
    if !has_int96 {
        return Ok(plain);
    }
    let mut leaf = 0;
    let fields = microseconds(plain.schema().fields(), descriptor, &mut leaf);
    let schema = Arc::new(Schema::new_with_metadata(fields, plain.schema().metadata().clone()));
    ArrowReaderMetadata::try_new(Arc::clone(metadata), options.with_schema(schema))
}

/// The fields with INT96 leaves as microseconds. Arrow's leaves stand in the order of Parquet's.
fn microseconds(fields: &Fields, descriptor: &SchemaDescriptor, leaf: &mut usize) -> Fields {
    fields.iter().map(|field| microseconds_in(field, descriptor, leaf)).collect()
}

fn microseconds_in(field: &FieldRef, descriptor: &SchemaDescriptor, leaf: &mut usize) -> FieldRef {
    let data_type = match field.data_type() {
        DataType::Struct(children) => DataType::Struct(microseconds(children, descriptor, leaf)),
        DataType::List(element) => DataType::List(microseconds_in(element, descriptor, leaf)),
        DataType::Map(entries, sorted) => DataType::Map(microseconds_in(entries, descriptor, leaf), *sorted),
        other => {
            let index = *leaf;
            *leaf += 1;
            if index < descriptor.num_columns() && descriptor.column(index).physical_type() == Type::INT96 {
                DataType::Timestamp(TimeUnit::Microsecond, None)
            } else {
                other.clone()
            }
        }
    };
    Arc::new(field.as_ref().clone().with_data_type(data_type))
}

fn any_field(fields: &Fields, test: &dyn Fn(&Field) -> bool) -> bool {
    fields.iter().any(|field| {
        test(field)
            || match field.data_type() {
                DataType::Struct(children) => any_field(children, test),
                DataType::List(child) | DataType::Map(child, _) => {
                    any_field(&Fields::from(vec![Arc::clone(child)]), test)
                }
                _ => false,
            }
    })
}
