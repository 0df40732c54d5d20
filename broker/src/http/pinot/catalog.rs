//! Tables and schemas as Pinot's controller describes them. A data file is what Pinot calls a
//! segment; every table is an offline one.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use axum::extract::{Path, State};
use axum::response::Response;
use http::{HeaderMap, header};
use lakeserve_common::Result;
use lakeserve_query::render::{pinot_type, sql_type};
use serde_json::{Value, json};

use crate::engine::{Current, ServedTable};
use crate::http::{App, errors};

/// `GET /tables`: `{"tables":["a","b"]}`.
pub(in crate::http) async fn tables(State(app): State<App>) -> Response {
    errors::json_value(&json!({"tables": app.engine.tables().names()}))
}

/// `GET /schemas`: `["a","b"]`.
pub(in crate::http) async fn schemas(State(app): State<App>) -> Response {
    errors::json_value(&app.engine.tables().names())
}

/// `GET /databases`: `["default"]`.
pub(in crate::http) async fn databases() -> Response {
    errors::json_value(&["default"])
}

/// `GET /v2/brokers/tenants/{tenant}`: this broker, under the address that the client used.
pub(in crate::http) async fn brokers(State(app): State<App>, headers: HeaderMap) -> Response {
    let used = headers.get(header::HOST).and_then(|host| host.to_str().ok()).map(str::to_owned);
    let address = app.options.advertise.clone().or(used).unwrap_or_else(|| app.address.to_string());
    let (host, port) = match address.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?))) {
        Some((host, port)) => (host.to_owned(), port),
        None => (address, app.address.port()),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    errors::json_value(
        &json!([{"instanceName": format!("Broker_{host}_{port}"), "host": host, "port": port, "grpcPort": -1}]),
    )
}

/// `GET /tables/{t}/schema` and `GET /schemas/{t}`.
pub(in crate::http) async fn table_schema(state: State<App>, path: Path<String>) -> Response {
    describe(state, path, |table, current| schema(table.name(), current)).await
}

/// `GET /tables/{t}`: `{"OFFLINE":{…}}`, with what is served beside it.
pub(in crate::http) async fn table(State(app): State<App>, path: Path<String>) -> Response {
    let engine = app.engine.clone();
    describe(State(app), path, move |table, _| json!({"OFFLINE": config(table), "status": engine.status(table)})).await
}

/// `GET /tableConfigs/{t}`.
pub(in crate::http) async fn table_config(state: State<App>, path: Path<String>) -> Response {
    describe(state, path, |table, current| {
        json!({"tableName": table.name(), "schema": schema(table.name(), current), "offline": config(table)})
    })
    .await
}

/// `GET /tables/{t}/metadata`.
pub(in crate::http) async fn table_metadata(state: State<App>, path: Path<String>) -> Response {
    describe(state, path, |table, current| {
        json!({
            "tableName": table.name(),
            "diskSizeInBytes": current.bytes,
            "numSegments": current.snapshot.files.len(),
            "numRows": current.rows,
            "columnLengthMap": {},
            "columnCardinalityMap": {},
            "maxNumMultiValuesMap": {},
            "columnIndexSizeMap": {},
        })
    })
    .await
}

/// `GET /tables/{t}/size`.
pub(in crate::http) async fn table_size(state: State<App>, path: Path<String>) -> Response {
    describe(state, path, |table, current| {
        json!({
            "tableName": table.name(),
            "reportedSizeInBytes": current.bytes,
            "estimatedSizeInBytes": current.bytes,
            "offlineSegments": {"reportedSizeInBytes": current.bytes, "estimatedSizeInBytes": current.bytes, "missingSegments": 0},
            "realtimeSegments": null,
        })
    })
    .await
}

/// `GET /segments/{t}`: `[{"OFFLINE":[…]}]`, the data files by path.
pub(in crate::http) async fn segments(state: State<App>, path: Path<String>) -> Response {
    describe(state, path, |_, current| {
        let files: Vec<&str> = current.snapshot.files.iter().map(|file| file.path.as_str()).collect();
        json!([{"OFFLINE": files}])
    })
    .await
}

async fn describe(
    State(app): State<App>,
    Path(name): Path<String>,
    answer: impl FnOnce(&ServedTable, &Current) -> Value,
) -> Response {
    match find(&app, &name).await {
        Ok((table, current)) => errors::json_value(&answer(&table, &current)),
        Err(error) => errors::respond(&error),
    }
}

/// The table and its newest good state; Pinot's suffix for offline tables may stand after the name.
async fn find(app: &App, name: &str) -> Result<(Arc<ServedTable>, Arc<Current>)> {
    let tables = app.engine.tables();
    let table = match (tables.find(name), name.strip_suffix("_OFFLINE")) {
        (Err(_), Some(plain)) => tables.find(plain),
        (found, _) => found,
    }?;
    let current = table.current().await?;
    Ok((table, current))
}

/// Timestamps stand among `dateTimeFieldSpecs`, all other columns among `dimensionFieldSpecs`.
/// `columns` gives the SQL types beside Pinot's.
fn schema(name: &str, current: &Current) -> Value {
    let mut dimensions = Vec::new();
    let mut times = Vec::new();
    let mut columns = Vec::new();
    for field in current.snapshot.schema.arrow.fields() {
        match field.data_type() {
            DataType::Timestamp(_, _) => times.push(time(field)),
            _ => dimensions.push(dimension(field)),
        }
        columns
            .push(json!({"name": field.name(), "type": sql_type(field.data_type()), "nullable": field.is_nullable()}));
    }
    json!({
        "schemaName": name,
        "enableColumnBasedNullHandling": true,
        "dimensionFieldSpecs": dimensions,
        "metricFieldSpecs": [],
        "dateTimeFieldSpecs": times,
        "columns": columns,
    })
}

fn dimension(field: &Field) -> Value {
    let name = pinot_type(field.data_type());
    match name.strip_suffix("_ARRAY") {
        Some(item) => json!({"name": field.name(), "dataType": item, "singleValueField": false}),
        None => json!({"name": field.name(), "dataType": name}),
    }
}

fn time(field: &Field) -> Value {
    json!({
        "name": field.name(),
        "dataType": pinot_type(field.data_type()),
        "format": "1:MILLISECONDS:TIMESTAMP",
        "granularity": "1:MILLISECONDS",
    })
}

fn config(table: &ServedTable) -> Value {
    json!({
        "tableName": format!("{}_OFFLINE", table.name()),
        "tableType": "OFFLINE",
        "segmentsConfig": {"schemaName": table.name(), "replication": "1"},
        "tenants": {"broker": "DefaultTenant", "server": "DefaultTenant"},
        "tableIndexConfig": {"nullHandlingEnabled": true},
        "metadata": {},
    })
}
