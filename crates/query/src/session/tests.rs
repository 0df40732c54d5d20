use std::sync::Arc;
use std::time::Duration;

use arrow::array::{Int64Array, RecordBatch};
use arrow::datatypes::{Schema, SchemaRef};
use arrow::util::pretty::pretty_format_batches;
use datafusion::datasource::MemTable;
use lakeserve_common::error::ErrorKind;

use super::*;
use crate::dialect::{ParseLimits, parse, resolve_identifiers};

/// `t(id bigint 0..999)`.
fn numbers() -> (SessionContext, SchemaRef) {
    let session = context(&SessionOptions { target_partitions: 2, ..SessionOptions::default() }).unwrap();
    let schema: SchemaRef = Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, true)]));
    let ids: Int64Array = (0..1000).collect();
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(ids)]).unwrap();
    let table = MemTable::try_new(Arc::clone(&schema), vec![vec![batch]]).unwrap();
    session.register_table("t", Arc::new(table)).unwrap();
    (session, schema)
}

/// All the way from text to rows, as text.
async fn run(sql: &str) -> Result<String> {
    let (session, schema) = numbers();
    let script = parse(sql, &ParseLimits::default())?;
    let mut shown = String::new();
    for mut statement in script.statements {
        resolve_identifiers(&mut statement, &|name| (name == "t").then(|| Arc::clone(&schema)), &["t".to_owned()])?;
        let state = session.state();
        let plan = state.statement_to_plan(statement.ast).await.map_err(from_datafusion)?;
        let frame = session.execute_logical_plan(plan).await.map_err(from_datafusion)?;
        let types: Vec<String> = frame.schema().fields().iter().map(|field| field.data_type().to_string()).collect();
        let batches = frame.collect().await.map_err(from_datafusion)?;
        shown = format!("{}\n{}", types.join(", "), pretty_format_batches(&batches).map_err(crate::error::from_arrow)?);
    }
    Ok(shown)
}

/// Runs on a thread with as much stack as those that run queries have.
fn on_query_thread(work: impl FnOnce(&tokio::runtime::Runtime) + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(crate::stack::QUERY_THREAD).spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        work(&runtime);
    });
    thread.unwrap().join().unwrap();
}

#[test]
fn huge_statements_are_answered_right_or_refused() {
    let chain = |term: &str, join: &str, count: usize| vec![term; count].join(join);
    let ids = |count: i64| (0..count).map(|id| id.to_string()).collect::<Vec<_>>().join(", ");
    let ors = |count: i64| (0..count).map(|id| format!("id = {id}")).collect::<Vec<_>>().join(" OR ");
    let cases: Vec<(String, Option<&str>)> = vec![
        (format!("SELECT count(*) AS n FROM t WHERE {}", ors(20_000)), Some("1000")),
        (format!("SELECT count(*) AS n FROM t WHERE id IN ({})", ids(10_000)), Some("1000")),
        (format!("SELECT count(*) AS n FROM t WHERE id IN ({})", ids(100_000)), Some("1000")),
        (format!("SELECT count(*) AS n FROM t WHERE id NOT IN ({})", ids(100_000)), Some("0")),
        (format!("SELECT {} AS n", chain("1", "+", 500)), Some("500")),
        (format!("SELECT {} AS n", chain("1", "+", 2000)), None),
        (format!("SELECT max({}) AS n FROM t WHERE id < 2", chain("id", "+", 500)), Some("500")),
        (format!("SELECT {}1{} AS n", "(".repeat(150), ")".repeat(150)), Some("1")),
        (format!("SELECT {}1{} AS n", "(".repeat(5000), ")".repeat(5000)), None),
        (format!("SELECT {}1{} AS n", "abs(".repeat(150), ")".repeat(150)), Some("1")),
        (format!("SELECT {}1{} AS n", "abs(".repeat(10_000), ")".repeat(10_000)), None),
        (format!("SELECT count(*) AS n FROM t WHERE {}", chain("id >= 0", " AND ", 20_000)), Some("1000")),
        (format!("SELECT count(*) AS n FROM ({})", chain("SELECT 1", " UNION ALL ", 400)), Some("400")),
        (format!("{}SELECT 1 AS n{}", "SELECT n FROM (".repeat(60), ") x".repeat(60)), Some("1")),
        (format!("SELECT {} AS n", chain("'ab'", "||", 400)), Some("abab")),
        (format!("SELECT CASE {} ELSE 7 END AS n", chain("WHEN 1 = 2 THEN 3", " ", 3000)), Some("7")),
        (format!("SELECT count(*) AS n FROM (VALUES {}) v", chain("(1)", ", ", 20_000)), Some("20000")),
    ];
    for (sql, expected) in cases {
        let head: String = sql.chars().take(60).collect();
        on_query_thread(move |runtime| {
            let outcome = runtime.block_on(async { tokio::time::timeout(Duration::from_secs(120), run(&sql)).await });
            let outcome = outcome.unwrap_or_else(|_| panic!("{head}: takes too long"));
            eprintln!("{head}");
            match (outcome, expected) {
                (Ok(shown), Some(expected)) => assert!(shown.contains(&format!(" {expected}")), "{head}: {shown}"),
                (Err(error), None) => assert_eq!(error.kind(), ErrorKind::Resource, "{head}: {error}"),
                (Ok(shown), None) => panic!("{head}: {shown}"),
                (Err(error), Some(_)) => panic!("{head}: {error}"),
            }
        });
    }
}

#[tokio::test]
async fn types_mean_what_the_session_says() {
    let cases = [
        ("SELECT 1.10", "Decimal128(3, 2)", "1.10"),
        ("SELECT 1e2", "", "100"),
        ("SELECT TIMESTAMP '9999-12-31 23:59:59.999999'", "Timestamp(µs)", "9999-12-31T23:59:59.999999"),
        ("SELECT CAST('2024-01-01' AS TIMESTAMP)", "Timestamp(µs)", "2024-01-01T00:00:00"),
        ("SELECT '2024-01-01'::TIMESTAMP(9)", "Timestamp(ns)", "2024-01-01T00:00:00"),
        ("SELECT CAST('2024-01-01' AS TIMESTAMP WITH TIME ZONE)", "Timestamp(µs, \"UTC\")", "2024-01-01T00:00:00Z"),
        ("SELECT DATE '2024-02-29'", "Date32", "2024-02-29"),
        ("SELECT Sum(ID), COUNT(*), Min(\"ID\") FROM T WHERE Id < 3", "", "| 3  "),
        ("SELECT count(*) AS \"N n\" FROM t", "Int64", "N n"),
        ("SELECT sum(id) FROM t", "", "sum(t.id)"),
        (
            "SELECT id + 1, (id + 2) * 3 - -id FROM t WHERE id - 1 = 4",
            "Int64, Int64",
            "| t.id + Int64(1) | t.id + Int64(2) * Int64(3) - (- t.id) |",
        ),
        ("SELECT id + 1, (id + 2) * 3 - -id FROM t WHERE id - 1 = 4", "Int64", "| 6               | 26 "),
        (
            "SELECT id % 2 + 1 AS k, count(*) FROM t GROUP BY id % 2 + 1 HAVING count(*) * 2 = 1000 ORDER BY id % 2 + 1",
            "",
            "| 2 | 500 ",
        ),
        ("SELECT sum(id + 1) OVER (ORDER BY id * 2) FROM t ORDER BY 1 LIMIT 1 + 1", "", "| 3  "),
        ("SELECT a.id + NULL, a.id FROM t a JOIN t b ON a.id + 1 = b.id * 2 WHERE a.id = 1", "Int64", "| 1 "),
        ("SELECT (SELECT max(id) + 1 FROM t), CAST(1 AS TINYINT) + CAST(2 AS TINYINT)", "", "| 1000 "),
        ("SELECT id + 1, count(*) FROM t GROUP BY ROLLUP (id + 1) ORDER BY 1 NULLS FIRST LIMIT 1", "", "| 1000 "),
        (
            "SELECT table_catalog, Table_Schema, table_name FROM Information_Schema.tables WHERE table_name = 't'",
            "",
            "| lakeserve     | public       | t ",
        ),
    ];
    for (sql, data_type, text) in cases {
        let shown = run(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
        assert!(shown.starts_with(data_type), "{sql}: {shown}");
        assert!(shown.contains(text), "{sql}: {shown}");
    }
}

#[tokio::test]
async fn every_fault_has_its_kind_and_a_plain_message() {
    let cases = [
        ("SELEC 1", ErrorKind::Parse, "expected an SQL statement, found SELEC at line 1, column 1"),
        ("SELECT nosuch FROM t", ErrorKind::NoSuchColumn, "no column named nosuch"),
        ("SELECT t.idd FROM t", ErrorKind::NoSuchColumn, "no column named t.idd (did you mean id?)"),
        ("SELECT x.id FROM t", ErrorKind::NoSuchColumn, "no column named x.id"),
        ("SELECT id FROM t GROUP BY nosuch", ErrorKind::NoSuchColumn, "no column named nosuch"),
        ("SELECT id FROM t x JOIN t y ON x.id = y.id", ErrorKind::NoSuchColumn, "the column name id is ambiguous"),
        ("SELECT 1 FROM nosuch", ErrorKind::NoSuchTable, "no table named nosuch"),
        ("SELECT nosuch(1)", ErrorKind::Plan, "no function named nosuch"),
        ("SELECT * FROM nosuch(1)", ErrorKind::Plan, "nosuch"),
        ("SELECT id FROM t WHERE id", ErrorKind::Plan, ""),
        ("SELECT id, count(*) FROM t", ErrorKind::Plan, ""),
        ("SELECT abs('a', 2)", ErrorKind::Plan, ""),
        ("SELECT 1/0", ErrorKind::Value, "division by zero"),
        ("SELECT 1/(id-id) FROM t", ErrorKind::Value, "division by zero"),
        ("SELECT CAST('abc' AS INT)", ErrorKind::Value, "'abc'"),
        ("SELECT CAST(id + 300 AS TINYINT) FROM t", ErrorKind::Value, "300"),
        ("SELECT 9223372036854775807 + 1", ErrorKind::Value, "arithmetic overflow"),
        ("SELECT id + 9223372036854775807 FROM t", ErrorKind::Value, "arithmetic overflow"),
        ("SELECT max(id * 9223372036854775807) FROM t", ErrorKind::Value, "arithmetic overflow"),
        ("SELECT -(id - 9223372036854775807 - 1) FROM t", ErrorKind::Value, "arithmetic overflow"),
        ("SELECT id FROM t WHERE -9223372036854775807 - id - 2 < 0", ErrorKind::Value, "arithmetic overflow"),
        ("SELECT TIMESTAMP 'yesterday'", ErrorKind::Value, "yesterday"),
        ("SELECT (SELECT id FROM t)", ErrorKind::Value, ""),
        ("SELECT 1 UNION SELECT 1, 2", ErrorKind::Plan, "different number of columns"),
        ("SET nosuch.option = 1", ErrorKind::Option, "nosuch"),
        ("SET datafusion.execution.batch_size = 'x'", ErrorKind::Option, ""),
        ("SELECT @x", ErrorKind::Plan, "variables"),
        ("SELECT $1", ErrorKind::Option, "the parameter $1 has no value"),
        ("SELECT * FROM t LIMIT -1", ErrorKind::Plan, ""),
        ("SELECT id FROM t LIMIT 1 BY id", ErrorKind::Unsupported, "LIMIT … BY"),
    ];
    let mut wrong = Vec::new();
    for (sql, kind, text) in cases {
        match run(sql).await {
            Ok(shown) => wrong.push(format!("{sql}: {}", shown.chars().take(200).collect::<String>())),
            Err(error) => {
                let shown = error.to_string();
                let chatter = ["DataFusion", "Error", "error:", "backtrace", "bug report"]
                    .iter()
                    .any(|word| shown.contains(word));
                if error.kind() != kind || !shown.contains(text) || chatter {
                    wrong.push(format!("{sql}: {} {shown}", error.kind()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn impossible_options_are_refused() {
    for options in [
        SessionOptions { time_zone: "Mars".into(), ..SessionOptions::default() },
        SessionOptions { batch_size: 0, ..SessionOptions::default() },
    ] {
        assert_eq!(context(&options).err().unwrap().kind(), ErrorKind::Option);
    }
    let wrong: std::result::Result<SessionOptions, _> = serde_json::from_str("{\"batch_siz\": 1}");
    assert!(wrong.is_err());
}
