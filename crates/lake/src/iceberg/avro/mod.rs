//! Avro object container files, as far as Iceberg's manifests need them (Avro 1.11 specification).
//!
//! Fields are addressed by their Iceberg field id, as the table specification asks, and values
//! borrow from the file's bytes. Every length is checked against the bytes that are there before
//! anything is allocated, so that a damaged file is an error and never a panic or an exhausted
//! memory. A file that was cut exactly between two blocks cannot be told from a whole one here:
//! the caller compares its size with the one that the table records.

mod container;
mod schema;
#[cfg(test)]
pub(super) mod testing;
#[cfg(test)]
mod tests;
mod value;

pub(super) use container::Container;
pub(super) use schema::Layout;
pub(super) use value::Value;

/// What is wrong with an Avro file.
#[derive(Debug, thiserror::Error)]
pub(super) enum AvroError {
    /// The first bytes are not Avro's.
    #[error("it is not an Avro file (its first bytes are wrong)")]
    Magic,
    /// Bytes are missing.
    #[error("it is cut off: {0} bytes more are needed than there are")]
    Truncated(usize),
    /// Bytes that no Avro writer produces.
    #[error("it is damaged: {0}")]
    Malformed(&'static str),
    /// The schema in the header cannot be used.
    #[error("its Avro schema is not usable: {0}")]
    Schema(String),
    /// A block could not be decompressed.
    #[error("a block cannot be decompressed ({codec}): {reason}")]
    Codec {
        /// The codec's name.
        codec: &'static str,
        /// The decompressor's words.
        reason: String,
    },
    /// The codec is none of those that Iceberg writers use.
    #[error("it is compressed with '{0}', which is not supported")]
    UnknownCodec(String),
}
