//! What clients look up before the first query, and what operators do.

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::support::Broker;

#[tokio::test(flavor = "multi_thread")]
async fn tables_and_schemas_are_described_as_pinot_does() {
    let broker = Broker::start().await;
    assert_eq!(broker.get_json("/tables").await, json!({"tables": ["numbers", "orders"]}));
    assert_eq!(broker.get_json("/schemas").await, json!(["numbers", "orders"]));
    assert_eq!(broker.get_json("/databases").await, json!(["default"]));
    let schema = broker.get_json("/tables/orders/schema").await;
    assert_eq!(schema["schemaName"], "orders");
    assert_eq!(
        schema["dimensionFieldSpecs"],
        json!([{"name": "price", "dataType": "BIG_DECIMAL"}, {"name": "note", "dataType": "STRING"}])
    );
    assert_eq!(schema["metricFieldSpecs"], json!([]));
    assert_eq!(schema["dateTimeFieldSpecs"][0]["name"], "placedAt");
    assert_eq!(schema["columns"][0], json!({"name": "price", "type": "DECIMAL(15,2)", "nullable": true}));
    assert_eq!(broker.get_json("/schemas/orders").await, schema);
    let table = broker.get_json("/tables/numbers").await;
    assert_eq!(table["OFFLINE"]["segmentsConfig"]["schemaName"], "numbers");
    assert_eq!((&table["status"]["state"], &table["status"]["rows"]), (&json!("ok"), &json!(3000)));
    assert_eq!(broker.get_json("/tables/numbers/metadata").await["numSegments"], 3);
    assert!(broker.get_json("/tables/numbers/size").await["reportedSizeInBytes"].as_u64().unwrap() > 0);
    assert_eq!(broker.get_json("/segments/numbers").await[0]["OFFLINE"].as_array().unwrap().len(), 3);
    assert_eq!(broker.get_json("/tableConfigs/numbers").await["offline"]["tableType"], "OFFLINE");
    let brokers = broker.get_json("/v2/brokers/tenants/DefaultTenant?state=ONLINE").await;
    let port = broker.url.rsplit_once(':').unwrap().1.parse::<u16>().unwrap();
    assert_eq!((&brokers[0]["host"], &brokers[0]["port"]), (&json!("127.0.0.1"), &json!(port)));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_is_a_json_error() {
    let broker = Broker::start().await;
    for path in ["/tables/nope/schema", "/tables/nope", "/no/such/path", "/"] {
        let response = broker.get(path).await;
        assert_eq!(response.status(), StatusCode::NOT_FOUND, "{path}");
        let body: Value = response.json().await.unwrap();
        assert!(body["error"]["message"].is_string(), "{path}: {body}");
    }
    let near = broker.get("/tables/numberss").await.text().await.unwrap();
    assert!(near.contains("did you mean numbers?"), "{near}");
    let response = broker.get("/v1/query").await;
    assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED);
    assert!(response.json::<Value>().await.unwrap()["error"]["message"].as_str().unwrap().contains("GET"));
}

#[tokio::test(flavor = "multi_thread")]
async fn health_and_metrics_tell_how_it_is() {
    let broker = Broker::start().await;
    for path in ["/health", "/health/liveness", "/health/readiness"] {
        let response = broker.get(path).await;
        assert_eq!((response.status(), response.text().await.unwrap().as_str()), (StatusCode::OK, "OK"), "{path}");
    }
    broker.rows("SELECT 1").await;
    broker.error("SELECT 1 FROM nowhere").await;
    let metrics = broker.get("/metrics").await.text().await.unwrap();
    for line in [
        "lakeserve_http_requests_total{front_end=\"native\",route=\"/v1/query\",status=\"200\"} 1",
        "lakeserve_http_requests_total{front_end=\"native\",route=\"/v1/query\",status=\"404\"} 1",
        "lakeserve_query_requests_total{outcome=\"ok\"} 1",
        "lakeserve_query_requests_total{outcome=\"no_such_table\"} 1",
        "lakeserve_table_state{state=\"ok\",table=\"numbers\"} 1",
        "lakeserve_table_snapshot_age_seconds{table=\"numbers\"}",
        "lakeserve_query_running 0",
    ] {
        assert!(metrics.contains(line), "{line}\n{metrics}");
    }
}
