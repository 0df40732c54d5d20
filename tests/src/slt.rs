//! `.slt` files against a running server: one statement a request over `/v1/query`.

use std::fmt;

use serde_json::{Value, json};
use sqllogictest::{AsyncDB, DBOutput, DefaultColumnType};

use crate::server::Server;

/// A connection of the test runner to a server.
#[derive(Debug, Clone)]
pub struct Connection {
    url: String,
    client: reqwest::Client,
}

impl Connection {
    /// Asks `server`.
    #[must_use]
    pub fn to(server: &Server) -> Self {
        Self { url: format!("{}/v1/query", server.url()), client: server.client().clone() }
    }
}

/// The server's refusal, or a failed request.
#[derive(Debug)]
pub struct Refusal(String);

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refusal {}

#[async_trait::async_trait]
impl AsyncDB for Connection {
    type Error = Refusal;
    type ColumnType = DefaultColumnType;

    async fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>, Refusal> {
        let failed = |error: reqwest::Error| Refusal(error.to_string());
        let answer = self.client.post(&self.url).json(&json!({"sql": sql})).send().await.map_err(failed)?;
        let answer: Value = answer.json().await.map_err(failed)?;
        if answer["error"].is_object() {
            return Err(Refusal(format!("{}: {}", answer["error"]["kind"], answer["error"]["message"])));
        }
        let columns = answer["columns"].as_array().map_or(&[][..], Vec::as_slice);
        let rows = answer["rows"].as_array().map_or(&[][..], Vec::as_slice);
        Ok(DBOutput::Rows {
            types: columns.iter().map(|column| column_type(&column["type"])).collect(),
            rows: rows.iter().map(|row| row.as_array().into_iter().flatten().map(cell).collect()).collect(),
        })
    }

    async fn shutdown(&mut self) {}

    fn engine_name(&self) -> &str {
        "lakeserve"
    }
}

fn column_type(name: &Value) -> DefaultColumnType {
    let name = name.as_str().unwrap_or_default().to_ascii_lowercase();
    if name.contains("int") {
        DefaultColumnType::Integer
    } else if name.starts_with("float")
        || name.starts_with("double")
        || name.starts_with("real")
        || name.starts_with("decimal")
    {
        DefaultColumnType::FloatingPoint
    } else {
        DefaultColumnType::Text
    }
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => "NULL".to_owned(),
        Value::String(text) if text.is_empty() => "(empty)".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
