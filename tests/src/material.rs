//! What tests need from outside, and how its absence is told.

use std::path::{Path, PathBuf};

/// The root of this checkout.
#[must_use]
pub fn checkout() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

/// Says that `test` needs `what`. In CI that is a failure, elsewhere a message.
///
/// # Panics
/// When the environment variable `CI` is set: a skipped test must not look like a passed one there.
#[expect(clippy::panic, reason = "a harness reports failure by panicking")]
pub fn skip(test: &str, what: &str) {
    if std::env::var_os("CI").is_some() {
        panic!("{test} needs {what}; CI must have it");
    }
    eprintln!("SKIPPED {test}: needs {what}");
}

/// The conformance material: `LAKESERVE_CONFORMANCE`, by default `../shared/conformance` beside
/// the checkout. `None` (after telling) where it is absent.
#[must_use]
pub fn conformance(test: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("LAKESERVE_CONFORMANCE")
        .map_or_else(|| checkout().join("../shared/conformance"), PathBuf::from);
    if folder.is_dir() {
        return Some(folder);
    }
    skip(test, &format!("the conformance material at {} (set LAKESERVE_CONFORMANCE)", folder.display()));
    None
}

/// An environment variable that `tests/run` sets, or `None` after telling.
#[must_use]
pub fn outside_part(test: &str, variable: &str) -> Option<String> {
    let value = std::env::var(variable).ok().filter(|value| !value.is_empty());
    if value.is_none() {
        skip(test, &format!("{variable}, which tests/run sets"));
    }
    value
}

/// Whether the long tier was asked for (`tests/run --full`).
#[must_use]
pub fn full_tier() -> bool {
    std::env::var_os("LAKESERVE_TEST_FULL").is_some()
}
