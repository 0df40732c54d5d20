//! The command line.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use lakeserve_common::units::Span;

/// SQL over Delta, Iceberg and Parquet tables where they lie.
#[derive(Debug, Parser)]
#[command(name = "lakeserve", version, about, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve tables: all roles in one process.
    Up(UpArgs),
    /// Run the broker role alone (not supported yet).
    Broker,
    /// Run the server role alone (not supported yet).
    Server,
    /// Run the indexer role alone (not supported yet).
    Indexer,
    /// Answer SQL, in this process or by a broker.
    Query(QueryArgs),
    /// Check the configuration, and that every table opens.
    Check(CheckArgs),
    /// Print the configuration that is in effect, as TOML.
    DumpConfig(DumpConfigArgs),
    /// Write the demo tables and end; `up --demo` runs this in a process of its own.
    #[command(hide = true)]
    MakeDemo(MakeDemoArgs),
}

/// Which configuration, and which tables beside its own.
#[derive(Debug, Clone, Default, Args)]
pub struct ConfigArgs {
    /// Configuration file [default: lakeserve.toml in this folder, where there is one]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Serve the table at LOCATION (a path or a URL) under NAME; may be repeated
    #[arg(long = "table", value_name = "NAME=LOCATION", value_parser = table_argument)]
    pub tables: Vec<(String, String)>,
}

/// `lakeserve up`.
#[derive(Debug, Args)]
pub struct UpArgs {
    /// Configuration and tables.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Serve TPC-H tables, made at the first start and kept below the data folder
    #[arg(long)]
    pub demo: bool,
    /// Size of the demo: 1 has six million lineitems [default: 1]
    #[arg(long, value_name = "FACTOR", requires = "demo")]
    pub scale: Option<f64>,
    /// Where to listen for HTTP [default: 127.0.0.1:8099]
    #[arg(long, value_name = "ADDR", value_parser = address_argument)]
    pub http: Option<SocketAddr>,
}

/// `lakeserve query`.
#[derive(Debug, Args)]
pub struct QueryArgs {
    /// Configuration and tables.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Ask the broker at this URL instead of answering here
    #[arg(long, value_name = "URL", conflicts_with_all = ["config", "tables"])]
    pub url: Option<String>,
    /// How to write the rows
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
    /// Read statements from FILE; `-` is standard input
    #[arg(short, long, value_name = "FILE", conflicts_with = "sql", required_unless_present = "sql")]
    pub file: Option<PathBuf>,
    /// How long each statement may take, for example 30s or 5m [default here: no limit; at a broker: the broker's]
    #[arg(long, value_name = "SPAN")]
    pub timeout: Option<Span>,
    /// One statement or several, separated by semicolons; they run in one session
    pub sql: Option<String>,
}

/// `lakeserve check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Configuration and tables.
    #[command(flatten)]
    pub config: ConfigArgs,
}

/// `lakeserve dump-config`.
#[derive(Debug, Args)]
pub struct DumpConfigArgs {
    /// Configuration file [default: lakeserve.toml in this folder, where there is one]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// `lakeserve make-demo`.
#[derive(Debug, Args)]
pub struct MakeDemoArgs {
    /// Folder of all demos.
    #[arg(long)]
    pub folder: PathBuf,
    /// Scale factor.
    #[arg(long)]
    pub scale: f64,
}

/// How rows are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A text table for people
    Table,
    /// One JSON object per statement, as the HTTP interface answers
    Json,
    /// One JSON object per row
    Jsonl,
    /// Comma-separated values with a header line
    Csv,
    /// An Arrow IPC stream
    Arrow,
}

fn table_argument(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, location)) if !name.trim().is_empty() && !location.trim().is_empty() => {
            Ok((name.trim().to_owned(), location.trim().to_owned()))
        }
        _ => Err("write NAME=LOCATION, for example orders=/data/orders or lineitem=s3://bucket/path".to_owned()),
    }
}

fn address_argument(text: &str) -> Result<SocketAddr, String> {
    let mut found = text.to_socket_addrs().map_err(|error| format!("{error}; write for example 127.0.0.1:8099"))?;
    found.next().ok_or_else(|| "the name has no address".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn tables_are_a_name_and_a_location() {
        assert_eq!(table_argument("t=s3://b/a=b"), Ok(("t".into(), "s3://b/a=b".into())));
        assert!(table_argument("t").is_err() && table_argument("=x").is_err() && table_argument("t=").is_err());
    }
}
