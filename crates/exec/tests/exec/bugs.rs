//! Faults of other engines that lie in pruning, row positions or column look-up: each query gives
//! the right answer here.

use serde_json::{Value, json};

use crate::{Process, compare, conformance};

/// (data below `bugs_data`, query, rows).
fn cases() -> Vec<(&'static str, &'static str, Value)> {
    vec![
        ("R01/t.parquet", "SELECT count(*) FROM t WHERE x <> 3.0", json!([[1]])),
        ("R01/t.parquet", "SELECT count(*) FROM t WHERE NOT (x < 10)", json!([[1]])),
        ("R01/t.parquet", "SELECT count(*) FROM t WHERE x = 3.0", json!([[2]])),
        ("R02/t.parquet", "SELECT count(*) FROM t WHERE f >= -122.44", json!([[3]])),
        ("R02/t.parquet", "SELECT count(*) FROM t WHERE f = CAST(47.71 AS REAL)", json!([[1]])),
        ("R04", "SELECT min(a), max(a) FROM t", json!([["a", "z"]])),
        ("R06/t", "SELECT count(*) FROM t WHERE ts > TIMESTAMP '2024-01-01 01:02:03.4565Z'", json!([[1]])),
        (
            "R07",
            "SELECT count(*) FROM t WHERE ts > '2020-02-22 12:00:00' AND date_trunc('hour', ts) <= '2020-02-22 12:12:00'",
            json!([[1]]),
        ),
        ("R08/t", "SELECT count(*), sum(value) FROM t", json!([[8, 36]])),
        ("R11/t", "SELECT count(*) FROM t WHERE id BETWEEN 14990 AND 15020", json!([[21]])),
        ("R14/t", "SELECT p FROM t WHERE p = 'a%20b'", json!([["a%20b"]])),
        ("R14/t", "SELECT count(*) FROM t WHERE p IS NULL", json!([[1]])),
        ("R14/t", "SELECT count(DISTINCT p) FROM t", json!([[8]])),
        (
            "R15/t.parquet",
            "SELECT \"a.b\", \"order\", \"MixedCase\" FROM t WHERE \"a.b\" = 2 AND \"order\" = 20 AND \"select\" = 'y'",
            json!([[2, 20, 200]]),
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_of_others_are_not_ours() {
    let Some(folder) = conformance("public bug reports") else { return };
    let process = Process::new();
    let mut problems = Vec::new();
    for (data, sql, expected) in cases() {
        match process.query(&folder.join("bugs_data").join(data), sql).await {
            Ok(batches) => {
                let rows = Value::Array(compare::rows(&batches));
                if rows != expected {
                    problems.push(format!("{data}: {sql}: {rows} instead of {expected}"));
                }
            }
            Err(error) => problems.push(format!("{data}: {sql}: {error}")),
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
