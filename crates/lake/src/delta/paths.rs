//! From a path as the log spells it (a URI: percent-encoded, relative or absolute) to a URL.
//!
//! A relative path never leaves the table's root. An absolute one must lie in the same bucket, and
//! on a file system below the table's root: a log must not make us read whatever it likes.

use lakeserve_common::{Error, ErrorKind, Result};
use object_store::path::Path;
use url::Url;

/// The root of a table, against which its paths are resolved.
#[derive(Debug, Clone)]
pub(crate) struct TableRoot {
    location: Url,
}

impl TableRoot {
    pub(crate) fn new(location: Url) -> Self {
        Self { location }
    }

    /// Where the table was opened.
    pub(crate) fn location(&self) -> &Url {
        &self.location
    }

    /// The URL of the file that the log calls `path`.
    pub(crate) fn resolve(&self, path: &str) -> Result<Url> {
        let refused = |why: &str| {
            let message = format!("Delta table {}: the log names the file '{path}', which {why}", self.location);
            Error::new(ErrorKind::Corrupt, message)
        };
        if path.is_empty() {
            return Err(refused("is no name"));
        }
        let (base, below) = match absolute(path) {
            None => (self.location.clone(), path),
            Some(Absolute { scheme, authority, path: absolute_path }) => {
                let same_store = scheme.is_none_or(|scheme| same_scheme(scheme, self.location.scheme()))
                    && authority.is_none_or(|authority| authority == self.location.authority());
                if !same_store {
                    return Err(refused("lies in another store than the table"));
                }
                let mut root = self.location.clone();
                root.set_path("/");
                (root, absolute_path)
            }
        };
        let decoded =
            Path::from_url_path(below).map_err(|error| refused(&format!("is no path in a store: {error}")))?;
        if decoded.is_root() {
            return Err(refused("is no name"));
        }
        let mut url = base;
        url.path_segments_mut()
            .map_err(|()| refused("cannot be resolved"))?
            .pop_if_empty()
            .extend(decoded.parts().map(|part| part.as_ref().to_owned()));
        if url.scheme() == "file" && !self.holds(&url) {
            return Err(refused("lies outside of the table's folder"));
        }
        Ok(url)
    }

    fn holds(&self, url: &Url) -> bool {
        let root = self.location.path().trim_end_matches('/');
        url.path().strip_prefix(root).is_some_and(|rest| rest.starts_with('/'))
    }
}

/// An absolute path of a log: a URL, `scheme:/path` as Hadoop writes it, or `/path`.
struct Absolute<'a> {
    scheme: Option<&'a str>,
    authority: Option<&'a str>,
    path: &'a str,
}

fn absolute(path: &str) -> Option<Absolute<'_>> {
    if path.starts_with('/') {
        return Some(Absolute { scheme: None, authority: None, path });
    }
    let (scheme, rest) = path.split_once(":/")?;
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    if !is_scheme {
        return None;
    }
    match rest.strip_prefix('/') {
        None => Some(Absolute { scheme: Some(scheme), authority: None, path: rest }),
        Some(rest) => {
            let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
            Some(Absolute { scheme: Some(scheme), authority: Some(authority), path })
        }
    }
}

fn same_scheme(a: &str, b: &str) -> bool {
    let canonical = |scheme: &str| match scheme.to_ascii_lowercase().as_str() {
        "s3a" | "s3n" => "s3".to_owned(),
        "abfs" => "abfss".to_owned(),
        "gcs" => "gs".to_owned(),
        other => other.to_owned(),
    };
    canonical(a) == canonical(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(text: &str) -> TableRoot {
        TableRoot::new(Url::parse(text).unwrap())
    }

    /// The name inside the store that a URL stands for.
    fn key(url: &Url) -> String {
        Path::from_url_path(url.path()).unwrap().to_string()
    }

    #[test]
    fn encoded_names_are_decoded_exactly_once() {
        for (path, expected) in [
            ("p=a%2520b/x.parquet", "t/p=a%20b/x.parquet"),
            ("p=B%20B/x.parquet", "t/p=B B/x.parquet"),
            ("p=50%2525/x.parquet", "t/p=50%25/x.parquet"),
            ("p=50%/x.parquet", "t/p=50%/x.parquet"),
            ("p=%C3%A9/x.parquet", "t/p=é/x.parquet"),
            ("p=é/a?b#c.parquet", "t/p=é/a?b#c.parquet"),
            ("ts=13:00:00/x.parquet", "t/ts=13:00:00/x.parquet"),
            ("a:b.parquet", "t/a:b.parquet"),
        ] {
            assert_eq!(key(&root("s3://b/t").resolve(path).unwrap()), expected);
        }
    }

    #[test]
    fn absolute_paths_stay_in_the_bucket() {
        let table = root("s3://b/t");
        assert_eq!(key(&table.resolve("s3a://b/other/x%20y.parquet").unwrap()), "other/x y.parquet");
        assert_eq!(key(&table.resolve("/other/x.parquet").unwrap()), "other/x.parquet");
        assert!(table.resolve("s3://c/x.parquet").is_err());
        assert!(table.resolve("file:///etc/passwd").is_err());
        let local = root("file:///data/t");
        assert_eq!(key(&local.resolve("file:/data/t/x.parquet").unwrap()), "data/t/x.parquet");
        assert_eq!(key(&local.resolve("file:///data/t/x.parquet").unwrap()), "data/t/x.parquet");
        assert!(local.resolve("file:///data/t2/x.parquet").is_err());
        assert!(local.resolve("/etc/passwd").is_err());
    }

    #[test]
    fn nothing_escapes_the_root() {
        for path in ["../../etc/passwd", "a/../../x", "%2e%2e/x", "..%2F..%2Fx", "a//b", "", "./x", "%FF"] {
            let error = root("file:///data/t").resolve(path).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{path}");
        }
    }

    proptest::proptest! {
        /// Whatever a writer calls a file, its encoded path leads back to it.
        #[test]
        fn every_name_survives(name in "[^/\\p{Cc}]{1,12}", folder in "[^/\\p{Cc}]{1,12}") {
            proptest::prop_assume!(![".", ".."].contains(&name.as_str()) && ![".", ".."].contains(&folder.as_str()));
            let plain = format!("{folder}/{name}");
            let encoded: String = plain.bytes().map(|byte| match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' | b'=' | b':' => char::from(byte).to_string(),
                other => format!("%{other:02X}"),
            }).collect();
            proptest::prop_assume!(absolute(&encoded).is_none());
            proptest::prop_assert_eq!(key(&root("s3://b/t").resolve(&encoded).unwrap()), format!("t/{plain}"));
        }
    }
}
