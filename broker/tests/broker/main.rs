//! The broker from outside: a server on a port of its own over small tables that each test writes.

#![expect(clippy::unwrap_used, clippy::panic, reason = "what a test sets up must work, or the test fails")]

mod catalog;
mod errors;
mod lifecycle;
mod limits;
mod native;
mod pinot;
mod sessions;
mod support;
mod tables;
mod versions;
