//! TPC-H's 22 and SSB's 13 queries through HTTP, against answers that another engine gave.

use std::path::Path;

use lakeserve_tests::server::{Server, Start};
use lakeserve_tests::{answers, material};

async fn serve_folder(folder: &Path, tables: &[&str]) -> anyhow::Result<Server> {
    let mut start = Start::up();
    for table in tables {
        start = start.table(table, folder.join(format!("{table}.parquet")).display().to_string());
    }
    start.ready().await
}

async fn check(server: &Server, sql: &Path, answer: &Path, tolerance: f64) -> anyhow::Result<()> {
    let rows = server.rows(&std::fs::read_to_string(sql)?).await?;
    answers::compare(&rows, &answers::read_bars(answer)?, tolerance)
}

#[tokio::test(flavor = "multi_thread")]
async fn tpch_gives_the_known_answers() -> anyhow::Result<()> {
    let Some(material) = material::conformance("tpch_gives_the_known_answers") else { return Ok(()) };
    let suite = material.join("suites/tpch");
    let tables = ["customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier"];
    let server = serve_folder(&suite.join("data_sf0.01"), &tables).await?;
    for query in 1..=22 {
        let sql = suite.join(format!("queries/q{query:02}.sql"));
        let answer = suite.join(format!("answers/sf0.01_recomputed/q{query:02}.csv"));
        check(&server, &sql, &answer, 1e-9).await.map_err(|error| error.context(format!("Q{query}")))?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn ssb_gives_the_known_answers() -> anyhow::Result<()> {
    let Some(material) = material::conformance("ssb_gives_the_known_answers") else { return Ok(()) };
    let suite = material.join("suites/ssb");
    let server = serve_folder(&suite.join("data"), &["customer", "dates", "lineorder", "part", "supplier"]).await?;
    for query in ["1.1", "1.2", "1.3", "2.1", "2.2", "2.3", "3.1", "3.2", "3.3", "3.4", "4.1", "4.2", "4.3"] {
        let sql = suite.join(format!("queries/q{query}.sql"));
        let answer = suite.join(format!("answers/q{query}.csv"));
        check(&server, &sql, &answer, 1e-6).await.map_err(|error| error.context(format!("Q{query}")))?;
    }
    Ok(())
}
