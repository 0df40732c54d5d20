//! Older states of a table, chosen by the statement or by the request.

use std::path::Path;

use lakeserve_broker::{QueryRequest, Rights};
use serde_json::{Value, json};

use crate::support::{Broker, numbers, write};

/// A Delta table of two versions: ten rows, then thirty. The second commit came a minute later.
fn write_delta(folder: &Path) {
    let schema = r#"{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}},{"name":"name","type":"string","nullable":true,"metadata":{}}]}"#;
    let first = [
        json!({"commitInfo": {"timestamp": 1_700_000_000_000_i64}}),
        json!({"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}),
        json!({"metaData": {"id": "6f0ba8a3-0000-4000-8000-000000000001", "format": {"provider": "parquet", "options": {}},
            "schemaString": schema, "partitionColumns": [], "configuration": {}, "createdTime": 1_700_000_000_000_i64}}),
        add(folder, "a.parquet", 0..10),
    ];
    let second = [json!({"commitInfo": {"timestamp": 1_700_000_060_000_i64}}), add(folder, "b.parquet", 10..30)];
    std::fs::create_dir_all(folder.join("_delta_log")).unwrap();
    for (version, actions) in [first.to_vec(), second.to_vec()].into_iter().enumerate() {
        let lines: Vec<String> = actions.iter().map(Value::to_string).collect();
        std::fs::write(folder.join(format!("_delta_log/{version:020}.json")), lines.join("\n")).unwrap();
    }
}

fn add(folder: &Path, name: &str, ids: std::ops::Range<i64>) -> Value {
    write(&folder.join(name), &numbers(ids));
    let size = std::fs::metadata(folder.join(name)).unwrap().len();
    json!({"add": {"path": name, "partitionValues": {}, "size": size, "modificationTime": 1_700_000_000_000_i64, "dataChange": true}})
}

async fn broker() -> Broker {
    let broker = Broker::start().await;
    write_delta(&broker.path("delta"));
    broker.add("d", "delta").await;
    broker
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_reads_the_version_that_it_names() {
    let broker = broker().await;
    assert_eq!(broker.rows("SELECT count(*) FROM d").await, json!([[30]]));
    let answer = broker.sql("SELECT count(*), max(x.ID) FROM D FOR VERSION AS OF 0 AS x").await;
    assert_eq!(answer["rows"], json!([[10, 9]]));
    let (name, used) = answer["snapshots"].as_object().unwrap().iter().next().unwrap();
    assert_eq!((name.as_str(), &used["version"], &used["age_ms"]), ("d@0", &json!("0"), &Value::Null));

    let sql = "SELECT (SELECT count(*) FROM d) AS now, (SELECT count(*) FROM d FOR VERSION AS OF 0) AS before";
    let answer = broker.sql(sql).await;
    assert_eq!(answer["rows"], json!([[30, 10]]));
    let names: Vec<&String> = answer["snapshots"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["d", "d@0"]);
    let (status, error) = broker.error("SELECT count(*) FROM d FOR VERSION AS OF 7").await;
    assert_eq!(status, 404, "{error}");
    assert!(error["message"].as_str().unwrap().contains('7'), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_chooses_the_state_of_a_table() {
    let broker = broker().await;
    for (choice, expected) in [(json!(0), 10), (json!("1"), 30)] {
        let body = json!({"sql": "SELECT count(*) FROM d", "snapshot": {"D": choice}});
        let answer: Value = broker.post("/v1/query", &body).await.json().await.unwrap();
        assert_eq!(answer["rows"], json!([[expected]]), "{answer}");
        assert_eq!(answer["snapshots"]["d"]["age_ms"], Value::Null, "{answer}");
    }
    let body = json!({"sql": "SELECT count(*) FROM numbers", "snapshot": {"d": 0}});
    let (status, error) = broker.request_error(&body).await;
    assert_eq!((status, &error["kind"]), (400, &json!("option")), "{error}");
    let body = json!({"sql": "SELECT count(*) FROM d FOR VERSION AS OF 1", "snapshot": {"d": 0}});
    let (status, error) = broker.request_error(&body).await;
    assert_eq!(status, 400, "{error}");
    assert!(error["message"].as_str().unwrap().contains("chooses itself"), "{error}");
    // Delta has no branches.
    let body = json!({"sql": "SELECT count(*) FROM d", "snapshot": {"d": "main"}});
    let (status, error) = broker.request_error(&body).await;
    assert!((400..500).contains(&status), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_view_keeps_the_version_that_it_names() {
    let broker = broker().await;
    let session = broker.engine.session(Rights::Own);
    let run = async |sql: &str| {
        let request = QueryRequest { sql: sql.into(), ..QueryRequest::default() };
        let batches = session.execute(request).await.unwrap().collect().await.unwrap();
        batches.iter().map(arrow::array::RecordBatch::num_rows).sum::<usize>()
    };
    run("CREATE VIEW old AS SELECT * FROM d FOR VERSION AS OF 0").await;
    assert_eq!(run("SELECT * FROM old").await, 10);
    assert_eq!(run("SELECT * FROM d FOR VERSION AS OF 1 EXCEPT SELECT * FROM old").await, 20);
}
