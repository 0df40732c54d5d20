//! Sums of intervals, part by part (months, days, and the time within a day), each exact and checked at the end.

use std::mem::size_of;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::{
    DataType, Field, FieldRef, IntervalDayTime, IntervalDayTimeType, IntervalMonthDayNano, IntervalMonthDayNanoType,
    IntervalUnit, IntervalYearMonthType,
};
use datafusion::common::{ScalarValue, internal_datafusion_err};
use datafusion::error::Result;
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{Accumulator, GroupsAccumulator};

use super::accumulate::Recipe;
use super::overflow;
use super::total::Total;

/// `sum` over intervals of one unit.
#[derive(Debug, Clone, Copy)]
pub(super) struct IntervalSum(pub(super) IntervalUnit);

const PARTS: [&str; 3] = ["months", "days", "time"];

impl Recipe for IntervalSum {
    fn state_fields(&self, name: &str, _distinct: bool) -> Vec<FieldRef> {
        let counts = Field::new(format_state_name(name, "count"), DataType::UInt64, true);
        let parts = PARTS.map(|part| Field::new(format_state_name(name, part), i128::state_type(), true));
        std::iter::once(counts).chain(parts).map(Arc::new).collect()
    }

    fn accumulator(&self, _distinct: bool) -> Box<dyn Accumulator> {
        Box::new(Parts { unit: self.0, count: 0, totals: [0; 3] })
    }

    fn groups(&self) -> Option<Box<dyn GroupsAccumulator>> {
        None
    }
}

#[derive(Debug)]
struct Parts {
    unit: IntervalUnit,
    count: u64,
    totals: [i128; 3],
}

impl Parts {
    fn change(&mut self, values: &[ArrayRef], sign: i128) -> Result<()> {
        let [values, ..] = values else { return Err(internal_datafusion_err!("an aggregate got no argument")) };
        let mut add = |parts: [i128; 3]| {
            self.count = if sign > 0 { self.count + 1 } else { self.count.saturating_sub(1) };
            self.totals.iter_mut().zip(parts).for_each(|(total, part)| *total += sign * part);
        };
        match self.unit {
            IntervalUnit::YearMonth => {
                values.as_primitive::<IntervalYearMonthType>().iter().flatten().for_each(|months| {
                    add([months.into(), 0, 0]);
                });
            }
            IntervalUnit::DayTime => {
                values.as_primitive::<IntervalDayTimeType>().iter().flatten().for_each(|value| {
                    add([0, value.days.into(), value.milliseconds.into()]);
                });
            }
            IntervalUnit::MonthDayNano => {
                values.as_primitive::<IntervalMonthDayNanoType>().iter().flatten().for_each(|value| {
                    add([value.months.into(), value.days.into(), value.nanoseconds.into()]);
                });
            }
        }
        Ok(())
    }

    fn part<N: TryFrom<i128>>(&self, which: usize) -> Result<N> {
        let total = self.totals[which];
        N::try_from(total).map_err(|_| overflow("sum", total, &DataType::Interval(self.unit)))
    }
}

impl Accumulator for Parts {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.change(values, 1)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.change(values, -1)
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let [counts, parts @ ..] = states else { return Err(internal_datafusion_err!("partial state is empty")) };
        self.count += arrow::compute::sum(counts.as_primitive::<arrow::datatypes::UInt64Type>()).unwrap_or_default();
        for (total, part) in self.totals.iter_mut().zip(parts) {
            i128::decode(part.as_ref())?.iter().for_each(|other| total.merge(other));
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let parts = self.totals.map(|total| ScalarValue::Decimal128(Some(total), 38, 0));
        Ok(std::iter::once(ScalarValue::UInt64(Some(self.count))).chain(parts).collect())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if self.count == 0 {
            return ScalarValue::try_new_null(&DataType::Interval(self.unit));
        }
        Ok(match self.unit {
            IntervalUnit::YearMonth => ScalarValue::IntervalYearMonth(Some(self.part(0)?)),
            IntervalUnit::DayTime => {
                ScalarValue::IntervalDayTime(Some(IntervalDayTime::new(self.part(1)?, self.part(2)?)))
            }
            IntervalUnit::MonthDayNano => {
                let value = IntervalMonthDayNano::new(self.part(0)?, self.part(1)?, self.part(2)?);
                ScalarValue::IntervalMonthDayNano(Some(value))
            }
        })
    }

    fn size(&self) -> usize {
        size_of::<Self>()
    }
}
