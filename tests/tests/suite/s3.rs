//! Tables on a real S3 server, which `tests/run` starts and names in `LAKESERVE_TEST_S3_ENDPOINT`.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, ensure};
use lakeserve_storage::{Storage, StorageOptions};
use lakeserve_tests::material;
use lakeserve_tests::server::Start;
use object_store::{ObjectStore, ObjectStoreExt};
use serde_json::json;

/// Puts a local folder under `s3://lake/<to>` through our own storage layer.
async fn upload(store: &Arc<dyn ObjectStore>, from: &Path, to: &object_store::path::Path) -> anyhow::Result<()> {
    let mut folders = vec![(from.to_owned(), to.clone())];
    while let Some((folder, prefix)) = folders.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).context("a file name that is no text")?;
            let target = object_store::path::Path::parse(format!("{prefix}/{name}"))?;
            if path.is_dir() {
                folders.push((path, target));
            } else {
                store.put(&target, std::fs::read(&path)?.into()).await?;
            }
        }
    }
    Ok(())
}

fn with_s3(start: Start, endpoint: &str, secret: &str) -> Start {
    start
        .env("AWS_ENDPOINT_URL", endpoint)
        .env("AWS_ACCESS_KEY_ID", "K")
        .env("AWS_SECRET_ACCESS_KEY", secret)
        .env("AWS_REGION", "us-east-1")
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_on_s3_are_answered_as_on_disk() -> anyhow::Result<()> {
    let test = "tables_on_s3_are_answered_as_on_disk";
    let Some(endpoint) = material::outside_part(test, "LAKESERVE_TEST_S3_ENDPOINT") else { return Ok(()) };
    let Some(material) = material::conformance(test) else { return Ok(()) };
    let options = StorageOptions::default();
    let clock = lakeserve_common::clock::system();
    let random = Arc::new(lakeserve_common::random::Random::from_os());
    let storage = Storage::new(options, clock, random, &prometheus::Registry::new())?;
    // The variables are those of this test process: `tests/run` sets them for the whole run.
    let root = storage.open(&Storage::parse_location("s3://lake/")?)?;

    let dv = material.join("golden/delta-kernel-rs/app-txn-no-checkpoint/table");
    upload(&root.store, &dv, &"delta".into()).await?;
    let deletes = material.join("golden/delta-io-delta/k-basic-dv-with-checkpoint/table");
    upload(&root.store, &deletes, &"with_deletes".into()).await?;
    let scratch = tempfile::tempdir()?;
    let iceberg = material.join("golden/impala/iceberg_v2_delete_positional/table");
    let python = std::env::var("LAKESERVE_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let relocated = scratch.path().join("iceberg");
    let status = std::process::Command::new(python)
        .arg(material.join("tools/relocate_iceberg.py"))
        .args([iceberg.as_os_str(), relocated.as_os_str()])
        .args(["--uri", "s3://lake/iceberg"])
        .status()?;
    ensure!(status.success(), "the table could not be relocated");
    upload(&root.store, &relocated, &"iceberg".into()).await?;
    let lineitem = material.join("suites/tpch/data_sf0.01/lineitem.parquet");
    root.store.put(&"plain/lineitem.parquet".into(), std::fs::read(&lineitem)?.into()).await?;

    let server = with_s3(Start::up(), &endpoint, "S")
        .table("delta", "s3://lake/delta")
        .table("with_deletes", "s3://lake/with_deletes")
        .table("iceberg", "s3://lake/iceberg")
        .table("plain", "s3://lake/plain")
        .table("no_bucket", "s3://no-such-bucket/t")
        .table("local", lineitem.display().to_string())
        .table("local_delta", dv.display().to_string())
        .table("local_deletes", deletes.display().to_string())
        .ready()
        .await?;
    for (remote, local) in [("delta", "local_delta"), ("with_deletes", "local_deletes"), ("plain", "local")] {
        let remote_rows = server.rows(&format!("SELECT * FROM {remote} ORDER BY 1")).await?;
        let local_rows = server.rows(&format!("SELECT * FROM {local} ORDER BY 1")).await?;
        ensure!(!local_rows.is_empty() && remote_rows == local_rows, "{remote} differs from {local}");
    }
    let expected: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(
        material.join("golden/impala/iceberg_v2_delete_positional/expected.json"),
    )?)?;
    let rows = server.rows("SELECT count(*) FROM iceberg").await?;
    ensure!(rows == [[expected["row_count"].clone()]], "{rows:?}");
    let (status, kind, message) = server.refusal("SELECT * FROM no_bucket").await?;
    ensure!(status == 502 && kind == "storage" && message.contains("no-such-bucket"), "{status} {kind} {message}");

    let wrong = with_s3(Start::up(), &endpoint, "wrong").table("t", "s3://lake/plain").ready().await?;
    let (status, kind, message) = wrong.refusal("SELECT * FROM t").await?;
    ensure!(status == 502 && kind == "storage" && message.contains("s3://lake/plain"), "{status} {kind} {message}");
    ensure!(wrong.rows("SELECT 1").await? == [[json!(1)]]);
    Ok(())
}
