//! A total for each group.

use std::mem::size_of;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, BooleanArray, UInt64Array};
use arrow::buffer::NullBuffer;
use datafusion::error::Result;
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};

use super::Totals;
use crate::aggregates::total::{Adds, Total};

/// The totals of all groups, by group index.
pub(super) struct Groups<I, T> {
    recipe: Totals<I, T>,
    totals: Vec<T>,
    counts: Vec<u64>,
    /// What the totals hold on the heap together.
    heap: usize,
}

impl<I, T> Groups<I, T>
where
    I: ArrowPrimitiveType,
    T: Adds<I::Native>,
{
    pub(super) fn new(recipe: Totals<I, T>) -> Self {
        Self { recipe, totals: Vec::new(), counts: Vec::new(), heap: 0 }
    }

    fn resize(&mut self, groups: usize) {
        self.totals.resize_with(groups, T::default);
        self.counts.resize(groups, 0);
    }

    /// Changes a group's total and keeps the books on memory.
    #[inline]
    fn change(&mut self, group: usize, values: u64, change: impl FnOnce(&mut T)) {
        let total = &mut self.totals[group];
        if T::USES_HEAP {
            let before = total.heap_size();
            change(total);
            self.heap = (self.heap + total.heap_size()).saturating_sub(before);
        } else {
            change(total);
        }
        self.counts[group] += values;
    }

    fn take(&mut self, emit_to: EmitTo) -> (Vec<T>, Vec<u64>) {
        let totals = emit_to.take_needed(&mut self.totals);
        if T::USES_HEAP {
            let taken: usize = totals.iter().map(T::heap_size).sum();
            self.heap = self.heap.saturating_sub(taken);
        }
        (totals, emit_to.take_needed(&mut self.counts))
    }
}

fn state_arrays<T: Total>(totals: &[T], counts: Vec<u64>) -> Vec<ArrayRef> {
    vec![Arc::new(UInt64Array::from(counts)), T::encode(totals)]
}

impl<I, T> GroupsAccumulator for Groups<I, T>
where
    I: ArrowPrimitiveType,
    T: Adds<I::Native>,
{
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        opt_filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        self.resize(total_num_groups);
        let values = self.recipe.argument(values)?;
        let data = values.values();
        match valid_rows(&values, opt_filter) {
            None => {
                for (value, group) in data.iter().zip(group_indices) {
                    self.change(*group, 1, |total| total.add(*value));
                }
            }
            Some(valid) => {
                for row in valid.valid_indices() {
                    self.change(group_indices[row], 1, |total| total.add(data[row]));
                }
            }
        }
        Ok(())
    }

    fn merge_batch(&mut self, values: &[ArrayRef], group_indices: &[usize], total_num_groups: usize) -> Result<()> {
        self.resize(total_num_groups);
        let (counts, totals) = Totals::<I, T>::read_state(values)?;
        for ((count, theirs), group) in counts.into_iter().zip(&totals).zip(group_indices) {
            self.change(*group, count, |total| total.merge(theirs));
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let (totals, counts) = self.take(emit_to);
        (self.recipe.finish)(&totals, &counts)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let (totals, counts) = self.take(emit_to);
        Ok(state_arrays(&totals, counts))
    }

    fn convert_to_state(&self, values: &[ArrayRef], opt_filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let values = self.recipe.argument(values)?;
        let mut totals = vec![T::default(); values.len()];
        let mut counts = vec![0; values.len()];
        let valid = valid_rows(&values, opt_filter).unwrap_or_else(|| NullBuffer::new_valid(values.len()));
        for row in valid.valid_indices() {
            totals[row].add(values.value(row));
            counts[row] = 1;
        }
        Ok(state_arrays(&totals, counts))
    }

    fn size(&self) -> usize {
        self.totals.capacity() * size_of::<T>() + self.counts.capacity() * size_of::<u64>() + self.heap
    }
}

/// The rows that count: not NULL, and let through by the filter. None when all do.
pub(in crate::aggregates) fn valid_rows(values: &dyn Array, filter: Option<&BooleanArray>) -> Option<NullBuffer> {
    let filter = filter.map(|filter| match filter.nulls() {
        None => NullBuffer::new(filter.values().clone()),
        Some(nulls) => NullBuffer::new(filter.values() & nulls.inner()),
    });
    let valid = NullBuffer::union(filter.as_ref(), values.nulls())?;
    (valid.null_count() > 0).then_some(valid)
}
