//! Tables that come, go and change under running queries.

use lakeserve_broker::{EngineOptions, HttpOptions};
use lakeserve_common::units::Span;
use serde_json::{Value, json};

use crate::support::{Broker, direct, engine_options, numbers, write};

#[tokio::test(flavor = "multi_thread")]
async fn a_new_file_is_seen_after_a_refresh_and_not_before() {
    let broker = Broker::start().await;
    let before = broker.sql("SELECT count(*) FROM numbers").await;
    write(&broker.path("numbers/part-9.parquet"), &numbers(3000..3010));
    assert_eq!(broker.rows("SELECT count(*) FROM numbers").await, json!([[3000]]));
    let pushed: Value = broker.post("/admin/tables/numbers/refresh", &json!({})).await.json().await.unwrap();
    assert_eq!((&pushed["changed"], &pushed["status"]["files"]), (&json!(true), &json!(4)));
    let after = broker.sql("SELECT count(*) FROM numbers").await;
    assert_eq!(after["rows"], json!([[3010]]));
    assert_ne!(before["snapshots"]["numbers"]["id"], after["snapshots"]["numbers"]["id"]);
    let again: Value = broker.post("/admin/tables/numbers/refresh", &json!({})).await.json().await.unwrap();
    assert_eq!(again["changed"], false);
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_are_refreshed_in_the_background() {
    let options = EngineOptions { refresh_interval: Span::millis(50), ..engine_options() };
    let broker = Broker::start_with(options, HttpOptions::default()).await;
    write(&broker.path("numbers/part-9.parquet"), &numbers(3000..3010));
    for _ in 0..100 {
        if broker.rows("SELECT count(*) FROM numbers").await == json!([[3010]]) {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("the new file was not seen");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_vanished_or_was_replaced_costs_one_retry() {
    let broker = Broker::start().await;
    std::fs::remove_file(broker.path("numbers/part-1.parquet")).unwrap();
    assert_eq!(broker.rows("SELECT count(*), sum(id) FROM numbers WHERE name <> ''").await, json!([[2000, 2_999_000]]));
    // Replaced in place: another size, another content.
    write(&broker.path("swapped/a.parquet"), &numbers(0..1000));
    broker.add("swapped", "swapped").await;
    write(&broker.path("swapped/a.parquet"), &numbers(0..10));
    assert_eq!(broker.rows("SELECT count(*), sum(id) FROM swapped WHERE name <> ''").await, json!([[10, 45]]));
    let metrics = broker.get("/metrics").await.text().await.unwrap();
    assert!(metrics.contains("lakeserve_query_retries_total 2"), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_refresh_keeps_the_last_good_state_until_it_is_stale() {
    let options = EngineOptions { max_staleness: Span::millis(1), ..engine_options() };
    let broker = Broker::start_with(options, HttpOptions::default()).await;
    let expected = broker.rows("SELECT count(*) FROM numbers").await;
    std::fs::rename(broker.path("numbers"), broker.path("moved")).unwrap();
    let refused = broker.post("/admin/tables/numbers/refresh", &json!({})).await;
    assert!(refused.status().as_u16() >= 400, "{}", refused.text().await.unwrap());
    let table = broker.get_json("/tables/numbers").await;
    assert_eq!(table["status"]["state"], "stale", "{table}");
    assert!(table["status"]["error"].is_string(), "{table}");
    std::fs::rename(broker.path("moved"), broker.path("numbers")).unwrap();
    assert_eq!(broker.rows("SELECT count(*) FROM numbers").await, expected);
    assert_eq!(broker.post("/admin/tables/numbers/refresh", &json!({})).await.status().as_u16(), 200);
    assert_eq!(broker.get_json("/tables/numbers").await["status"]["error"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_are_added_and_removed_while_it_runs() {
    let broker = Broker::start().await;
    write(&broker.path("extra/a.parquet"), &numbers(0..7));
    broker.add("extra", "extra").await;
    assert_eq!(broker.rows("SELECT count(*) FROM extra").await, json!([[7]]));
    assert!(broker.engine.remove_table("extra"));
    assert!(!broker.engine.remove_table("extra"));
    assert_eq!(broker.error("SELECT count(*) FROM extra").await.0, 404);
    broker
        .until("the end of its metrics", |engine| {
            let families = engine.gather_metrics();
            let mut labels =
                families.iter().flat_map(|family| family.get_metric()).flat_map(|metric| metric.get_label());
            !labels.any(|label| label.value() == "extra")
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_differ_by_case_only_are_told_apart_or_refused() {
    let broker = Broker::start().await;
    write(&broker.path("upper/a.parquet"), &numbers(0..2));
    broker.add("NUMBERS", "upper").await;
    assert_eq!(broker.rows("SELECT count(*) FROM NUMBERS").await, json!([[2]]));
    assert_eq!(broker.rows("SELECT count(*) FROM numbers").await, json!([[3000]]));
    let (status, error) = broker.error("SELECT count(*) FROM Numbers").await;
    assert_eq!(status, 404, "{error}");
    assert!(error.to_string().contains("NUMBERS"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_query_reads_one_state_of_a_table() {
    let broker = Broker::start().await;
    let rows =
        direct(&broker.engine, "SELECT (SELECT count(*) FROM numbers) - (SELECT count(*) FROM numbers) AS d").await;
    assert_eq!(rows.unwrap()[0].num_rows(), 1);
    let answer = broker.sql("SELECT count(*) FROM numbers a JOIN numbers b USING (id)").await;
    assert_eq!(answer["snapshots"].as_object().unwrap().len(), 1);
    let (status, error) = broker.request_error(&json!({"sql": "SELECT 1", "snapshot": {"numbers": 1}})).await;
    assert_eq!((status, &error["kind"]), (400, &json!("option")), "{error}");
    let (status, _) = broker.request_error(&json!({"sql": "SELECT 1", "snapshot": {"nope": 1}})).await;
    assert_eq!(status, 404);
}
