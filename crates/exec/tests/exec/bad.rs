//! Every broken Parquet file of the conformance material gets an error that names it, quickly, and
//! the process lives on.

use std::time::Duration;

use lakeserve_common::ErrorKind;
use serde_json::Value;

use crate::{Process, compare, conformance};

/// What the healthy file answers.
fn healthy() -> Vec<Value> {
    vec![serde_json::json!([5000, 12_497_500])]
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_files_are_refused_by_name() {
    let Some(folder) = conformance("broken files") else { return };
    let folder = folder.join("bad");
    let cases: Vec<Value> = serde_json::from_slice(&std::fs::read(folder.join("cases.json")).unwrap()).unwrap();
    let cases: Vec<&Value> = cases.iter().filter(|case| case["kind"] == "parquet").collect();
    assert!(!cases.is_empty());
    let process = Process::new();
    let mut problems = Vec::new();
    for case in cases {
        let path = folder.join(case["path"].as_str().unwrap());
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let reaction = case["right_reaction"].as_str().unwrap();
        let query = process.query(&path, "SELECT * FROM t");
        let Ok(answer) = tokio::time::timeout(Duration::from_secs(20), query).await else {
            problems.push(format!("{name}: no answer after 20 s"));
            continue;
        };
        let rows = match answer {
            Err(error) => {
                if reaction.starts_with("read it") {
                    problems.push(format!("{name}: {error}"));
                } else if !matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Feature)
                    || !error.message().contains(&name)
                {
                    problems.push(format!("{name}: the error is {}: {error}", error.kind()));
                }
                continue;
            }
            Ok(batches) => compare::rows(&batches).len(),
        };
        let may_read =
            reaction.starts_with("read it") || reaction.contains("or the ") || reaction.contains("other values");
        if !may_read {
            problems.push(format!("{name}: {rows} rows instead of an error ({})", case["what"]));
        }
        let right = match name.as_str() {
            "nation.dict-malformed.parquet" => rows == 25,
            "datapage_v2_empty_datapage.snappy.parquet" => rows == 1,
            _ if reaction.contains("with CRC check: error") => case["what"].as_str().unwrap().contains("page data"),
            _ => {
                let sums = process.query(&path, "SELECT count(*), CAST(sum(id) AS BIGINT) FROM t").await;
                sums.map(|batches| compare::rows(&batches)).is_ok_and(|rows| rows == healthy())
            }
        };
        if !right {
            problems.push(format!("{name}: read wrongly ({rows} rows): {}", case["what"]));
        }
        let control = process
            .query(&folder.join("parquet/base_good.parquet"), "SELECT count(*), CAST(sum(id) AS BIGINT) FROM t")
            .await;
        assert_eq!(compare::rows(&control.unwrap()), healthy(), "after {name}");
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
