//! Whole runs against a small server in the same process.

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use clap::Parser;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use lakeserve_common::spawn::spawn;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Mutex;

use crate::workload::{Parameters, cells_sql, quoted};
use crate::{Report, RunOptions, run};

/// The table that the server pretends to have, in ten-thousandths per cell.
fn cell(year: i128, discount: i128, class: i128) -> i128 {
    year * 1_000 + discount * 10 + class
}

fn text(sum: i128) -> String {
    format!("{}.{:04}", sum / 10_000, sum % 10_000)
}

fn right_answers() -> HashMap<String, String> {
    let answer = |asked: Parameters| {
        let classes = 24..=asked.quantity;
        let discounts = asked.discount - 1..=asked.discount + 1;
        text(discounts.flat_map(|discount| classes.clone().map(move |class| cell(asked.year, discount, class))).sum())
    };
    Parameters::all().into_iter().map(|asked| (asked.sql(&quoted("lineitem")), answer(asked))).collect()
}

fn cells() -> Value {
    let cells =
        (1993..=1997).flat_map(|year| (1..=10).flat_map(move |discount| [24, 25].map(|class| (year, discount, class))));
    cells
        .map(|(year, discount, class)| {
            json!([year, format!("0.{discount:02}"), class, text(cell(year, discount, class))])
        })
        .collect()
}

fn pinot(rows: Value) -> (StatusCode, Value) {
    (StatusCode::OK, json!({ "resultTable": { "dataSchema": {}, "rows": rows }, "exceptions": [] }))
}

/// Starts a server that answers the preparing queries itself and hands every query 6 with its number
/// (from 0; the first is the one asked before the run) and its right answer to `respond`.
async fn serve<R, F>(respond: R) -> String
where
    R: Fn(u64, String) -> F + Send + Sync + 'static,
    F: Future<Output = (StatusCode, Value)> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (respond, answers, asked) = (Arc::new(respond), Arc::new(right_answers()), Arc::new(AtomicU64::new(0)));
    let handle = move |request: Request<Incoming>| {
        let (respond, answers, asked) = (Arc::clone(&respond), Arc::clone(&answers), Arc::clone(&asked));
        async move {
            let v1 = request.uri().path() == "/v1/query";
            let body: Value = serde_json::from_slice(&request.into_body().collect().await.unwrap().to_bytes()).unwrap();
            let sql = body["sql"].as_str().unwrap();
            let (status, mut answer) = if sql.contains("count(*)") {
                pinot(json!([[100]]))
            } else if sql == cells_sql(&quoted("lineitem")) {
                pinot(cells())
            } else {
                respond(asked.fetch_add(1, Ordering::SeqCst), answers[sql].clone()).await
            };
            if v1 {
                answer = json!({ "columns": [], "rows": answer["resultTable"]["rows"] });
            }
            let mut response = Response::new(Full::new(Bytes::from(answer.to_string())));
            *response.status_mut() = status;
            Ok::<_, Infallible>(response)
        }
    };
    drop(spawn("stub", async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let service = service_fn(handle.clone());
            drop(spawn(
                "stub-connection",
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service),
            ));
        }
    }));
    format!("http://{address}")
}

#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    options: RunOptions,
}

fn options(url: &str, flags: &[&str]) -> RunOptions {
    Flags::parse_from(["run", "--url", url].iter().chain(flags)).options
}

async fn measure(url: &str, flags: &[&str]) -> Report {
    run(&options(url, flags)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stall_of_one_second_shows_in_the_percentiles() {
    let gate = Arc::new(Mutex::new(()));
    let url = serve(move |number, answer| {
        let gate = Arc::clone(&gate);
        async move {
            let held = gate.lock().await;
            if number == 200 {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            drop(held);
            pinot(json!([[answer]]))
        }
    })
    .await;
    let report = measure(&url, &["--rate", "200", "--duration", "3s", "--warmup", "0s", "--connections", "4"]).await;
    // A closed loop would see four slow answers out of six hundred. Two hundred queries were meant to
    // be sent during the stall, and their waits range evenly from one second to none.
    assert!(report.is_clean(), "{report}");
    assert_eq!(report.queries, 600);
    assert!(report.max_ms >= 950.0 && report.p99_ms >= 900.0, "{report}");
    assert!(report.p90_ms >= 500.0, "{report}");
    assert!(report.p50_ms < 200.0, "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fast_server_is_served_at_the_rate_with_drawn_parameters_on_both_interfaces() {
    let url = serve(|_, answer| async move { pinot(json!([[answer]])) }).await;
    for api in ["pinot", "v1"] {
        let flags = ["--rate", "300", "--duration", "1s", "--warmup", "200ms", "--vary", "--seed", "7", "--api", api];
        let report = measure(&url, &flags).await;
        assert!(report.is_clean() && report.warmup_errors == 0, "{report}");
        assert_eq!(report.queries, 300);
        assert!((report.offered_qps - 300.0).abs() < 0.1 && report.served_qps > 200.0, "{report}");
        assert!(report.driver_cpu_s.is_some());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_answers_and_errors_are_counted_by_kind() {
    let url = serve(|number, answer| async move {
        match number {
            10 | 20 => pinot(json!([["1.0000"]])),
            30 => pinot(json!([[answer, answer]])),
            40 => pinot(json!([])),
            50 => (StatusCode::OK, json!({ "exceptions": [{ "errorCode": 240, "message": "too late" }] })),
            60 => (StatusCode::SERVICE_UNAVAILABLE, json!("busy")),
            70 => (StatusCode::OK, json!({ "exceptions": [] })),
            80 => {
                tokio::time::sleep(Duration::from_secs(5)).await;
                pinot(json!([[answer]]))
            }
            _ => pinot(json!([[answer]])),
        }
    })
    .await;
    let flags = ["--rate", "100", "--duration", "1s", "--warmup", "0s", "--connections", "8", "--timeout", "500ms"];
    let report = measure(&url, &flags).await;
    assert_eq!(report.wrong_answers, 4, "{report}");
    assert!(report.first_wrong_answer.as_deref().unwrap().contains("is right"), "{report}");
    let kinds: Vec<(&str, u64)> =
        report.errors_by_kind.iter().map(|(kind, failures)| (kind.as_str(), failures.count)).collect();
    assert_eq!(kinds, [("http 503", 1), ("malformed answer", 1), ("pinot 240", 1), ("timeout", 1)], "{report}");
    assert!(report.errors == 4 && !report.is_clean());
    assert!(report.max_ms >= 450.0, "the time waited for the timeout stays in the tail: {report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_against_a_server_that_cannot_keep_up_ends_in_time_and_counts_what_was_not_sent() {
    let url = serve(|number, answer| async move {
        if number > 0 {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        pinot(json!([[answer]]))
    })
    .await;
    let flags = ["--rate", "500", "--duration", "1s", "--warmup", "0s", "--connections", "1", "--timeout", "1s"];
    let report = tokio::time::timeout(Duration::from_secs(10), measure(&url, &flags)).await.unwrap();
    assert!(report.errors_by_kind["not sent"].count > 400, "{report}");
    assert!(report.served_qps < 10.0 && report.p50_ms > 1_000.0, "{report}");
    assert!(!report.driver_limited, "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_closes_its_connections_is_reconnected_to() {
    let url = serve(|number, answer| async move {
        assert!(number % 10 != 9, "this panic closes the connection, on purpose");
        pinot(json!([[answer]]))
    })
    .await;
    let flags = ["--rate", "100", "--duration", "1s", "--warmup", "0s", "--connections", "2"];
    let report = measure(&url, &flags).await;
    assert_eq!(report.wrong_answers, 0);
    assert!((8..=20).contains(&report.errors), "{report}");
    assert!(report.errors_by_kind.contains_key("connection"), "{report}");
}

#[tokio::test]
async fn a_wrong_first_answer_ends_the_run_before_it_begins() {
    let url = serve(|_, _| async { pinot(json!([["0.0001"]])) }).await;
    let error = run(&options(&url, &[])).await.unwrap_err();
    assert!(format!("{error:#}").contains("the first answer is wrong: 0.0001"), "{error:#}");
}

#[tokio::test]
async fn impossible_options_and_other_machines_are_refused() {
    for (flags, named) in [
        (vec!["--rate", "0"], "--rate 0"),
        (vec!["--connections", "0"], "--connections 0"),
        (vec!["--duration", "2h"], "--duration 2h"),
        (vec!["--rate", "1000000", "--duration", "1h"], "too many"),
        (vec!["--rate", "1", "--duration", "10ms", "--warmup", "0s"], "sends no query"),
        (vec!["--timeout", "0s"], "--timeout 0ms"),
    ] {
        let error = run(&options("http://127.0.0.1:1", &flags)).await.unwrap_err();
        assert!(format!("{error:#}").contains(named), "{flags:?}: {error:#}");
    }
    let remote = run(&options("http://192.0.2.1:8099", &[])).await.unwrap_err();
    assert!(format!("{remote:#}").contains("--allow-remote"), "{remote:#}");
    let tls = run(&options("https://127.0.0.1:8099", &[])).await.unwrap_err();
    assert!(format!("{tls:#}").contains("not supported yet"), "{tls:#}");
    let nobody = run(&options("http://127.0.0.1:1", &[])).await.unwrap_err();
    assert!(format!("{nobody:#}").contains("connecting"), "{nobody:#}");
}
