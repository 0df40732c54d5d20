//! From the files of one version to those of a newer one, by reading only the commits between.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, UInt64Array, new_null_array};
use arrow::compute::{concat, take};
use arrow::error::ArrowError;
use delta_kernel::log_replay::FileActionKey;
use delta_kernel::snapshot::SnapshotRef;
use delta_kernel::{Engine, EngineData, Version};
use lakeserve_common::{Error, ErrorKind, Result};

use crate::deletes::DeleteSet;
use crate::delta::engine::kernel_error;
use crate::delta::files::{self, Listed};
use crate::delta::paths::TableRoot;
use crate::delta::schema::Columns;
use crate::snapshot::{ColumnStatistics, DataFile, TableSnapshot, TableStatistics};

/// An earlier state of the same table.
pub(crate) struct Base {
    /// The kernel's snapshot of it.
    pub(crate) kernel: SnapshotRef,
    /// What was built from that.
    pub(crate) table: Arc<TableSnapshot>,
}

/// The files of `kernel`, from those of `base` and the commits since. `None` where that cannot be
/// done (schema or protocol changed, or the commits are no longer all there): replay the log.
pub(crate) fn list(
    base: &Base,
    kernel: &SnapshotRef,
    engine: &dyn Engine,
    root: &TableRoot,
    columns: &Columns,
) -> Result<Option<Listed>> {
    let failed = |error| kernel_error(root.location(), error);
    let (old, new) = (base.kernel.table_configuration(), kernel.table_configuration());
    let from: Version = base.kernel.version();
    if old.metadata() != new.metadata() || old.protocol() != new.protocol() || from >= kernel.version() {
        return Ok(None);
    }
    let Some(changes) = Arc::clone(kernel).incremental_scan_builder(from).build(engine).map_err(failed)? else {
        return Ok(None);
    };
    let changes = changes.into_summary().map_err(failed)?;
    let nothing = Vec::<Box<dyn EngineData>>::new();
    let scan = files::scan(kernel, columns).map_err(failed)?;
    let added = scan.scan_metadata_from(engine, from, nothing, None).map_err(failed)?;
    let added = files::read_rows(added, root, columns)?;
    // The two readings of the same commits must agree; if they do not, the log is replayed.
    if added.files.len() != changes.live_adds.len()
        || !added.files.iter().all(|file| changes.live_adds.contains(&key(file)))
    {
        return Ok(None);
    }
    let gone: HashSet<&FileActionKey> = changes.removes.iter().chain(&changes.live_adds).collect();
    let kept: Vec<usize> =
        (0..base.table.files.len()).filter(|&at| !gone.contains(&key(&base.table.files[at]))).collect();
    let statistics = merged(&base.table, &kept, &added).map_err(|error| {
        Error::new(ErrorKind::Internal, format!("Delta table {}: statistics: {error}", root.location()))
    })?;
    let files = kept.iter().map(|&at| base.table.files[at].clone()).chain(added.files).collect();
    Listed { files, statistics }.in_canonical_order(root).map(Some)
}

/// What identifies a file of the log: its path with its deletion vector.
fn key(file: &DataFile) -> FileActionKey {
    let vector = match &file.deletes {
        DeleteSet::DeltaVector(vector) => Some(vector.id.clone()),
        _ => None,
    };
    FileActionKey::new(file.path.as_str(), vector)
}

/// The statistics of the kept files, then of the added ones.
fn merged(base: &TableSnapshot, kept: &[usize], added: &Listed) -> Result<TableStatistics, ArrowError> {
    let kept: UInt64Array = kept.iter().map(|&at| at as u64).collect();
    let fields = base.schema.arrow.fields().iter();
    let pairs = fields.zip(&base.statistics.columns).zip(&added.statistics.columns);
    let columns = pairs.map(|((field, old), new)| {
        if old.is_none() && new.is_none() {
            return Ok(None);
        }
        let part = |pick: fn(&ColumnStatistics) -> ArrayRef, unknown: &dyn Fn(usize) -> ArrayRef| {
            let old = old.as_ref().map(|old| take(&pick(old), &kept, None)).transpose()?;
            let old = old.unwrap_or_else(|| unknown(kept.len()));
            let new = new.as_ref().map_or_else(|| unknown(added.files.len()), pick);
            concat(&[old.as_ref(), new.as_ref()])
        };
        let bound = |rows| new_null_array(field.data_type(), rows);
        let lower = part(|statistics| Arc::clone(&statistics.lower), &bound)?;
        let upper = part(|statistics| Arc::clone(&statistics.upper), &bound)?;
        let count = |rows| Arc::new(UInt64Array::new_null(rows)) as ArrayRef;
        let null_count = part(|statistics| Arc::new(statistics.null_count.clone()), &count)?.as_primitive().clone();
        Ok(ColumnStatistics::if_any_is_known(lower, upper, null_count))
    });
    Ok(TableStatistics { columns: columns.collect::<Result<_, ArrowError>>()? })
}
