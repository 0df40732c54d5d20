//! What we ask of `_delta_log/` ourselves: whether there is one, whether it changed, and which
//! file to name when it is damaged.

use futures::{StreamExt, TryStreamExt};
use lakeserve_common::{Error, Result};
use lakeserve_storage::{StoreLocation, store_error};
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use url::Url;

/// What tells one content of a version's commit file from another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CommitStamp {
    size: u64,
    modified_ms: i64,
    etag: Option<String>,
}

impl CommitStamp {
    /// Whether the file has no bytes, which no complete commit has.
    pub(crate) fn is_empty(&self) -> bool {
        self.size == 0
    }
}

impl From<&ObjectMeta> for CommitStamp {
    fn from(object: &ObjectMeta) -> Self {
        let modified_ms = object.last_modified.timestamp_millis();
        Self { size: object.size, modified_ms, etag: object.e_tag.clone() }
    }
}

/// What happened to a log since a version was read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Nothing.
    None,
    /// There are newer versions.
    Newer,
    /// The known version is no longer what it was: the table was recreated.
    Replaced,
}

fn log_folder(place: &StoreLocation) -> Path {
    place.path.clone().join("_delta_log")
}

/// The name of a version's commit file.
pub(crate) fn commit_name(version: u64) -> String {
    format!("{version:020}.json")
}

/// The version in the name of a commit file.
fn commit_version(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".json")?;
    (digits.len() == 20).then(|| digits.parse().ok()).flatten()
}

/// Whether `_delta_log/` holds any commit or checkpoint.
pub(crate) async fn has_versions(place: &StoreLocation, location: &Url) -> Result<bool> {
    let mut names = place.store.list(Some(&log_folder(place)));
    while let Some(object) = names.next().await {
        let object = object.map_err(|error| store_error(location.as_str(), error))?;
        let name = object.location.filename().unwrap_or_default();
        if any_version(name).is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The version of a commit or checkpoint file, by its name.
fn any_version(name: &str) -> Option<u64> {
    commit_version(name).or_else(|| name.split_once(".checkpoint.")?.0.parse().ok())
}

/// The newest version that the listing shows.
pub(crate) async fn newest_version(place: &StoreLocation, location: &Url) -> Result<Option<u64>> {
    let names = place.store.list(Some(&log_folder(place)));
    let versions = names.map_ok(|object| object.location.filename().and_then(any_version));
    let newest = versions.try_fold(None, |newest: Option<u64>, version| async move { Ok(newest.max(version)) });
    newest.await.map_err(|error| store_error(location.as_str(), error))
}

/// The stamp of `version`'s commit file; `None` when the log was cleaned up past it.
pub(crate) async fn stamp(place: &StoreLocation, location: &Url, version: u64) -> Result<Option<CommitStamp>> {
    match place.store.head(&log_folder(place).join(commit_name(version))).await {
        Ok(object) => Ok(Some(CommitStamp::from(&object))),
        Err(object_store::Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(store_error(location.as_str(), error)),
    }
}

/// Whether anything happened since `version`, whose commit file had `known` then. One listing,
/// from that version on.
pub(crate) async fn changes(
    place: &StoreLocation,
    location: &Url,
    version: u64,
    known: &CommitStamp,
) -> Result<Change> {
    let folder = log_folder(place);
    // Sorts before every file of that version.
    let offset = folder.clone().join(format!("{version:020}"));
    let mut objects = place.store.list_with_offset(Some(&folder), &offset);
    let (mut same, mut newer) = (false, false);
    while let Some(object) = objects.try_next().await.map_err(|error| store_error(location.as_str(), error))? {
        match object.location.filename().and_then(commit_version) {
            Some(found) if found == version => same = CommitStamp::from(&object) == *known,
            Some(found) if found > version => newer = true,
            _ => {}
        }
    }
    Ok(match (same, newer) {
        (false, _) => Change::Replaced,
        (true, true) => Change::Newer,
        (true, false) => Change::None,
    })
}

/// Adds to `error` which file of the log is to blame, as far as a listing can tell.
pub(crate) async fn explain(place: &StoreLocation, location: &Url, error: Error) -> Error {
    let listing: Result<Vec<ObjectMeta>, _> = place.store.list(Some(&log_folder(place))).try_collect().await;
    let Ok(listing) = listing else { return error };
    let names = listing.iter().filter_map(|object| object.location.filename());
    let checkpoint =
        names.clone().filter_map(|name| name.split_once(".checkpoint.")).filter_map(|(v, _)| v.parse().ok()).max();
    let mut versions: Vec<u64> = names.filter_map(commit_version).collect();
    versions.sort_unstable();
    let Some(last) = versions.last().copied() else { return error };
    let first = checkpoint.map_or(0, |version: u64| version + 1);
    let hint = match (first..=last).find(|version| versions.binary_search(version).is_err()) {
        Some(missing) if error.message().contains(&commit_name(missing)) => return error,
        Some(missing) => format!("{location} lacks _delta_log/{}", commit_name(missing)),
        None => format!("the newest file of the log is _delta_log/{}", commit_name(last)),
    };
    error.with_hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_commit_files_have_a_version() {
        assert_eq!(commit_version(&commit_name(7)), Some(7));
        for name in
            ["_last_checkpoint", "00000000000000000002.checkpoint.parquet", "00000000000000000002.crc", "2.json"]
        {
            assert_eq!(commit_version(name), None, "{name}");
        }
    }
}
