//! Deletion vectors: from a descriptor of the log to the ordinals of the deleted rows.

use delta_kernel::actions::deletion_vector::{DeletionVectorDescriptor, DeletionVectorStorageType};
use lakeserve_common::{Error, ErrorKind, Result};
use roaring::RoaringTreemap;
use url::Url;

use crate::deletes::DeltaVector;
use crate::delta::engine::{Engines, TABLE_ROOT, kernel_error};
use crate::delta::paths::TableRoot;

/// Reads the deletion vector of the file at `url`: the ordinals of its deleted rows.
pub(crate) fn read(
    engines: &Engines,
    root: &TableRoot,
    vector: &DeltaVector,
    url: &Url,
    row_count: Option<u64>,
) -> Result<RoaringTreemap> {
    let failed = |error| kernel_error(root.location(), error).context(format!("deletion vector of {url}"));
    let (storage_type, engine, path) = match vector.storage_type.as_str() {
        "u" => (DeletionVectorStorageType::PersistedRelative, &engines.table, vector.path_or_inline.clone()),
        "i" => (DeletionVectorStorageType::Inline, &engines.table, vector.path_or_inline.clone()),
        "p" => {
            let file = root.resolve(&vector.path_or_inline)?;
            (DeletionVectorStorageType::PersistedAbsolute, &engines.bucket, file.to_string())
        }
        other => {
            let message =
                format!("the deletion vector of {url} has the storage type '{other}', which is not supported");
            return Err(Error::new(ErrorKind::Feature, message));
        }
    };
    let (size, cardinality) = (vector.size_in_bytes, vector.cardinality);
    let descriptor =
        DeletionVectorDescriptor::try_new(storage_type, path, vector.offset, size, cardinality).map_err(failed)?;
    let parent = Url::parse(TABLE_ROOT).map_err(|error| Error::new(ErrorKind::Internal, error.to_string()))?;
    let rows = descriptor.read(engine.storage_handler(), &parent).map_err(failed)?;
    let corrupt = |what: String| Err(Error::new(ErrorKind::Corrupt, format!("deletion vector of {url}: {what}")));
    if i64::try_from(rows.len()) != Ok(cardinality) {
        return corrupt(format!("it holds {} rows, the log says {cardinality}", rows.len()));
    }
    if let (Some(last), Some(count)) = (rows.max(), row_count)
        && last >= count
    {
        return corrupt(format!("it deletes row {last}, the file has {count} rows"));
    }
    Ok(rows)
}
