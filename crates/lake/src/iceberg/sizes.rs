//! File sizes that manifests record, checked against the store by sample.
//!
//! Some tables were moved or rewritten by tools that left the recorded sizes behind; other readers
//! do not look at them, ours are a part of a file's identity. One file of each manifest is asked
//! for its size when the manifest is first read. Only when that differs are the manifest's other
//! files asked as well, and the store's size is taken for those whose own footer has the number of
//! rows that the manifest records. Any other file keeps the recorded size, so that reading it is
//! the error that it should be: the file was replaced.

use futures::{FutureExt, StreamExt, stream};
use lakeserve_storage::StoreLocation;
use object_store::ObjectStoreExt;
use parquet::file::metadata::ParquetMetaDataReader;
use url::Url;

use super::files::TableFiles;
use super::manifest::Entry;

const PARALLEL_FILES: usize = 16;
const FOOTER: &str = "data file";

/// Corrects the sizes of `entries` as the module says. What cannot be found out stays as it is.
pub(super) async fn correct(files: &TableFiles, mut entries: Vec<Entry>) -> Vec<Entry> {
    let Some(sample) = entries.first() else {
        return entries;
    };
    match stored_size(files, sample).await {
        Some((_, size)) if size != sample.size => {}
        _ => return entries,
    }
    let asks: Vec<_> = entries.iter().map(|entry| real_size(files, entry).boxed()).collect();
    let sizes: Vec<_> = stream::iter(asks).buffered(PARALLEL_FILES).collect().await;
    for (entry, size) in entries.iter_mut().zip(sizes) {
        if let Some(size) = size.filter(|size| *size != entry.size) {
            tracing::warn!(table = %files.table, file = entry.path, recorded = entry.size, size, "a manifest records a wrong file size");
            entry.size = size;
        }
    }
    entries
}

/// Where a file lies and its size in the store.
async fn stored_size(files: &TableFiles, entry: &Entry) -> Option<(Url, u64)> {
    let url = files.resolve(&entry.path).ok()?;
    let StoreLocation { store, path } = files.storage.open(&url).ok()?;
    let size = store.head(&path).await.ok()?.size;
    Some((url, size))
}

/// The size of a Parquet file that has the rows that its manifest records.
async fn real_size(files: &TableFiles, entry: &Entry) -> Option<u64> {
    if entry.format != "parquet" {
        return None;
    }
    let (url, size) = stored_size(files, entry).await?;
    let tail = files.read_range(FOOTER, &url, size.checked_sub(8)?..size).await.ok()?;
    let (length, magic) = tail.split_first_chunk::<4>()?;
    let length = u64::from(u32::from_le_bytes(*length));
    if magic != b"PAR1" {
        return None;
    }
    let end = size - 8;
    let footer = files.read_range(FOOTER, &url, end.checked_sub(length)?..end).await.ok()?;
    let decode = move || {
        Ok(ParquetMetaDataReader::decode_metadata(&footer).ok().map(|footer| footer.file_metadata().num_rows()))
    };
    let rows = files.decode(FOOTER, url.as_str(), decode).await.ok()??;
    (u64::try_from(rows) == Ok(entry.records)).then_some(size)
}
