//! The command line of the load tester.

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use lakeserve_loadtest::{Report, RunOptions, run};

/// Sends queries at a constant rate and reports latencies, failures and wrong answers.
#[derive(Parser)]
#[command(name = "lakeserve-loadtest", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// One run at a constant rate. Exit status: 0 when every answer was right, 1 when not, 2 for wrong usage.
    Run(RunOptions),
}

fn main() -> ExitCode {
    let Command::Run(options) = Cli::parse().command;
    if let Err(error) = options.check() {
        eprintln!("lakeserve-loadtest: {error:#}");
        return ExitCode::from(2);
    }
    match measure(&options) {
        Ok(report) if report.is_clean() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("lakeserve-loadtest: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn measure(options: &RunOptions) -> Result<Report> {
    let threads = usize::try_from(options.threads)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()?;
    let report = runtime.block_on(run(options))?;
    print!("{report}");
    if let Some(path) = &options.json {
        let json = serde_json::to_string_pretty(&report)?;
        std::fs::write(path, json + "\n").with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(report)
}
