//! From a running total to DataFusion's accumulators: for all rows, per group, and over distinct values.
//!
//! Partial state is always the number of values and the total; over distinct values it is the list of them.

mod distinct;
mod groups;

use std::fmt;
use std::marker::PhantomData;
use std::mem::size_of;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, UInt64Type};
use datafusion::common::{ScalarValue, internal_datafusion_err};
use datafusion::error::Result;
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{Accumulator, GroupsAccumulator};

use self::distinct::Distinct;
pub(super) use self::distinct::DistinctValue;
use self::groups::Groups;
pub(super) use self::groups::valid_rows;
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
            return Box::new(Distinct::new(self.clone()));
        }
        Box::new(All { recipe: self.clone(), total: T::default(), count: 0 })
    }

    fn groups(&self) -> Option<Box<dyn GroupsAccumulator>> {
        Some(Box::new(Groups::new(self.clone())))
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
