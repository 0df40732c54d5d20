//! Opens real tables of other writers and checks what their snapshots say. The material lies
//! outside of the project; without it the tests say by name what they skip.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod delta;
mod iceberg;
mod parquet;
mod support;
