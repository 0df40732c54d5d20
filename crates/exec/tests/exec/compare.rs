//! Rows against `expected.json`.

use std::collections::BTreeSet;

use arrow::array::RecordBatch;
use lakeserve_query::render::{RowEncoder, Spelling};
use serde_json::Value;

/// The rows as JSON lists.
pub(crate) fn rows(batches: &[RecordBatch]) -> Vec<Value> {
    let mut rows = Vec::new();
    for batch in batches {
        let encoder = RowEncoder::arrays(batch, Spelling::Canonical).unwrap();
        for row in 0..batch.num_rows() {
            let mut text = Vec::new();
            encoder.encode_row(row, &mut text);
            rows.push(serde_json::from_slice(&text).unwrap());
        }
    }
    rows
}

/// What differs between rows and the expectation; empty if nothing does.
pub(crate) fn difference(rows: &[Value], expected: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    let count = expected["row_count"].as_u64().unwrap();
    if rows.len() as u64 != count {
        problems.push(format!("{} rows instead of {count}", rows.len()));
        return problems;
    }
    for (index, column) in expected["columns"].as_array().unwrap().iter().enumerate() {
        let values: Vec<&Value> = rows.iter().map(|row| &row[index]).filter(|value| !value.is_null()).collect();
        if values.len() as u64 != column["non_null"].as_u64().unwrap() {
            problems.push(format!("{}: {} values instead of {}", column["name"], values.len(), column["non_null"]));
        }
        let distinct: BTreeSet<String> = values.iter().map(|value| normal(value).to_string()).collect();
        if distinct.len() as u64 != column["distinct"].as_u64().unwrap() {
            problems.push(format!(
                "{}: {} distinct values instead of {}",
                column["name"],
                distinct.len(),
                column["distinct"]
            ));
        }
        for sample in column["distinct_sample"].as_array().unwrap() {
            if !values.iter().any(|value| equal(&normal(value), &normal(sample))) {
                problems.push(format!("{}: no value {sample}", column["name"]));
            }
        }
    }
    if let Some(expected) = expected["rows"].as_array() {
        let sorted = |rows: &[Value]| {
            let mut rows: Vec<Value> = rows.iter().map(normal).collect();
            rows.sort_by_key(ToString::to_string);
            rows
        };
        for (got, wanted) in sorted(rows).iter().zip(sorted(expected)) {
            if !equal(got, &wanted) {
                problems.push(format!("row {got} instead of {wanted}"));
                break;
            }
        }
    }
    problems
}

/// Without the differences that do not count: a zone on INT96, dashes in a UUID.
fn normal(value: &Value) -> Value {
    match value {
        Value::String(text) => {
            let text = text.strip_suffix('Z').filter(|rest| rest.contains('T')).unwrap_or(text);
            let uuid = text.len() == 36 && text.split('-').map(str::len).eq([8, 4, 4, 4, 12]);
            Value::String(if uuid { format!("0x{}", text.replace('-', "")) } else { text.to_owned() })
        }
        Value::Array(items) => Value::Array(items.iter().map(normal).collect()),
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().map(|(name, value)| (name.clone(), normal(value))).collect();
            fields.sort_by(|a, b| a.0.cmp(&b.0));
            Value::Object(fields.into_iter().collect())
        }
        Value::Number(number) => {
            // One spelling for 1 and 1.0.
            let float = number.as_f64().unwrap();
            match number.as_i64() {
                None if float.fract() == 0.0 && float.abs() < 9e15 => {
                    serde_json::json!(format!("{float:.0}").parse::<i64>().unwrap())
                }
                _ => value.clone(),
            }
        }
        other => other.clone(),
    }
}

fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(x), Value::Number(y)) => {
            let (x, y) = (x.as_f64().unwrap(), y.as_f64().unwrap());
            x == y || (x - y).abs() <= 1e-9 * x.abs().max(y.abs())
        }
        (Value::Array(x), Value::Array(y)) => x.len() == y.len() && x.iter().zip(y).all(|(x, y)| equal(x, y)),
        (Value::Object(x), Value::Object(y)) => {
            x.len() == y.len() && x.iter().all(|(name, x)| y.get(name).is_some_and(|y| equal(x, y)))
        }
        _ => a == b,
    }
}
