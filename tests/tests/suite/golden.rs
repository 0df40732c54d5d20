//! Every table of the conformance material, read through HTTP: the expected rows, or a refusal
//! that names the feature. There is no third kind.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use lakeserve_tests::server::{Server, Start};
use lakeserve_tests::{answers, material};
use serde_json::{Value, json};

struct Case {
    name: String,
    location: PathBuf,
    expected: Value,
    features: Vec<String>,
}

fn read_json(path: &Path) -> anyhow::Result<Value> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    Ok(serde_json::from_str(&text)?)
}

/// The cases of one format. Iceberg tables hold absolute paths: those are copied to `scratch` and
/// their paths rewritten.
fn cases(material: &Path, format: &str, scratch: &Path) -> anyhow::Result<Vec<Case>> {
    let mut cases = Vec::new();
    for source in std::fs::read_dir(material.join("golden"))? {
        for folder in std::fs::read_dir(source?.path())? {
            let folder = folder?.path();
            let about = read_json(&folder.join("case.json"))?;
            if about["format"] != format {
                continue;
            }
            let name = format!("t{}", cases.len());
            let mut location = folder.join("table");
            match format {
                "iceberg" => {
                    let copy = scratch.join(&name);
                    relocate(material, &location, &copy)?;
                    location = copy.join(about["metadata_file"].as_str().context("no metadata_file")?);
                }
                "parquet" => location = parquet_file(&folder)?,
                _ => {}
            }
            let features = about["features"].as_array().into_iter().flatten();
            cases.push(Case {
                name,
                location,
                expected: read_json(&folder.join("expected.json"))?,
                features: features.filter_map(|feature| feature.as_str().map(str::to_owned)).collect(),
            });
        }
    }
    cases.sort_by(|a, b| a.location.cmp(&b.location));
    ensure!(!cases.is_empty(), "no case of format {format}");
    Ok(cases)
}

fn parquet_file(folder: &Path) -> anyhow::Result<PathBuf> {
    let table = folder.join("table");
    let folder = if table.is_dir() { &table } else { folder };
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "parquet") {
            return Ok(path);
        }
    }
    anyhow::bail!("no Parquet file in {}", folder.display())
}

fn relocate(material: &Path, from: &Path, to: &Path) -> anyhow::Result<()> {
    let python = std::env::var("LAKESERVE_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let output = Command::new(python).arg(material.join("tools/relocate_iceberg.py")).arg(from).arg(to).output()?;
    ensure!(output.status.success(), "relocating {}: {}", from.display(), String::from_utf8_lossy(&output.stderr));
    Ok(())
}

async fn check_rows(server: &Server, table: &str, expected: &Value) -> anyhow::Result<()> {
    let rows = server.rows(&format!("SELECT * FROM {table}")).await?;
    let count = expected["row_count"].as_u64().context("no row_count")?;
    ensure!(rows.len() as u64 == count, "{} rows instead of {count}", rows.len());
    if let Some(all) = expected["rows"].as_array() {
        let all: Vec<Vec<Value>> = all.iter().map(|row| row.as_array().cloned().unwrap_or_default()).collect();
        return answers::compare_unordered(&rows, &all, 1e-9);
    }
    for (index, column) in expected["columns"].as_array().into_iter().flatten().enumerate() {
        let values = rows.iter().filter_map(|row| row.get(index)).filter(|value| !value.is_null());
        let non_null = values.clone().count() as u64;
        ensure!(
            column["non_null"] == non_null,
            "{}: {non_null} values, expected {}",
            column["name"],
            column["non_null"]
        );
        if let Some(sum) = column["sum"].as_str() {
            let total: f64 = values
                .filter_map(|value| value.as_f64().or_else(|| value.as_str().and_then(|text| text.parse().ok())))
                .sum();
            ensure!(
                answers::same(&json!(total), &Value::from(sum), 1e-6),
                "{}: sum {total}, expected {sum}",
                column["name"]
            );
        }
    }
    Ok(())
}

/// Checks every case of a format: answered exactly, or refused with a kind that says so. Returns
/// the refusals, so that a caller can hold them to its list.
async fn check_all(format: &str, test: &str) -> anyhow::Result<Option<Vec<String>>> {
    let Some(material) = material::conformance(test) else { return Ok(None) };
    let scratch = tempfile::tempdir()?;
    let cases = cases(&material, format, scratch.path())?;
    let mut start = Start::up();
    for case in &cases {
        start = start.table(&case.name, case.location.display().to_string());
    }
    let server = start.ready().await?;
    let mut refused = Vec::new();
    let mut wrong = Vec::new();
    for case in &cases {
        let (status, answer) = server.post(json!({"sql": format!("SELECT * FROM {} LIMIT 0", case.name)})).await?;
        let kind = answer["error"]["kind"].as_str().unwrap_or_default();
        if status != 200 && kind == "feature" {
            refused.push(format!("{}: {} {:?}", case.location.display(), answer["error"]["message"], case.features));
            continue;
        }
        match check_rows(&server, &case.name, &case.expected).await {
            Ok(()) => {}
            Err(error) if error.to_string().contains("\"feature\"") => {
                refused.push(format!("{}: {error} {:?}", case.location.display(), case.features));
            }
            Err(error) => wrong.push(format!("{} {:?}: {error:#}", case.location.display(), case.features)),
        }
    }
    ensure!(wrong.is_empty(), "{} of {} cases are wrong:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
    for line in &refused {
        eprintln!("refused by name: {line}");
    }
    ensure!(refused.len() < cases.len() / 2, "most cases are refused:\n{}", refused.join("\n"));
    Ok(Some(refused))
}

#[tokio::test(flavor = "multi_thread")]
async fn delta_tables_are_answered_or_refused_by_name() -> anyhow::Result<()> {
    check_all("delta", "delta_tables_are_answered_or_refused_by_name").await.map(|_| ())
}

#[tokio::test(flavor = "multi_thread")]
async fn iceberg_tables_are_answered_or_refused_by_name() -> anyhow::Result<()> {
    check_all("iceberg", "iceberg_tables_are_answered_or_refused_by_name").await.map(|_| ())
}

#[tokio::test(flavor = "multi_thread")]
async fn parquet_files_are_answered_or_refused_by_name() -> anyhow::Result<()> {
    check_all("parquet", "parquet_files_are_answered_or_refused_by_name").await.map(|_| ())
}
