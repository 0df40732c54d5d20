//! Bad input: a clear error with the right status, and the next query is right.

use std::fs::OpenOptions;

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::support::{Broker, numbers, write};

#[tokio::test(flavor = "multi_thread")]
async fn statements_that_are_wrong_say_what_is_wrong() {
    let broker = Broker::start().await;
    for (sql, status, kind, named) in [
        ("SELEC 1", 400, "parse", "SELEC"),
        ("", 400, "parse", "empty"),
        ("SELECT 1; SELECT 2", 400, "unsupported", "2 statements"),
        ("SELECT * FROM numberz", 404, "no_such_table", "numberz"),
        ("SELECT idd FROM numbers", 404, "no_such_column", "idd"),
        ("SELECT nosuch(id) FROM numbers", 400, "plan", "nosuch"),
        ("SELECT * FROM numbers TABLESAMPLE (10)", 400, "unsupported", "TABLESAMPLE"),
        ("INSERT INTO numbers VALUES (1, 'x')", 400, "unsupported", "numbers"),
        ("CREATE TABLE mine (a INT)", 400, "unsupported", "read"),
        ("COPY numbers TO '/tmp/lakeserve-must-not-exist.csv'", 400, "unsupported", "COPY"),
        ("SET colour = 'red'; SELECT 1", 400, "option", "colour"),
        ("SELECT CAST('x' AS INT)", 400, "value", "x"),
        ("SELECT 1 / 0", 400, "value", "zero"),
        ("SELECT * FROM numbers FOR VERSION AS OF 7", 0, "", ""),
    ] {
        let (got, error) = broker.error(sql).await;
        if status == 0 {
            // Plain Parquet has no versions; which error says so is the lake's to choose.
            assert!((400..500).contains(&got), "{sql}: {error}");
            continue;
        }
        assert_eq!((got, error["kind"].as_str().unwrap()), (status, kind), "{sql}: {error}");
        assert!(error["message"].as_str().unwrap().contains(named), "{sql}: {error}");
    }
    assert!(!std::path::Path::new("/tmp/lakeserve-must-not-exist.csv").exists());
    assert_eq!(broker.rows("SELECT count(*) FROM numbers").await, json!([[3000]]));
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_megabytes_of_sql_are_refused_with_an_answer() {
    let broker = Broker::start().await;
    let huge = json!({"sql": format!("SELECT '{}'", "x".repeat(50 << 20))}).to_string();
    for path in ["/v1/query", "/query/sql"] {
        let response = broker.client.post(format!("{}{path}", broker.url)).body(huge.clone()).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE, "{path}");
        let body: Value = response.json().await.unwrap();
        assert!(body.to_string().contains("8MiB"), "{body}");
    }
    // Within the body's limit, but longer than a statement may be.
    let (status, error) = broker.error(&format!("SELECT '{}'", "x".repeat(6 << 20))).await;
    assert_eq!((status, &error["kind"]), (413, &json!("too_large")));
    assert_eq!(broker.rows("SELECT 1").await, json!([[1]]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_100000_items_is_answered_right() {
    let broker = Broker::start().await;
    let items: Vec<String> = (0..100_000).map(|item| (item * 2).to_string()).collect();
    let rows = broker.rows(&format!("SELECT count(*), sum(id) FROM numbers WHERE id IN ({})", items.join(","))).await;
    assert_eq!(rows, json!([[1500, 1500 * 1499]]));
}

#[tokio::test(flavor = "multi_thread")]
async fn deep_nesting_and_long_chains_end_in_an_answer_or_an_error() {
    let broker = Broker::start().await;
    let deep = format!("SELECT {}1{}", "(".repeat(10_000), ")".repeat(10_000));
    let nots = format!("SELECT {} true", "NOT ".repeat(10_000));
    let minus = format!("SELECT {}1", "- ".repeat(10_000));
    let cases = format!("SELECT {}1{}", "CASE WHEN true THEN ".repeat(10_000), " END".repeat(10_000));
    let subqueries = format!("SELECT * FROM {}numbers{}", "(SELECT * FROM ".repeat(3_000), ") AS t".repeat(3_000));
    let sum = format!("SELECT 1{}", "+1".repeat(10_000));
    for sql in [deep, nots, minus, cases, subqueries, sum] {
        let response = broker.post("/v1/query", &json!({ "sql": sql })).await;
        let status = response.status().as_u16();
        let body: Value = response.json().await.unwrap();
        assert!(status == 200 || status == 400, "{status} {body}");
        assert_eq!(broker.rows("SELECT count(*) FROM numbers").await, json!([[3000]]));
    }
    let chain: Vec<String> = (0..20_000).map(|item| format!("id = {item}")).collect();
    let rows = broker.rows(&format!("SELECT count(*) FROM numbers WHERE {}", chain.join(" OR "))).await;
    assert_eq!(rows, json!([[3000]]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_file_is_an_error_that_names_it() {
    let broker = Broker::start().await;
    let file = broker.path("damaged/broken.parquet");
    write(&file, &numbers(0..5000));
    let whole = std::fs::metadata(&file).unwrap().len();
    OpenOptions::new().write(true).open(&file).unwrap().set_len(whole / 2).unwrap();
    broker.add("damaged", "damaged").await;
    let (status, error) = broker.error("SELECT sum(id) FROM damaged").await;
    assert_eq!((status, &error["kind"]), (500, &json!("corrupt")), "{error}");
    assert!(error["message"].as_str().unwrap().contains("broken.parquet"), "{error}");
    assert_eq!(broker.rows("SELECT count(*) FROM numbers").await, json!([[3000]]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_cannot_be_opened_answers_with_its_own_error() {
    let broker = Broker::start().await;
    broker.add("missing", "no-such-folder").await;
    let (status, error) = broker.error("SELECT * FROM missing").await;
    assert_eq!(status, 404, "{error}");
    assert!(error["message"].as_str().unwrap().contains("no-such-folder"), "{error}");
    // It failed visibly, which does not make the broker unready.
    assert_eq!(broker.get("/health/readiness").await.status(), StatusCode::OK);
    assert_eq!(broker.get_json("/admin/tables").await["tables"][0]["state"], "failed");
    let listed =
        broker.rows("SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' ORDER BY 1").await;
    assert_eq!(listed, json!([["numbers"], ["orders"]]));
    // What appears there later is served without a restart.
    write(&broker.path("no-such-folder/a.parquet"), &numbers(0..4));
    let pushed: Value = broker.post("/admin/tables/missing/refresh", &json!({})).await.json().await.unwrap();
    assert_eq!(pushed["changed"], true, "{pushed}");
    assert_eq!(broker.rows("SELECT count(*) FROM missing").await, json!([[4]]));
}
