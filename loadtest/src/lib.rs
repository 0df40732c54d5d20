//! The open-loop load tester: queries are sent at times fixed beforehand, whatever the server does,
//! and every latency counts from the time a query was meant to be sent. A server that stalls is
//! charged for every query that should have been sent meanwhile (no coordinated omission).
//!
//! Every answer is compared with a reference computed before the run, exactly.

mod client;
mod cpu;
mod driver;
mod options;
mod report;
mod schedule;
#[cfg(test)]
mod tests;
mod workload;

pub use client::Api;
pub use driver::run;
pub use options::{RunOptions, Workload};
pub use report::Report;
