//! Logs and metrics of the process.

use std::io::IsTerminal;

use prometheus::Registry;
use tracing_subscriber::EnvFilter;

/// How log lines are written (to standard error, always).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// One readable line.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Installs the log subscriber. `filter` is a `tracing` filter such as `info` or
/// `info,lakeserve_lake=debug`. A second call is ignored (tests share a process).
///
/// # Errors
/// When `filter` cannot be parsed; the message names it.
pub fn init_logs(filter: &str, format: LogFormat) -> crate::Result<()> {
    let filter = EnvFilter::try_new(filter).map_err(|error| {
        crate::Error::new(crate::ErrorKind::Option, format!("log filter `{filter}` cannot be parsed: {error}"))
    })?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // Colours are for eyes: a log file must not be full of escapes.
    let builder = builder.with_ansi(std::io::stderr().is_terminal());
    let _already_installed = match format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().try_init(),
    };
    Ok(())
}

/// Registers a metric and hands it back. A second registration under the same name is a fault of
/// the program; it is logged and the metric still works, unseen.
pub fn register<C: prometheus::core::Collector + Clone + 'static>(registry: &Registry, metric: C) -> C {
    if let Err(error) = registry.register(Box::new(metric.clone())) {
        tracing::error!(%error, "metric could not be registered");
    }
    metric
}
