//! One table cut in many ways must give one answer.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray, UInt64Array};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::util::pretty::pretty_format_batches;
use datafusion::datasource::MemTable;
use datafusion::prelude::SessionContext;
use proptest::prelude::*;

use super::*;
use crate::session::{SessionOptions, context};

/// A row: its values; its position is its place in the list.
type Row = (Option<i64>, i64, Option<&'static str>);

fn rows(seed: u64, count: usize) -> Vec<Row> {
    let mut state = seed | 1;
    let mut draw = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    (0..count)
        .map(|_| {
            let a = (draw(8) > 0).then(|| i64::try_from(draw(4)).unwrap());
            let b = i64::try_from(draw(5)).unwrap();
            let c = [None, Some("x"), Some("y"), Some("z")][usize::try_from(draw(4)).unwrap()];
            (a, b, c)
        })
        .collect()
}

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("a", DataType::Int64, true),
        Field::new("b", DataType::Int64, false),
        Field::new("c", DataType::Utf8, true),
    ]))
}

fn batch(rows: &[(u64, Row)], ordinal: bool) -> RecordBatch {
    let mut fields = schema().fields().to_vec();
    let mut columns: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|(_, row)| row.0).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|(_, row)| row.1).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|(_, row)| row.2).collect::<StringArray>()),
    ];
    if ordinal {
        fields.push(Arc::new(Field::new(ROW_ORDINAL, DataType::UInt64, false)));
        columns.push(Arc::new(rows.iter().map(|(position, _)| *position).collect::<UInt64Array>()));
    }
    // Lists of columns made from these fields always fit.
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

/// The rows dealt out to partitions as `deal` says.
fn table(rows: &[Row], deal: &[usize], ordered: bool) -> Arc<dyn datafusion::catalog::TableProvider> {
    let parts = deal.iter().copied().max().unwrap_or(0) + 1;
    let mut dealt: Vec<Vec<(u64, Row)>> = vec![Vec::new(); parts];
    for (position, row) in rows.iter().enumerate() {
        dealt[deal[position % deal.len()]].push((u64::try_from(position).unwrap(), *row));
    }
    let provider = |ordinal: bool| -> Arc<dyn datafusion::catalog::TableProvider> {
        let partitions: Vec<Vec<RecordBatch>> =
            dealt.iter().map(|rows| rows.chunks(5).map(|rows| batch(rows, ordinal)).collect()).collect();
        Arc::new(MemTable::try_new(batch(&[], ordinal).schema(), partitions).unwrap())
    };
    if ordered { Arc::new(OrderedTable::new(provider(false), provider(true)).unwrap()) } else { provider(false) }
}

fn session(partitions: usize) -> SessionContext {
    context(&SessionOptions { target_partitions: partitions, batch_size: 7, ..SessionOptions::default() }).unwrap()
}

async fn answer(session: &SessionContext, sql: &str) -> RecordBatch {
    let frame = session.sql(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let schema = Arc::new(frame.schema().as_arrow().clone());
    let batches = frame.collect().await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    for batch in &batches {
        let names = |schema: &Schema| {
            schema.fields().iter().map(|f| (f.name().clone(), f.data_type().clone())).collect::<Vec<_>>()
        };
        assert_eq!(names(&batch.schema()), names(&schema), "{sql}");
    }
    let schema = batches.first().map_or(schema, RecordBatch::schema);
    concat_batches(&schema, &batches).unwrap()
}

fn shown(batch: &RecordBatch) -> String {
    pretty_format_batches(std::slice::from_ref(batch)).unwrap().to_string()
}

const QUERIES: [&str; 38] = [
    "SELECT * FROM t ORDER BY a",
    "SELECT b, c FROM t ORDER BY a LIMIT 5",
    "SELECT c AS x FROM t ORDER BY b DESC NULLS FIRST LIMIT 7 OFFSET 3",
    "SELECT * FROM t WHERE b > 1 ORDER BY c LIMIT 4",
    "SELECT s.c FROM (SELECT a AS k, c FROM t) s ORDER BY k LIMIT 6",
    "SELECT t.c, u.c FROM t JOIN u ON t.a = u.a ORDER BY t.b LIMIT 9",
    "SELECT t.c, u.c, u.b FROM t LEFT JOIN u ON t.a = u.a AND u.b = 3 ORDER BY t.b LIMIT 50",
    "SELECT t.c, u.c FROM t FULL JOIN u ON t.a = u.a AND t.b = u.b ORDER BY t.b, u.b LIMIT 40",
    "SELECT x.c, y.c FROM t x, t y WHERE x.a = y.b ORDER BY x.b LIMIT 9",
    "SELECT c FROM t LEFT SEMI JOIN u ON t.b = u.b ORDER BY a LIMIT 5",
    "SELECT c FROM t WHERE a IN (SELECT b FROM u) ORDER BY b LIMIT 5",
    "SELECT c, b FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = t.a) ORDER BY c LIMIT 5",
    "SELECT a, count(*) AS n FROM t GROUP BY a ORDER BY n LIMIT 2",
    "SELECT count(*) FROM t GROUP BY a, c ORDER BY 1 LIMIT 4",
    "SELECT c, sum(b) FROM t GROUP BY CUBE (a, c) ORDER BY 2 LIMIT 6",
    "SELECT DISTINCT a, c FROM t ORDER BY a LIMIT 5",
    "SELECT DISTINCT c FROM t ORDER BY c NULLS FIRST LIMIT 1",
    "SELECT DISTINCT ON (a) a, b, c FROM t ORDER BY a, b",
    "SELECT DISTINCT ON (a) a, b, c FROM t",
    "SELECT a, first_value(c ORDER BY b), last_value(c ORDER BY b) FROM t GROUP BY a ORDER BY a",
    "SELECT first_value(c), last_value(c) FROM t",
    "SELECT nth_value(c, 3 ORDER BY a) AS third FROM t",
    "SELECT a, array_agg(c ORDER BY b) FROM t GROUP BY a ORDER BY a",
    "SELECT array_agg(DISTINCT c ORDER BY c) FROM t",
    "SELECT string_agg(c, ',' ORDER BY a DESC) FROM t",
    "SELECT first_value(c ORDER BY b) FROM t HAVING first_value(c ORDER BY b) IS NOT NULL OR count(*) >= 0",
    "SELECT a, b, row_number() OVER (PARTITION BY a ORDER BY b) AS n FROM t ORDER BY a, n",
    "SELECT c, row_number() OVER (ORDER BY b), rank() OVER (ORDER BY b) FROM t ORDER BY 2",
    "SELECT c, lag(c) OVER (ORDER BY b), lead(c, 2) OVER (ORDER BY b DESC), sum(b) OVER (ORDER BY a) FROM t ORDER BY b",
    "SELECT c, first_value(c) OVER (PARTITION BY a ORDER BY b), last_value(c) OVER (PARTITION BY a ORDER BY b ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) FROM t ORDER BY a",
    "SELECT sum(b) OVER (ORDER BY a ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) FROM t ORDER BY a",
    "SELECT row_number() OVER () AS n, c FROM t",
    "SELECT * FROM (SELECT c, b FROM t ORDER BY a LIMIT 8) ORDER BY b LIMIT 3",
    "WITH x AS (SELECT a, c FROM t ORDER BY b LIMIT 10) SELECT c, count(*) FROM x GROUP BY c ORDER BY c",
    "SELECT b, c FROM t UNION ALL SELECT b, c FROM u ORDER BY b LIMIT 7",
    "SELECT a, c FROM t ORDER BY (SELECT max(b) FROM u) LIMIT 4",
    "SELECT c, b FROM t QUALIFY row_number() OVER (PARTITION BY c ORDER BY a) = 1 ORDER BY c",
    "SELECT a + 1, upper(c) FROM t ORDER BY b % 2 LIMIT 6",
];

fn register(session: &SessionContext, left: &[Row], right: &[Row], deal: &[usize], ordered: bool) {
    session.register_table("t", table(left, deal, ordered)).unwrap();
    session.register_table("u", table(right, deal, ordered)).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, ..ProptestConfig::default() })]

    #[test]
    fn any_partitioning_gives_the_same_answer(
        seed in any::<u64>(),
        count in 1_usize..60,
        deal in proptest::collection::vec(0_usize..5, 1..12),
        partitions in 1_usize..5,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (left, right) = (rows(seed, count), rows(seed ^ 99, count / 2));
            let (whole, parts, plain) = (session(1), session(partitions), session(1));
            register(&whole, &left, &right, &[0], true);
            register(&parts, &left, &right, &deal, true);
            register(&plain, &left, &right, &[0], false);
            for sql in QUERIES {
                let expected = answer(&whole, sql).await;
                let found = answer(&parts, sql).await;
                assert_eq!(shown(&expected), shown(&found), "{sql}");
                let frame = |session: &SessionContext| { let session = session.clone(); async move { session.sql(sql).await.unwrap() } };
                let schema = frame(&plain).await.schema().as_arrow().clone();
                assert_eq!(frame(&parts).await.schema().as_arrow(), &schema, "{sql}");
                let optimised = frame(&parts).await.into_optimized_plan().unwrap();
                let without = frame(&plain).await.into_optimized_plan().unwrap();
                assert_eq!(optimised.schema().as_arrow().fields(), without.schema().as_arrow().fields(), "{sql}");
            }
        });
    }
}

#[tokio::test]
async fn ties_come_in_table_order() {
    let left = rows(7, 50);
    let session = session(3);
    session.register_table("t", table(&left, &[2, 0, 1, 1], true)).unwrap();
    let found = answer(&session, "SELECT c, b FROM t ORDER BY b LIMIT 20").await;
    let mut expected: Vec<(u64, Row)> = left.iter().enumerate().map(|(at, row)| (at as u64, *row)).collect();
    expected.sort_by_key(|(_, row)| row.1);
    let expected = batch(&expected[..20], false).project(&[2, 1]).unwrap();
    assert_eq!(shown(&expected), shown(&found));

    let found = answer(&session, "SELECT first_value(c) AS f, last_value(b) AS l FROM t").await;
    let first = left.first().unwrap().2.unwrap_or("");
    assert!(
        shown(&found).contains(&format!("| {first} "))
            && shown(&found).contains(&format!("| {} ", left.last().unwrap().1))
    );
}

#[tokio::test]
async fn hidden_columns_stay_hidden() {
    let session = session(2);
    session.register_table("t", table(&rows(1, 9), &[0, 1], true)).unwrap();
    let found = answer(&session, "SELECT * FROM t ORDER BY a").await;
    assert_eq!(found.num_columns(), 3);
    assert!(session.sql("SELECT __lakeserve_row FROM t").await.is_err());
    let described = answer(&session, "DESCRIBE t").await;
    assert_eq!(described.num_rows(), 3);
}

#[tokio::test]
async fn the_rule_is_idempotent_and_leaves_other_plans_alone() {
    use datafusion::optimizer::AnalyzerRule;
    let session = session(2);
    register(&session, &rows(1, 9), &rows(2, 9), &[0, 1], true);
    session.register_table("m", table(&rows(3, 9), &[0], false)).unwrap();
    let config = datafusion::config::ConfigOptions::default();
    for sql in QUERIES {
        let plan = session.state().create_logical_plan(sql).await.unwrap();
        let once = BreakTies.analyze(plan, &config).unwrap();
        assert_eq!(BreakTies.analyze(once.clone(), &config).unwrap(), once, "{sql}");
    }
    for sql in ["SELECT * FROM m ORDER BY a", "SELECT a FROM t", "SELECT sum(b) FROM t GROUP BY a"] {
        let plan = session.state().create_logical_plan(sql).await.unwrap();
        assert_eq!(BreakTies.analyze(plan.clone(), &config).unwrap(), plan, "{sql}");
    }
}
