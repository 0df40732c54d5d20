//! `lakeserve up`: all roles in one process, serving until a signal.

use std::net::SocketAddr;
use std::time::Duration;

use lakeserve_broker::engine::{Engine, TableState};
use lakeserve_broker::http;
use lakeserve_common::shutdown::{Shutdown, signal};
use lakeserve_common::spawn::spawn;
use lakeserve_datagen::DEFAULT_SCALE;
use tokio::net::TcpListener;

use crate::cli::UpArgs;
use crate::config::Config;
use crate::demo;
use crate::failure::{Failure, say};
use crate::services::Services;

/// Serves the tables until SIGTERM or SIGINT.
///
/// # Errors
/// Usage when arguments or configuration are wrong, failed when the address cannot be listened at or
/// the demo cannot be written.
pub fn run(args: UpArgs) -> Result<(), Failure> {
    let mut config = Config::load(args.config.config.as_deref())?;
    config.add_tables(args.config.tables)?;
    if let Some(address) = args.http {
        config.http.listen = address;
    }
    config.telemetry.install(false)?;
    let runtime = crate::runtime()?;
    let demo = args.demo.then(|| args.scale.unwrap_or(DEFAULT_SCALE));
    let result = runtime.block_on(up(&config, demo));
    // Not shut down: blocking reads of a hung file system would hold the process back, and a table that
    // is still being opened would report a panic. The process ends.
    std::mem::forget(runtime);
    result
}

async fn up(config: &Config, demo: Option<f64>) -> Result<(), Failure> {
    let listener = listen(config.http.listen).await?;
    let services = Services::build(config)?;
    let mut tables = services.tables(config).await?;
    if let Some(scale) = demo {
        tables.extend(demo::tables(config, scale).await?);
    }
    if tables.is_empty() {
        return Err(Failure::usage(
            "there are no tables to serve: give --table NAME=LOCATION, --demo, or [tables] in a configuration file",
        ));
    }
    services.serve(tables)?;
    serve(config, &services.engine, listener, demo.is_some()).await
}

/// Answers until a signal; the front end then drains, for a bounded time. A second signal ends the
/// queries that still run at once.
async fn serve(config: &Config, engine: &Engine, listener: TcpListener, demo: bool) -> Result<(), Failure> {
    let address = listener.local_addr().map_err(|error| Failure::failed(format!("the listener failed: {error}")))?;
    let shutdown = Shutdown::new();
    let mut serving = spawn("http", http::serve(listener, engine.clone(), config.http.clone(), shutdown.clone()));
    let announcing = async {
        announce(engine, &format!("http://{address}"), demo).await;
        std::future::pending::<()>().await;
    };
    let name = tokio::select! {
        result = &mut serving => return ended(result),
        name = signal() => name.map_err(|error| Failure::failed(format!("signals cannot be waited for: {error}")))?,
        () = announcing => return Ok(()),
    };
    tracing::info!(signal = name, queries = engine.running().len(), "stopping");
    shutdown.trigger();
    tokio::select! {
        result = &mut serving => return ended(result),
        _ = signal() => {}
    }
    tracing::warn!(queries = engine.running().len(), "a second signal came, the queries that still run are cancelled");
    engine.cancel_all();
    match tokio::time::timeout(LAST_WORDS, serving).await {
        Ok(result) => ended(result),
        Err(_) => Ok(()),
    }
}

/// How long cancelled queries may take to say so.
const LAST_WORDS: Duration = Duration::from_secs(1);

fn ended(result: Result<std::io::Result<()>, tokio::task::JoinError>) -> Result<(), Failure> {
    match result {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(Failure::failed(format!("the HTTP front end failed: {error}"))),
        Err(error) => Err(Failure::failed(format!("the HTTP front end failed: {error}"))),
    }
}

async fn listen(address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| {
        Failure::failed(format!(
            "cannot listen at {address}: {error} (choose another address with --http or http.listen)"
        ))
    })
}

/// Waits for the first attempt at every table; then says what is served and what to try.
async fn announce(engine: &Engine, url: &str, demo: bool) {
    let mut served = Vec::new();
    for table in engine.tables().all() {
        // A table that failed is told below, with its error.
        let _opened = table.current().await;
        match table.state() {
            TableState::Served(current) => {
                let rows = current.rows.map_or_else(String::new, |rows| format!(", {rows} rows"));
                let (format, files) = (current.table.format().as_str(), current.snapshot.files.len());
                say(format!("table {}: {format}, {files} files{rows}", table.name()));
                served.push(table.name().to_owned());
            }
            TableState::Failed(error) => say(format!("table {} cannot be read: {error}", table.name())),
            TableState::Opening => {}
        }
    }
    say(format!("\nserving at {url}; try\n"));
    for command in commands(url, demo, &served) {
        say(format!("  {command}"));
    }
    say("");
}

const Q6: &str = "SELECT sum(l_extendedprice * l_discount) AS revenue FROM lineitem \
    WHERE l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01' \
    AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24";

fn commands(url: &str, demo: bool, served: &[String]) -> Vec<String> {
    let tables = format!("curl -s {url}/tables");
    if demo {
        return vec![
            format!("curl -sG {url}/query/sql --data-urlencode \"sql={Q6}\""),
            format!(
                "lakeserve query --url {url} \"SELECT n_name, count(*) AS customers FROM customer \
                 JOIN nation ON c_nationkey = n_nationkey GROUP BY n_name ORDER BY customers DESC LIMIT 5\""
            ),
            tables,
        ];
    }
    let Some(name) = served.first() else {
        // Nothing can be queried yet: why is what there is to see.
        return vec![format!("curl -s {url}/admin/tables")];
    };
    let plain = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    let quoted = if plain { name.clone() } else { format!("\\\"{}\\\"", name.replace('"', "\\\"\\\"")) };
    vec![
        format!("curl -sG {url}/query/sql --data-urlencode \"sql=SELECT count(*) FROM {quoted}\""),
        format!("lakeserve query --url {url} \"SELECT * FROM {quoted} LIMIT 10\""),
        tables,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_commands_are_shown_and_names_are_quoted_for_the_shell() {
        let count = &commands("http://h", false, &["My \"t\"".to_owned()])[0];
        assert!(count.ends_with(r#"FROM \"My \"\"t\"\"\"""#), "{count}");
        assert!(commands("http://h", false, &[]).iter().all(|command| !command.contains("SELECT")));
        let shown = commands("http://h", true, &[]);
        let (q6, join) = (&shown[0], &shown[1]);
        assert!(
            q6.starts_with("curl ")
                && q6.contains("l_discount BETWEEN 0.05 AND 0.07")
                && join.contains("--url http://h")
        );
    }
}
