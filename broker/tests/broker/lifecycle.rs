//! Readiness and the orderly end.

use std::time::Duration;

use lakeserve_broker::{Engine, HttpOptions};
use lakeserve_common::spawn;
use lakeserve_common::units::Span;
use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::support::{Broker, engine_options};

/// Some seconds of work.
const LONG: &str = "SELECT count(*) FROM numbers a CROSS JOIN numbers b WHERE a.id * b.id % 7 = 3";
const ENDLESS: &str = "SELECT sum(a.id * b.id + c.id) FROM numbers a CROSS JOIN numbers b CROSS JOIN numbers c";

fn query(broker: &Broker, sql: &str) -> tokio::task::JoinHandle<reqwest::Result<reqwest::Response>> {
    let request = broker.client.post(format!("{}/v1/query", broker.url)).body(json!({ "sql": sql }).to_string());
    spawn::spawn("client", request.send())
}

fn started(engine: &Engine) -> bool {
    !engine.running().is_empty()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_turns_readiness_off_and_lets_queries_finish() {
    let http = HttpOptions { drain_delay: Span::millis(500), ..HttpOptions::default() };
    let broker = Broker::start_with(engine_options(), http).await;
    let running = query(&broker, LONG);
    broker.until("the start of the query", started).await;
    broker.shutdown.trigger();
    assert_eq!(broker.get("/health/readiness").await.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(broker.get("/health").await.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(broker.get("/health/liveness").await.status(), StatusCode::OK);
    // Load balancers lag: what still comes is still answered.
    assert_eq!(broker.rows("SELECT 1").await, json!([[1]]));
    let answer: Value = running.await.unwrap().unwrap().json().await.unwrap();
    assert_eq!(answer["rows"].as_array().unwrap().len(), 1, "{answer}");
    let server = tokio::time::timeout(Duration::from_secs(10), broker.server).await;
    server.expect("the server ends once nothing runs").unwrap().unwrap();
    assert!(broker.client.get(format!("{}/health", broker.url)).send().await.is_err(), "nobody listens any more");
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_beyond_the_grace_period_are_cancelled_with_an_answer() {
    let http = HttpOptions { drain_grace: Span::millis(300), ..HttpOptions::default() };
    let broker = Broker::start_with(engine_options(), http).await;
    let running = query(&broker, ENDLESS);
    broker.until("the start of the query", started).await;
    broker.shutdown.trigger();
    let response = running.await.unwrap().unwrap();
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(response.json::<Value>().await.unwrap()["error"]["kind"], "draining");
    let server = tokio::time::timeout(Duration::from_secs(10), broker.server).await;
    server.expect("the server ends").unwrap().unwrap();
}
