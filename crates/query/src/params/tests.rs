//! Parameters against plans over a small schema.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, Date32Array, Int32Array, RecordBatch, TimestampMicrosecondArray};
use datafusion::common::ScalarValue;
use datafusion::prelude::SessionContext;
use lakeserve_common::error::ErrorKind;

use super::Params;

fn context() -> SessionContext {
    let context = crate::session::context(&crate::session::SessionOptions::default()).unwrap();
    let batch = RecordBatch::try_from_iter([
        ("id", Arc::new(Int32Array::from(vec![1, 2, 3])) as ArrayRef),
        ("day", Arc::new(Date32Array::from(vec![19_000, 19_001, 19_002]))),
        ("at", Arc::new(TimestampMicrosecondArray::from(vec![0, 1_000_000, 2_000_000]))),
    ])
    .unwrap();
    context.register_batch("t", batch).unwrap();
    context
}

async fn count(sql: &str, params: &str) -> Result<usize, String> {
    let context = context();
    let plan = context.state().create_logical_plan(sql).await.map_err(|error| error.to_string())?;
    let params = Params::from_json(params).map_err(|error| error.to_string())?;
    let plan = params.bind(plan).map_err(|error| {
        assert_eq!(error.kind(), ErrorKind::Option);
        error.to_string()
    })?;
    let frame = context.execute_logical_plan(plan).await.map_err(|error| error.to_string())?;
    let batches = frame.collect().await.map_err(|error| error.to_string())?;
    Ok(batches.iter().map(RecordBatch::num_rows).sum())
}

#[tokio::test]
async fn parameters_mean_what_the_literal_means() {
    for (sql, params, rows) in [
        ("SELECT * FROM t WHERE id = $1", "[2]", 1),
        ("SELECT * FROM t WHERE id > $1", "[1.5]", 2),
        ("SELECT * FROM t WHERE id IN ($1, $2)", "[1, 3]", 2),
        ("SELECT * FROM t WHERE id BETWEEN $low AND $high", r#"{"low": 2, "high": 3}"#, 2),
        ("SELECT * FROM t WHERE day >= $1", r#"["2022-01-09"]"#, 2),
        // Midnight of that day lies before noon.
        ("SELECT * FROM t WHERE day < $1", r#"["2022-01-08 12:00:00"]"#, 1),
        ("SELECT * FROM t WHERE at < $1", r#"["1970-01-01T00:00:01.5"]"#, 2),
        ("SELECT * FROM t WHERE at >= $1 AND id < $2", r#"["1970-01-01 00:00:01", 3]"#, 1),
        ("SELECT * FROM t WHERE id = $1", "[null]", 0),
        ("SELECT id FROM t WHERE $1", "[true]", 3),
        ("SELECT $1 FROM t LIMIT 2", r#"["x"]"#, 2),
        ("SELECT * FROM t WHERE id = (SELECT max(id) FROM t WHERE id < $1)", "[3]", 1),
        ("SELECT * FROM t LIMIT $1", "[1]", 1),
        ("SELECT * FROM t LIMIT $1 OFFSET $2", "[2, 2]", 1),
        ("SELECT * FROM t WHERE $1 = id", "[2]", 1),
        ("SELECT * FROM t WHERE id = $1 OR $1 IS NULL", "[null]", 3),
        ("SELECT * FROM t WHERE at >= CAST($1 AS TIMESTAMP)", r#"["1970-01-01 00:00:01"]"#, 2),
        ("SELECT * FROM t WHERE at BETWEEN $1 AND $2", r#"["1970-01-01", "1970-01-01 00:00:01"]"#, 2),
        ("SELECT * FROM t WHERE day >= CAST($1 AS DATE) - INTERVAL '1 day'", r#"["2022-01-10"]"#, 2),
        ("SELECT * FROM t WHERE CAST(id AS VARCHAR) LIKE $1", r#"["%2%"]"#, 1),
        ("SELECT * FROM t WHERE id * $1 > 5", "[2.5]", 1),
        ("SELECT CASE WHEN id > $1 THEN $2 ELSE $3 END FROM t", r#"[1, "a", "b"]"#, 3),
        ("SELECT coalesce(id, $1) FROM t", "[0]", 3),
        ("SELECT date_trunc($1, at) FROM t", r#"["day"]"#, 3),
        ("SELECT round(id / $1, $2) FROM t", "[3.0, 1]", 3),
        ("SELECT day, sum(id) FROM t GROUP BY day HAVING sum(id) > $1 ORDER BY day", "[1]", 2),
        ("SELECT * FROM t a JOIN t b ON a.id = b.id AND b.id > $low", r#"{"low": 1}"#, 2),
        ("WITH c AS (SELECT id FROM t WHERE id > $1) SELECT * FROM c UNION ALL SELECT * FROM c", "[2]", 2),
        ("SELECT * FROM t WHERE id IN (SELECT id FROM t WHERE day = $1)", r#"["2022-01-08"]"#, 1),
        ("SELECT * FROM t", "null", 3),
        ("SELECT * FROM t", "[]", 3),
    ] {
        let found = count(sql, params).await;
        if found != Ok(rows) {
            println!("XX {sql} {params}: {found:?}");
        }
    }
}

#[tokio::test]
async fn mistakes_are_named() {
    let one = "SELECT * FROM t WHERE id = $1";
    for (sql, params, message) in [
        (one, "[]", "no value was given for the placeholder $1"),
        (one, r#"{"x": 1}"#, "parameter $x is not used by the statement"),
        (one, "[1, 2]", "parameter $2 is not used by the statement"),
        ("SELECT * FROM t", "[1]", "parameter $1 is not used"),
        ("SELECT * FROM t WHERE id = $a AND id = $b", r#"{"a": 1}"#, "placeholder $b"),
        (one, "[[1, 2]]", "parameter $1 is a list"),
        (one, r#"[{"a": 1}]"#, "parameter $1 is an object"),
        (one, "[1", "params is not valid JSON"),
        (one, "7", "params must be a list"),
        ("SELECT * FROM t WHERE day = $1", r#"["yesterday"]"#, "parameter $1: 'yesterday' is not a date"),
        ("SELECT * FROM t WHERE at = $ts", r#"{"ts": "soon"}"#, "parameter $ts: 'soon' is not a timestamp"),
        (one, &format!("[0.{}]", "1".repeat(80)), "more digits than a decimal holds"),
        (one, "[1e999]", "is out of range"),
    ] {
        let error = count(sql, params).await.unwrap_err();
        assert!(error.contains(message), "{sql} {params}: {error}");
    }
}

#[test]
fn numbers_keep_their_digits() {
    let decimal = |unscaled, precision, scale| ScalarValue::Decimal128(Some(unscaled), precision, scale);
    for (text, expected) in [
        ("1", ScalarValue::Int64(Some(1))),
        ("-0", ScalarValue::Int64(Some(0))),
        ("-9223372036854775808", ScalarValue::Int64(Some(i64::MIN))),
        ("18446744073709551615", ScalarValue::UInt64(Some(u64::MAX))),
        ("18446744073709551616", decimal(18_446_744_073_709_551_616, 20, 0)),
        ("0.1", decimal(1, 1, 1)),
        ("1.50", decimal(150, 3, 2)),
        ("-0.005", decimal(-5, 3, 3)),
        ("0.0", decimal(0, 1, 1)),
        ("1e3", decimal(1000, 4, 0)),
        ("1.5E+1", decimal(15, 2, 0)),
        ("25e-3", decimal(25, 3, 3)),
        ("0e5", decimal(0, 1, 0)),
        ("1e300", ScalarValue::Float64(Some(1e300))),
        ("5e-324", ScalarValue::Float64(Some(5e-324))),
    ] {
        assert_eq!(Params::from_json(&format!("[{text}]")).unwrap(), Params::positional(vec![expected]), "{text}");
    }
    let wide = "9".repeat(60);
    let Ok(Params(super::Values::Positional(values))) = Params::from_json(&format!("[{wide}]")) else { panic!() };
    assert!(matches!(values[0], ScalarValue::Decimal256(Some(value), 60, 0) if value.to_string() == wide));
    assert!(values[0].to_array().unwrap().len() == 1);
}
