//! One file's footer: lengths are checked against the file's size before anything is read or
//! allocated, and a decoder that gives up in any way is an error about that file.

use std::sync::Arc;

use arrow::datatypes::Fields;
use bytes::Bytes;
use lakeserve_common::spawn::spawn_blocking;
use lakeserve_common::{Error, ErrorKind, Result};
use lakeserve_storage::store_error;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use parquet::file::metadata::ParquetMetaDataReader;
use url::Url;

use crate::parquet_folder::types;

/// Bytes read from the end of a file at first; most footers fit.
const TAIL: u64 = 64 << 10;
/// Length of the magic at either end, and of the footer's length field.
const WORD: u64 = 4;

/// What a snapshot needs of a footer.
#[derive(Debug)]
pub(crate) struct Footer {
    /// Columns with the logical types of a snapshot.
    pub(crate) fields: Fields,
    /// Rows in the file.
    pub(crate) rows: u64,
}

/// Reads and checks the footer of the file at `object`, which is `size` bytes long.
pub(crate) async fn read(store: Arc<dyn ObjectStore>, object: Path, url: &Url, size: u64) -> Result<Footer> {
    let corrupt =
        |what: String| Error::new(ErrorKind::Corrupt, format!("{url} is not a readable Parquet file: {what}"));
    if size < 3 * WORD {
        return Err(corrupt(format!("it has {size} bytes, fewer than an empty one")));
    }
    let fetch = |from: u64, to: u64| {
        let (store, object) = (Arc::clone(&store), object.clone());
        async move { store.get_range(&object, from..to).await.map_err(|error| store_error(url.as_str(), error)) }
    };
    let tail_start = size.saturating_sub(TAIL);
    let tail = fetch(tail_start, size).await?;
    let Some((rest, end)) = tail.split_last_chunk::<8>().filter(|_| tail.len() as u64 == size - tail_start) else {
        return Err(corrupt(format!("the store gave {} bytes of its end", tail.len())));
    };
    let [a, b, c, d, magic @ ..] = *end;
    match &magic {
        b"PAR1" => {}
        b"PARE" => {
            let message = format!("{url} has an encrypted footer; encrypted Parquet is not supported");
            return Err(Error::new(ErrorKind::Feature, message));
        }
        _ => return Err(corrupt("it does not end with the magic bytes PAR1".into())),
    }
    let length = u64::from(u32::from_le_bytes([a, b, c, d]));
    if length == 0 || length > size - 3 * WORD {
        return Err(corrupt(format!("its footer claims {length} bytes, the file has {size}")));
    }
    let footer = if length <= rest.len() as u64 {
        let start = usize::try_from(rest.len() as u64 - length).unwrap_or(0);
        tail.slice(start..rest.len())
    } else {
        fetch(size - 2 * WORD - length, size - 2 * WORD).await?
    };
    // Off the async threads, and so that a panic of the decoder is this file's error.
    let decoded = spawn_blocking("parquet footer", move || decode(&footer)).await;
    match decoded {
        Ok(footer) => footer.map_err(corrupt),
        Err(_) => Err(corrupt("its footer cannot be decoded".into())),
    }
}

fn decode(footer: &Bytes) -> Result<Footer, String> {
    let metadata = ParquetMetaDataReader::decode_metadata(footer).map_err(|error| error.to_string())?;
    // The row groups are what a scan reads; some writers leave the file's own count at zero.
    let mut counts = metadata.row_groups().iter().map(|group| u64::try_from(group.num_rows()));
    let rows = counts.try_fold(0_u64, |sum, rows| sum.checked_add(rows.ok()?));
    let rows = rows.ok_or("a row group claims an impossible number of rows")?;
    let fields = types::logical_fields(metadata.file_metadata().schema_descr())?;
    Ok(Footer { fields, rows })
}
