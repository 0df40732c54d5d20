//! A total over distinct values.

use std::fmt;
use std::hash::Hash;
use std::mem::size_of;
use std::sync::Arc;

use arrow::array::{ArrayRef, ArrowPrimitiveType, AsArray, ListArray, PrimitiveArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{Field, i256};
use datafusion::common::{HashMap, ScalarValue, internal_datafusion_err};
use datafusion::error::Result;
use datafusion::logical_expr::Accumulator;

use super::{Totals, as_count};
use crate::aggregates::total::Adds;

/// A value that can be told apart from others. Zeros of either sign are one value, and so are all NaN.
pub(in crate::aggregates) trait DistinctValue: Copy + Send + Sync + fmt::Debug {
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
pub(super) struct Distinct<I, T>
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
    pub(super) fn new(recipe: Totals<I, T>) -> Self {
        Self { recipe, seen: HashMap::default(), total: T::default() }
    }

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
