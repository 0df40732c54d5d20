//! The container: header, compressed blocks, sync markers.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::Read;

use super::AvroError;
use super::schema::{Layout, Schema};
use super::value::{Cursor, Value, decode};

const MAGIC: &[u8] = b"Obj\x01";
/// No manifest block is larger; a block that claims more is damaged.
const MAX_BLOCK: u64 = 256 << 20;

/// A whole Avro file whose blocks have been checked and decompressed.
#[derive(Debug)]
pub(in crate::iceberg) struct Container<'a> {
    header: HashMap<&'a str, &'a [u8]>,
    schema: Schema,
    blocks: Vec<(usize, Cow<'a, [u8]>)>,
}

impl<'a> Container<'a> {
    /// Reads the header and all blocks of `bytes`.
    pub(in crate::iceberg) fn open(bytes: &'a [u8]) -> Result<Self, AvroError> {
        let mut cursor = Cursor::new(bytes);
        if cursor.take(MAGIC.len()).map_err(|_| AvroError::Magic)? != MAGIC {
            return Err(AvroError::Magic);
        }
        let mut header = HashMap::new();
        loop {
            let count = cursor.block_count()?;
            if count == 0 {
                break;
            }
            for _ in 0..count {
                let key = cursor.text()?;
                header.insert(key, cursor.bytes()?);
            }
        }
        let sync = cursor.take(16)?;
        let text = header.get("avro.schema").ok_or_else(|| AvroError::Schema("the header has none".into()))?;
        let schema = Schema::parse(text)?;
        let codec = Codec::named(header.get("avro.codec").copied().unwrap_or(b"null"))?;
        let mut blocks = Vec::new();
        while !cursor.is_empty() {
            let count =
                usize::try_from(cursor.long()?).map_err(|_| AvroError::Malformed("a block's count is negative"))?;
            let block = codec.decompress(cursor.bytes()?)?;
            if cursor.take(sync.len())? != sync {
                return Err(AvroError::Malformed("a block does not end with the file's sync marker"));
            }
            if count > block.len() {
                return Err(AvroError::Malformed("a block claims more records than it has bytes"));
            }
            blocks.push((count, block));
        }
        Ok(Self { header, schema, blocks })
    }

    /// A value of the header.
    pub(in crate::iceberg) fn header(&self, key: &str) -> Option<&'a [u8]> {
        self.header.get(key).copied()
    }

    /// The record type's layout.
    pub(in crate::iceberg) fn layout(&self) -> Result<Layout<'_>, AvroError> {
        Layout::of(&self.schema).ok_or_else(|| AvroError::Schema("it is not a record".into()))
    }

    /// Bytes of all blocks after decompression.
    pub(in crate::iceberg) fn decompressed_size(&self) -> usize {
        self.blocks.iter().map(|(_, block)| block.len()).sum()
    }

    /// Gives every record, in file order, to `each`.
    pub(in crate::iceberg) fn for_each<E: From<AvroError>>(
        &self,
        mut each: impl FnMut(&Value<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        for (count, block) in &self.blocks {
            let mut cursor = Cursor::new(block);
            for _ in 0..*count {
                each(&decode(&self.schema, &mut cursor)?)?;
            }
            if !cursor.is_empty() {
                return Err(AvroError::Malformed("a block has bytes after its last record").into());
            }
        }
        Ok(())
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Codec {
    Null,
    Deflate,
    Snappy,
    Zstandard,
}

impl Codec {
    fn named(name: &[u8]) -> Result<Self, AvroError> {
        match name {
            b"null" => Ok(Self::Null),
            b"deflate" => Ok(Self::Deflate),
            b"snappy" => Ok(Self::Snappy),
            b"zstandard" => Ok(Self::Zstandard),
            other => Err(AvroError::UnknownCodec(String::from_utf8_lossy(other).into_owned())),
        }
    }

    fn decompress(self, block: &[u8]) -> Result<Cow<'_, [u8]>, AvroError> {
        match self {
            Self::Null => Ok(Cow::Borrowed(block)),
            Self::Deflate => read_bounded("deflate", flate2::read::DeflateDecoder::new(block)).map(Cow::Owned),
            Self::Zstandard => {
                let decoder = zstd::stream::read::Decoder::with_buffer(block)
                    .map_err(|error| AvroError::Codec { codec: "zstandard", reason: error.to_string() })?;
                read_bounded("zstandard", decoder).map(Cow::Owned)
            }
            Self::Snappy => snappy(block).map(Cow::Owned),
        }
    }
}

fn read_bounded(codec: &'static str, decoder: impl Read) -> Result<Vec<u8>, AvroError> {
    let mut bytes = Vec::new();
    let failed = |reason: String| AvroError::Codec { codec, reason };
    let read = decoder.take(MAX_BLOCK + 1).read_to_end(&mut bytes).map_err(|error| failed(error.to_string()))?;
    if read as u64 > MAX_BLOCK {
        return Err(failed(format!("it is larger than {MAX_BLOCK} bytes")));
    }
    Ok(bytes)
}

/// Avro's snappy: a raw block, then the CRC-32 of the decompressed bytes, big endian.
fn snappy(block: &[u8]) -> Result<Vec<u8>, AvroError> {
    let failed = |reason: String| AvroError::Codec { codec: "snappy", reason };
    let (block, checksum) = block.split_last_chunk::<4>().ok_or(AvroError::Truncated(4))?;
    let length = snap::raw::decompress_len(block).map_err(|error| failed(error.to_string()))?;
    if length as u64 > MAX_BLOCK {
        return Err(failed(format!("it claims {length} bytes")));
    }
    let bytes = snap::raw::Decoder::new().decompress_vec(block).map_err(|error| failed(error.to_string()))?;
    if crc32fast::hash(&bytes) != u32::from_be_bytes(*checksum) {
        return Err(failed("its checksum does not match".into()));
    }
    Ok(bytes)
}
