//! Three-valued pruning: which containers (data files, or row groups of one file) may hold a row
//! that a filter accepts. The one place where bounds decide anything.
//!
//! A filter is compiled once ([`Predicate::compile`]) and evaluated over all containers at a time
//! with arrow kernels. For every node of the tree two bit sets are kept over the containers:
//! *some row may make it TRUE* and *some row may make it FALSE*. `NOT` swaps them, `AND` and `OR`
//! combine them, and a container is skipped only if its first bit is clear at the root. NULL needs
//! no bit of its own: a filter drops NULL as it drops FALSE.
//!
//! # Rules
//!
//! 1. Not known means *may*. A missing bound, a missing NULL count, an expression that is not
//!    understood, a literal of another type than the column: both bits are set.
//! 2. Bounds are bounds, not values: they may be truncated, and deleted rows may have held the
//!    extreme. Inverted bounds (lower above upper) and NaN bounds are ignored.
//! 3. NaN is never in bounds. The kernels order floats by IEEE 754's total order, so `x > 5` is
//!    TRUE for NaN and `x < 5` is TRUE for NaN with the sign bit set (what x86 makes of `0.0/0.0`).
//!    So no one-sided comparison and no `<>` prunes a float column; equality, `IN` and a two-sided
//!    range do, since no NaN lies between two numbers.
//! 4. `-0.0` and `0.0` are equal to the engine but not to the kernels: a lower bound of zero is
//!    taken as `-0.0` and an upper one as `0.0`.
//! 5. A container whose rows are all NULL makes no comparison TRUE or FALSE.
//! 6. A cast of the column is looked through only where it is monotone: the bounds are cast like
//!    the values would be. A bound that does not survive the cast is not known.
//! 7. For row groups: statistics in an order other than the type's own, deprecated `min`/`max`
//!    of types whose order changed, and INT96 statistics are ignored.

mod bounds;
mod compile;
mod evaluate;
mod files;
mod row_groups;

pub(crate) use bounds::Containers;
pub(crate) use files::FileContainers;
pub(crate) use row_groups::RowGroupContainers;

use arrow::array::ArrayRef;
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{DataType, Schema};
use datafusion::logical_expr::Expr;

/// A conjunction of filters, ready to be asked about containers.
#[derive(Debug, Clone)]
pub(crate) struct Predicate {
    root: Node,
}

impl Predicate {
    /// Compiles filters over `schema`; whatever is not understood becomes *may match*.
    pub(crate) fn compile(filters: &[Expr], schema: &Schema) -> Self {
        Self { root: compile::conjunction(filters, schema) }
    }

    /// Whether nothing could ever be pruned.
    pub(crate) fn is_trivial(&self) -> bool {
        match &self.root {
            Node::All(children) => children.iter().all(|child| matches!(child, Node::Unknown)),
            Node::Unknown => true,
            _ => false,
        }
    }

    /// One bit per container: set if it may hold a row that the filters accept.
    pub(crate) fn may_match(&self, containers: &dyn Containers) -> BooleanBuffer {
        evaluate::Evaluation::new(containers).outcomes(&self.root).can_be_true
    }
}

/// A column, seen through monotone casts (innermost first).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Operand {
    column: usize,
    casts: Vec<DataType>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Equal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// What a filter means to pruning. Values are arrays of the operand's type, never NULL, never NaN.
#[derive(Debug, Clone)]
enum Node {
    /// Not understood: may be anything.
    Unknown,
    /// The same for every row; `None` is NULL.
    Constant(Option<bool>),
    All(Vec<Node>),
    Any(Vec<Node>),
    Not(Box<Node>),
    /// TRUE exactly where the child is TRUE (`IS TRUE`).
    IsTrue(Box<Node>),
    /// Operand against one value.
    Compare {
        operand: Operand,
        comparison: Comparison,
        value: ArrayRef,
    },
    /// A two-sided range over a float column. It only sharpens the one-sided comparisons that
    /// stand beside it, so nothing is said about where it is FALSE.
    Within {
        operand: Operand,
        low: ArrayRef,
        low_inclusive: bool,
        high: ArrayRef,
        high_inclusive: bool,
    },
    /// Operand among sorted values.
    InSet {
        operand: Operand,
        values: ArrayRef,
        has_null: bool,
    },
    /// Operand starts with a prefix; `exact` if that is all the filter asks. `end` is the least
    /// text above all texts with that prefix, if there is one.
    Prefix {
        operand: Operand,
        prefix: ArrayRef,
        end: Option<ArrayRef>,
        exact: bool,
    },
    /// The column is NULL.
    IsNull {
        column: usize,
    },
}

#[cfg(test)]
mod tests;
