//! From the paths that Iceberg metadata spells to URLs.
//!
//! Metadata holds raw paths, not URLs: a `%` or a space in them stands for itself. Writers spell
//! the same place in several ways (`/x`, `file:/x`, `file:///x`; `s3a://b/k`, `s3://b/k`), so paths
//! are compared only after they went through here.

use lakeserve_common::{Error, ErrorKind, Result};
use lakeserve_storage::location;
use url::Url;

/// Resolves the paths of one table.
#[derive(Debug, Clone)]
pub(super) struct Paths {
    /// The table's root folder, as it was opened.
    root: Url,
    /// The `location` in the metadata, without a slash at the end.
    spelled_root: String,
}

impl Paths {
    /// Paths of the table whose root folder is `root` and whose metadata says `location`.
    pub(super) fn new(root: Url, location: &str) -> Self {
        Self { root, spelled_root: location.trim_end_matches('/').to_owned() }
    }

    /// The table's location as its metadata spells it.
    pub(super) fn spelled_root(&self) -> &str {
        &self.spelled_root
    }

    /// The URL of a path as metadata spells it: a URL, an absolute local path or a path relative
    /// to the table.
    ///
    /// # Errors
    /// `Feature` for a scheme that no store here has, `Corrupt` for a path that is none, `Denied`
    /// when a table that does not lie on the local disk names a local file.
    pub(super) fn resolve(&self, spelled: &str) -> Result<Url> {
        let Some((scheme, rest)) = split_scheme(spelled) else {
            return if spelled.starts_with('/') { self.local(spelled, spelled) } else { self.relative(spelled) };
        };
        match scheme.to_ascii_lowercase().as_str() {
            "file" => self.local(strip_authority(rest, spelled)?, spelled),
            "s3" | "s3a" | "s3n" | "gs" | "gcs" | "abfs" | "abfss" | "az" | "azure" | "http" | "https" => {
                location::literal(spelled).map_err(|error| not_a_path(spelled).with_source(error))
            }
            other => {
                let message = format!("path '{spelled}' has scheme '{other}', which is not supported");
                Err(Error::new(ErrorKind::Feature, message).with_hint(
                    "copy the table to a supported store with its paths rewritten (s3, gs, abfss, http or local)",
                ))
            }
        }
    }

    fn local(&self, path: &str, spelled: &str) -> Result<Url> {
        if self.root.scheme() != "file" {
            let message = format!("path '{spelled}' is local, but the table lies at {}", self.root);
            return Err(Error::new(ErrorKind::Denied, message).with_hint("only local tables may name local files"));
        }
        Url::from_file_path(path).map_err(|()| not_a_path(spelled))
    }

    fn relative(&self, spelled: &str) -> Result<Url> {
        if spelled.is_empty() {
            return Err(not_a_path(spelled));
        }
        if spelled.split('/').any(|segment| segment == "..") {
            return Err(not_a_path(spelled));
        }
        // Some writers put a relative location before every path as well.
        let own = spelled.strip_prefix(self.spelled_root.as_str()).and_then(|rest| rest.strip_prefix('/'));
        let own = own.unwrap_or(spelled);
        Ok(location::child(&self.root, own.strip_prefix("./").unwrap_or(own)))
    }
}

/// Splits `scheme:rest`; a text without a scheme is a plain path.
fn split_scheme(text: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = text.split_once(':')?;
    let mut letters = scheme.chars();
    let starts = letters.next()?.is_ascii_alphabetic();
    (starts && rest.starts_with('/') && letters.all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c)))
        .then_some((scheme, rest))
}

/// The path in what follows `file:`, which is `/x`, `///x` or `//localhost/x`.
fn strip_authority<'a>(rest: &'a str, spelled: &str) -> Result<&'a str> {
    let Some(after) = rest.strip_prefix("//") else {
        return Ok(rest);
    };
    let path = after.strip_prefix("localhost").unwrap_or(after);
    if path.starts_with('/') {
        Ok(path)
    } else {
        Err(not_a_path(spelled).with_hint("a file URL needs an absolute path"))
    }
}

fn not_a_path(spelled: &str) -> Error {
    Error::new(ErrorKind::Corrupt, format!("path '{spelled}' in the metadata is not usable"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(root: &str, location: &str, path: &str) -> Result<String> {
        Paths::new(Url::parse(root).unwrap(), location).resolve(path).map(String::from)
    }

    #[test]
    fn every_spelling_of_a_local_file_is_one_url() {
        for path in [
            "/w/t/data/a b%20é.parquet",
            "file:/w/t/data/a b%20é.parquet",
            "file:///w/t/data/a b%20é.parquet",
            "data/a b%20é.parquet",
        ] {
            assert_eq!(resolve("file:///w/t", "/w/t", path).unwrap(), "file:///w/t/data/a%20b%2520%C3%A9.parquet");
        }
        assert_eq!(resolve("file:///new", "old/t", "old/t/data/a").unwrap(), "file:///new/data/a");
        assert_eq!(resolve("file:///new", "./t", "./t/data/a").unwrap(), "file:///new/data/a");
    }

    #[test]
    fn object_stores_keep_their_raw_keys() {
        for scheme in ["s3", "s3a", "s3n"] {
            let path = format!("{scheme}://bucket/t/p=a%2Fb/x y.parquet");
            assert_eq!(resolve("s3://bucket/t", "", &path).unwrap(), "s3://bucket/t/p=a%252Fb/x%20y.parquet");
        }
        let azure = "abfss://box@account.dfs.core.windows.net/t/a";
        assert_eq!(resolve("s3://bucket/t", "", azure).unwrap(), azure);
    }

    #[test]
    fn what_cannot_be_reached_is_refused_by_name() {
        let error = resolve("file:///t", "", "hdfs://nn:8020/w/t/a.parquet").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Feature);
        assert!(error.message().contains("'hdfs'") && error.hint().is_some(), "{error}");
        assert_eq!(resolve("s3://b/t", "", "/etc/passwd").unwrap_err().kind(), ErrorKind::Denied);
        assert_eq!(resolve("s3://b/t", "", "file:///etc/passwd").unwrap_err().kind(), ErrorKind::Denied);
        assert_eq!(resolve("file:///t", "", "../x").unwrap_err().kind(), ErrorKind::Corrupt);
        assert_eq!(resolve("file:///t", "", "file://cases/x").unwrap_err().kind(), ErrorKind::Corrupt);
        assert_eq!(resolve("file:///t", "", "").unwrap_err().kind(), ErrorKind::Corrupt);
    }
}
