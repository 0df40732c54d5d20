//! `POST /v1/query`.

use std::io::{Cursor, Read};

use arrow::ipc::reader::StreamReader;
use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::support::Broker;

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_carries_columns_rows_snapshots_and_figures() {
    let broker = Broker::start().await;
    let answer = broker.sql("SELECT id, name FROM numbers WHERE id >= 2998 ORDER BY id").await;
    let keys: Vec<&str> = answer.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["query_id", "columns", "rows", "snapshots", "stats"]);
    assert_eq!(answer["columns"], json!([{"name": "id", "type": "BIGINT"}, {"name": "name", "type": "VARCHAR"}]));
    assert_eq!(answer["rows"], json!([[2998, "n2998"], [2999, "n2999"]]));
    let snapshot = &answer["snapshots"]["numbers"];
    assert!(!snapshot["id"].as_str().unwrap().is_empty());
    assert!(snapshot["age_ms"].as_i64().unwrap() < 60_000);
    assert_eq!(answer["stats"]["files_total"], 3);
    assert!(answer["stats"]["bytes_lake"].as_u64().unwrap() > 0);
    assert!(answer["stats"]["plan_ms"].as_f64().unwrap() > 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn values_are_spelled_exactly_and_names_match_without_case() {
    let broker = Broker::start().await;
    let answer = broker.sql("SELECT PRICE, placedat, Note FROM Orders ORDER BY price NULLS LAST").await;
    assert_eq!(
        answer["rows"],
        json!([
            ["-3.25", null, null],
            ["10.50", "1970-01-01T00:00:01.500000", "a"],
            [null, "1970-01-01T00:00:00.000000", "b\"c"],
        ])
    );
    assert_eq!(answer["columns"][0]["type"], "DECIMAL(15,2)");
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_are_bound_by_position_and_by_name() {
    let broker = Broker::start().await;
    for body in [
        json!({"sql": "SELECT count(*) FROM numbers WHERE id < $1 AND name <> $2", "params": [10, "n3"]}),
        json!({"sql": "SELECT count(*) FROM numbers WHERE id < $most AND name <> $not", "params": {"most": 10, "not": "n3"}}),
    ] {
        let answer: Value = broker.post("/v1/query", &body).await.json().await.unwrap();
        assert_eq!(answer["rows"], json!([[9]]), "{body}");
    }
    let (status, error) = broker.request_error(&json!({"sql": "SELECT $1 + $2", "params": [1]})).await;
    assert_eq!((status, &error["kind"]), (400, &json!("option")));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_arrow_stream_holds_the_same_rows() {
    let broker = Broker::start().await;
    let request = broker.client.post(format!("{}/v1/query", broker.url));
    let response = request
        .header("accept", "application/vnd.apache.arrow.stream")
        .body(json!({"sql": "SELECT id FROM numbers WHERE id % 2 = 0"}).to_string())
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()["content-type"], "application/vnd.apache.arrow.stream");
    let snapshots: Value = serde_json::from_str(response.headers()["x-lakeserve-snapshots"].to_str().unwrap()).unwrap();
    assert!(snapshots["numbers"]["id"].is_string());
    let stats: Value = serde_json::from_str(response.headers()["x-lakeserve-stats"].to_str().unwrap()).unwrap();
    assert_eq!(stats["files_total"], 3);
    let body = response.bytes().await.unwrap();
    let reader = StreamReader::try_new(Cursor::new(body), None).unwrap();
    let rows: usize = reader.map(|batch| batch.unwrap().num_rows()).sum();
    assert_eq!(rows, 1500);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_answer_is_streamed_whole() {
    let broker = Broker::start().await;
    let sql = "SELECT a.id * 3000 + b.id AS n FROM numbers a CROSS JOIN numbers b WHERE a.id < 200";
    let answer = broker.sql(sql).await;
    assert_eq!(answer["rows"].as_array().unwrap().len(), 600_000);
    // The figures stand at the end, so they are whole.
    assert!(answer["stats"]["execute_ms"].as_f64().unwrap() > 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_after_the_first_byte_breaks_the_answer_off() {
    let broker = Broker::start().await;
    // The last rows divide by zero, long after the first megabyte has been sent.
    let sql = "SELECT 1 / (2999 - a.id), b.name FROM (SELECT id FROM numbers WHERE id >= 2700) a CROSS JOIN numbers b";
    for (encoding, accept) in [("identity", "*/*"), ("gzip", "*/*"), ("gzip", "application/vnd.apache.arrow.stream")] {
        let request = broker.client.post(format!("{}/v1/query", broker.url));
        let request = request.header("accept-encoding", encoding).header("accept", accept);
        let response = request.body(json!({ "sql": sql }).to_string()).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK, "the first rows are good ones");
        assert!(response.bytes().await.is_err(), "the client must notice: {encoding} {accept}");
    }
    assert_eq!(broker.rows("SELECT 1").await, json!([[1]]));
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_and_show_work() {
    let broker = Broker::start().await;
    let plan = broker.rows("EXPLAIN SELECT count(*) FROM numbers WHERE id < 5").await.to_string();
    assert!(plan.contains("numbers"), "{plan}");
    let plan = broker.rows("EXPLAIN ANALYZE SELECT sum(id) FROM numbers").await.to_string();
    assert!(plan.contains("output_rows"), "{plan}");
    let shown =
        broker.rows("SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' ORDER BY 1").await;
    assert_eq!(shown, json!([["numbers"], ["orders"]]));
    assert!(broker.rows("SHOW TABLES").await.to_string().contains("orders"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_answer_is_streamed_whole_under_gzip() {
    let broker = Broker::start().await;
    let sql = "SELECT a.id, b.name FROM (SELECT id FROM numbers WHERE id < 40) a CROSS JOIN numbers b";
    for path in ["/v1/query", "/query/sql"] {
        let request = broker.client.post(format!("{}{path}", broker.url)).header("accept-encoding", "gzip");
        let response = request.body(json!({ "sql": sql }).to_string()).send().await.unwrap();
        assert_eq!(response.headers()["content-encoding"], "gzip");
        let packed = response.bytes().await.expect("the body ends well");
        let mut plain = String::new();
        flate2::read::GzDecoder::new(&packed[..]).read_to_string(&mut plain).unwrap();
        assert!(plain.len() > 1 << 20, "{path}: {} bytes", plain.len());
        let answer: Value = serde_json::from_str(&plain).unwrap();
        let rows = if path == "/v1/query" { &answer["rows"] } else { &answer["resultTable"]["rows"] };
        assert_eq!(rows.as_array().unwrap().len(), 40 * 3000);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_are_gzipped_both_ways_and_ids_come_back() {
    let broker = Broker::start().await;
    let request = broker.client.post(format!("{}/v1/query", broker.url));
    let response = request
        .header("accept-encoding", "gzip")
        .header("x-request-id", "my-id-1")
        .body(json!({"sql": "SELECT name FROM numbers"}).to_string())
        .send()
        .await
        .unwrap();
    assert_eq!(response.headers()["content-encoding"], "gzip");
    assert_eq!(response.headers()["x-request-id"], "my-id-1");
    assert_eq!(response.bytes().await.unwrap()[..2], [0x1f, 0x8b]);
    // {"sql":"SELECT 1"}
    let gzipped = vec![
        31, 139, 8, 0, 0, 0, 0, 0, 2, 3, 171, 86, 42, 46, 204, 81, 178, 82, 10, 118, 245, 113, 117, 14, 81, 48, 84,
        170, 5, 0, 190, 8, 51, 83, 18, 0, 0, 0,
    ];
    let request = broker.client.post(format!("{}/v1/query", broker.url));
    let response = request.header("content-encoding", "gzip").body(gzipped.clone()).send().await.unwrap();
    assert_eq!(response.json::<Value>().await.unwrap()["rows"], json!([[1]]));
    for corrupt in [gzipped[..20].to_vec(), b"no gzip at all".to_vec()] {
        let request = broker.client.post(format!("{}/v1/query", broker.url));
        let response = request.header("content-encoding", "gzip").body(corrupt).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::BAD_REQUEST);
        assert_eq!(response.json::<Value>().await.unwrap()["error"]["kind"], "parse");
    }
    let request = broker.client.post(format!("{}/v1/query", broker.url));
    let response = request.header("content-encoding", "zstd").body(gzipped).send().await.unwrap();
    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
    assert!(response.text().await.unwrap().contains("zstd"));
}
