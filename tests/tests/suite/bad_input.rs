//! Bad input of every kind: a clear error with the right status, and the next query is right.

use std::time::Duration;

use anyhow::ensure;
use lakeserve_tests::material;
use lakeserve_tests::server::{Server, Start};
use serde_json::{Value, json};

/// Five rows of region, from the TPC-H material, served next to some broken neighbours.
async fn server(test: &str) -> anyhow::Result<Option<(Server, tempfile::TempDir)>> {
    let Some(material) = material::conformance(test) else { return Ok(None) };
    let scratch = tempfile::tempdir()?;
    let region = material.join("suites/tpch/data_sf0.01/region.parquet");
    let truncated = scratch.path().join("truncated.parquet");
    let bytes = std::fs::read(material.join("suites/tpch/data_sf0.01/orders.parquet"))?;
    std::fs::write(&truncated, &bytes[..bytes.len() / 2])?;
    let half_written = scratch.path().join("half_written");
    std::fs::create_dir_all(half_written.join("_delta_log"))?;
    std::fs::write(half_written.join("_delta_log/00000000000000000000.json"), "{\"protocol\":{\"minReader")?;
    let unknown_feature = scratch.path().join("unknown_feature");
    std::fs::create_dir_all(unknown_feature.join("_delta_log"))?;
    std::fs::write(unknown_feature.join("_delta_log/00000000000000000000.json"), UNKNOWN_FEATURE)?;
    let server = Start::up()
        .table("region", region.display().to_string())
        .table("truncated", truncated.display().to_string())
        .table("half_written", half_written.display().to_string())
        .table("unknown_feature", unknown_feature.display().to_string())
        .ready()
        .await?;
    Ok(Some((server, scratch)))
}

const UNKNOWN_FEATURE: &str = concat!(
    r#"{"protocol":{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":["holographicColumns"],"writerFeatures":["holographicColumns"]}}"#,
    "\n",
    r#"{"metaData":{"id":"5fba94ed-9794-4965-ba6e-6ee3c0d22af9","format":{"provider":"parquet","options":{}},"schemaString":"{\"type\":\"struct\",\"fields\":[{\"name\":\"id\",\"type\":\"long\",\"nullable\":true,\"metadata\":{}}]}","partitionColumns":[],"configuration":{},"createdTime":1}}"#,
    "\n"
);

async fn still_right(server: &Server) -> anyhow::Result<()> {
    let rows = server.rows("SELECT count(*), min(r_name) FROM region").await?;
    ensure!(rows == [[json!(5), json!("AFRICA")]], "after bad input: {rows:?}");
    Ok(())
}

async fn refused(server: &Server, sql: &str, status: u16, kind: &str, word: &str) -> anyhow::Result<()> {
    let start: String = sql.chars().take(80).collect();
    let got = server.refusal(sql).await.map_err(|error| error.context(start.clone()))?;
    ensure!(
        got.0 == status && got.1 == kind && got.2.contains(word),
        "{start}: expected {status} {kind} with `{word}`, got {got:?}"
    );
    still_right(server).await
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_that_cannot_be_answered() -> anyhow::Result<()> {
    let Some((server, _scratch)) = server("statements_that_cannot_be_answered").await? else { return Ok(()) };
    refused(&server, "SELEC 1", 400, "parse", "SELEC").await?;
    refused(&server, "SELECT 1 FROM", 400, "parse", "").await?;
    refused(&server, "", 400, "parse", "").await?;
    refused(&server, "SELECT * FROM nowhere", 404, "no_such_table", "nowhere").await?;
    refused(&server, "SELECT r_nam FROM region", 404, "no_such_column", "r_nam").await?;
    refused(&server, "SELECT no_function(r_name) FROM region", 400, "plan", "no_function").await?;
    refused(&server, "SELECT r_name + 1 FROM region", 400, "", "").await.or_else(any_client_error)?;
    refused(&server, "SET nonsense = 1; SELECT 1", 400, "option", "nonsense").await?;
    refused(&server, "DELETE FROM region", 400, "unsupported", "").await?;
    refused(&server, "INSERT INTO region VALUES (9, 'x', 'y')", 400, "unsupported", "").await?;
    refused(&server, "DROP TABLE region", 400, "unsupported", "").await?;
    refused(&server, "COPY region TO '/tmp/x.csv'", 400, "unsupported", "").await?;
    refused(&server, "SELECT * FROM region TABLESAMPLE (10 PERCENT)", 400, "unsupported", "").await?;
    refused(&server, "SELECT 1 / 0", 400, "value", "").await?;
    refused(&server, "SELECT CAST('x' AS INT)", 400, "value", "x").await?;
    refused(&server, "SELECT count(*) FROM truncated", 500, "corrupt", "truncated.parquet").await?;
    refused(&server, "SELECT count(*) FROM half_written", 500, "corrupt", "half_written").await?;
    refused(&server, "SELECT count(*) FROM unknown_feature", 501, "feature", "holographicColumns").await
}

/// A type error may be told while planning or while a value is cast; both are the client's.
fn any_client_error(error: anyhow::Error) -> anyhow::Result<()> {
    let text = error.to_string();
    ensure!(text.contains("(400, \"plan\"") || text.contains("(400, \"value\""), "{text}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_without_measure() -> anyhow::Result<()> {
    let Some((server, _scratch)) = server("statements_without_measure").await? else { return Ok(()) };
    let list: Vec<String> = (0..100_000).map(|item| item.to_string()).collect();
    let rows = server.rows(&format!("SELECT count(*) FROM region WHERE r_regionkey IN ({})", list.join(","))).await?;
    ensure!(rows == [[json!(5)]], "{rows:?}");
    let rows =
        server.rows(&format!("SELECT count(*) FROM region WHERE r_regionkey NOT IN ({})", list[1..].join(","))).await?;
    ensure!(rows == [[json!(1)]], "{rows:?}");
    let or: Vec<String> = (0..20_000).map(|item| format!("r_regionkey = {item}")).collect();
    answered_or_too_complex(&server, &format!("SELECT count(*) FROM region WHERE {}", or.join(" OR ")), &json!(5))
        .await?;
    answered_or_too_complex(&server, &format!("SELECT {}", vec!["1"; 2_000].join("+")), &json!(2_000)).await?;
    let deep = format!("SELECT {}1{}", "(".repeat(10_000), ")".repeat(10_000));
    answered_or_too_complex(&server, &deep, &json!(1)).await?;
    let minus = format!("SELECT {}1", "- ".repeat(10_000));
    answered_or_too_complex(&server, &minus, &json!(1)).await?;
    let case = format!("SELECT {}1{}", "CASE WHEN true THEN ".repeat(10_000), " END".repeat(10_000));
    answered_or_too_complex(&server, &case, &json!(1)).await?;
    let not = format!("SELECT {}true", "NOT ".repeat(10_000));
    answered_or_too_complex(&server, &not, &json!(true)).await
}

async fn answered_or_too_complex(server: &Server, sql: &str, expected: &Value) -> anyhow::Result<()> {
    let (status, answer) = server.post(json!({"sql": sql, "timeout_ms": 240_000})).await?;
    let right = status == 200 && answer["rows"] == json!([[expected]]);
    let told = (400..500).contains(&status) && answer["error"]["message"].as_str().is_some_and(|text| !text.is_empty());
    let start: String = sql.chars().take(60).collect();
    let text: String = answer.to_string().chars().take(300).collect();
    ensure!(right || told, "{start}: status {status}: {text}");
    still_right(server).await
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_are_no_request() -> anyhow::Result<()> {
    let Some((server, _scratch)) = server("bodies_that_are_no_request").await? else { return Ok(()) };
    for (body, status) in [
        ("{\"sql\": ", 400),
        ("[]", 400),
        ("{}", 400),
        ("{\"sql\": 7}", 400),
        ("{\"sql\": \"SELECT 1\", \"sqll\": 1}", 400),
        ("{\"sql\": \"SELECT $1\", \"params\": [[1]]}", 400),
        ("{\"sql\": \"SELECT 1\", \"timeout_ms\": -1}", 400),
        ("{\"sql\": \"SELECT 1\", \"snapshot\": {\"nowhere\": 1}}", 404),
    ] {
        let request =
            server.client().post(format!("{}/v1/query", server.url())).header("content-type", "application/json");
        let answer = request.body(body).send().await?;
        let got = answer.status().as_u16();
        let value: Value = answer.json().await?;
        ensure!(got == status && value["error"]["message"].is_string(), "{body}: status {got}: {value}");
        still_right(&server).await?;
    }
    let huge = json!({"sql": format!("SELECT '{}'", "x".repeat(50 << 20))}).to_string();
    let answer = server.client().post(format!("{}/v1/query", server.url())).body(huge).send().await?;
    ensure!(answer.status().as_u16() == 413, "50 MB of SQL: {}", answer.status());
    still_right(&server).await?;
    let answer = server.client().get(format!("{}/no/such/path", server.url())).send().await?;
    ensure!(answer.status().as_u16() == 404, "{}", answer.status());
    still_right(&server).await
}

#[tokio::test(flavor = "multi_thread")]
async fn stores_that_cannot_be_read_are_told_in_bounded_time() -> anyhow::Result<()> {
    let home = tempfile::tempdir()?;
    let server = Start::up()
        .table("gone", home.path().join("gone").display().to_string())
        .table("refused", "s3://bucket/table")
        .env("HOME", home.path().display().to_string())
        .env("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
        .env("AWS_ACCESS_KEY_ID", "K")
        .env("AWS_SECRET_ACCESS_KEY", "S")
        .env("AWS_REGION", "us-east-1")
        .ready()
        .await?;
    let (status, _, message) = server.refusal("SELECT * FROM gone").await?;
    ensure!(status >= 400 && message.contains("gone"), "{status} {message}");
    let ask = tokio::time::timeout(Duration::from_secs(60), server.refusal("SELECT * FROM refused"));
    let (status, kind, message) = ask.await??;
    ensure!(status == 502 && kind == "storage" && message.contains("s3://bucket/table"), "{status} {kind} {message}");
    let rows = server.rows("SELECT 1").await?;
    ensure!(rows == [[json!(1)]], "{rows:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_goes_away_frees_its_query() -> anyhow::Result<()> {
    let Some(material) = material::conformance("a_client_that_goes_away_frees_its_query") else { return Ok(()) };
    let lineitem = material.join("suites/tpch/data_sf0.01/lineitem.parquet");
    let server = Start::up().table("t", lineitem.display().to_string()).ready().await?;
    let long =
        json!({"sql": "SELECT count(*) FROM t a, t b, t c WHERE a.l_orderkey + b.l_orderkey + c.l_orderkey = 1"});
    let request =
        server.client().post(format!("{}/v1/query", server.url())).json(&long).timeout(Duration::from_secs(1));
    ensure!(request.send().await.is_err(), "a query over 2e14 pairs was answered within a second");
    for _ in 0..50 {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let running: Value = server.client().get(format!("{}/queries", server.url())).send().await?.json().await?;
        if running.as_object().is_some_and(serde_json::Map::is_empty) {
            let rows = server.rows("SELECT 1").await?;
            ensure!(rows == [[json!(1)]], "{rows:?}");
            return Ok(());
        }
    }
    anyhow::bail!("the abandoned query still runs after ten seconds")
}
