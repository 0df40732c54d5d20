//! The `lakeserve` command.

use std::process::ExitCode;

use clap::Parser;
use lakeserve::cli::Cli;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    lakeserve::install_crypto();
    let cli = Cli::parse();
    match lakeserve::run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
