//! The Delta log of a folder of Parquet files, written by the `deltalake` crate: one commit, version
//! 0, with the statistics of every file.

use std::path::Path;

use anyhow::{Context, Result, anyhow};
use deltalake::operations::convert_to_delta::ConvertToDeltaBuilder;
use url::Url;

/// Makes a Delta table of the Parquet files that lie in `folder`.
///
/// # Errors
/// When the folder holds no Parquet file or already a Delta log, and on failures of the file system.
pub(crate) async fn commit_delta(folder: &Path, name: &str) -> Result<()> {
    let location =
        Url::from_directory_path(folder).map_err(|()| anyhow!("{} is not an absolute path", folder.display()))?;
    let table = ConvertToDeltaBuilder::new().with_location(location).with_table_name(name).await;
    table.with_context(|| format!("writing the delta log of {}", folder.display()))?;
    Ok(())
}
