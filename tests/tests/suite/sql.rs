//! The `.slt` files of `tests/slt` over the demo tables, Delta and Iceberg. Their expected answers
//! come from DuckDB over the same data (`tests/slt/make.py`).

use lakeserve_tests::server::Start;
use lakeserve_tests::slt::Connection;

#[tokio::test(flavor = "multi_thread")]
async fn sql_over_the_demo_tables() -> anyhow::Result<()> {
    let home = tempfile::tempdir()?;
    let server = Start::up()
        .arg("--demo")
        .arg("--scale")
        .arg("0.01")
        .env("HOME", home.path().display().to_string())
        .ready()
        .await?;
    let folder = lakeserve_tests::material::checkout().join("tests/slt");
    let mut files: Vec<_> = std::fs::read_dir(&folder)?.collect::<Result<Vec<_>, _>>()?;
    files.retain(|entry| entry.path().extension().is_some_and(|extension| extension == "slt"));
    files.sort_by_key(std::fs::DirEntry::path);
    anyhow::ensure!(!files.is_empty(), "no .slt file in {}", folder.display());
    for file in files {
        let connection = Connection::to(&server);
        let mut runner = sqllogictest::Runner::new(|| {
            let connection = connection.clone();
            async move { Ok(connection) }
        });
        runner.run_file_async(file.path()).await.map_err(|error| anyhow::anyhow!("{}", error.display(false)))?;
    }
    Ok(())
}
