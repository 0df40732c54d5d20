//! Which metadata file is a table's current one.
//!
//! A table opened at a `*.metadata.json[.gz]` file is pinned to it. In a table folder the file
//! `metadata/version-hint.text` names the version (Hadoop tables write a number, other writers the
//! file's name); commits that happened after the hint are found by asking for the next version.
//! Without a usable hint the folder is listed and the highest version taken.

use chrono::{DateTime, Utc};
use futures::future::try_join_all;
use lakeserve_common::{Error, ErrorKind, Result};
use lakeserve_storage::{StoreLocation, store_error};
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use url::Url;

/// The endings of metadata files, in the order in which Iceberg's own reader tries them.
const ENDINGS: [&str; 3] = [".metadata.json", ".gz.metadata.json", ".metadata.json.gz"];

/// Versions that may follow the hint before it counts as useless.
const MAX_STEPS: u64 = 100;

/// One metadata file as it stands in the store. Two are equal when nothing was written between:
/// the name alone would not tell a table from another one made later at the same place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MetadataFile {
    pub(super) path: Path,
    pub(super) size: u64,
    etag: Option<String>,
    modified: DateTime<Utc>,
}

impl From<ObjectMeta> for MetadataFile {
    fn from(object: ObjectMeta) -> Self {
        Self { path: object.location, size: object.size, etag: object.e_tag, modified: object.last_modified }
    }
}

/// Whether `name` is that of an Iceberg metadata file.
fn stem(name: &str) -> Option<&str> {
    // `v1.gz.metadata.json` also ends with `.metadata.json`: the longest ending first.
    [ENDINGS[1], ENDINGS[2], ENDINGS[0]].iter().find_map(|ending| name.strip_suffix(ending))
}

/// Whether `location` names a metadata file rather than a table folder.
pub(super) fn is_metadata_file(location: &Url) -> bool {
    location.path_segments().and_then(|mut parts| parts.next_back()).is_some_and(|name| stem(name).is_some())
}

/// The version in a metadata file's name: `v<N>` or `<N>-<uuid>` or `<N>`.
fn version(name: &str) -> Option<u64> {
    let stem = stem(name)?;
    let number = stem.strip_prefix('v').unwrap_or_else(|| stem.split_once('-').map_or(stem, |(number, _)| number));
    (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())).then(|| number.parse().ok())?
}

/// Finds the current metadata file of the table at `location`.
///
/// # Errors
/// `NoSuchTable` when there is none, `Storage` when the store fails.
pub(super) async fn find(location: &Url, at: &StoreLocation) -> Result<MetadataFile> {
    let store = at.store.as_ref();
    if is_metadata_file(location) {
        return match head(store, &at.path).await? {
            Some(file) => Ok(file),
            None => Err(Error::new(ErrorKind::NoSuchTable, format!("there is no metadata file {location}"))),
        };
    }
    let folder = at.path.clone().join("metadata");
    if let Some(file) = by_hint(store, &folder).await? {
        return Ok(file);
    }
    match by_listing(store, &folder).await? {
        Some(file) => Ok(file),
        None => Err(Error::new(
            ErrorKind::NoSuchTable,
            format!("{location} has no Iceberg metadata file in its folder 'metadata'"),
        )
        .with_hint("give the table's root folder or its *.metadata.json file")),
    }
}

async fn head(store: &dyn ObjectStore, path: &Path) -> Result<Option<MetadataFile>> {
    match store.head(path).await {
        Ok(object) => Ok(Some(object.into())),
        Err(object_store::Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(store_error(path.as_ref(), error)),
    }
}

/// The first of `names` that exists in `folder`.
async fn first_of(store: &dyn ObjectStore, folder: &Path, names: Vec<String>) -> Result<Option<MetadataFile>> {
    for name in names {
        if let Some(file) = head(store, &folder.clone().join(name)).await? {
            return Ok(Some(file));
        }
    }
    Ok(None)
}

/// The names that version `version` may have, by the start of a name (`v` or nothing).
fn numbered(start: &str, version: u64) -> impl Iterator<Item = String> {
    ENDINGS.into_iter().map(move |ending| format!("{start}{version}{ending}"))
}

/// The version after one that starts with `start`, whichever ending it has.
async fn next(store: &dyn ObjectStore, folder: &Path, start: &str, version: u64) -> Result<Option<MetadataFile>> {
    let paths: Vec<_> = numbered(start, version).map(|name| folder.clone().join(name)).collect();
    let found = try_join_all(paths.iter().map(|path| head(store, path))).await?;
    Ok(found.into_iter().flatten().next())
}

async fn by_hint(store: &dyn ObjectStore, folder: &Path) -> Result<Option<MetadataFile>> {
    let path = folder.clone().join("version-hint.text");
    let bytes = match store.get(&path).await {
        Ok(object) => object.bytes().await.map_err(|error| store_error(path.as_ref(), error))?,
        Err(object_store::Error::NotFound { .. }) => return Ok(None),
        Err(error) => return Err(store_error(path.as_ref(), error)),
    };
    let hint = String::from_utf8_lossy(&bytes);
    let hint = hint.trim();
    let usable =
        !hint.is_empty() && hint.len() < 256 && hint.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    if !usable {
        return Ok(None);
    }
    let Ok(number) = hint.parse::<u64>() else {
        let names = std::iter::once(hint.to_owned()).filter(|name| stem(name).is_some());
        let names = names.chain(ENDINGS.iter().map(|ending| format!("{hint}{ending}"))).collect();
        return first_of(store, folder, names).await;
    };
    let names = numbered("v", number).chain(numbered("", number)).collect();
    let Some(mut file) = first_of(store, folder, names).await? else {
        return Ok(None);
    };
    let start = if file.path.filename().is_some_and(|name| name.starts_with('v')) { "v" } else { "" };
    // The hint is written after the commit and may lag behind it.
    for step in 1..=MAX_STEPS {
        match next(store, folder, start, number.saturating_add(step)).await? {
            Some(newer) => file = newer,
            None => return Ok(Some(file)),
        }
    }
    // A hint that is so far behind is none.
    Ok(None)
}

async fn by_listing(store: &dyn ObjectStore, folder: &Path) -> Result<Option<MetadataFile>> {
    let listing = store.list_with_delimiter(Some(folder)).await.map_err(|error| store_error(folder.as_ref(), error))?;
    let candidates = listing.objects.into_iter().filter_map(|object| {
        let version = version(object.location.filename()?)?;
        Some((version, object))
    });
    // Two files of one version are left by a commit that lost: the later one won.
    let newest = candidates.max_by(|(a, left), (b, right)| {
        a.cmp(b).then(left.last_modified.cmp(&right.last_modified)).then(left.location.cmp(&right.location))
    });
    Ok(newest.map(|(_, object)| object.into()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use object_store::memory::InMemory;

    use super::*;

    async fn found(files: &[(&str, &str)]) -> Result<String> {
        let store = Arc::new(InMemory::new());
        for (name, content) in files {
            store.put(&Path::from(format!("t/metadata/{name}")), content.to_string().into()).await.unwrap();
        }
        let at = StoreLocation { store, path: Path::from("t") };
        let file = find(&Url::parse("memory:///t").unwrap(), &at).await?;
        Ok(file.path.filename().unwrap().to_owned())
    }

    #[tokio::test]
    async fn the_hint_leads_and_later_commits_are_found() {
        let v = |n: u32| (format!("v{n}.metadata.json"), "{}");
        let files = [v(1), v(2), v(3)];
        let mut all: Vec<(&str, &str)> = files.iter().map(|(name, content)| (name.as_str(), *content)).collect();
        all.push(("version-hint.text", "2\n"));
        assert_eq!(found(&all).await.unwrap(), "v3.metadata.json");
        assert_eq!(
            found(&[("v7.gz.metadata.json", ""), ("version-hint.text", "7")]).await.unwrap(),
            "v7.gz.metadata.json"
        );
        assert_eq!(
            found(&[("v7.metadata.json.gz", ""), ("version-hint.text", "7")]).await.unwrap(),
            "v7.metadata.json.gz"
        );
        assert_eq!(
            found(&[
                ("00001-abc.metadata.json", ""),
                ("00002-abc.metadata.json", ""),
                ("version-hint.text", "00001-abc")
            ])
            .await
            .unwrap(),
            "00001-abc.metadata.json"
        );
    }

    #[tokio::test]
    async fn without_a_usable_hint_the_highest_version_is_taken() {
        let files =
            [("00009-b.metadata.json", ""), ("00010-a.metadata.json", ""), ("snap-1.avro", ""), ("00011-a.json", "")];
        assert_eq!(found(&files).await.unwrap(), "00010-a.metadata.json");
        for hint in ["", "latest", "../../x", "99", "\u{0}\u{1}", "not a number at all"] {
            let files = [("v9.metadata.json", ""), ("v10.gz.metadata.json", ""), ("version-hint.text", hint)];
            assert_eq!(found(&files).await.unwrap(), "v10.gz.metadata.json", "hint {hint:?}");
        }
        assert_eq!(found(&[("snap-1.avro", "")]).await.unwrap_err().kind(), ErrorKind::NoSuchTable);
    }

    #[test]
    fn versions_are_read_from_names() {
        assert_eq!(version("v12.metadata.json"), Some(12));
        assert_eq!(version("v12.gz.metadata.json"), Some(12));
        assert_eq!(version("00012-0a1b.metadata.json"), Some(12));
        assert_eq!(version("00012-0a1b.metadata.json.gz"), Some(12));
        assert_eq!(version("12.metadata.json"), Some(12));
        assert_eq!(version("v4.1.metadata.json"), None);
        assert_eq!(version("v12.json"), None);
        assert_eq!(version("vx.metadata.json"), None);
    }
}
