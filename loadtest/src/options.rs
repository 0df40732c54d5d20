//! The flags of `lakeserve-loadtest run`, with their bounds.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};
use lakeserve_common::units::Span;
use url::Url;

use crate::client::Api;

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Workload {
    /// Query 6 of TPC-H: a filter over dates, discounts and quantities, and one sum.
    TpchQ6,
}

/// The most queries of one run, warm-up included.
const MOST_QUERIES: u64 = 20_000_000;

const LONGEST: Duration = Duration::from_secs(3_600);

/// One run at a constant rate.
#[derive(Debug, Clone, Args)]
pub struct RunOptions {
    /// What is asked.
    #[arg(long, value_enum, default_value = "tpch-q6")]
    pub workload: Workload,
    /// The server's HTTP address.
    #[arg(long, default_value = "http://127.0.0.1:8099")]
    pub url: Url,
    /// The interface to ask through: `pinot` is POST /query/sql, `v1` is POST /v1/query.
    #[arg(long, value_enum, default_value = "pinot")]
    pub api: Api,
    /// The table that holds lineitem's rows.
    #[arg(long, default_value = "lineitem")]
    pub table: String,
    /// Queries per second, sent evenly spaced (1 to 1,000,000).
    #[arg(long, default_value_t = 2_000)]
    pub rate: u32,
    /// How long the measured part lasts (at most 1h).
    #[arg(long, default_value = "10s")]
    pub duration: Span,
    /// How long the same load runs unmeasured before (at most 1h).
    #[arg(long, default_value = "2s")]
    pub warmup: Span,
    /// Keep-alive connections (1 to 10,000). A query waits for a free one, and that counts.
    #[arg(long, default_value_t = 64)]
    pub connections: u32,
    /// When a query without an answer counts as failed; also how long the run waits at its end.
    #[arg(long, default_value = "10s")]
    pub timeout: Span,
    /// Draw the year (1993 to 1997), discount (0.02 to 0.09) and quantity (24 or 25) of each query
    /// instead of asking for 1994, 0.06 and 24.
    #[arg(long)]
    pub vary: bool,
    /// The seed of the draw; the same seed draws the same queries.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Threads of the driver itself (1 to 64).
    #[arg(long, default_value_t = 1)]
    pub threads: u32,
    /// Also write the report as JSON to this file.
    #[arg(long)]
    pub json: Option<PathBuf>,
    /// Allow a target that is not on this machine. Only load servers that are yours to load.
    #[arg(long)]
    pub allow_remote: bool,
}

impl RunOptions {
    /// Checks the bounds that the flags' types do not.
    ///
    /// # Errors
    /// Names the flag and its bounds.
    pub fn check(&self) -> Result<()> {
        ensure!((1..=1_000_000).contains(&self.rate), "--rate {} is out of range: 1 to 1000000", self.rate);
        ensure!(
            (1..=10_000).contains(&self.connections),
            "--connections {} is out of range: 1 to 10000",
            self.connections
        );
        ensure!((1..=64).contains(&self.threads), "--threads {} is out of range: 1 to 64", self.threads);
        ensure!(
            !self.duration.0.is_zero() && self.duration.0 <= LONGEST,
            "--duration {} is out of range: above 0 to 1h",
            self.duration
        );
        ensure!(self.warmup.0 <= LONGEST, "--warmup {} is out of range: 0s to 1h", self.warmup);
        ensure!(
            !self.timeout.0.is_zero() && self.timeout.0 <= LONGEST,
            "--timeout {} is out of range: above 0 to 1h",
            self.timeout
        );
        let queries = u128::from(self.rate) * (self.warmup.0 + self.duration.0).as_millis() / 1_000;
        ensure!(queries >= 1, "a rate of {} over {} sends no query", self.rate, self.duration);
        ensure!(
            queries <= u128::from(MOST_QUERIES),
            "{queries} queries are too many for one run: at most {MOST_QUERIES}"
        );
        Ok(())
    }
}
