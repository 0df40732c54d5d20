//! Stable ties: rows that compare equal under ORDER BY, and rows among which a top-k or a
//! first/last aggregate chooses, are put in the order (file key, row ordinal), so that a scan, an
//! index and any number of partitions or servers give the same rows in the same order.
//!
//! [`OrderedTable`] is a table that can show the row's position as a hidden last column
//! [`ROW_ORDINAL`]; [`BreakTies`] is the analyzer rule that swaps that form in where the position
//! decides something, carries it up to there and projects it away again. Names, types and
//! nullability of the result stay as they were.

mod carry;
mod functions;
mod ordered_table;
mod rule;

pub use ordered_table::{OrderedTable, ROW_ORDINAL};
pub use rule::BreakTies;

#[cfg(test)]
mod tests;
