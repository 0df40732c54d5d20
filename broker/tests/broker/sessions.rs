//! Sessions of a process of one's own: tables and views that last as long as they do.

use arrow::util::pretty::pretty_format_batches;
use lakeserve_broker::{QueryRequest, Rights, Session};
use lakeserve_common::ErrorKind;

use crate::support::{Broker, numbers, write};

async fn run(session: &Session, sql: &str) -> lakeserve_common::Result<String> {
    let answer = session.execute(QueryRequest { sql: sql.into(), ..QueryRequest::default() }).await?;
    Ok(pretty_format_batches(&answer.collect().await?).unwrap().to_string())
}

async fn expect(session: &Session, sql: &str, cell: &str) {
    let shown = run(session, sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    assert!(shown.contains(cell), "{sql}\n{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_creates_inserts_and_reads_its_own_tables() {
    let broker = Broker::start().await;
    let session = broker.engine.session(Rights::Own);
    let script = "SET timeoutMs = 20000;
        CREATE TABLE mine (a BIGINT, b VARCHAR);
        INSERT INTO mine VALUES (1, 'x'), (2, 'y;z');
        CREATE VIEW both AS SELECT a, name FROM mine JOIN numbers ON a = id;
        CREATE TABLE copied AS SELECT * FROM numbers WHERE id < 10";
    let statements = session.split(script).await.unwrap();
    assert_eq!(statements.len(), 4);
    for statement in statements {
        run(&session, &statement).await.unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
    expect(&session, "SELECT count(*) AS n, max(b) AS m FROM mine", "y;z").await;
    expect(&session, "SELECT name FROM Both WHERE A = 2", "n2").await;
    expect(&session, "SELECT sum(id) FROM copied", "45").await;
    expect(&session, "SHOW TABLES", "VIEW").await;
    // Another session sees none of it.
    let other = broker.engine.session(Rights::Own);
    assert_eq!(run(&other, "SELECT * FROM mine").await.unwrap_err().kind(), ErrorKind::NoSuchTable);
    run(&session, "DROP VIEW both").await.unwrap();
    assert_eq!(run(&session, "SELECT * FROM both").await.unwrap_err().kind(), ErrorKind::NoSuchTable);
    run(&session, "DROP TABLE mine").await.unwrap();
    assert_eq!(run(&session, "SELECT * FROM mine").await.unwrap_err().kind(), ErrorKind::NoSuchTable);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_view_reads_the_states_of_the_query_that_uses_it() {
    let broker = Broker::start().await;
    let session = broker.engine.session(Rights::Own);
    run(&session, "CREATE VIEW v AS SELECT count(*) AS n FROM numbers").await.unwrap();
    expect(&session, "SELECT n FROM v", "3000").await;
    write(&broker.path("numbers/part-9.parquet"), &numbers(3000..3010));
    assert!(broker.engine.refresh_table("numbers").await.unwrap());
    expect(&session, "SELECT n FROM v", "3010").await;
    run(&session, "CREATE OR REPLACE VIEW v AS SELECT n FROM v").await.unwrap();
    let error = run(&session, "SELECT n FROM v").await.unwrap_err();
    assert!(error.message().contains("reads itself"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn external_tables_are_read_where_they_lie() {
    let broker = Broker::start().await;
    write(&broker.path("outside/a.parquet"), &numbers(0..25));
    let session = broker.engine.session(Rights::Own);
    let location = broker.path("outside");
    let create = format!("CREATE EXTERNAL TABLE outside STORED AS PARQUET LOCATION '{}'", location.display());
    run(&session, &create).await.unwrap();
    expect(&session, "SELECT count(*) FROM outside", "25").await;
    // Each query looks whether there is a newer state.
    write(&broker.path("outside/b.parquet"), &numbers(0..5));
    expect(&session, "SELECT count(*) FROM outside", "30").await;
    assert_eq!(run(&session, &create).await.unwrap_err().kind(), ErrorKind::Plan);
    let read_only = broker.engine.session(Rights::Read);
    assert_eq!(run(&read_only, &create).await.unwrap_err().kind(), ErrorKind::Unsupported);
}

#[tokio::test(flavor = "multi_thread")]
async fn served_tables_are_read_only_always() {
    let broker = Broker::start().await;
    let session = broker.engine.session(Rights::Own);
    for sql in [
        "INSERT INTO numbers VALUES (1, 'x')",
        "INSERT INTO numbers SELECT * FROM numbers",
        "DROP TABLE numbers",
        "CREATE TABLE numbers (a INT)",
        "CREATE OR REPLACE TABLE numbers AS SELECT 1 AS a",
        "CREATE VIEW numbers AS SELECT 1 AS a",
        "DELETE FROM numbers",
        "UPDATE numbers SET id = 1",
        "COPY numbers TO '/tmp/lakeserve-must-not-exist.parquet'",
        "EXPLAIN ANALYZE INSERT INTO numbers VALUES (1, 'x')",
    ] {
        let error = run(&session, sql).await.unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::Plan | ErrorKind::Parse),
            "{sql}: {} {error}",
            error.kind()
        );
    }
    expect(&session, "SELECT count(*) FROM numbers", "3000").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_last_as_long_as_the_session() {
    let broker = Broker::start().await;
    let session = broker.engine.session(Rights::Own);
    run(&session, "SET timeZone = 'Europe/Berlin'").await.unwrap();
    expect(&session, "SHOW datafusion.execution.time_zone", "Europe/Berlin").await;
    let other = broker.engine.session(Rights::Own);
    expect(&other, "SHOW datafusion.execution.time_zone", "UTC").await;
    assert_eq!(run(&session, "SET timeZone = 'Mars'").await.unwrap_err().kind(), ErrorKind::Option);
}
