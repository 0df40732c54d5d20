//! Everything between a URL and bytes: stores and their credentials, the decorators around them,
//! and the bounded range cache with single flight.
//!
//! Stacking order of a store, outermost first (asserted by a test in [`store`]):
//!
//! ```text
//! Instrumented   requests, bytes, seconds and errors by store and operation
//! Retrying       transient failures and stalls, bounded by attempts and by time
//! Failing        only in tests: fails or delays on demand
//! backend        local file system, S3, GCS, Azure, HTTP (their own retries are off)
//! ```
//!
//! Data files are read through [`DataReader`], which adds coalescing of ranges, the range cache and
//! the check that a file is still the one we know (`If-Match`). Logs and metadata are read straight
//! from the store: they change, so they must never come from a cache keyed by path.

mod aws_profile;
mod backend;
mod coalesce;
pub mod counters;
pub mod error;
mod instrumented;
pub mod location;
mod metrics;
pub mod options;
mod range_cache;
pub mod reader;
mod retrying;
pub mod store;
pub mod testing;

pub use counters::ReadCounters;
pub use error::store_error;
pub use options::{Secret, StorageOptions, StoreOptions};
pub use reader::{DataReader, FileKey};
pub use store::{Storage, StoreLocation};
