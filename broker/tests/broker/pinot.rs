//! Pinot's query interface.

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::support::Broker;

const FIELDS: [&str; 25] = [
    "resultTable",
    "numRowsResultSet",
    "partialResult",
    "exceptions",
    "numGroupsLimitReached",
    "timeUsedMs",
    "requestId",
    "clientRequestId",
    "brokerId",
    "numDocsScanned",
    "totalDocs",
    "numEntriesScannedInFilter",
    "numEntriesScannedPostFilter",
    "numServersQueried",
    "numServersResponded",
    "numSegmentsQueried",
    "numSegmentsProcessed",
    "numSegmentsMatched",
    "minConsumingFreshnessTimeMs",
    "numSegmentsPrunedByBroker",
    "numSegmentsPrunedByServer",
    "brokerReduceTimeMs",
    "traceInfo",
    "tablesQueried",
    "snapshots",
];

#[tokio::test(flavor = "multi_thread")]
async fn a_response_has_pinots_fields_in_pinots_order() {
    let broker = Broker::start().await;
    let response = broker
        .post("/query/sql", &json!({"sql": "SELECT id, name FROM numbers ORDER BY id LIMIT 2", "trace": false}))
        .await;
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()["x-pinot-error-code"], "-1");
    let body: Value = response.json().await.unwrap();
    let keys: Vec<&str> = body.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys[..FIELDS.len()], FIELDS);
    assert_eq!(
        body["resultTable"]["dataSchema"],
        json!({"columnNames": ["id", "name"], "columnDataTypes": ["LONG", "STRING"]})
    );
    assert_eq!(body["resultTable"]["rows"], json!([[0, "n0"], [1, "n1"]]));
    assert_eq!(body["exceptions"], json!([]));
    assert_eq!(
        (&body["numRowsResultSet"], &body["numServersQueried"], &body["numServersResponded"]),
        (&json!(2), &json!(1), &json!(1))
    );
    assert_eq!((&body["totalDocs"], &body["tablesQueried"]), (&json!(3000), &json!(["numbers"])));
    assert!(body["brokerId"].as_str().unwrap().starts_with("Broker_127.0.0.1_"));
    assert_eq!(body["clientRequestId"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn values_take_pinots_forms() {
    let broker = Broker::start().await;
    let body = broker.pinot("SELECT price, placedAt, note FROM orders WHERE note = 'a'").await;
    assert_eq!(body["resultTable"]["dataSchema"]["columnDataTypes"], json!(["BIG_DECIMAL", "TIMESTAMP", "STRING"]));
    assert_eq!(body["resultTable"]["rows"], json!([["10.50", "1970-01-01 00:00:01.5", "a"]]));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_way_to_ask_gives_the_same_answer() {
    let broker = Broker::start().await;
    let sql = json!({"sql": "SELECT count(*) FROM numbers"});
    let one: Value = broker.post("/query", &sql).await.json().await.unwrap();
    let two: Value = broker.get_json("/query/sql?sql=SELECT%20count(*)%20FROM%20numbers").await;
    for body in [one, two] {
        assert_eq!(body["resultTable"]["rows"], json!([[3000]]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_are_exceptions_with_status_200_unless_statuses_are_asked_for() {
    let broker = Broker::start().await;
    for (sql, code, status) in [
        ("SELEC 1", 150, 400),
        ("SELECT 1 FROM nowhere", 190, 404),
        ("SELECT nothing FROM numbers", 710, 404),
        ("SELECT no_such_function(id) FROM numbers", 720, 400),
        ("SET nope = 1; SELECT 1", 700, 400),
        ("SELECT 1 / (id - id) FROM numbers", 200, 400),
        ("DROP TABLE numbers", 700, 400),
    ] {
        let body = json!({ "sql": sql });
        let response = broker.post("/query/sql", &body).await;
        assert_eq!(response.status(), StatusCode::OK, "{sql}");
        assert_eq!(response.headers()["x-pinot-error-code"], code.to_string().as_str(), "{sql}");
        let answer: Value = response.json().await.unwrap();
        assert_eq!(answer["exceptions"][0]["errorCode"], code, "{answer}");
        assert!(answer.get("resultTable").is_none() && answer["numServersQueried"] == 1, "{answer}");
        let request = broker.client.post(format!("{}/query/sql", broker.url));
        let response =
            request.header("Pinot-Use-Http-Status-For-Errors", "true").body(body.to_string()).send().await.unwrap();
        assert_eq!(response.status().as_u16(), status, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_not_right_is_code_100() {
    let broker = Broker::start().await;
    for body in ["", "{", "[1]", r#"{"pql":"SELECT 1"}"#, r#"{"sql":"SELECT 1","sqll":1}"#] {
        let request = broker.client.post(format!("{}/query/sql", broker.url)).body(body);
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), StatusCode::BAD_REQUEST, "{body}");
        let answer: Value = response.json().await.unwrap();
        assert_eq!(answer["exceptions"][0]["errorCode"], 100, "{body}: {answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn options_are_honoured_or_refused_by_name() {
    let broker = Broker::start().await;
    let known = "useStarTree=true;skipIndexes=a;enableNullHandling=true;numReplicaGroupsToQuery=1;maxExecutionThreads=1;workloadName=w";
    let body = json!({"sql": "SET clientQueryId='mine'; SELECT 1", "queryOptions": known});
    let answer: Value = broker.post("/query/sql", &body).await.json().await.unwrap();
    assert_eq!((&answer["exceptions"], &answer["clientRequestId"]), (&json!([]), &json!("mine")));
    let body = json!({"sql": "SELECT 1", "queryOptions": "timeoutMS=900;minServerGroupTrimSize=5"});
    let answer: Value = broker.post("/query/sql", &body).await.json().await.unwrap();
    assert!(answer["exceptions"][0]["message"].as_str().unwrap().contains("minServerGroupTrimSize"), "{answer}");
    let answer = broker.pinot("SET dropResults=true; SELECT id FROM numbers").await;
    assert!(answer.get("resultTable").is_none() && answer["exceptions"] == json!([]), "{answer}");
    let answer = broker.pinot("SET maxServerResponseSizeBytes=100; SELECT id FROM numbers").await;
    assert_eq!(answer["exceptions"][0]["errorCode"], 245, "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_limited_or_trimmed_behind_the_clients_back() {
    let broker = Broker::start().await;
    let body = broker.pinot("SELECT id FROM numbers").await;
    assert_eq!(body["resultTable"]["rows"].as_array().unwrap().len(), 3000);
    let body = broker.pinot("SELECT name, count(*) FROM numbers GROUP BY name").await;
    assert_eq!(body["resultTable"]["rows"].as_array().unwrap().len(), 3000);
}

#[tokio::test(flavor = "multi_thread")]
async fn syntax_is_validated_without_running() {
    let broker = Broker::start().await;
    let valid: Value =
        broker.post("/query/sql/validateSyntax", &json!({"sql": "SELECT 1 FROM anywhere"})).await.json().await.unwrap();
    assert_eq!(valid, json!({"valid": true, "sqlType": "DQL"}));
    let invalid: Value =
        broker.post("/query/sql/validateSyntax", &json!({"sql": "SELEC 1"})).await.json().await.unwrap();
    assert_eq!(invalid["valid"], false);
    assert!(!invalid["errorMessage"].as_str().unwrap().is_empty());
}
