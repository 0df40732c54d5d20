//! Plain Parquet: a file, or all Parquet files below a folder. The listing is the snapshot.

use std::sync::Arc;

use async_trait::async_trait;
use lakeserve_common::{Error, ErrorKind, Result};
use lakeserve_storage::Storage;
use roaring::RoaringTreemap;
use url::Url;

use crate::snapshot::{DataFile, TableSnapshot};
use crate::table::{FormatReader, SnapshotChoice};

/// Reads one Parquet file or folder.
#[derive(Debug)]
pub(crate) struct ParquetReader;

impl ParquetReader {
    /// Takes the file or folder at `location` as a table; nothing is read yet.
    pub(crate) fn open(_storage: Arc<Storage>, location: &Url) -> Result<Self> {
        Err(Error::new(ErrorKind::Unsupported, format!("{location}: Parquet folders are not supported yet")))
    }
}

#[async_trait]
impl FormatReader for ParquetReader {
    async fn snapshot(&self, _choice: &SnapshotChoice) -> Result<Arc<TableSnapshot>> {
        Err(Error::new(ErrorKind::Unsupported, "Parquet folders are not supported yet"))
    }

    async fn refresh(&self, _current: &Arc<TableSnapshot>) -> Result<Arc<TableSnapshot>> {
        Err(Error::new(ErrorKind::Unsupported, "Parquet folders are not supported yet"))
    }

    async fn deleted_rows(&self, _file: &DataFile) -> Result<RoaringTreemap> {
        Err(Error::new(ErrorKind::Unsupported, "Parquet folders are not supported yet"))
    }
}
