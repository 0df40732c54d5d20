//! Table metadata: the JSON file at the root of an Iceberg table, versions 1 to 3.
//!
//! Only what reading needs is taken, each part when it is needed, so that a schema or a snapshot
//! that a query does not touch cannot make the table unreadable. What a reader must not ignore
//! (an unknown format version, encryption) is refused by name.

use std::collections::BTreeMap;
use std::io::Read;

use lakeserve_common::{Error, ErrorKind, Result};
use serde::Deserialize;
use serde_json::Value as Json;

use super::schema::Schema;
use crate::table::{SnapshotChoice, utc};

/// The branch that `latest` reads.
const MAIN: &str = "main";
/// The snapshot id by which old writers say 'none'.
const NO_SNAPSHOT: i64 = -1;
/// No metadata file is larger; one that unpacks to more is damaged.
const MAX_METADATA: u64 = 1 << 30;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Raw {
    table_uuid: Option<String>,
    #[serde(default)]
    location: String,
    last_updated_ms: Option<i64>,
    schema: Option<Json>,
    schemas: Option<Vec<Json>>,
    current_schema_id: Option<i32>,
    partition_spec: Option<Vec<PartitionField>>,
    partition_specs: Option<Vec<PartitionSpec>>,
    properties: Option<BTreeMap<String, Json>>,
    current_snapshot_id: Option<i64>,
    snapshots: Option<Vec<Snapshot>>,
    snapshot_log: Option<Vec<LogEntry>>,
    refs: Option<BTreeMap<String, Reference>>,
    encryption_keys: Option<Vec<Json>>,
}

/// How files written under one spec are partitioned.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct PartitionSpec {
    pub(super) spec_id: i32,
    pub(super) fields: Vec<PartitionField>,
}

/// One partition field.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct PartitionField {
    /// The column; absent for transforms of several columns (version 3).
    pub(super) source_id: Option<i32>,
    /// Absent in the oldest version-1 tables, which number the fields from 1000.
    pub(super) field_id: Option<i32>,
    pub(super) name: String,
    pub(super) transform: String,
}

impl PartitionSpec {
    /// Whether all files of the spec are in one partition.
    pub(super) fn is_unpartitioned(&self) -> bool {
        self.fields.iter().all(|field| field.transform == "void")
    }
}

/// One snapshot.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Snapshot {
    pub(super) snapshot_id: i64,
    pub(super) timestamp_ms: i64,
    /// The manifest list; version 1 may list the manifests themselves instead.
    pub(super) manifest_list: Option<String>,
    pub(super) manifests: Option<Vec<String>>,
    schema_id: Option<i32>,
    key_id: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct LogEntry {
    timestamp_ms: i64,
    snapshot_id: i64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Reference {
    snapshot_id: i64,
    r#type: String,
}

/// Parsed table metadata.
#[derive(Debug)]
pub(super) struct TableMetadata {
    raw: Raw,
    /// A name for error messages: where the metadata file stands.
    at: String,
}

/// The state that was chosen.
#[derive(Debug)]
pub(super) struct Chosen<'m> {
    /// `None` for a table into which nothing was written yet.
    pub(super) snapshot: Option<&'m Snapshot>,
    pub(super) schema: Schema,
}

impl TableMetadata {
    /// Parses the content of a metadata file, gzipped or not; `at` names the file in errors.
    ///
    /// # Errors
    /// `Corrupt` when it is not table metadata, `Feature` when it needs more than is known here.
    pub(super) fn parse(content: &[u8], at: &str) -> Result<Self> {
        let corrupt = |what: String| Error::new(ErrorKind::Corrupt, format!("iceberg metadata file {at} {what}"));
        let unpacked;
        let text = if content.starts_with(&[0x1f, 0x8b]) {
            unpacked = gunzip(content).map_err(|error| corrupt(format!("cannot be unpacked: {error}")))?;
            &unpacked
        } else {
            content
        };
        let json: Json =
            serde_json::from_slice(text).map_err(|error| corrupt(format!("is not valid JSON: {error}")))?;
        match json.get("format-version").and_then(Json::as_i64) {
            Some(1..=3) => {}
            Some(version) => {
                let message = format!("{at} has Iceberg format version {version}; versions 1 to 3 are supported");
                return Err(Error::new(ErrorKind::Feature, message));
            }
            None => return Err(corrupt("has no 'format-version'".into())),
        }
        let raw = Raw::deserialize(json).map_err(|error| corrupt(format!("is not table metadata: {error}")))?;
        if raw.encryption_keys.as_ref().is_some_and(|keys| !keys.is_empty()) {
            return Err(Error::new(ErrorKind::Feature, format!("{at}: encrypted Iceberg tables are not supported")));
        }
        Ok(Self { raw, at: at.to_owned() })
    }

    /// What tells this table from another one made at the same place.
    pub(super) fn identity(&self) -> &str {
        // Version 1 may lack the UUID.
        self.raw.table_uuid.as_deref().unwrap_or(&self.raw.location)
    }

    /// The table's location as its writers spell it.
    pub(super) fn location(&self) -> &str {
        &self.raw.location
    }

    /// When the metadata was written, milliseconds since the Unix epoch.
    pub(super) fn last_updated_ms(&self) -> Option<i64> {
        self.raw.last_updated_ms
    }

    /// A table property that is a text.
    pub(super) fn property(&self, name: &str) -> Option<&str> {
        self.raw.properties.as_ref()?.get(name)?.as_str()
    }

    /// The partition spec of that id.
    pub(super) fn partition_spec(&self, id: i32) -> Result<PartitionSpec> {
        let mut found = match (&self.raw.partition_specs, &self.raw.partition_spec) {
            (Some(specs), _) => specs.iter().find(|spec| spec.spec_id == id).cloned(),
            (None, Some(fields)) if id == 0 => Some(PartitionSpec { spec_id: 0, fields: fields.clone() }),
            (None, None) if id == 0 => Some(PartitionSpec { spec_id: 0, fields: Vec::new() }),
            _ => None,
        }
        .ok_or_else(|| self.corrupt(format!("has no partition spec {id}, which a manifest names")))?;
        for (field, id) in found.fields.iter_mut().zip(1000..) {
            field.field_id.get_or_insert(id);
        }
        Ok(found)
    }

    /// The state that `choice` names, with the schema that belongs to it: the table's current one
    /// for the newest state and for branches, the snapshot's own for everything else.
    pub(super) fn choose(&self, choice: &SnapshotChoice) -> Result<Chosen<'_>> {
        let id = match choice {
            SnapshotChoice::Latest => return self.latest(),
            SnapshotChoice::Reference(name) => match self.raw.refs.as_ref().and_then(|refs| refs.get(name)) {
                Some(reference) if reference.r#type == "branch" => {
                    let snapshot = Some(self.named_snapshot(reference.snapshot_id)?);
                    return self.chosen(Chosen { snapshot, schema: self.current_schema()? });
                }
                Some(reference) => reference.snapshot_id,
                None if name == MAIN => return self.latest(),
                None => return Err(self.no_such(&format!("no branch or tag '{name}'"), self.reference_names())),
            },
            SnapshotChoice::Version(id) => *id,
            SnapshotChoice::Timestamp(ms) => self.snapshot_at(*ms)?,
        };
        let Some(snapshot) = self.snapshot(id) else {
            return Err(self.no_such(&format!("no snapshot {id}"), self.snapshot_ids()));
        };
        let schema = match snapshot.schema_id {
            Some(id) => self.schema(id)?,
            None => self.current_schema()?,
        };
        self.chosen(Chosen { snapshot: Some(snapshot), schema })
    }

    fn latest(&self) -> Result<Chosen<'_>> {
        let main = self.raw.refs.as_ref().and_then(|refs| refs.get(MAIN)).map(|main| main.snapshot_id);
        let id = self.raw.current_snapshot_id.or(main).filter(|id| *id != NO_SNAPSHOT);
        let snapshot = id.map(|id| self.named_snapshot(id)).transpose()?;
        self.chosen(Chosen { snapshot, schema: self.current_schema()? })
    }

    fn chosen<'m>(&self, chosen: Chosen<'m>) -> Result<Chosen<'m>> {
        if chosen.snapshot.is_some_and(|snapshot| snapshot.key_id.is_some()) {
            let message = format!("{}: encrypted Iceberg tables are not supported", self.at);
            return Err(Error::new(ErrorKind::Feature, message));
        }
        Ok(chosen)
    }

    fn snapshots(&self) -> &[Snapshot] {
        self.raw.snapshots.as_deref().unwrap_or_default()
    }

    fn snapshot(&self, id: i64) -> Option<&Snapshot> {
        self.snapshots().iter().find(|snapshot| snapshot.snapshot_id == id)
    }

    /// A snapshot that the metadata itself names.
    fn named_snapshot(&self, id: i64) -> Result<&Snapshot> {
        self.snapshot(id).ok_or_else(|| self.corrupt(format!("names snapshot {id}, which it does not hold")))
    }

    /// The id of the snapshot that was current at `ms`.
    fn snapshot_at(&self, ms: i64) -> Result<i64> {
        let log = self.raw.snapshot_log.as_deref().unwrap_or_default();
        let current = log.iter().rev().find(|entry| entry.timestamp_ms <= ms).map(|entry| entry.snapshot_id);
        if let Some(id) = current {
            return Ok(id);
        }
        let oldest = match log.first() {
            Some(first) => Some(first.timestamp_ms),
            // The log is optional: without one the commit times of the snapshots have to do.
            None => {
                let before = self.snapshots().iter().filter(|snapshot| snapshot.timestamp_ms <= ms);
                if let Some(newest) = before.max_by_key(|snapshot| snapshot.timestamp_ms) {
                    return Ok(newest.snapshot_id);
                }
                self.snapshots().iter().map(|snapshot| snapshot.timestamp_ms).min()
            }
        };
        let there_are = match oldest {
            Some(oldest) => format!("the oldest state known is of {}", utc(oldest)),
            None => "nothing was written to the table yet".to_owned(),
        };
        Err(self.no_such(&format!("no snapshot at or before {}", utc(ms)), there_are))
    }

    fn current_schema(&self) -> Result<Schema> {
        match (self.raw.current_schema_id, &self.raw.schemas) {
            (Some(id), Some(_)) => self.schema(id),
            _ => {
                let only = self.raw.schema.as_ref().ok_or_else(|| self.corrupt("has no current schema".into()))?;
                Schema::parse(only, &self.at)
            }
        }
    }

    fn schema(&self, id: i32) -> Result<Schema> {
        let schemas = self.raw.schemas.iter().flatten().chain(&self.raw.schema);
        let schema_id = |schema: &Json| schema.get("schema-id").and_then(Json::as_i64).unwrap_or(0);
        match schemas.into_iter().find(|schema| schema_id(schema) == i64::from(id)) {
            Some(schema) => Schema::parse(schema, &self.at),
            None => Err(self.corrupt(format!("names schema {id}, which it does not hold"))),
        }
    }

    fn corrupt(&self, what: String) -> Error {
        Error::new(ErrorKind::Corrupt, format!("iceberg metadata file {} {what}", self.at))
    }

    fn no_such(&self, what: &str, there_are: String) -> Error {
        Error::new(ErrorKind::NoSuchTable, format!("{}: {what}", self.at)).with_hint(there_are)
    }

    fn reference_names(&self) -> String {
        let names: Vec<_> = self.raw.refs.iter().flatten().map(|(name, _)| name.as_str()).collect();
        if names.is_empty() { "the table has none".to_owned() } else { format!("there are {}", names.join(", ")) }
    }

    fn snapshot_ids(&self) -> String {
        let newest = self.snapshots().iter().rev().take(10).map(|snapshot| snapshot.snapshot_id.to_string());
        let newest: Vec<_> = newest.collect();
        if newest.is_empty() {
            "the table has none".to_owned()
        } else {
            format!("the newest are {}", newest.join(", "))
        }
    }
}

/// Unpacks a gzip file, bounded.
fn gunzip(content: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut unpacked = Vec::new();
    let mut reader = flate2::read::MultiGzDecoder::new(content).take(MAX_METADATA + 1);
    if reader.read_to_end(&mut unpacked)? as u64 > MAX_METADATA {
        return Err(std::io::Error::other(format!("it is larger than {MAX_METADATA} bytes")));
    }
    Ok(unpacked)
}

#[cfg(test)]
mod tests;
