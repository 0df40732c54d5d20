//! Real clients against the running server. `tests/run` makes the Python environment and names it
//! in `LAKESERVE_TEST_PYTHON`.

use std::process::Command;

use anyhow::ensure;
use lakeserve_tests::material;
use lakeserve_tests::server::Start;

#[tokio::test(flavor = "multi_thread")]
async fn pinotdb_works_unchanged() -> anyhow::Result<()> {
    let test = "pinotdb_works_unchanged";
    let Some(python) = material::outside_part(test, "LAKESERVE_TEST_PYTHON") else { return Ok(()) };
    let Some(material) = material::conformance(test) else { return Ok(()) };
    let data = material.join("suites/tpch/data_sf0.01");
    let server = Start::up()
        .table("nation", data.join("nation.parquet").display().to_string())
        .table("lineitem", data.join("lineitem.parquet").display().to_string())
        .ready()
        .await?;
    let script = material::checkout().join("tests/clients/pinotdb_client.py");
    let port = server.url().rsplit(':').next().unwrap_or_default().to_owned();
    let output = tokio::task::block_in_place(|| Command::new(python).arg(script).arg(port).output())?;
    let told = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{told}");
    ensure!(told.contains("all checks passed"), "{told}");
    Ok(())
}
