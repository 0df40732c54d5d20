//! A broker on a free port, tables on disk, and a client.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, Decimal128Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray};
use lakeserve_broker::{Engine, EngineOptions, EngineParts, HttpOptions, QueryRequest, Rights};
use lakeserve_common::shutdown::Shutdown;
use lakeserve_common::units::Span;
use lakeserve_common::{clock, random::Random, spawn};
use lakeserve_exec::{ScanContext, ScanOptions};
use lakeserve_lake::TableOptions;
use lakeserve_storage::{Storage, StorageOptions};
use parquet::arrow::ArrowWriter;
use reqwest::{Response, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinHandle;

pub struct Broker {
    pub url: String,
    pub engine: Engine,
    pub folder: TempDir,
    pub shutdown: Shutdown,
    pub client: reqwest::Client,
    pub server: JoinHandle<std::io::Result<()>>,
}

/// Tables are refreshed only when a test says so; builds without optimisation on busy machines have time.
pub fn engine_options() -> EngineOptions {
    EngineOptions { refresh_interval: Span::secs(3600), query_timeout: Span::secs(300), ..EngineOptions::default() }
}

pub fn engine(options: EngineOptions) -> Engine {
    let registry = prometheus::Registry::new();
    let (clock, random) = (clock::system(), Arc::new(Random::seeded(1)));
    let storage = Storage::new(StorageOptions::default(), Arc::clone(&clock), Arc::clone(&random), &registry).unwrap();
    let scan = ScanContext::new(Arc::clone(&storage), ScanOptions::default(), &registry);
    Engine::new(EngineParts { storage, scan, clock, random, registry }, options).unwrap()
}

impl Broker {
    pub async fn start() -> Self {
        Self::start_with(engine_options(), HttpOptions::default()).await
    }

    /// Serves `numbers` (three files, 0..3000) and `orders` (mixed types).
    pub async fn start_with(engine_options: EngineOptions, http: HttpOptions) -> Self {
        let folder = TempDir::new().unwrap();
        let engine = engine(engine_options);
        for file in 0..3 {
            let ids = file * 1000..(file + 1) * 1000;
            write(&folder.path().join(format!("numbers/part-{file}.parquet")), &numbers(ids));
        }
        write(&folder.path().join("orders/a.parquet"), &orders());
        let broker = Self::serve(folder, engine, http).await;
        broker.add("numbers", "numbers").await;
        broker.add("orders", "orders").await;
        broker
    }

    pub async fn serve(folder: TempDir, engine: Engine, http: HttpOptions) -> Self {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let shutdown = Shutdown::new();
        let serving = lakeserve_broker::http::serve(listener, engine.clone(), http, shutdown.clone());
        let server = spawn::spawn("server", serving);
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { url, engine, folder, shutdown, client, server }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Serves the folder under a name, opened or not.
    pub async fn add(&self, name: &str, folder: &str) {
        let location = Storage::parse_location(self.path(folder).to_str().unwrap()).unwrap();
        let table = self.engine.add_location(name, location, TableOptions::default()).unwrap();
        let _ = table.current().await;
    }

    pub async fn post(&self, path: &str, body: &Value) -> Response {
        self.client.post(format!("{}{path}", self.url)).body(body.to_string()).send().await.unwrap()
    }

    pub async fn get(&self, path: &str) -> Response {
        self.client.get(format!("{}{path}", self.url)).send().await.unwrap()
    }

    pub async fn get_json(&self, path: &str) -> Value {
        let response = self.get(path).await;
        assert_eq!(response.status(), StatusCode::OK, "{path}");
        response.json().await.unwrap()
    }

    /// The native answer to a statement that must succeed.
    pub async fn sql(&self, sql: &str) -> Value {
        let response = self.post("/v1/query", &json!({ "sql": sql })).await;
        let status = response.status();
        let body: Value = response.json().await.unwrap();
        assert_eq!(status, StatusCode::OK, "{sql}: {body}");
        body
    }

    /// The rows of a statement that must succeed.
    pub async fn rows(&self, sql: &str) -> Value {
        self.sql(sql).await["rows"].clone()
    }

    /// Status and `error` of a statement that must fail.
    pub async fn error(&self, sql: &str) -> (u16, Value) {
        self.request_error(&json!({ "sql": sql })).await
    }

    pub async fn request_error(&self, body: &Value) -> (u16, Value) {
        let response = self.post("/v1/query", body).await;
        let status = response.status().as_u16();
        let text = response.text().await.unwrap();
        let body: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{status}: {text}"));
        assert!(status >= 400, "{body}");
        (status, body["error"].clone())
    }

    pub async fn pinot(&self, sql: &str) -> Value {
        self.post("/query/sql", &json!({ "sql": sql })).await.json().await.unwrap()
    }

    /// Waits until `condition` holds, at most five seconds.
    pub async fn until(&self, what: &str, condition: impl Fn(&Engine) -> bool) {
        for _ in 0..500 {
            if condition(&self.engine) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{what} did not come true");
    }
}

/// Runs a statement in a session of its own, without HTTP.
pub async fn direct(engine: &Engine, sql: &str) -> lakeserve_common::Result<Vec<RecordBatch>> {
    let request = QueryRequest { sql: sql.into(), ..QueryRequest::default() };
    engine.session(Rights::Read).execute(request).await?.collect().await
}

pub fn write(path: &Path, batch: &RecordBatch) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut writer = ArrowWriter::try_new(File::create(path).unwrap(), batch.schema(), None).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
}

/// `id` and `name`, `n<id>`.
pub fn numbers(ids: std::ops::Range<i64>) -> RecordBatch {
    let names: Vec<String> = ids.clone().map(|id| format!("n{id}")).collect();
    let id: ArrayRef = Arc::new(Int64Array::from_iter_values(ids));
    let name: ArrayRef = Arc::new(StringArray::from(names));
    RecordBatch::try_from_iter([("id", id), ("name", name)]).unwrap()
}

/// A decimal, a timestamp, a column in mixed case, and NULLs.
fn orders() -> RecordBatch {
    let price = Decimal128Array::from(vec![Some(1050), None, Some(-325)]).with_precision_and_scale(15, 2).unwrap();
    let at = TimestampMicrosecondArray::from(vec![Some(1_500_000), Some(0), None]);
    let columns: [(&str, ArrayRef); 3] = [
        ("price", Arc::new(price)),
        ("placedAt", Arc::new(at)),
        ("note", Arc::new(StringArray::from(vec![Some("a"), Some("b\"c"), None]))),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true))).unwrap()
}
