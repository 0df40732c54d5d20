//! SQL without I/O: the dialect, the DataFusion session with our own aggregates and rules, and how
//! values are spelled on the way out.

pub mod dialect;
pub mod error;
pub mod session;
pub mod ties;
