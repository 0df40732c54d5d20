//! The harness of the end-to-end tests: it starts the real `lakeserve` binary, waits until it is
//! ready, asks it over HTTP and stops it again.
//!
//! A test that needs something from outside (the conformance material, an S3 server, a Python with
//! clients) finds it through an environment variable that `tests/run` sets. Where it is absent the
//! test says so by name and passes; with `CI` set it fails instead.

pub mod answers;
pub mod material;
pub mod server;
pub mod slt;
