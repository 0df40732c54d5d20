//! End-to-end tests over the real binary. `tests/run` brings the outside parts that some need.

mod bad_input;
mod benchmarks;
mod clients;
mod golden;
mod restart;
mod s3;
mod sql;
