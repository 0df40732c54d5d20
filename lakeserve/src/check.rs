//! `lakeserve check`: the configuration is right, and every table opens.

use futures::{StreamExt, stream};
use lakeserve_lake::{LakeTable, SnapshotChoice};

use crate::cli::CheckArgs;
use crate::config::Config;
use crate::failure::{Failure, say};
use crate::services::{Services, TableToServe};

/// Tables that are opened at a time.
const AT_A_TIME: usize = 8;

/// Opens every table and says, one line each, what it found.
///
/// # Errors
/// Usage when the configuration is wrong; failed when a table does not open.
pub fn run(args: &CheckArgs) -> Result<(), Failure> {
    let mut config = Config::load(args.config.config.as_deref())?;
    config.add_tables(args.config.tables.clone())?;
    config.telemetry.install(true)?;
    crate::runtime()?.block_on(check(&config))
}

async fn check(config: &Config) -> Result<(), Failure> {
    let services = Services::build(config)?;
    let tables = services.tables(config).await?;
    let count = tables.len();
    let opened = tables.into_iter().map(|table| {
        let services = &services;
        async move { (table.name.clone(), open(services, &table).await) }
    });
    let mut failed = 0;
    let mut results = stream::iter(opened.collect::<Vec<_>>()).buffered(AT_A_TIME);
    while let Some((name, result)) = results.next().await {
        match result {
            Ok(found) => say(format!("ok      {name}: {found}")),
            Err(error) => {
                failed += 1;
                say(format!("failed  {name}: {error}"));
            }
        }
    }
    match failed {
        0 => {
            say(format!("the configuration is right; {count} tables open"));
            Ok(())
        }
        _ => Err(Failure::failed(format!("{failed} of {count} tables cannot be opened"))),
    }
}

async fn open(services: &Services, table: &TableToServe) -> lakeserve_common::Result<String> {
    let opened = LakeTable::open(services.storage.clone(), &table.url, table.options.clone()).await?;
    let snapshot = opened.snapshot(&SnapshotChoice::Latest).await?;
    let rows = snapshot.files.iter().map(|file| file.row_count).sum::<Option<u64>>();
    let rows = rows.map_or_else(String::new, |rows| format!(", {rows} rows"));
    Ok(format!(
        "{} at version {}, {} columns, {} data files{rows}",
        opened.format().as_str(),
        snapshot.version,
        snapshot.schema.arrow.fields().len(),
        snapshot.files.len(),
    ))
}
