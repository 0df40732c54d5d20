//! The data files of a snapshot as containers: statistics from the log, and the columns that the
//! log says are constant in a file (partition values).

use arrow::array::{Array, ArrayRef, UInt64Array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::concat;
use lakeserve_lake::TableSnapshot;

use super::bounds::{Bounds, Containers};

/// All live data files of a snapshot, in their order.
pub(crate) struct FileContainers<'a> {
    snapshot: &'a TableSnapshot,
    row_counts: UInt64Array,
}

impl<'a> FileContainers<'a> {
    pub(crate) fn new(snapshot: &'a TableSnapshot) -> Self {
        Self { snapshot, row_counts: snapshot.files.iter().map(|file| file.row_count).collect() }
    }

    fn statistics(&self, index: usize) -> Option<Bounds> {
        let statistics = self.snapshot.statistics.columns.get(index)?.as_ref()?;
        let data_type = self.snapshot.schema.arrow.fields().get(index)?.data_type();
        let files = self.snapshot.files.len();
        let fits = |bounds: &ArrayRef| bounds.data_type() == data_type && bounds.len() == files;
        if data_type.is_nested()
            || !fits(&statistics.lower)
            || !fits(&statistics.upper)
            || statistics.null_count.len() != files
        {
            return None;
        }
        Bounds::from_statistics(&statistics.lower, &statistics.upper, &statistics.null_count, &self.row_counts).ok()
    }

    /// The constant of each file for this column.
    fn constants(&self, index: usize) -> Vec<Option<&ArrayRef>> {
        let files = self.snapshot.files.iter();
        files.map(|file| file.constants.iter().find(|(column, _)| *column == index).map(|(_, value)| value)).collect()
    }
}

impl Containers for FileContainers<'_> {
    fn len(&self) -> usize {
        self.snapshot.files.len()
    }

    fn column(&self, index: usize) -> Option<Bounds> {
        let constants = self.constants(index);
        if constants.iter().all(Option::is_none) {
            return self.statistics(index);
        }
        let data_type = self.snapshot.schema.arrow.fields().get(index)?.data_type();
        if constants.iter().flatten().any(|value| value.len() != 1 || value.data_type() != data_type) {
            return None;
        }
        let statistics = self.statistics(index);
        let values = spread(&constants, data_type)?;
        let constant = Bounds::from_constants(&values);
        let is_constant = BooleanBuffer::collect_bool(constants.len(), |i| constants[i].is_some());
        constant.or_else(&is_constant, statistics.as_ref())
    }
}

/// One slot per file: its constant, or NULL where it has none.
fn spread(constants: &[Option<&ArrayRef>], data_type: &arrow::datatypes::DataType) -> Option<ArrayRef> {
    let missing = arrow::array::new_null_array(data_type, 1);
    let parts: Vec<&dyn Array> =
        constants.iter().map(|value| value.map_or(missing.as_ref(), |value| value.as_ref())).collect();
    concat(&parts).ok()
}
