//! The binary crate: command line, configuration, and the wiring of the roles.
//!
//! `main` installs the TLS provider, reads the command line and hands over to [`run`]. Every command
//! then reads the configuration, builds what it needs from it with plain constructors, and ends with
//! one of three exit statuses (see [`failure`]).

pub mod check;
pub mod cli;
pub mod config;
pub mod demo;
pub mod failure;
pub mod query;
pub mod services;
pub mod up;

use cli::{Cli, Command};
use config::Config;
use failure::Failure;

/// Makes aws-lc the process's TLS provider. More than one provider is linked, so that nothing may
/// open a TLS connection before one is chosen.
pub fn install_crypto() {
    // An error says that one is installed already, which is all that is wanted.
    let _installed_before = rustls::crypto::aws_lc_rs::default_provider().install_default();
}

/// Runs one command to its end.
///
/// # Errors
/// What the command failed with, and the exit status that goes with it.
pub fn run(cli: Cli) -> Result<(), Failure> {
    match cli.command {
        Command::Up(args) => up::run(args),
        Command::Query(args) => query::run(args),
        Command::Check(args) => check::run(&args),
        Command::DumpConfig(args) => {
            let config = Config::load(args.config.as_deref())?;
            failure::say(config.to_toml()?.trim_end());
            Ok(())
        }
        Command::MakeDemo(args) => demo::make(&args),
        Command::Broker => Err(Failure::role("broker")),
        Command::Server => Err(Failure::role("server")),
        Command::Indexer => Err(Failure::role("indexer")),
    }
}

/// A runtime for everything that waits; queries compute on threads of the engine's own.
fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format!("the runtime cannot be started: {error}")))
}
