//! Comparing answers: numbers by value, doubles within a relative tolerance, decimals rounded to
//! their own scale, rows in any order.

use anyhow::{Context, ensure};
use serde_json::Value;

/// Whether two values are the same answer. Numbers, and texts that are numbers, compare by value
/// within `tolerance` (relative); a timestamp's trailing `Z` may differ where the column has no zone.
#[must_use]
pub fn same(left: &Value, right: &Value, tolerance: f64) -> bool {
    match (left, right) {
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| same(left, right, tolerance))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left.iter().all(|(key, value)| right.get(key).is_some_and(|other| same(value, other, tolerance)))
        }
        _ if left == right => true,
        _ => match (number(left), number(right)) {
            (Some(a), Some(b)) => close(a, b, tolerance) || (a - b).abs() <= half_a_unit(left),
            _ => match (left.as_str(), right.as_str()) {
                (Some(left), Some(right)) => left.trim_end_matches('Z') == right.trim_end_matches('Z'),
                _ => false,
            },
        },
    }
}

fn close(left: f64, right: f64, tolerance: f64) -> bool {
    #[expect(clippy::float_cmp, reason = "infinities and exact equality")]
    if left == right {
        return true;
    }
    (left - right).abs() <= tolerance * left.abs().max(right.abs())
}

/// A decimal text stands for everything that rounds to it: half a unit of its last digit.
fn half_a_unit(value: &Value) -> f64 {
    let digits = value.as_str().and_then(|text| text.split_once('.')).map_or(0, |(_, fraction)| fraction.len());
    match i32::try_from(digits) {
        Ok(digits) if digits > 0 => 0.5000001 * 10_f64.powi(-digits),
        _ => 0.0,
    }
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) if text.starts_with(|first: char| first.is_ascii_digit() || first == '-') => {
            text.parse().ok()
        }
        _ => None,
    }
}

/// Compares two lists of rows in order.
///
/// # Errors
/// Names the first row that differs.
pub fn compare(got: &[Vec<Value>], expected: &[Vec<Value>], tolerance: f64) -> anyhow::Result<()> {
    for (index, (got, expected)) in got.iter().zip(expected).enumerate() {
        let equal = got.len() == expected.len() && got.iter().zip(expected).all(|(a, b)| same(a, b, tolerance));
        ensure!(equal, "row {index} differs:\n  got      {}\n  expected {}", line(got), line(expected));
    }
    ensure!(got.len() == expected.len(), "{} rows instead of {}", got.len(), expected.len());
    Ok(())
}

/// Compares two lists of rows as multisets.
///
/// # Errors
/// Names a row that has no partner.
pub fn compare_unordered(got: &[Vec<Value>], expected: &[Vec<Value>], tolerance: f64) -> anyhow::Result<()> {
    ensure!(got.len() == expected.len(), "{} rows instead of {}", got.len(), expected.len());
    let mut left: Vec<&Vec<Value>> = expected.iter().collect();
    for row in got {
        let partner = left
            .iter()
            .position(|other| other.len() == row.len() && row.iter().zip(*other).all(|(a, b)| same(a, b, tolerance)))
            .with_context(|| format!("unexpected row {}; one of those not met: {:?}", line(row), left.first()))?;
        left.swap_remove(partner);
    }
    Ok(())
}

fn line(row: &[Value]) -> String {
    row.iter().map(Value::to_string).collect::<Vec<_>>().join(" | ")
}

/// Reads an answer file with a heading line and `|` between fields; an empty field is NULL.
///
/// # Errors
/// When the file cannot be read.
pub fn read_bars(path: &std::path::Path) -> anyhow::Result<Vec<Vec<Value>>> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    Ok(text
        .lines()
        .skip(1)
        .map(|line| {
            line.split('|').map(|field| if field.is_empty() { Value::Null } else { Value::from(field) }).collect()
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_compare_by_value_and_texts_by_letter() {
        assert!(same(&json!("12.50"), &json!(12.5), 0.0));
        assert!(same(&json!(1.000_000_000_1), &json!(1.0), 1e-9));
        assert!(!same(&json!(1.1), &json!(1.0), 1e-9));
        assert!(same(&json!("25.575155"), &json!("25.575154611"), 1e-12), "rounded to its scale");
        assert!(!same(&json!("25.575154"), &json!("25.575154611"), 1e-12), "cut off instead of rounded");
        assert!(!same(&json!("a"), &json!("b"), 1.0));
        assert!(!same(&Value::Null, &json!(0), 1.0));
    }

    #[test]
    fn a_missing_or_doubled_row_is_told() {
        let one = vec![json!(1)];
        let two = vec![json!(2)];
        assert!(compare_unordered(&[one.clone(), two.clone()], &[two.clone(), one.clone()], 0.0).is_ok());
        assert!(compare_unordered(&[one.clone(), one.clone()], &[one.clone(), two.clone()], 0.0).is_err());
        assert!(compare(std::slice::from_ref(&one), &[one.clone(), two], 0.0).is_err());
    }
}
