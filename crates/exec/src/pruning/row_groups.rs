//! The row groups of one Parquet file as containers: the footer's statistics, and the columns that
//! are the same in the whole file (partition values, columns that the file lacks).

use std::panic::{AssertUnwindSafe, catch_unwind};

use arrow::array::{ArrayRef, BooleanArray, UInt64Array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::nullif;
use arrow::datatypes::DataType;
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::basic::{ColumnOrder, SortOrder, Type};
use parquet::file::metadata::RowGroupMetaData;

use super::bounds::{Bounds, Containers};
use super::compile::is_monotone;
use crate::footer::Footer;
use crate::schema_map::{ColumnSource, FileSchema, repeat};

/// Some row groups of one file.
pub(crate) struct RowGroupContainers<'a> {
    footer: &'a Footer,
    schema: &'a FileSchema<'a>,
    row_groups: Vec<&'a RowGroupMetaData>,
    row_counts: UInt64Array,
}

impl<'a> RowGroupContainers<'a> {
    /// The row groups `range` of the file.
    pub(crate) fn new(footer: &'a Footer, schema: &'a FileSchema<'a>, range: std::ops::Range<usize>) -> Self {
        let row_groups: Vec<_> = footer.metadata().row_groups().get(range).unwrap_or_default().iter().collect();
        let row_counts = row_groups.iter().map(|group| u64::try_from(group.num_rows()).ok()).collect();
        Self { footer, schema, row_groups, row_counts }
    }

    /// Bounds of a root column of the file that is stored flat, as its logical type.
    fn statistics(&self, root: usize, logical: &DataType) -> Option<Bounds> {
        let file_metadata = self.footer.metadata().file_metadata();
        let descriptor = file_metadata.schema_descr();
        let leaf = self.footer.flat_leaf(root)?;
        let field = self.footer.arrow_schema().fields().get(root)?;
        if !is_monotone(field.data_type(), logical) {
            return None;
        }
        let converter = StatisticsConverter::from_column_index(leaf, field, descriptor)
            .ok()?
            .with_missing_null_counts_as_zero(false);
        let groups = || self.row_groups.iter().copied();
        let mut lower = converter.row_group_mins(groups()).ok()?;
        let mut upper = converter.row_group_maxes(groups()).ok()?;
        let null_count = converter.row_group_null_counts(groups()).ok()?;

        let order = file_metadata.column_orders().and_then(|orders| orders.get(leaf)).copied();
        let physical = descriptor.column(leaf).physical_type();
        let suspect = BooleanBuffer::collect_bool(self.row_groups.len(), |i| {
            let statistics = self.row_groups[i].column(leaf).statistics();
            statistics.is_none_or(|statistics| {
                !in_type_order(order, physical, statistics.is_min_max_deprecated(), field.data_type())
            })
        });
        let suspect = BooleanArray::new(suspect, None);
        lower = nullif(&lower, &suspect).ok()?;
        upper = nullif(&upper, &suspect).ok()?;
        let bounds = Bounds::from_statistics(&lower, &upper, &null_count, &self.row_counts).ok()?;
        bounds.cast(logical)
    }
}

/// Whether minimum and maximum are in the order in which values of that type compare.
fn in_type_order(order: Option<ColumnOrder>, physical: Type, deprecated: bool, data_type: &DataType) -> bool {
    match order {
        Some(ColumnOrder::TYPE_DEFINED_ORDER(SortOrder::UNDEFINED) | ColumnOrder::UNKNOWN) => return false,
        Some(ColumnOrder::TYPE_DEFINED_ORDER(_)) if !deprecated => return true,
        _ => {}
    }
    // Signed numbers always had the one order; everything else was written in differing ones.
    let plain_number = matches!(physical, Type::INT32 | Type::INT64 | Type::FLOAT | Type::DOUBLE);
    plain_number && !data_type.is_unsigned_integer()
}

impl Containers for RowGroupContainers<'_> {
    fn len(&self) -> usize {
        self.row_groups.len()
    }

    fn column(&self, index: usize) -> Option<Bounds> {
        match self.schema.resolve(index).ok()? {
            ColumnSource::Constant(value) => {
                let values: ArrayRef = repeat(&value, self.row_groups.len()).ok()?;
                Some(Bounds::from_constants(&values))
            }
            ColumnSource::File { root, .. } => {
                let logical = self.schema.logical(index)?;
                // Statistics of a damaged footer may be too long or too short for their type.
                catch_unwind(AssertUnwindSafe(|| self.statistics(root, logical))).ok().flatten()
            }
        }
    }
}
