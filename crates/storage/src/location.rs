//! From what a person, a config or a table's metadata calls a place to a URL, and on to the path
//! inside the store.
//!
//! A location's URL is always percent-encoded, exactly once, and ends without a slash. What the
//! text means depends on where it came from:
//!
//! * a local path and the key of an object store (`s3://`, `gs://`, `abfss://`) are **literal**:
//!   `%41` is three characters of the name;
//! * `file://` and `http(s)://` are URLs: `%41` is the letter `A`. Spaces and non-ASCII letters
//!   may stand there unencoded;
//! * Iceberg metadata spells every location literally, `file:` included: [`literal`].

use std::path::{Component, PathBuf};

use lakeserve_common::{Error, ErrorKind, Result};
use object_store::path::Path;
use url::Url;

/// Schemes whose stores we can open, with what each may also be called.
const SCHEMES: [(&str, &str); 11] = [
    ("s3", "s3"),
    ("s3a", "s3"),
    ("s3n", "s3"),
    ("gs", "gs"),
    ("gcs", "gs"),
    ("abfss", "abfss"),
    ("abfs", "abfss"),
    ("az", "az"),
    ("azure", "az"),
    ("http", "http"),
    ("https", "https"),
];

/// Reads a location as a person writes it: `s3://b/p`, `gs://`, `abfss://`, `http(s)://`,
/// `file:///`, or a local path; relative ones are made absolute.
///
/// # Errors
/// `Option` for an unknown scheme, an absent bucket, or a query string.
pub fn parse(text: &str) -> Result<Url> {
    read(text, false)
}

/// Reads a location that some table's metadata spells, in which no character is encoded.
///
/// # Errors
/// As [`parse`].
pub fn literal(text: &str) -> Result<Url> {
    read(text, true)
}

/// The URL of `name` below `parent`; `name` is literal and may have several segments.
#[must_use]
pub fn child(parent: &Url, name: &str) -> Url {
    let mut url = parent.clone();
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.pop_if_empty().extend(name.split('/').filter(|segment| !segment.is_empty()));
    }
    url
}

/// The path inside the store (root of the bucket, or of the file system) that `url` names.
///
/// # Errors
/// `Option` when the path has empty, `.` or `..` segments or is not UTF-8.
pub fn store_path(url: &Url) -> Result<Path> {
    Path::from_url_path(url.path()).map_err(|error| {
        Error::new(ErrorKind::Option, format!("location {url} cannot be a path in a store: {error}"))
            .with_hint("remove empty, `.` and `..` parts from the path")
    })
}

/// The URL of an object that a listing of `root`'s store named.
#[must_use]
pub fn object_url(root: &Url, path: &Path) -> Url {
    let mut url = root.clone();
    url.set_path("/");
    child(&url, path.as_ref())
}

fn read(text: &str, is_literal: bool) -> Result<Url> {
    let text = text.trim();
    if text.is_empty() {
        return Err(Error::new(ErrorKind::Option, "the location is empty")
            .with_hint("give a local path or a URL such as s3://bucket/path"));
    }
    let Some((scheme, rest)) = scheme_of(text) else {
        return local(text);
    };
    if scheme == "file" {
        let path = rest.trim_start_matches('/').trim_end_matches('/');
        let path = format!("/{path}");
        return if is_literal { local(&path) } else { encoded("file://", &path, text) };
    }
    let Some((_, scheme)) = SCHEMES.iter().find(|(name, _)| *name == scheme) else {
        return Err(Error::new(ErrorKind::Option, format!("location `{text}` has the unknown scheme `{scheme}`"))
            .with_hint("known are s3, gs, abfss, az, http, https, file and local paths"));
    };
    let rest = rest
        .strip_prefix("//")
        .ok_or_else(|| Error::new(ErrorKind::Option, format!("location `{text}` lacks the `//` after its scheme")))?;
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    if authority.is_empty() {
        return Err(Error::new(ErrorKind::Option, format!("location `{text}` names no bucket or host")));
    }
    let base = format!("{scheme}://{authority}");
    if is_literal || !scheme.starts_with("http") {
        let root = Url::parse(&format!("{base}/")).map_err(|error| unreadable(text, error))?;
        refuse_odd_segments(text, path)?;
        return Ok(child(&root, path));
    }
    if path.contains('?') {
        return Err(Error::new(ErrorKind::Option, format!("location `{text}` has a query string"))
            .with_hint("signed URLs are not supported; give the plain URL of the file or folder"));
    }
    encoded(&base, &format!("/{}", path.trim_end_matches('/')), text)
}

fn unreadable(text: &str, error: url::ParseError) -> Error {
    Error::new(ErrorKind::Option, format!("location `{text}` cannot be read: {error}"))
}

fn refuse_odd_segments(text: &str, path: &str) -> Result<()> {
    let path = path.trim_end_matches('/');
    if !path.is_empty() && path.split('/').any(|segment| matches!(segment, "" | "." | "..")) {
        return Err(Error::new(ErrorKind::Option, format!("location `{text}` has an empty, `.` or `..` part"))
            .with_hint("object keys with such parts are not supported"));
    }
    Ok(())
}

/// The lower-case scheme and what follows its colon, when `text` begins with one.
fn scheme_of(text: &str) -> Option<(String, &str)> {
    let (scheme, rest) = text.split_once(':')?;
    let letters = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    (letters && rest.starts_with('/')).then(|| (scheme.to_ascii_lowercase(), rest))
}

/// `path` is already percent-encoded where it must be; `#` is part of a name, never a fragment.
fn encoded(base: &str, path: &str, text: &str) -> Result<Url> {
    let path = path.replace('#', "%23").replace('?', "%3F");
    Url::parse(&format!("{base}{path}")).map_err(|error| unreadable(text, error))
}

fn local(text: &str) -> Result<Url> {
    let path = match text.strip_prefix("~/").zip(std::env::var_os("HOME")) {
        Some((below, home)) => PathBuf::from(home).join(below),
        None => PathBuf::from(text),
    };
    let absolute = std::path::absolute(&path)
        .map_err(|error| Error::new(ErrorKind::Option, format!("path `{text}` cannot be made absolute: {error}")))?;
    let mut folded = PathBuf::new();
    for component in absolute.components() {
        match component {
            Component::ParentDir => {
                // `..` after a symbolic link leads elsewhere than the text suggests.
                folded = std::fs::canonicalize(&folded).unwrap_or(folded);
                folded.pop();
            }
            Component::CurDir => {}
            other => folded.push(other),
        }
    }
    let root = Url::parse("file:///").map_err(|error| unreadable(text, error))?;
    let path = folded.to_str().ok_or_else(|| Error::new(ErrorKind::Option, format!("path `{text}` is not UTF-8")))?;
    Ok(child(&root, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path_of(text: &str) -> String {
        store_path(&parse(text).unwrap()).unwrap().to_string()
    }

    #[test]
    fn names_survive_the_way_to_the_store() {
        for name in ["a b", "50%", "a%20b", "x=y", "a+b", "é", "#7x", "q?", "a&b;c", "[z]", "ü ñ/日本"] {
            assert_eq!(path_of(&format!("/data/{name}")), format!("data/{name}"));
            assert_eq!(path_of(&format!("s3://bucket/{name}")), name);
            let listed = object_url(&parse("s3://bucket/data").unwrap(), &Path::parse(name).unwrap());
            assert_eq!(store_path(&listed).unwrap().to_string(), name);
        }
    }

    #[test]
    fn file_and_http_are_urls_and_metadata_is_literal() {
        assert_eq!(path_of("file:///tmp/a%20b/é#1"), "tmp/a b/é#1");
        assert_eq!(path_of("file:/tmp/a b"), "tmp/a b");
        assert_eq!(path_of("https://host:8/x%20y/z.parquet"), "x y/z.parquet");
        let literal_url = literal("file:/tmp/p=a%20b").unwrap();
        assert_eq!(literal_url.as_str(), "file:///tmp/p=a%2520b");
        assert_eq!(store_path(&literal_url).unwrap().to_string(), "tmp/p=a%20b");
    }

    #[test]
    fn spellings_of_one_place_are_one_url() {
        assert_eq!(parse("s3a://b/p/").unwrap(), parse("s3://b/p").unwrap());
        assert_eq!(parse("/data/./x/../t/").unwrap(), parse("file:///data/t").unwrap());
        let relative = parse("some/table").unwrap();
        assert!(relative.as_str().starts_with("file:///") && relative.as_str().ends_with("/some/table"));
        assert_eq!(parse("abfss://c@acc.dfs.core.windows.net/p").unwrap().host_str(), Some("acc.dfs.core.windows.net"));
    }

    #[test]
    fn what_cannot_be_opened_is_named() {
        for (text, part) in [
            ("ftp://host/x", "`ftp`"),
            ("s3:///x", "no bucket"),
            ("https://h/x?sig=1", "query string"),
            ("s3://b/a//c", "a//c"),
            ("", "empty"),
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Option, "{text}");
            assert!(error.to_string().contains(part), "{error}");
        }
    }
}
