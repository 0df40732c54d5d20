//! SQL without I/O: the dialect, the DataFusion session with our own aggregates and rules, and how
//! values are spelled on the way out.

pub mod aggregates;
pub mod arithmetic;
pub mod dialect;
pub mod doubles;
pub mod error;
pub mod params;
pub mod render;
pub mod session;
pub mod stack;
pub mod ties;
