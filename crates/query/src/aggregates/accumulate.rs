//! From a running total to DataFusion's accumulators: for all rows, per group, and over distinct values.
//!
//! Partial state is always the number of values and the total; over distinct values it is the list of them.

use std::fmt;
use std::hash::Hash;
use std::marker::PhantomData;
use std::mem::size_of;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, ListArray, PrimitiveArray, UInt64Array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, UInt64Type, i256};
use datafusion::common::{HashMap, ScalarValue, internal_datafusion_err};
use datafusion::error::Result;
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};

use super::total::Adds;

/// Turns totals and their counts of values into the results, in one array; NULL where there is no result.
pub(super) type Finish<T> = Arc<dyn Fn(&[T], &[u64]) -> Result<ArrayRef> + Send + Sync>;

/// How one aggregate over one type of argument is computed.
pub(super) trait Recipe {
    /// The columns of partial state.
    fn state_fields(&self, name: &str, distinct: bool) -> Vec<FieldRef>;
    /// An accumulator for all rows or a window frame.
    fn accumulator(&self, distinct: bool) -> Box<dyn Accumulator>;
    /// An accumulator for many groups, where there is one.
    fn groups(&self) -> Option<Box<dyn GroupsAccumulator>>;
}

/// A recipe that reads arguments as `I` and keeps totals of type `T`.
pub(super) struct Totals<I, T> {
    /// The type that arguments are cast to first; its arrays are those of `I`.
    argument: DataType,
    finish: Finish<T>,
    input: PhantomData<fn(I)>,
}

impl<I, T> Totals<I, T> {
    /// Arguments are cast to `argument`, whose arrays are those of `I`.
    pub(super) fn new(
        argument: DataType,
        finish: impl Fn(&[T], &[u64]) -> Result<ArrayRef> + Send + Sync + 'static,
    ) -> Self {
        Self { argument, finish: Arc::new(finish), input: PhantomData }
    }
}

impl<I, T> Clone for Totals<I, T> {
    fn clone(&self) -> Self {
        Self { argument: self.argument.clone(), finish: Arc::clone(&self.finish), input: PhantomData }
    }
}

impl<I, T> fmt::Debug for Totals<I, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Totals").field("argument", &self.argument).finish_non_exhaustive()
    }
}

impl<I, T> Totals<I, T>
where
    I: ArrowPrimitiveType,
    T: Adds<I::Native>,
{
    fn argument(&self, values: &[ArrayRef]) -> Result<PrimitiveArray<I>> {
        let [values, ..] = values else { return Err(internal_datafusion_err!("an aggregate got no argument")) };
        let cast =
            if values.data_type() == &self.argument { Arc::clone(values) } else { cast(values, &self.argument)? };
        let typed = cast.as_primitive_opt::<I>();
        typed.cloned().ok_or_else(|| internal_datafusion_err!("an aggregate got {}", cast.data_type()))
    }

    /// The counts and totals of partial state.
    fn read_state(states: &[ArrayRef]) -> Result<(Vec<u64>, Vec<T>)> {
        let [counts, totals] = states else { return Err(internal_datafusion_err!("partial state has two columns")) };
        let counts = counts
            .as_primitive_opt::<UInt64Type>()
            .ok_or_else(|| internal_datafusion_err!("counts cannot be {}", counts.data_type()))?;
        Ok((counts.iter().map(Option::unwrap_or_default).collect(), T::decode(totals.as_ref())?))
    }

    fn finish_one(&self, total: &T, count: u64) -> Result<ScalarValue> {
        ScalarValue::try_from_array((self.finish)(std::slice::from_ref(total), &[count])?.as_ref(), 0)
    }
}

impl<I, T> Recipe for Totals<I, T>
where
    I: ArrowPrimitiveType,
    I::Native: DistinctValue,
    T: Adds<I::Native>,
{
    fn state_fields(&self, name: &str, distinct: bool) -> Vec<FieldRef> {
        if distinct {
            let item = Field::new_list_field(self.argument.clone(), true);
            return vec![Arc::new(Field::new_list(format_state_name(name, "distinct"), item, true))];
        }
        vec![
            Arc::new(Field::new(format_state_name(name, "count"), DataType::UInt64, true)),
            Arc::new(Field::new(format_state_name(name, "total"), T::state_type(), true)),
        ]
    }

    fn accumulator(&self, distinct: bool) -> Box<dyn Accumulator> {
        if distinct {
            return Box::new(Distinct::<I, T> { recipe: self.clone(), seen: HashMap::default(), total: T::default() });
        }
        Box::new(All { recipe: self.clone(), total: T::default(), count: 0 })
    }

    fn groups(&self) -> Option<Box<dyn GroupsAccumulator>> {
        Some(Box::new(Groups { recipe: self.clone(), totals: Vec::new(), counts: Vec::new(), heap: 0 }))
    }
}

fn as_count(rows: usize) -> u64 {
    u64::try_from(rows).unwrap_or(u64::MAX)
}

/// One total over all rows.
struct All<I, T> {
    recipe: Totals<I, T>,
    total: T,
    count: u64,
}

impl<I, T: fmt::Debug> fmt::Debug for All<I, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("All").field("total", &self.total).field("count", &self.count).finish_non_exhaustive()
    }
}

impl<I, T> Accumulator for All<I, T>
where
    I: ArrowPrimitiveType,
    T: Adds<I::Native>,
{
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = self.recipe.argument(values)?;
        self.count += as_count(values.len() - values.null_count());
        if values.null_count() == 0 {
            self.total.add_all(values.values());
        } else {
            values.iter().flatten().for_each(|value| self.total.add(value));
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = self.recipe.argument(values)?;
        self.count = self.count.saturating_sub(as_count(values.len() - values.null_count()));
        values.iter().flatten().for_each(|value| self.total.subtract(value));
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let (counts, totals) = Totals::<I, T>::read_state(states)?;
        self.count += counts.iter().sum::<u64>();
        totals.iter().for_each(|total| self.total.merge(total));
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let total = T::encode(std::slice::from_ref(&self.total));
        Ok(vec![ScalarValue::UInt64(Some(self.count)), ScalarValue::try_from_array(total.as_ref(), 0)?])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.recipe.finish_one(&self.total, self.count)
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.total.heap_size()
    }
}

/// A total for each group.
struct Groups<I, T> {
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

fn state_arrays<T: super::total::Total>(totals: &[T], counts: Vec<u64>) -> Vec<ArrayRef> {
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
pub(super) fn valid_rows(values: &dyn Array, filter: Option<&BooleanArray>) -> Option<NullBuffer> {
    let filter = filter.map(|filter| match filter.nulls() {
        None => NullBuffer::new(filter.values().clone()),
        Some(nulls) => NullBuffer::new(filter.values() & nulls.inner()),
    });
    let valid = NullBuffer::union(filter.as_ref(), values.nulls())?;
    (valid.null_count() > 0).then_some(valid)
}

/// A value that can be told apart from others. Zeros of either sign are one value, and so are all NaN.
pub(super) trait DistinctValue: Copy + Send + Sync + fmt::Debug {
    /// Equal for equal values.
    type Key: Copy + Eq + Hash + Send + Sync + fmt::Debug + 'static;
    /// The key.
    fn key(self) -> Self::Key;
    /// The value of a key.
    fn from_key(key: Self::Key) -> Self;
}

macro_rules! own_key {
    ($($native:ty),*) => {$(
        impl DistinctValue for $native {
            type Key = Self;
            fn key(self) -> Self {
                self
            }
            fn from_key(key: Self) -> Self {
                key
            }
        }
    )*};
}
own_key!(i64, u64, i128, i256);

impl DistinctValue for f64 {
    type Key = u64;
    fn key(self) -> u64 {
        if self.is_nan() {
            Self::NAN.to_bits()
        } else if self == 0.0 {
            0
        } else {
            self.to_bits()
        }
    }
    fn from_key(key: u64) -> Self {
        Self::from_bits(key)
    }
}

/// One total over the distinct values, each with the number of its rows, so that rows can leave again.
struct Distinct<I, T>
where
    I: ArrowPrimitiveType,
    I::Native: DistinctValue,
{
    recipe: Totals<I, T>,
    seen: HashMap<<I::Native as DistinctValue>::Key, u64>,
    total: T,
}

impl<I, T> Distinct<I, T>
where
    I: ArrowPrimitiveType,
    I::Native: DistinctValue,
    T: Adds<I::Native>,
{
    fn insert(&mut self, value: I::Native) {
        let key = value.key();
        let rows = self.seen.entry(key).or_insert(0);
        *rows += 1;
        if *rows == 1 {
            self.total.add(<I::Native as DistinctValue>::from_key(key));
        }
    }

    fn remove(&mut self, value: I::Native) {
        let key = value.key();
        let Some(rows) = self.seen.get_mut(&key) else { return };
        *rows -= 1;
        if *rows == 0 {
            self.seen.remove(&key);
            self.total.subtract(<I::Native as DistinctValue>::from_key(key));
        }
    }
}

impl<I, T> fmt::Debug for Distinct<I, T>
where
    I: ArrowPrimitiveType,
    I::Native: DistinctValue,
    T: fmt::Debug,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Distinct").field("values", &self.seen.len()).field("total", &self.total).finish_non_exhaustive()
    }
}

impl<I, T> Accumulator for Distinct<I, T>
where
    I: ArrowPrimitiveType,
    I::Native: DistinctValue,
    T: Adds<I::Native>,
{
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = self.recipe.argument(values)?;
        values.iter().flatten().for_each(|value| self.insert(value));
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = self.recipe.argument(values)?;
        values.iter().flatten().for_each(|value| self.remove(value));
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let lists = states.first().and_then(|states| states.as_list_opt::<i32>());
        let lists = lists.ok_or_else(|| internal_datafusion_err!("distinct values are a list"))?;
        for values in lists.iter().flatten() {
            self.update_batch(&[values])?;
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let values = self.seen.keys().map(|key| <I::Native as DistinctValue>::from_key(*key));
        let values = PrimitiveArray::<I>::from_iter_values(values).with_data_type(self.recipe.argument.clone());
        let item = Arc::new(Field::new_list_field(self.recipe.argument.clone(), true));
        let list = ListArray::try_new(item, OffsetBuffer::from_lengths([values.len()]), Arc::new(values), None)?;
        Ok(vec![ScalarValue::List(Arc::new(list))])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.recipe.finish_one(&self.total, as_count(self.seen.len()))
    }

    fn size(&self) -> usize {
        // A table keeps one byte of control per slot beside key and count.
        let slot = size_of::<(<I::Native as DistinctValue>::Key, u64)>() + 1;
        size_of::<Self>() + self.total.heap_size() + self.seen.capacity() * slot * 8 / 7
    }
}
