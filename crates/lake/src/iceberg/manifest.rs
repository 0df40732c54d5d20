//! Manifest lists and manifests: from Avro records to the files of a snapshot.
//!
//! Bounds stay as the bytes that they are until a schema says how to read them. Whatever is not
//! understood is an error that names the file: a manifest never yields fewer files than it lists.

use lakeserve_common::ErrorKind;

use super::avro::{AvroError, Container, Layout, Value};

/// The field ids of a position-delete file's columns, whose bounds stand in its manifest entry.
pub(super) const DELETE_FILE_PATH: i32 = 2_147_483_546;
pub(super) const DELETE_POSITION: i32 = 2_147_483_545;

/// What is wrong with a manifest.
#[derive(Debug, thiserror::Error)]
pub(super) enum ManifestError {
    /// The container or a record is damaged.
    #[error(transparent)]
    Avro(#[from] AvroError),
    /// A required field is absent or has another type.
    #[error("it is damaged: {0} is missing or of a wrong type")]
    Field(&'static str),
    /// A field has a value that it cannot have.
    #[error("it is damaged: {0} has the value {1}")]
    Value(&'static str, i64),
    /// It or a file of it is encrypted.
    #[error("it is encrypted, which is not supported")]
    Encrypted,
}

impl ManifestError {
    /// Whom the error concerns.
    pub(super) fn kind(&self) -> ErrorKind {
        match self {
            Self::Encrypted | Self::Avro(AvroError::UnknownCodec(_)) => ErrorKind::Feature,
            _ => ErrorKind::Corrupt,
        }
    }
}

/// One manifest as a manifest list names it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ManifestFile {
    pub(super) path: String,
    /// Size in bytes; `None` for the manifests of a version-1 snapshot without a manifest list.
    pub(super) length: Option<u64>,
    /// Spec id of its files.
    pub(super) spec_id: i32,
    /// Sequence number of the snapshot that added it.
    pub(super) sequence: i64,
}

/// What a content file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    Data,
    PositionDeletes,
    EqualityDeletes,
}

/// One live entry of a manifest.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub(super) content: Content,
    pub(super) path: String,
    /// Lower case.
    pub(super) format: String,
    pub(super) spec_id: i32,
    pub(super) partition: Partition,
    pub(super) records: u64,
    pub(super) size: u64,
    /// Data sequence number.
    pub(super) sequence: i64,
    pub(super) null_counts: Vec<(i32, i64)>,
    pub(super) lower_bounds: Vec<(i32, Box<[u8]>)>,
    pub(super) upper_bounds: Vec<(i32, Box<[u8]>)>,
    pub(super) referenced_data_file: Option<String>,
    /// Offset and length of a deletion vector in its Puffin file.
    pub(super) blob: Option<(u64, u64)>,
}

/// A partition tuple: (field id, value) in the order of the spec. Values are kept in a form in
/// which equal partitions are equal bytes, and as they are.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Partition(pub(super) Vec<(i32, PartitionValue)>);

/// A partition value apart from the file that it was read from.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum PartitionValue {
    Null,
    Boolean(bool),
    Int(i32),
    Long(i64),
    Float(f32),
    Double(f64),
    Bytes(Vec<u8>),
    Text(String),
}

impl PartitionValue {
    fn of(value: &Value<'_>) -> Option<Self> {
        Some(match value {
            Value::Null => Self::Null,
            Value::Boolean(value) => Self::Boolean(*value),
            Value::Int(value) => Self::Int(*value),
            Value::Long(value) => Self::Long(*value),
            Value::Float(value) => Self::Float(*value),
            Value::Double(value) => Self::Double(*value),
            Value::Bytes(bytes) => Self::Bytes(bytes.to_vec()),
            Value::Text(text) => Self::Text((*text).to_owned()),
            _ => return None,
        })
    }

    /// The value as it was read.
    pub(super) fn as_avro(&self) -> Value<'_> {
        match self {
            Self::Null => Value::Null,
            Self::Boolean(value) => Value::Boolean(*value),
            Self::Int(value) => Value::Int(*value),
            Self::Long(value) => Value::Long(*value),
            Self::Float(value) => Value::Float(*value),
            Self::Double(value) => Value::Double(*value),
            Self::Bytes(bytes) => Value::Bytes(bytes),
            Self::Text(text) => Value::Text(text),
        }
    }
}

impl Partition {
    /// A key under which equal partitions of one spec meet, however wide their writers chose the
    /// numbers.
    pub(super) fn key(&self) -> Vec<u8> {
        let mut key = Vec::new();
        for (field, value) in &self.0 {
            key.extend(field.to_le_bytes());
            let (tag, bytes) = match value {
                PartitionValue::Null => (0, Vec::new()),
                PartitionValue::Boolean(value) => (1, vec![u8::from(*value)]),
                PartitionValue::Int(value) => (2, i64::from(*value).to_le_bytes().to_vec()),
                PartitionValue::Long(value) => (2, value.to_le_bytes().to_vec()),
                PartitionValue::Float(value) => (3, f64::from(*value).to_bits().to_le_bytes().to_vec()),
                PartitionValue::Double(value) => (3, value.to_bits().to_le_bytes().to_vec()),
                PartitionValue::Bytes(bytes) => (4, bytes.clone()),
                PartitionValue::Text(text) => (5, text.as_bytes().to_vec()),
            };
            key.push(tag);
            key.extend(u64::try_from(bytes.len()).unwrap_or(u64::MAX).to_le_bytes());
            key.extend(bytes);
        }
        key
    }
}

fn integer(value: &Value<'_>, name: &'static str) -> Result<i64, ManifestError> {
    value.integer().ok_or(ManifestError::Field(name))
}

fn unsigned(value: &Value<'_>, name: &'static str) -> Result<u64, ManifestError> {
    let value = integer(value, name)?;
    u64::try_from(value).map_err(|_| ManifestError::Value(name, value))
}

fn narrow(value: &Value<'_>, name: &'static str) -> Result<i32, ManifestError> {
    let value = integer(value, name)?;
    i32::try_from(value).map_err(|_| ManifestError::Value(name, value))
}

fn text(value: &Value<'_>, name: &'static str) -> Result<String, ManifestError> {
    value.text().map(str::to_owned).ok_or(ManifestError::Field(name))
}

fn refuse_key(value: &Value<'_>) -> Result<(), ManifestError> {
    match value.bytes() {
        Some(key) if !key.is_empty() => Err(ManifestError::Encrypted),
        _ => Ok(()),
    }
}

/// The manifests that a manifest list names, in its order.
pub(super) fn parse_list(bytes: &[u8]) -> Result<Vec<ManifestFile>, ManifestError> {
    let file = Container::open(bytes)?;
    let layout = file.layout()?;
    let path = layout.position(500, &["manifest_path"]);
    let length = layout.position(501, &["manifest_length"]);
    let spec_id = layout.position(502, &["partition_spec_id"]);
    let sequence = layout.position(515, &["sequence_number"]);
    let key_metadata = layout.position(519, &["key_metadata"]);
    let mut manifests = Vec::new();
    file.for_each(|record| {
        refuse_key(record.field(key_metadata))?;
        manifests.push(ManifestFile {
            path: text(record.field(path), "manifest_path")?,
            length: Some(unsigned(record.field(length), "manifest_length")?),
            spec_id: narrow(record.field(spec_id), "partition_spec_id")?,
            // Version 1 has no sequence numbers: all its files have number 0.
            sequence: match record.field(sequence) {
                Value::Null => 0,
                number => integer(number, "sequence_number")?,
            },
        });
        Ok::<_, ManifestError>(())
    })?;
    Ok(manifests)
}

/// Where the fields of an entry stand.
struct EntryLayout {
    status: Option<usize>,
    sequence: Option<usize>,
    data_file: Option<usize>,
    content: Option<usize>,
    path: Option<usize>,
    format: Option<usize>,
    partition: Option<usize>,
    partition_ids: Vec<i32>,
    records: Option<usize>,
    size: Option<usize>,
    null_counts: Option<usize>,
    lower_bounds: Option<usize>,
    upper_bounds: Option<usize>,
    key_metadata: Option<usize>,
    referenced: Option<usize>,
    blob_offset: Option<usize>,
    blob_length: Option<usize>,
}

impl EntryLayout {
    fn new(layout: Layout<'_>) -> Result<Self, ManifestError> {
        let data_file = layout.position(2, &["data_file"]);
        let file = layout.nested(data_file).ok_or(ManifestError::Field("data_file"))?;
        let partition = file.position(102, &["partition"]);
        Ok(Self {
            status: layout.position(0, &["status"]),
            sequence: layout.position(3, &["sequence_number"]),
            data_file,
            content: file.position(134, &["content"]),
            path: file.position(100, &["file_path"]),
            format: file.position(101, &["file_format"]),
            partition,
            partition_ids: file.nested(partition).map(|tuple| tuple.ids()).unwrap_or_default(),
            records: file.position(103, &["record_count"]),
            size: file.position(104, &["file_size_in_bytes"]),
            null_counts: file.position(110, &["null_value_counts"]),
            lower_bounds: file.position(125, &["lower_bounds"]),
            upper_bounds: file.position(128, &["upper_bounds"]),
            key_metadata: file.position(131, &["key_metadata"]),
            referenced: file.position(143, &["referenced_data_file"]),
            blob_offset: file.position(144, &["content_offset"]),
            blob_length: file.position(145, &["content_size_in_bytes"]),
        })
    }

    fn entry(&self, record: &Value<'_>, manifest: &ManifestFile, spec_id: i32) -> Result<Option<Entry>, ManifestError> {
        let status = integer(record.field(self.status), "status")?;
        let added = match status {
            0 => false,
            1 => true,
            2 => return Ok(None),
            other => return Err(ManifestError::Value("status", other)),
        };
        let file = record.field(self.data_file);
        let sequence = match record.field(self.sequence) {
            // New files take the number of the snapshot that added their manifest; files of
            // version 1 have number 0.
            Value::Null if added || manifest.sequence == 0 => manifest.sequence,
            number => integer(number, "sequence_number")?,
        };
        let content = match file.field(self.content) {
            Value::Null => Content::Data,
            number => match integer(number, "content")? {
                0 => Content::Data,
                1 => Content::PositionDeletes,
                2 => Content::EqualityDeletes,
                other => return Err(ManifestError::Value("content", other)),
            },
        };
        refuse_key(file.field(self.key_metadata))?;
        Ok(Some(Entry {
            content,
            path: text(file.field(self.path), "file_path")?,
            format: text(file.field(self.format), "file_format")?.to_ascii_lowercase(),
            spec_id,
            partition: self.partition(file.field(self.partition))?,
            records: unsigned(file.field(self.records), "record_count")?,
            size: unsigned(file.field(self.size), "file_size_in_bytes")?,
            sequence,
            null_counts: pairs(file.field(self.null_counts), |value| value.integer()),
            lower_bounds: pairs(file.field(self.lower_bounds), |value| value.bytes().map(Into::into)),
            upper_bounds: pairs(file.field(self.upper_bounds), |value| value.bytes().map(Into::into)),
            referenced_data_file: file.field(self.referenced).text().map(str::to_owned),
            blob: match (file.field(self.blob_offset), file.field(self.blob_length)) {
                (Value::Null, Value::Null) => None,
                (offset, length) => {
                    Some((unsigned(offset, "content_offset")?, unsigned(length, "content_size_in_bytes")?))
                }
            },
        }))
    }

    fn partition(&self, tuple: &Value<'_>) -> Result<Partition, ManifestError> {
        let fields = self.partition_ids.iter().enumerate().map(|(position, id)| {
            let value = PartitionValue::of(tuple.field(Some(position)));
            Ok((*id, value.ok_or(ManifestError::Field("partition"))?))
        });
        fields.collect::<Result<_, _>>().map(Partition)
    }
}

/// The entries of a map from column ids, which Avro holds as a list of key-value records. An entry
/// that is not understood is left out: it is a statistic that is not known. Sorted by id.
fn pairs<'v, T>(map: &'v Value<'_>, read: impl Fn(&'v Value<'_>) -> Option<T>) -> Vec<(i32, T)> {
    let pair = |item: &'v Value<'_>| {
        let id = i32::try_from(item.field(Some(0)).integer()?).ok()?;
        Some((id, read(item.field(Some(1)))?))
    };
    let mut pairs: Vec<_> = map.items().iter().filter_map(pair).collect();
    pairs.sort_by_key(|(id, _)| *id);
    pairs
}

/// The live entries of a manifest, in its order, and the bytes that they took.
pub(super) fn parse_manifest(bytes: &[u8], manifest: &ManifestFile) -> Result<(Vec<Entry>, usize), ManifestError> {
    let file = Container::open(bytes)?;
    let layout = EntryLayout::new(file.layout()?)?;
    // The list's spec id holds; a version-1 snapshot without a list has it in the manifest.
    let spec_id = match (manifest.length, file.header("partition-spec-id")) {
        (None, Some(id)) => std::str::from_utf8(id).ok().and_then(|id| id.parse().ok()).unwrap_or(manifest.spec_id),
        _ => manifest.spec_id,
    };
    let mut entries = Vec::new();
    file.for_each(|record| {
        entries.extend(layout.entry(record, manifest, spec_id)?);
        Ok::<_, ManifestError>(())
    })?;
    Ok((entries, file.decompressed_size()))
}

#[cfg(test)]
mod tests;
