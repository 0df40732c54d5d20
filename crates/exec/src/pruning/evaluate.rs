//! Evaluation of a compiled predicate over containers.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, Datum, Scalar, make_comparator};
use arrow::buffer::BooleanBuffer;
use arrow::compute::SortOptions;
use arrow::compute::kernels::cmp;
use arrow::compute::kernels::comparison::starts_with;
use arrow::error::ArrowError;

use super::bounds::{Bounds, Containers};
use super::{Comparison, Node, Operand};

/// Per container: may some row make the expression TRUE, may some row make it FALSE.
#[derive(Debug, Clone)]
pub(super) struct Outcomes {
    pub(super) can_be_true: BooleanBuffer,
    pub(super) can_be_false: BooleanBuffer,
}

pub(super) struct Evaluation<'a> {
    containers: &'a dyn Containers,
}

type Kernel = fn(&dyn Datum, &dyn Datum) -> Result<BooleanArray, ArrowError>;

impl<'a> Evaluation<'a> {
    pub(super) fn new(containers: &'a dyn Containers) -> Self {
        Self { containers }
    }

    pub(super) fn outcomes(&self, node: &Node) -> Outcomes {
        match node {
            Node::Unknown => self.same(true, true),
            Node::Constant(value) => self.same(*value == Some(true), *value == Some(false)),
            Node::All(children) => {
                children.iter().map(|child| self.outcomes(child)).fold(self.same(true, false), |all, one| Outcomes {
                    can_be_true: &all.can_be_true & &one.can_be_true,
                    can_be_false: &all.can_be_false | &one.can_be_false,
                })
            }
            Node::Any(children) => {
                children.iter().map(|child| self.outcomes(child)).fold(self.same(false, true), |any, one| Outcomes {
                    can_be_true: &any.can_be_true | &one.can_be_true,
                    can_be_false: &any.can_be_false & &one.can_be_false,
                })
            }
            Node::Not(child) => {
                let child = self.outcomes(child);
                Outcomes { can_be_true: child.can_be_false, can_be_false: child.can_be_true }
            }
            Node::IsTrue(child) => {
                // NULL becomes FALSE, and where NULLs are is not tracked.
                Outcomes { can_be_false: self.all(true), ..self.outcomes(child) }
            }
            Node::IsNull { column } => match self.containers.column(*column) {
                Some(bounds) => Outcomes { can_be_true: !&bounds.no_nulls, can_be_false: !&bounds.all_null },
                None => self.same(true, true),
            },
            Node::Compare { operand, comparison, value } => {
                self.leaf(operand, |bounds| compare(bounds, *comparison, value))
            }
            Node::Within { operand, low, low_inclusive, high, high_inclusive } => self.leaf(operand, |bounds| {
                let above: Kernel = if *low_inclusive { cmp::gt_eq } else { cmp::gt };
                let below: Kernel = if *high_inclusive { cmp::lt_eq } else { cmp::lt };
                let reaches = may(above(&bounds.upper, &Scalar::new(Arc::clone(low)))?);
                let begins = may(below(&bounds.lower, &Scalar::new(Arc::clone(high)))?);
                let can_be_false = BooleanBuffer::new_set(reaches.len());
                Ok(Outcomes { can_be_true: &reaches & &begins, can_be_false })
            }),
            Node::InSet { operand, values, has_null } => self.leaf(operand, |bounds| in_set(bounds, values, *has_null)),
            Node::Prefix { operand, prefix, end, exact } => {
                self.leaf(operand, |bounds| prefixed(bounds, prefix, end.as_ref(), *exact))
            }
        }
    }

    /// Outcomes of a test of one column's values; rows where the column is NULL yield NULL.
    fn leaf(&self, operand: &Operand, test: impl FnOnce(&Bounds) -> Result<Outcomes, ArrowError>) -> Outcomes {
        let mut bounds = self.containers.column(operand.column);
        for cast in &operand.casts {
            bounds = bounds.and_then(|bounds| bounds.cast(cast));
        }
        let Some(bounds) = bounds else { return self.same(true, true) };
        let outcomes = test(&bounds).unwrap_or_else(|_| self.same(true, true));
        let some_value = !&bounds.all_null;
        Outcomes {
            can_be_true: &outcomes.can_be_true & &some_value,
            can_be_false: &outcomes.can_be_false & &some_value,
        }
    }

    fn same(&self, can_be_true: bool, can_be_false: bool) -> Outcomes {
        Outcomes { can_be_true: self.all(can_be_true), can_be_false: self.all(can_be_false) }
    }

    fn all(&self, value: bool) -> BooleanBuffer {
        let length = self.containers.len();
        if value { BooleanBuffer::new_set(length) } else { BooleanBuffer::new_unset(length) }
    }
}

/// A kernel's answer over bounds, where not known is *may*.
fn may(answer: BooleanArray) -> BooleanBuffer {
    match answer.nulls() {
        Some(nulls) => answer.values() | &!nulls.inner(),
        None => answer.values().clone(),
    }
}

/// A kernel's answer over bounds, where not known is *not sure*.
fn surely(answer: BooleanArray) -> BooleanBuffer {
    match answer.nulls() {
        Some(nulls) => answer.values() & nulls.inner(),
        None => answer.values().clone(),
    }
}

fn compare(bounds: &Bounds, comparison: Comparison, value: &ArrayRef) -> Result<Outcomes, ArrowError> {
    let value = Scalar::new(Arc::clone(value));
    let lower = |kernel: Kernel| kernel(&bounds.lower, &value).map(may);
    let upper = |kernel: Kernel| kernel(&bounds.upper, &value).map(may);
    let outcomes = match comparison {
        Comparison::Equal => {
            let only = &surely(cmp::eq(&bounds.lower, &value)?) & &surely(cmp::eq(&bounds.upper, &value)?);
            let can_be_false = &!&only | &bounds.maybe_nan;
            return Ok(Outcomes { can_be_true: &lower(cmp::lt_eq)? & &upper(cmp::gt_eq)?, can_be_false });
        }
        Comparison::Less => Outcomes { can_be_true: lower(cmp::lt)?, can_be_false: upper(cmp::gt_eq)? },
        Comparison::LessOrEqual => Outcomes { can_be_true: lower(cmp::lt_eq)?, can_be_false: upper(cmp::gt)? },
        Comparison::Greater => Outcomes { can_be_true: upper(cmp::gt)?, can_be_false: lower(cmp::lt_eq)? },
        Comparison::GreaterOrEqual => Outcomes { can_be_true: upper(cmp::gt_eq)?, can_be_false: lower(cmp::lt)? },
    };
    Ok(Outcomes {
        can_be_true: &outcomes.can_be_true | &bounds.maybe_nan,
        can_be_false: &outcomes.can_be_false | &bounds.maybe_nan,
    })
}

/// Looks the bounds up in the sorted values: O(log values) for each container.
fn in_set(bounds: &Bounds, values: &ArrayRef, has_null: bool) -> Result<Outcomes, ArrowError> {
    let options = SortOptions::default();
    let lower = make_comparator(&bounds.lower, values, options)?;
    let upper = make_comparator(&bounds.upper, values, options)?;
    // The first value that is not below the lower bound, if both bounds are known.
    let first = |i: usize| -> Option<usize> {
        if bounds.lower.is_null(i) || bounds.upper.is_null(i) {
            return None;
        }
        let (mut from, mut to) = (0, values.len());
        while from < to {
            let middle = from + (to - from) / 2;
            if lower(i, middle) == Ordering::Greater { from = middle + 1 } else { to = middle }
        }
        Some(from)
    };
    let length = bounds.lower.len();
    let can_be_true = BooleanBuffer::collect_bool(length, |i| {
        first(i).is_none_or(|found| found < values.len() && upper(i, found) != Ordering::Less)
    });
    // All rows are in the set only if all have one value, and it is in the set.
    let can_be_false = BooleanBuffer::collect_bool(length, |i| {
        has_null
            || bounds.maybe_nan.value(i)
            || first(i).is_none_or(|found| {
                found >= values.len() || lower(i, found) != Ordering::Equal || upper(i, found) != Ordering::Equal
            })
    });
    Ok(Outcomes { can_be_true, can_be_false })
}

fn prefixed(bounds: &Bounds, prefix: &ArrayRef, end: Option<&ArrayRef>, exact: bool) -> Result<Outcomes, ArrowError> {
    let prefix = Scalar::new(Arc::clone(prefix));
    let mut can_be_true = may(cmp::gt_eq(&bounds.upper, &prefix)?);
    if let Some(end) = end {
        can_be_true = &can_be_true & &may(cmp::lt(&bounds.lower, &Scalar::new(Arc::clone(end)))?);
    }
    let can_be_false = if exact {
        // Whatever lies between two texts with the prefix has it too.
        !&(&surely(starts_with(&bounds.lower, &prefix)?) & &surely(starts_with(&bounds.upper, &prefix)?))
    } else {
        BooleanBuffer::new_set(can_be_true.len())
    };
    Ok(Outcomes { can_be_true, can_be_false })
}
