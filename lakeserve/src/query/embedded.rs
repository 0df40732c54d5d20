//! Statements answered in this process: one session over the configured tables, with tables and
//! views of its own that last as long as the command.

use futures::StreamExt;
use lakeserve_broker::engine::{QueryRequest, Rights, Session};
use lakeserve_common::units::Span;
use serde_json::json;

use super::output::Output;
use crate::cli::{Format, QueryArgs};
use crate::config::Config;
use crate::failure::Failure;
use crate::services::Services;

/// A command that a person waits for has no deadline unless one is asked for.
const NO_LIMIT: Span = Span::secs(365 * 24 * 3600);

pub(super) async fn run(sql: &str, args: QueryArgs) -> Result<(), Failure> {
    let mut config = Config::load(args.config.config.as_deref())?;
    config.add_tables(args.config.tables)?;
    config.telemetry.install(true)?;
    config.engine.query_timeout = args.timeout.unwrap_or(NO_LIMIT);
    config.engine.max_query_timeout = NO_LIMIT;
    let services = Services::build(&config)?;
    services.serve(services.tables(&config).await?)?;
    let session = services.engine.session(Rights::Own);
    let mut output = Output::new(args.format);
    for statement in session.split(sql).await? {
        answer(&session, statement, &mut output).await?;
    }
    output.finish()
}

async fn answer(session: &Session, sql: String, output: &mut Output) -> Result<(), Failure> {
    let mut answer = session.execute(QueryRequest { sql, ..QueryRequest::default() }).await?;
    output.begin(&answer.schema, answer.query_id.as_str())?;
    while let Some(batch) = answer.batches.next().await {
        output.batch(&batch?)?;
    }
    if output.format() == Format::Json {
        let snapshots: serde_json::Map<String, serde_json::Value> = answer
            .snapshots
            .iter()
            .map(|used| (used.table.clone(), json!({"id": used.id, "version": used.version, "age_ms": used.age_ms})))
            .collect();
        let tail = json!({"snapshots": snapshots, "stats": answer.stats()});
        return output.end(&tail);
    }
    output.end(&serde_json::Value::Null)
}
