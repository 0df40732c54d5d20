//! The functions through SQL: right values, errors by name, and the same bits however the work is cut.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, AsArray, BooleanArray, Date32Array, Decimal128Array, Decimal256Array, DictionaryArray,
    DurationMillisecondArray, Float32Array, Float64Array, Int32Array, Int64Array, IntervalMonthDayNanoArray,
    RecordBatch, StringArray, UInt64Array,
};
use arrow::datatypes::{DataType, Float64Type, Int32Type, IntervalMonthDayNano, i256};
use datafusion::common::ScalarValue;
use datafusion::datasource::MemTable;
use datafusion::prelude::{SessionConfig, SessionContext};
use lakeserve_common::error::ErrorKind;

use crate::error::from_datafusion;
use crate::render::{RowEncoder, Spelling, sql_type};

fn context(partitions: usize, batch_size: usize) -> SessionContext {
    let mut config = SessionConfig::new().with_target_partitions(partitions).with_batch_size(batch_size);
    // Partial aggregation gives up at once where that is allowed to happen at all.
    config.options_mut().execution.skip_partial_aggregation_probe_rows_threshold = 1;
    config.options_mut().execution.skip_partial_aggregation_probe_ratio_threshold = 0.1;
    let context = SessionContext::new_with_config(config);
    super::register(&context).unwrap();
    context
}

async fn rows(context: &SessionContext, sql: &str) -> Result<Vec<String>, lakeserve_common::Error> {
    let frame = context.sql(sql).await.map_err(from_datafusion)?;
    let batches = frame.collect().await.map_err(from_datafusion)?;
    let mut rows = Vec::new();
    for batch in &batches {
        let encoder = RowEncoder::arrays(batch, Spelling::Canonical).unwrap();
        for row in 0..encoder.num_rows() {
            let mut text = Vec::new();
            encoder.encode_row(row, &mut text);
            rows.push(String::from_utf8(text).unwrap());
        }
    }
    Ok(rows)
}

/// The only value of an aggregate over a column of values.
async fn over(column: ArrayRef, aggregate: &str) -> Result<String, lakeserve_common::Error> {
    let context = context(2, 8192);
    let batch = RecordBatch::try_from_iter_with_nullable([("x", column, true)]).unwrap();
    context.register_batch("t", batch).unwrap();
    let rows = rows(&context, &format!("SELECT {aggregate} FROM t")).await?;
    assert_eq!(rows.len(), 1);
    Ok(rows[0][1..rows[0].len() - 1].to_owned())
}

fn decimals(values: &[i128], precision: u8, scale: i8) -> ArrayRef {
    Arc::new(Decimal128Array::from(values.to_vec()).with_precision_and_scale(precision, scale).unwrap())
}

#[tokio::test]
async fn results_and_their_types() {
    let max = i64::MAX;
    let ints = |values: &[i64]| Arc::new(Int64Array::from(values.to_vec())) as ArrayRef;
    let doubles = |values: &[f64]| Arc::new(Float64Array::from(values.to_vec())) as ArrayRef;
    let none: ArrayRef = Arc::new(Int64Array::from(vec![None, None]));
    for (column, aggregate, expected) in [
        // Whole numbers: what happens between is not what counts.
        (ints(&[max, 1, -1]), "sum(x)", "9223372036854775807"),
        (ints(&[max, max]), "avg(x)", "9.223372036854776e+18"),
        (ints(&[9_007_199_254_740_993, 9_007_199_254_740_993, 9_007_199_254_740_992]), "mean(x)", "9007199254740992.0"),
        (ints(&[1, 2, 2, 5]), "sum(DISTINCT x)", "8"),
        (ints(&[1, 2, 2, 4]), "avg(DISTINCT x)", "2.3333333333333335"),
        (ints(&[1, 2, 3, 4]), "sum(x) FILTER (WHERE x > 2)", "7"),
        (ints(&[1, 2, 3, 4]), "sum(x) FILTER (WHERE x > 9)", "null"),
        (ints(&[1, 2, 3, 4]), "stddev(x)", "1.2909944487358056"),
        (ints(&[1, 1, 3, 3]), "var_pop(DISTINCT x)", "1.0"),
        (Arc::new(UInt64Array::from(vec![u64::MAX - 1, 1])), "sum(x)", "18446744073709551615"),
        (Arc::new(Int32Array::from(vec![i32::MAX, i32::MAX])), "sum(x)", "4294967294"),
        (Arc::clone(&none), "sum(x)", "null"),
        (Arc::clone(&none), "avg(x)", "null"),
        (Arc::clone(&none), "approx_distinct(x)", "0"),
        (Arc::clone(&none), "approx_median(x)", "null"),
        (none, "sum(NULL)", "null"),
        // Decimals.
        (decimals(&[1, 0, 0], 10, 2), "sum(x)", "\"0.01\""),
        (decimals(&[100, 0, 0], 10, 2), "avg(x)", "\"0.333333\""),
        (decimals(&[200, 0, 0], 10, 2), "avg(x)", "\"0.666667\""),
        (decimals(&[-200, 0, 0], 10, 2), "avg(x)", "\"-0.666667\""),
        (
            decimals(&[10i128.pow(38) - 1, 10i128.pow(38) - 1, 1 - 10i128.pow(38)], 38, 0),
            "sum(x)",
            "\"99999999999999999999999999999999999999\"",
        ),
        (decimals(&[5, 5, 7], 10, 0), "sum(DISTINCT x)", "\"12\""),
        (decimals(&[100, 300], 10, 2), "stddev_pop(x)", "1.0"),
        // Doubles.
        (doubles(&[1e300, 1.0, -1e300, 1e-300]), "sum(x)", "1.0"),
        (doubles(&[0.1; 10]), "sum(x)", "1.0"),
        (doubles(&[0.1; 10]), "avg(x)", "0.1"),
        (doubles(&[1e16, 1.0, -1e16]), "avg(x)", "0.3333333333333333"),
        (doubles(&[f64::NAN, 1.0]), "sum(x)", "\"NaN\""),
        (doubles(&[f64::INFINITY, 1.0]), "avg(x)", "\"Infinity\""),
        (doubles(&[-0.0, -0.0]), "sum(x)", "0.0"),
        (doubles(&[0.0, -0.0, 3.0]), "avg(DISTINCT x)", "1.5"),
        (doubles(&[1.0]), "var_samp(x)", "null"),
        (doubles(&[1.0]), "var_pop(x)", "0.0"),
        (doubles(&[1e9 + 4.0, 1e9 + 7.0, 1e9 + 13.0, 1e9 + 16.0]), "variance(x)", "30.0"),
        (Arc::new(Float32Array::from(vec![0.1f32, 0.2])), "sum(x)", "0.30000000447034836"),
        // Estimates.
        (ints(&[1, 2, 2, 5]), "approx_distinct(x)", "3"),
        (ints(&[1, 2, 3, 4]), "approx_median(x)", "2.5"),
        (ints(&[1, 2, 3, 4, 5]), "approx_percentile_cont(x, 0.25)", "2.0"),
        (ints(&[1, 2, 3, 4, 5]), "approx_percentile_cont(0.25) WITHIN GROUP (ORDER BY x)", "2.0"),
        (ints(&[1, 2, 3, 4, 5]), "approx_percentile_cont(0.25) WITHIN GROUP (ORDER BY x DESC)", "4.0"),
        (ints(&[1, 2, 3, 4, 5]), "approx_percentile_cont(x, 0.25, 200)", "2.0"),
        (Arc::new(Float32Array::from(vec![1.0f32, 2.0])), "approx_median(x)", "1.5"),
        // Times.
        (Arc::new(DurationMillisecondArray::from(vec![1000, 500])), "sum(x)", "\"PT1.5S\""),
        (Arc::new(DurationMillisecondArray::from(vec![1, 2])), "avg(x)", "\"PT0.002S\""),
        (
            Arc::new(IntervalMonthDayNanoArray::from(vec![IntervalMonthDayNano::new(1, 2, 3); 2])),
            "sum(x)",
            "\"P2M4DT0.000000006S\"",
        ),
    ] {
        assert_eq!(over(column, aggregate).await.unwrap(), expected, "{aggregate}");
    }
    let wide = i256::from_string(&"9".repeat(76)).unwrap();
    let wides: ArrayRef =
        Arc::new(Decimal256Array::from(vec![wide, wide, -wide]).with_precision_and_scale(76, 2).unwrap());
    assert_eq!(over(wides, "sum(x)").await.unwrap(), format!("\"{}.99\"", "9".repeat(74)));
}

#[tokio::test]
async fn overflow_is_an_error_that_names_the_aggregate() {
    let cases: [(ArrayRef, &str, &str); 6] = [
        (
            Arc::new(Int64Array::from(vec![i64::MAX, 1])),
            "sum(x)",
            "sum: overflow: the result 9223372036854775808 does not fit BIGINT",
        ),
        (
            Arc::new(UInt64Array::from(vec![u64::MAX, 1])),
            "sum(x)",
            "sum: overflow: the result 18446744073709551616 does not fit BIGINT UNSIGNED",
        ),
        (
            decimals(&[10i128.pow(38) - 1, 1], 38, 2),
            "sum(x)",
            "sum: overflow: the result 1000000000000000000000000000000000000.00 does not fit DECIMAL(38,2)",
        ),
        (
            decimals(&[10i128.pow(38) - 1], 38, 2),
            "avg(x)",
            "avg: overflow: the result 999999999999999999999999999999999999.990000 does not fit DECIMAL(38,6)",
        ),
        (Arc::new(DurationMillisecondArray::from(vec![i64::MAX, 1])), "sum(x)", "sum: overflow"),
        (Arc::new(Int64Array::from(vec![i64::MAX, 1])), "sum(DISTINCT x)", "sum: overflow"),
    ];
    for (column, aggregate, message) in cases {
        let error = over(column, aggregate).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Value);
        assert!(error.message().contains(message), "{error}");
    }
}

#[tokio::test]
async fn what_is_not_supported_is_refused_by_name() {
    let ints: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    for (aggregate, message) in [
        ("approx_percentile_cont_with_weight(x, x, 0.5)", "approx_percentile_cont_with_weight is not supported yet"),
        ("approx_percentile_cont(x, 1.5)", "the percentile must be between 0 and 1, not 1.5"),
        ("approx_percentile_cont(x, x)", "must be a constant"),
        ("approx_median(DISTINCT x) FILTER (WHERE x > 0)", "approx_median(DISTINCT …) is not supported"),
        ("sum('a')", "sum"),
    ] {
        let error = over(Arc::clone(&ints), aggregate).await.unwrap_err();
        assert!(error.message().contains(message), "{aggregate}: {error}");
    }
}

#[tokio::test]
async fn values_hash_alike_however_they_are_encoded() {
    let plain: ArrayRef = Arc::new(StringArray::from(vec!["a", "b", "a"]));
    let dictionary: DictionaryArray<Int32Type> = ["a", "b", "a"].into_iter().collect();
    let nested = {
        let mut builder = arrow::array::ListBuilder::new(arrow::array::Int32Builder::new());
        for values in [[1, 2], [2, 1], [1, 2]] {
            builder.append_value(values.map(Some));
        }
        builder.finish()
    };
    let columns: [ArrayRef; 5] = [
        plain,
        Arc::new(dictionary),
        Arc::new(nested),
        Arc::new(BooleanArray::from(vec![true, false, true])),
        Arc::new(Date32Array::from(vec![1, 2, 1])),
    ];
    for column in columns {
        assert_eq!(over(column, "approx_distinct(x)").await.unwrap(), "2");
    }
}

#[tokio::test]
async fn result_types_are_datafusions() {
    let context = context(1, 8192);
    let plain = SessionContext::new();
    for kind in
        ["INT", "BIGINT", "BIGINT UNSIGNED", "REAL", "DOUBLE", "DECIMAL(15,2)", "DECIMAL(38,10)", "DECIMAL(60,4)"]
    {
        for aggregate in ["sum", "avg", "stddev", "var_pop", "approx_median", "approx_distinct"] {
            let sql = format!("SELECT {aggregate}(CAST(1 AS {kind}))");
            let types = |frame: datafusion::prelude::DataFrame| sql_type(frame.schema().field(0).data_type());
            let ours = types(context.sql(&sql).await.unwrap());
            let theirs = types(plain.sql(&sql).await.unwrap());
            assert_eq!(ours, theirs, "{sql}");
        }
    }
}

#[tokio::test]
async fn window_frames_forget_what_left_them() {
    let context = context(1, 8192);
    let batch = RecordBatch::try_from_iter([
        ("i", Arc::new(Int64Array::from(vec![1, 2, 3, 4, 5])) as ArrayRef),
        ("x", Arc::new(Float64Array::from(vec![1e300, 1.0, -1e300, f64::NAN, 2.0]))),
        ("n", Arc::new(Int64Array::from(vec![i64::MAX, 1, -1, 7, 7]))),
    ])
    .unwrap();
    context.register_batch("t", batch).unwrap();
    let frame = "OVER (ORDER BY i ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)";
    let sql = format!(
        "SELECT sum(x) {frame}, avg(x) {frame}, sum(DISTINCT n % 7) {frame}, var_pop(n % 7) {frame}, approx_median(n % 7) {frame} FROM t ORDER BY i"
    );
    let expected = [
        "[1e+300,1e+300,0,0.0,0.0]",
        "[1e+300,5e+299,1,0.25,0.5]",
        "[-1e+300,-5e+299,0,1.0,0.0]",
        "[\"NaN\",\"NaN\",-1,0.25,-0.5]",
        "[\"NaN\",\"NaN\",0,0.0,0.0]",
    ];
    assert_eq!(rows(&context, &sql).await.unwrap(), expected);
    // The whole range overflows only where it is the frame.
    let running =
        rows(&context, "SELECT sum(n) OVER (ORDER BY i ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) FROM t");
    assert_eq!(running.await.unwrap(), ["[14]", "[13]", "[14]", "[7]", "[null]"]);
    let error = rows(&context, "SELECT sum(n) OVER (ORDER BY i ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM t");
    assert!(error.await.unwrap_err().message().contains("sum: overflow"));
}

#[tokio::test]
async fn a_distinct_aggregate_beside_a_sum_does_not_round_twice() {
    let context = context(4, 8192);
    let batch = RecordBatch::try_from_iter([
        ("k", Arc::new(Int64Array::from(vec![1, 2, 1, 2])) as ArrayRef),
        ("x", Arc::new(Float64Array::from(vec![1e16, 1.0, 1.0, -1e16]))),
        ("n", Arc::new(Int64Array::from(vec![i64::MAX, i64::MIN, 1, 0]))),
    ])
    .unwrap();
    context.register_batch("t", batch).unwrap();
    let found = rows(&context, "SELECT sum(x), sum(n), count(DISTINCT k) FROM t").await.unwrap();
    assert_eq!(found, ["[2.0,0,2]"]);
    // Without a sum beside it, the rewrite is there as before.
    let plan = context.sql("SELECT count(DISTINCT k), sum(DISTINCT k) FROM t").await.unwrap();
    let plan = plan.into_optimized_plan().unwrap().display_indent().to_string();
    assert_eq!(plan.matches("Aggregate").count(), 2, "{plan}");
}

/// Numbers that look random and are the same every time.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 11
    }
}

/// `rows` rows: a key, doubles over many magnitudes with NULLs, decimals, and strings.
fn table(rows: u64) -> RecordBatch {
    let mut noise = Noise(7);
    let mut scale = || [1e-300, 1e-9, 1.0, 1e6, 1e300][usize::try_from(noise.next() % 5).unwrap()];
    let scales: Vec<f64> = (0..rows).map(|_| scale()).collect();
    let mut noise = Noise(11);
    let values: Vec<i64> = (0..rows).map(|_| i64::try_from(noise.next() % 2_000_003).unwrap() - 1_000_001).collect();
    let keys = values.iter().map(|value| value.rem_euclid(97));
    #[expect(clippy::cast_precision_loss, reason = "small")]
    let doubles =
        values.iter().zip(&scales).map(|(value, scale)| (value % 13 != 0).then_some(*value as f64 / 7.0 * scale));
    let decimals = values.iter().map(|value| i128::from(*value) * 10i128.pow(20) + i128::from(*value));
    RecordBatch::try_from_iter_with_nullable([
        ("k", Arc::new(Int64Array::from_iter_values(keys)) as ArrayRef, false),
        ("x", Arc::new(doubles.collect::<Float64Array>()), true),
        ("i", Arc::new(Int64Array::from(values.clone())), false),
        ("d", Arc::new(Decimal128Array::from_iter_values(decimals).with_precision_and_scale(30, 4).unwrap()), false),
        ("s", Arc::new(StringArray::from_iter_values(values.iter().map(|value| format!("{}", value % 1009)))), false),
    ])
    .unwrap()
}

#[tokio::test]
async fn the_same_bits_however_the_work_is_cut() {
    const AGGREGATES: &str = "sum(x), avg(x), stddev(x), var_pop(x), sum(i), avg(i), var_samp(i), sum(d), avg(d), \
        stddev_pop(d), approx_distinct(s), approx_percentile_cont(x, 0.9), approx_median(i), sum(x) FILTER (WHERE i > 0), \
        avg(x) FILTER (WHERE i % 2 = 0), approx_distinct(s) FILTER (WHERE i < 0)";
    let batch = table(20_000);
    let queries = [
        format!("SELECT {AGGREGATES}, sum(DISTINCT i % 1000), avg(DISTINCT x) FROM t"),
        format!("SELECT k, {AGGREGATES} FROM t GROUP BY k ORDER BY k"),
        // Nearly every row its own group: partial aggregation is skipped.
        "SELECT i, sum(x), avg(d), stddev_pop(x), approx_distinct(s), avg(i) FILTER (WHERE k > 50) FROM t GROUP BY i ORDER BY i".into(),
        "SELECT sum(a), sum(b), count(c) FROM (SELECT k, sum(x) AS a, avg(i) AS b, approx_median(x) AS c FROM t GROUP BY ROLLUP (k))".into(),
    ];
    let mut expected: Vec<Vec<String>> = Vec::new();
    for (partitions, batch_size, chunk, reverse) in
        [(1, 8192, 20_000, false), (4, 100, 777, true), (3, 8192, 3_333, true)]
    {
        let context = context(partitions, batch_size);
        let mut chunks: Vec<RecordBatch> = (0..batch.num_rows())
            .step_by(chunk)
            .map(|start| batch.slice(start, chunk.min(batch.num_rows() - start)))
            .collect();
        if reverse {
            chunks.reverse();
            chunks.iter_mut().for_each(|chunk| *chunk = reversed(chunk));
        }
        let mut split = vec![Vec::new(); partitions];
        chunks.into_iter().enumerate().for_each(|(nth, chunk)| split[nth % partitions].push(chunk));
        let table = MemTable::try_new(batch.schema(), split).unwrap();
        context.register_table("t", Arc::new(table)).unwrap();
        for (nth, query) in queries.iter().enumerate() {
            let found = rows(&context, query).await.unwrap();
            match expected.get(nth) {
                None => expected.push(found),
                Some(expected) => assert_eq!(&found, expected, "{query} over {partitions} partitions"),
            }
        }
    }
}

fn reversed(batch: &RecordBatch) -> RecordBatch {
    let last = u64::try_from(batch.num_rows()).unwrap();
    let order = UInt64Array::from_iter_values((0..last).rev());
    arrow::compute::take_record_batch(batch, &order).unwrap()
}

#[tokio::test]
async fn sums_agree_with_a_second_way_of_adding() {
    let batch = table(5_000);
    let column = Arc::clone(batch.column(1));
    let mut sum = super::ExactSum::default();
    column.as_primitive::<Float64Type>().iter().flatten().for_each(|value| sum.add(value));
    let found: f64 = over(column, "sum(x)").await.unwrap().parse().unwrap();
    assert_eq!(found.to_bits(), sum.to_f64().to_bits());
}

#[test]
fn memory_is_reported() {
    use datafusion::logical_expr::GroupsAccumulator;

    use super::accumulate::{Recipe, Totals};

    let recipe = Totals::<Float64Type, super::ExactSum>::new(DataType::Float64, super::finish::sum_f64);
    let mut groups: Box<dyn GroupsAccumulator> = recipe.groups().unwrap();
    let empty = groups.size();
    let values: ArrayRef = Arc::new(Float64Array::from(vec![1e300, 1e-300, 1.0, 2.0]));
    groups.update_batch(&[Arc::clone(&values)], &[0, 0, 1, 1], None, 2).unwrap();
    let full = groups.size();
    // Group 0 needs words beyond its 128 bits, group 1 does not.
    assert!(full >= empty + 64 && full < 4096, "{full}");
    let state = groups.state(datafusion::logical_expr::EmitTo::First(1)).unwrap();
    assert!(groups.size() < full);
    groups.merge_batch(&state, &[0], 1).unwrap();
    let result = groups.evaluate(datafusion::logical_expr::EmitTo::All).unwrap();
    assert_eq!(ScalarValue::try_from_array(&result, 0).unwrap(), ScalarValue::Float64(Some(1e300)));
}
