//! Deadlines, cancellation, capacity and the size of results.

use std::io::{Read, Write};
use std::net::TcpStream;

use lakeserve_broker::{Engine, EngineOptions, HttpOptions};
use lakeserve_common::spawn;
use lakeserve_common::units::ByteSize;
use serde_json::{Value, json};

use crate::support::{Broker, engine_options};

/// Three billion rows and more: nobody waits for it.
const ENDLESS: &str = "SELECT sum(a.id * b.id + c.id) FROM numbers a CROSS JOIN numbers b CROSS JOIN numbers c";

#[tokio::test(flavor = "multi_thread")]
async fn a_query_ends_at_its_deadline() {
    let broker = Broker::start().await;
    let (status, error) = broker.request_error(&json!({"sql": ENDLESS, "timeout_ms": 300})).await;
    assert_eq!((status, &error["kind"]), (504, &json!("deadline")), "{error}");
    assert!(error["message"].as_str().unwrap().contains("300ms"), "{error}");
    let answer = broker.pinot(&format!("SET timeoutMs=300; {ENDLESS}")).await;
    assert_eq!(answer["exceptions"][0]["errorCode"], 250, "{answer}");
    broker.until("the end of both queries", |engine| engine.running().is_empty()).await;
    let (status, error) = broker.request_error(&json!({"sql": "SELECT 1", "timeout_ms": 86_400_000})).await;
    assert_eq!((status, &error["kind"]), (400, &json!("option")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_goes_away_ends_its_query() {
    let broker = Broker::start().await;
    let request = broker.client.post(format!("{}/v1/query", broker.url)).body(json!({ "sql": ENDLESS }).to_string());
    let client = spawn::spawn("client", request.send());
    broker.until("the start of the query", |engine| engine.running().len() == 1).await;
    client.abort();
    broker.until("the end of the query", |engine| engine.running().is_empty()).await;
    let metrics = broker.get("/metrics").await.text().await.unwrap();
    assert!(metrics.contains("lakeserve_query_requests_total{outcome=\"cancelled\"} 1"), "{metrics}");
    assert!(metrics.contains("lakeserve_query_running 0"), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_join_that_finds_nothing_ends_too() {
    let broker = Broker::start().await;
    let filtered = "SELECT count(*) FROM (SELECT a.id * 3000 + b.id AS x FROM numbers a CROSS JOIN numbers b) l";
    for join in ["numbers r ON l.x * r.id < -1", "numbers r ON l.x % 2 = r.id % 2 AND l.x * r.id < -1"] {
        let body = json!({"sql": format!("{filtered} JOIN {join}"), "timeout_ms": 1000});
        let (status, error) = broker.request_error(&body).await;
        assert_eq!((status, &error["kind"]), (504, &json!("deadline")), "{error}");
        broker.until("the end of the query", |engine| engine.running().is_empty()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_is_listed_and_cancelled_by_id() {
    let broker = Broker::start().await;
    for (client_id, set) in [(false, false), (true, false), (true, true)] {
        let sql = if set { format!("SET clientQueryId='mine'; {ENDLESS}") } else { ENDLESS.to_owned() };
        let body = match client_id && !set {
            true => json!({"sql": ENDLESS, "queryOptions": "clientQueryId=mine"}),
            false => json!({ "sql": sql }),
        };
        let request = broker.client.post(format!("{}/query/sql", broker.url)).body(body.to_string());
        let client = spawn::spawn("client", request.send());
        broker.until("the start of the query", |engine| engine.running().len() == 1).await;
        broker.until("its name", |engine| engine.running()[0].client_id.get().is_some() == client_id).await;
        let queries = broker.get_json("/queries").await;
        let (id, listed) = queries.as_object().unwrap().iter().next().unwrap();
        assert_eq!(listed, &sql);
        let path = if client_id { "/query/mine?client=true".to_owned() } else { format!("/query/{id}") };
        let cancelled = broker.client.delete(format!("{}{path}", broker.url)).send().await.unwrap();
        assert_eq!(cancelled.status().as_u16(), 200);
        let answer: Value = client.await.unwrap().unwrap().json().await.unwrap();
        assert_eq!(answer["exceptions"][0]["errorCode"], 503, "{answer}");
        assert_eq!(answer["clientRequestId"], if client_id { json!("mine") } else { Value::Null }, "{answer}");
        broker.until("the end of the query", |engine| engine.running().is_empty()).await;
    }
    let unknown = broker.client.delete(format!("{}/query/nope", broker.url)).send().await.unwrap();
    assert_eq!(unknown.status().as_u16(), 404);
}

fn gauge(engine: &Engine, name: &str) -> f64 {
    let families = engine.gather_metrics();
    let family = families.iter().find(|family| family.name() == name).unwrap();
    family.get_metric()[0].get_gauge().get_value()
}

#[tokio::test(flavor = "multi_thread")]
async fn beyond_capacity_queries_are_turned_away_at_once() {
    let options = EngineOptions { max_concurrent_queries: 1, max_queued_queries: 0, ..engine_options() };
    let broker = Broker::start_with(options, HttpOptions::default()).await;
    let request = broker.client.post(format!("{}/v1/query", broker.url)).body(json!({ "sql": ENDLESS }).to_string());
    let first = spawn::spawn("client", request.send());
    broker.until("the slot is taken", |engine| gauge(engine, "lakeserve_query_running") == 1.0).await;
    let refused = broker.post("/v1/query", &json!({"sql": "SELECT 1"})).await;
    assert_eq!(refused.status().as_u16(), 503);
    assert_eq!(refused.headers()["retry-after"], "1");
    assert_eq!(refused.json::<Value>().await.unwrap()["error"]["kind"], "capacity");
    first.abort();
    broker.until("the slot is given back", |engine| gauge(engine, "lakeserve_query_running") == 0.0).await;
    assert_eq!(broker.rows("SELECT 1").await, json!([[1]]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_is_too_large_is_refused_and_never_cut() {
    let options = EngineOptions { max_result_rows: 2999, ..engine_options() };
    let broker = Broker::start_with(options, HttpOptions::default()).await;
    let (status, error) = broker.error("SELECT id FROM numbers").await;
    assert_eq!((status, &error["kind"]), (413, &json!("too_large")), "{error}");
    assert_eq!(broker.rows("SELECT id FROM numbers LIMIT 2999").await.as_array().unwrap().len(), 2999);

    let options = EngineOptions { max_result_bytes: ByteSize::kib(16), ..engine_options() };
    let broker = Broker::start_with(options, HttpOptions::default()).await;
    let (status, error) = broker.error("SELECT id FROM numbers").await;
    assert_eq!((status, &error["kind"]), (413, &json!("too_large")), "{error}");
    assert!(error["message"].as_str().unwrap().contains("16KiB"), "{error}");
    assert_eq!(broker.rows("SELECT id FROM numbers ORDER BY id LIMIT 100").await.as_array().unwrap().len(), 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_that_needs_too_much_memory_is_refused() {
    let mut options = engine_options();
    options.session.memory_limit = ByteSize::mib(1);
    options.session.spill_limit = ByteSize(0);
    let broker = Broker::start_with(options, HttpOptions::default()).await;
    let sql =
        "SELECT a.id * 3000 + b.id AS k, count(*) FROM numbers a CROSS JOIN numbers b GROUP BY 1 ORDER BY 2 LIMIT 1";
    let (status, error) = broker.error(sql).await;
    assert_eq!((status, &error["kind"]), (400, &json!("resource")), "{error}");
    assert_eq!(broker.rows("SELECT count(*) FROM numbers").await, json!([[3000]]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_reads_slowly_holds_nothing_beyond_its_deadline() {
    let options = EngineOptions { max_concurrent_queries: 1, ..engine_options() };
    let broker = Broker::start_with(options, HttpOptions::default()).await;
    let address = broker.url.strip_prefix("http://").unwrap().to_owned();
    let sql = "SELECT a.name, b.name FROM numbers a CROSS JOIN numbers b";
    let body = json!({"sql": sql, "timeout_ms": 2000}).to_string();
    let mut stream = TcpStream::connect(&address).unwrap();
    write!(stream, "POST /v1/query HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
    let mut first = [0; 4096];
    stream.read_exact(&mut first).unwrap();
    assert!(first.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&first));
    // It has stopped reading. Its slot comes free at its deadline and the next query is answered.
    assert_eq!(broker.rows("SELECT count(*) FROM numbers").await, json!([[3000]]));
    broker.until("the end of the query", |engine| engine.running().is_empty()).await;
    let rest = spawn::spawn_blocking("read", move || {
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        rest
    });
    let rest = rest.await.unwrap();
    assert!(!rest.ends_with(b"0\r\n\r\n"), "an answer that was broken off must not look whole");
}
