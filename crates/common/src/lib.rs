//! What every other crate of Lakeserve stands on and nothing more: identifiers, the seams for
//! clock, randomness, spawning and hashing, units, the outward error kinds, shutdown and telemetry.
//!
//! This crate knows no arrow, no DataFusion and no network protocol.

pub mod clock;
pub mod error;
pub mod hash;
pub mod id;
pub mod random;
pub mod shutdown;
pub mod spawn;
pub mod telemetry;
pub mod units;

pub use error::{Error, ErrorKind, Result};
