//! Statements answered by a broker, one request each. Rows come as an Arrow stream and are spelled
//! here, exactly as embedded answers are; the JSON format passes the broker's own answer on.

use std::io::Cursor;

use arrow::ipc::reader::StreamReader;
use lakeserve_query::dialect::{self, ParseLimits};
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use serde_json::{Value, json};

use super::output::Output;
use crate::cli::{Format, QueryArgs};
use crate::failure::Failure;

const ARROW: &str = "application/vnd.apache.arrow.stream";
const JSON: &str = "application/json";

pub(super) async fn run(url: &str, sql: &str, args: &QueryArgs) -> Result<(), Failure> {
    let base = reqwest::Url::parse(url)
        .ok()
        .filter(|base| matches!(base.scheme(), "http" | "https"))
        .ok_or_else(|| Failure::usage(format!("--url `{url}` is no URL: write for example http://127.0.0.1:8099")))?;
    let endpoint = format!("{}/v1/query", base.as_str().trim_end_matches('/'));
    let client = reqwest::Client::builder()
        .connect_timeout(std::time::Duration::from_secs(5))
        .build()
        .map_err(|error| Failure::failed(format!("no HTTP client: {error}")))?;
    let mut output = Output::new(args.format);
    for statement in statements(sql)? {
        let mut body = json!({ "sql": statement });
        if let Some(timeout) = args.timeout {
            body["timeout_ms"] = json!(timeout.0.as_millis().min(u128::from(u64::MAX)));
        }
        let accept = if args.format == Format::Json { JSON } else { ARROW };
        let request = client.post(&endpoint).header(ACCEPT, accept).header(CONTENT_TYPE, JSON).body(body.to_string());
        let response = request.send().await.map_err(|error| unreachable(url, &error))?;
        let status = response.status();
        let bytes = response.bytes().await.map_err(|error| unreachable(url, &error))?;
        if !status.is_success() {
            return Err(refused(url, status.as_u16(), &bytes));
        }
        if args.format == Format::Json {
            output.raw(&String::from_utf8_lossy(&bytes))?;
            continue;
        }
        let broken = |error: arrow::error::ArrowError| Failure::failed(format!("{url} broke the answer off: {error}"));
        let reader = StreamReader::try_new(Cursor::new(bytes), None).map_err(broken)?;
        output.begin(&reader.schema(), "")?;
        for batch in reader {
            output.batch(&batch.map_err(broken)?)?;
        }
        output.end(&Value::Null)?;
    }
    output.finish()
}

/// The statements, each with the script's settings before it: a request is a session of its own.
fn statements(sql: &str) -> Result<Vec<String>, Failure> {
    let script = dialect::parse(sql, &ParseLimits::default())?;
    let settings: String =
        script.settings.iter().map(|(name, value)| format!("SET {name} = '{}'; ", value.replace('\'', "''"))).collect();
    Ok(script.statements.into_iter().map(|statement| format!("{settings}{}", statement.text)).collect())
}

fn unreachable(url: &str, error: &reqwest::Error) -> Failure {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        text = inner.to_string();
        cause = inner.source();
    }
    Failure::failed(format!("no answer from {url}: {text}"))
}

fn refused(url: &str, status: u16, body: &[u8]) -> Failure {
    let parsed: Option<Value> = serde_json::from_slice(body).ok();
    let error = parsed.as_ref().and_then(|body| body.get("error"));
    let text = |field: &str| error.and_then(|error| error.get(field)).and_then(Value::as_str);
    match (text("message"), text("hint")) {
        (Some(message), Some(hint)) => Failure::failed(format!("{message} ({hint})")),
        (Some(message), None) => Failure::failed(message),
        (None, _) => Failure::failed(format!("{url} answered with status {status}; is it a Lakeserve broker?")),
    }
}
