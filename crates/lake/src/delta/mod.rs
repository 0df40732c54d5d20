//! Delta tables: not readable in this build.

use std::sync::Arc;

use async_trait::async_trait;
use lakeserve_common::{Error, ErrorKind, Result};
use lakeserve_storage::Storage;
use roaring::RoaringTreemap;
use url::Url;

use crate::snapshot::{DataFile, TableSnapshot};
use crate::table::{FormatReader, SnapshotChoice};

/// Reads one Delta table.
#[derive(Debug)]
pub(crate) struct DeltaReader;

impl DeltaReader {
    /// Opens the table whose root folder or metadata file stands at `location`.
    pub(crate) async fn open(_storage: Arc<Storage>, location: &Url) -> Result<Self> {
        Err(Error::new(ErrorKind::Unsupported, format!("{location}: Delta tables are not supported yet")))
    }
}

#[async_trait]
impl FormatReader for DeltaReader {
    async fn snapshot(&self, _choice: &SnapshotChoice) -> Result<Arc<TableSnapshot>> {
        Err(Error::new(ErrorKind::Unsupported, "Delta tables are not supported yet"))
    }

    async fn refresh(&self, _current: &Arc<TableSnapshot>) -> Result<Arc<TableSnapshot>> {
        Err(Error::new(ErrorKind::Unsupported, "Delta tables are not supported yet"))
    }

    async fn deleted_rows(&self, _file: &DataFile) -> Result<RoaringTreemap> {
        Err(Error::new(ErrorKind::Unsupported, "Delta tables are not supported yet"))
    }
}
