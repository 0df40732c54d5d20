//! Which delete files apply to which data file ("Scan Planning" in the Iceberg specification).
//!
//! - A deletion vector applies to the one data file that it references; where there is one,
//!   position deletes are left aside, because the vector contains them.
//! - A position-delete file applies to data files of its own partition (same spec, same values), or
//!   to the single data file that it names, when its sequence number is not lower.
//! - An equality-delete file applies to older data files of its partition, or of all partitions
//!   when its spec has none. These are not supported yet: a table in which one applies is refused.

use std::collections::HashMap;
use std::sync::Arc;

use lakeserve_common::{ErrorKind, Result};
use url::Url;

use super::files::TableFiles;
use super::manifest::{Content, DELETE_FILE_PATH, Entry};
use crate::deletes::{DeleteSet, PositionDeletes, PuffinVector};

/// A partition: spec id and values.
type PartitionKey = (i32, Vec<u8>);

/// The live delete files of a snapshot, by what they may apply to.
#[derive(Debug)]
pub(super) struct DeleteIndex<'e> {
    files: &'e TableFiles,
    vectors: HashMap<Url, &'e Entry>,
    by_path: HashMap<Url, Vec<&'e Entry>>,
    by_partition: HashMap<PartitionKey, Vec<&'e Entry>>,
    equality: HashMap<PartitionKey, Vec<&'e Entry>>,
    equality_everywhere: Vec<&'e Entry>,
}

impl<'e> DeleteIndex<'e> {
    /// Sorts `deletes` by what they may apply to; `is_unpartitioned` tells it of a spec id.
    pub(super) fn new(
        files: &'e TableFiles,
        deletes: impl Iterator<Item = &'e Entry>,
        is_unpartitioned: impl Fn(i32) -> bool,
    ) -> Result<Self> {
        let mut index = Self {
            files,
            vectors: HashMap::new(),
            by_path: HashMap::new(),
            by_partition: HashMap::new(),
            equality: HashMap::new(),
            equality_everywhere: Vec::new(),
        };
        for delete in deletes {
            match delete.content {
                Content::Data => {}
                Content::PositionDeletes if delete.format == "puffin" => index.add_vector(delete)?,
                Content::PositionDeletes => match single_target(delete) {
                    Some(path) => index.by_path.entry(files.resolve(&path)?).or_default().push(delete),
                    None => index.by_partition.entry(partition(delete)).or_default().push(delete),
                },
                Content::EqualityDeletes if is_unpartitioned(delete.spec_id) => index.equality_everywhere.push(delete),
                Content::EqualityDeletes => index.equality.entry(partition(delete)).or_default().push(delete),
            }
        }
        Ok(index)
    }

    fn add_vector(&mut self, delete: &'e Entry) -> Result<()> {
        let problem = match (&delete.referenced_data_file, delete.blob) {
            (Some(path), Some(_)) => match self.vectors.insert(self.files.resolve(path)?, delete) {
                None => return Ok(()),
                Some(_) => format!("data file {path} has a second deletion vector"),
            },
            _ => "its manifest entry does not say which data file and which bytes it is for".to_owned(),
        };
        Err(self.files.broken(ErrorKind::Corrupt, "deletion vector", &delete.path, problem))
    }

    /// The deletes that apply to `data`, which lies at `url`.
    pub(super) fn of(&self, data: &Entry, url: &Url) -> Result<DeleteSet> {
        let key = partition(data);
        let equality = self.equality.get(&key).into_iter().flatten().chain(&self.equality_everywhere);
        if let Some(delete) = equality.into_iter().find(|delete| delete.sequence > data.sequence) {
            let problem = format!("uses equality deletes (delete file {}), which are not supported yet", delete.path);
            let message = format!("iceberg table {} {problem}", self.files.table);
            return Err(lakeserve_common::Error::new(ErrorKind::Feature, message)
                .with_hint("compact the table so that its deletes are applied"));
        }
        if let Some(vector) = self.vectors.get(url) {
            return self.vector(vector, data);
        }
        let named = self.by_path.get(url).into_iter().flatten();
        let in_partition = self.by_partition.get(&key).into_iter().flatten();
        let in_partition = in_partition.filter(|delete| may_name(delete, data, self.files.paths.spelled_root()));
        let mut applying = Vec::new();
        for delete in named.chain(in_partition).filter(|delete| delete.sequence >= data.sequence) {
            if delete.format != "parquet" {
                let problem = format!("position deletes in format {} are not supported yet", delete.format);
                return Err(self.files.broken(ErrorKind::Feature, "delete file", &delete.path, problem));
            }
            let url = self.files.resolve(&delete.path)?;
            applying.push(PositionDeletes { url, size: delete.size, sequence: delete.sequence });
        }
        applying.sort_by(|a, b| a.url.cmp(&b.url));
        applying.dedup();
        Ok(if applying.is_empty() { DeleteSet::None } else { DeleteSet::Positions(applying.into()) })
    }

    fn vector(&self, vector: &Entry, data: &Entry) -> Result<DeleteSet> {
        if vector.sequence < data.sequence {
            let problem = format!("it is older than the data file {} that it is for", data.path);
            return Err(self.files.broken(ErrorKind::Corrupt, "deletion vector", &vector.path, problem));
        }
        let url = self.files.resolve(&vector.path)?;
        let (offset, length) = vector.blob.unwrap_or_default();
        let vector = PuffinVector { url, offset, length, cardinality: vector.records, sequence: vector.sequence };
        Ok(DeleteSet::PuffinVector(Arc::new(vector)))
    }
}

fn partition(entry: &Entry) -> PartitionKey {
    (entry.spec_id, entry.partition.key())
}

fn bound(bounds: &[(i32, Box<[u8]>)]) -> Option<&str> {
    let position = bounds.binary_search_by_key(&DELETE_FILE_PATH, |(id, _)| *id).ok()?;
    std::str::from_utf8(&bounds.get(position)?.1).ok()
}

/// The one data file for which a position-delete file is, if it is for one alone.
fn single_target(delete: &Entry) -> Option<String> {
    if let Some(path) = &delete.referenced_data_file {
        return Some(path.clone());
    }
    // Bounds that were cut differ, because an upper bound is then raised.
    let (lower, upper) = (bound(&delete.lower_bounds)?, bound(&delete.upper_bounds)?);
    (lower == upper).then(|| lower.to_owned())
}

/// Whether a position-delete file can name `data`, by the bounds of its paths. Bounds count only
/// when all three paths are spelled in the same way, below the table's location.
fn may_name(delete: &Entry, data: &Entry, location: &str) -> bool {
    match (bound(&delete.lower_bounds), bound(&delete.upper_bounds)) {
        (Some(lower), Some(upper)) => {
            let comparable =
                !location.is_empty() && [lower, upper, &data.path].iter().all(|path| path.starts_with(location));
            !comparable || (lower <= data.path.as_str() && data.path.as_str() <= upper)
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests;
