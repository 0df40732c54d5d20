//! The demo tables of `lakeserve up --demo`.
//!
//! The generator keeps a few hundred megabytes of text until its process ends, so it runs in a
//! process of its own and the server starts small.

use std::process::Stdio;

use lakeserve_datagen::{Demo, DemoTable, Progress};

use crate::cli::MakeDemoArgs;
use crate::config::Config;
use crate::failure::Failure;
use crate::services::TableToServe;

/// Makes the tables in this process.
///
/// # Errors
/// When they cannot be written.
pub fn make(args: &MakeDemoArgs) -> Result<(), Failure> {
    let demo = Demo::new(&args.folder, args.scale).map_err(|error| failed(&error))?;
    let runtime = crate::runtime()?;
    runtime.block_on(demo.ensure(&Progress::stderr())).map(drop).map_err(|error| failed(&error))
}

/// The tables of the demo at `scale`, made first where they are not there or not whole.
pub(crate) async fn tables(config: &Config, scale: f64) -> Result<Vec<TableToServe>, Failure> {
    let folder = config.data.path()?.join("demo");
    let demo = Demo::new(&folder, scale).map_err(|error| failed(&error))?;
    if !demo.is_whole() {
        let program = std::env::current_exe()
            .map_err(|error| Failure::failed(format!("this program cannot find itself: {error}")))?;
        let status = tokio::process::Command::new(program)
            .arg("make-demo")
            .arg("--folder")
            .arg(&folder)
            .arg("--scale")
            .arg(scale.to_string())
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .status()
            .await
            .map_err(|error| Failure::failed(format!("the demo tables cannot be made: {error}")))?;
        if !status.success() {
            return Err(Failure::failed("the demo tables cannot be made (the reason stands above)"));
        }
    }
    let served = demo.tables().into_iter().map(|DemoTable { name, location, .. }| {
        let url = lakeserve_storage::Storage::parse_location(&location.display().to_string())?;
        Ok(TableToServe { name, url, options: lakeserve_lake::TableOptions::default() })
    });
    Ok(served.collect::<lakeserve_common::Result<Vec<_>>>()?)
}

fn failed(error: &anyhow::Error) -> Failure {
    Failure::failed(format!("the demo tables cannot be made: {error:#}"))
}
