//! Cases that random tables do not meet: damage, what the log and the file disagree on, types that
//! may not change, and what the counters say.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::error::DataFusionError;
use lakeserve_common::{Error, ErrorKind};
use lakeserve_lake::{ColumnMapping, TableFormat};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use roaring::RoaringTreemap;

use super::{TestFile, TestTable, run};

fn properties(rows: usize) -> WriterProperties {
    WriterProperties::builder().set_max_row_group_row_count(Some(rows)).set_data_page_row_count_limit(10).build()
}

fn one_column(stored: ArrayRef, logical: ArrayRef, deleted: RoaringTreemap, properties: WriterProperties) -> TestFile {
    let batch = |array: ArrayRef| {
        let schema = Schema::new(vec![Field::new("x", array.data_type().clone(), true)]);
        RecordBatch::try_new(Arc::new(schema), vec![array]).unwrap()
    };
    TestFile { stored: batch(stored), logical: batch(logical), deleted, constants: Vec::new(), properties }
}

fn schema_of(file: &TestFile) -> SchemaRef {
    file.logical.schema()
}

fn by_name(schema: &SchemaRef) -> Vec<ColumnMapping> {
    schema.fields().iter().map(|field| crate::schema_map::mapping_of(field)).collect()
}

fn table(files: Vec<TestFile>, with_statistics: bool) -> TestTable {
    let schema = schema_of(&files[0]);
    TestTable::build(&schema, by_name(&schema), files, &|_, _| with_statistics)
}

fn numbers(range: std::ops::Range<i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(range))
}

fn number_file(range: std::ops::Range<i64>, row_group: usize, deleted: RoaringTreemap) -> TestFile {
    one_column(numbers(range.clone()), numbers(range), deleted, properties(row_group))
}

/// The error of ours inside one of DataFusion's.
fn ours(error: &DataFusionError) -> Option<&Error> {
    match error.find_root() {
        DataFusionError::External(inner) => inner.downcast_ref::<Error>(),
        _ => None,
    }
}

async fn refused(table: &TestTable, sql: &str) -> (ErrorKind, String) {
    let error = run(&table.session(2, 100), sql).await.unwrap_err();
    let ours = ours(&error).unwrap_or_else(|| panic!("{error:?}"));
    (ours.kind(), ours.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn counters_say_what_was_skipped() {
    let mut deleted = RoaringTreemap::new();
    deleted.insert_range(95..105);
    let files = vec![
        number_file(0..200, 50, RoaringTreemap::new()),
        number_file(200..400, 50, deleted),
        number_file(400..600, 50, RoaringTreemap::new()),
    ];
    let table = table(files, true);
    let rows = run(&table.session(4, 1000), "SELECT count(*) FROM t WHERE x BETWEEN 290 AND 299").await.unwrap();
    assert_eq!(rows, ["5"]);
    let counters = &table.counters;
    let read = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    assert_eq!(read(&counters.files_total), 3);
    assert_eq!(read(&counters.files_pruned), 2);
    assert_eq!(read(&counters.files_scanned), 1);
    assert_eq!(read(&counters.row_groups_total), 4);
    assert_eq!(read(&counters.row_groups_pruned), 3);
    assert_eq!(read(&counters.rows_scanned), 50);
    assert_eq!(read(&counters.rows_deleted), 5);
    assert!(counters.reads.bytes_store() > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn counts_come_from_the_log_only_where_nothing_is_deleted() {
    let plan = async |table: &TestTable| {
        run(&table.session(1, 100), "EXPLAIN SELECT count(*) FROM t").await.unwrap().join("\n")
    };
    let whole = table(vec![number_file(0..20, 50, RoaringTreemap::new())], true);
    assert!(!plan(&whole).await.contains("LakeScan"), "{}", plan(&whole).await);
    let partly = table(vec![number_file(0..20, 50, RoaringTreemap::from_iter([3]))], true);
    assert!(plan(&partly).await.contains("LakeScan"));
    assert_eq!(run(&partly.session(1, 100), "SELECT count(*) FROM t").await.unwrap(), ["19"]);
    let mut unknown = table(vec![number_file(0..20, 50, RoaringTreemap::new())], true);
    unknown.change(|files| files[0].row_count = None);
    assert!(plan(&unknown).await.contains("LakeScan"));
    assert_eq!(run(&unknown.session(1, 100), "SELECT count(*), min(x), max(x) FROM t").await.unwrap(), ["20|0|19"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn extremes_are_not_taken_from_some_of_the_row_groups() {
    let silent = WriterProperties::builder().set_statistics_enabled(EnabledStatistics::None).build();
    let text = |values: Vec<&str>| -> ArrayRef { Arc::new(StringArray::from(values)) };
    let files = vec![
        one_column(text(vec!["m", "n"]), text(vec!["m", "n"]), RoaringTreemap::new(), properties(10)),
        one_column(text(vec!["a", "z"]), text(vec!["a", "z"]), RoaringTreemap::new(), silent),
    ];
    let table = table(files, false);
    assert_eq!(run(&table.session(2, 100), "SELECT min(x), max(x) FROM t").await.unwrap(), ["a|z"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn nan_rows_are_found_behind_bounds() {
    let values: ArrayRef = Arc::new(Float64Array::from(vec![3.0, f64::NAN, 3.0]));
    let table = table(vec![one_column(Arc::clone(&values), values, RoaringTreemap::new(), properties(10))], true);
    let session = table.session(1, 100);
    let count = async |filter: &str| run(&session, &format!("SELECT count(*) FROM t WHERE {filter}")).await.unwrap();
    assert_eq!(count("x <> 3.0").await, ["1"]);
    assert_eq!(count("NOT (x < 10)").await, ["1"]);
    assert_eq!(count("x = 3.0").await, ["2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_and_the_file_must_agree() {
    let build = || table(vec![number_file(0..20, 50, RoaringTreemap::new())], true);
    let sql = "SELECT sum(x) FROM t";

    let mut rows = build();
    rows.change(|files| files[0].row_count = Some(21));
    let (kind, message) = refused(&rows, sql).await;
    assert_eq!(kind, ErrorKind::Corrupt);
    assert!(message.contains("0000.parquet") && message.contains("21 rows"), "{message}");

    for size in [0, 3, 11] {
        let mut short = build();
        short.change(|files| files[0].size = size);
        let (kind, message) = refused(&short, sql).await;
        assert_eq!(kind, ErrorKind::Corrupt, "{message}");
        assert!(message.contains("0000.parquet"), "{message}");
    }

    let mut other_size = build();
    other_size.change(|files| files[0].size += 1);
    assert_eq!(refused(&other_size, sql).await.0, ErrorKind::Corrupt);

    // Manifests of Iceberg name wrong sizes; the row count still has to be right.
    let mut manifest = build();
    manifest.change_as(TableFormat::Iceberg, |files| files[0].size += 1);
    assert_eq!(run(&manifest.session(1, 100), sql).await.unwrap(), ["190"]);
    manifest.change(|files| files[0].row_count = Some(21));
    assert_eq!(refused(&manifest, sql).await.0, ErrorKind::Corrupt);

    let gone = build();
    std::fs::remove_file(gone.folder().join("0000.parquet")).unwrap();
    let (kind, message) = refused(&gone, sql).await;
    assert_eq!(kind, ErrorKind::Corrupt);
    assert!(message.contains("0000.parquet"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn types_that_may_not_change_are_refused_by_name() {
    let text: ArrayRef = Arc::new(StringArray::from(vec!["7"]));
    let table_of = |stored: ArrayRef, logical: ArrayRef| {
        table(vec![one_column(stored, logical, RoaringTreemap::new(), properties(10))], false)
    };
    let (kind, message) = refused(&table_of(text, numbers(7..8)), "SELECT x FROM t").await;
    assert_eq!(kind, ErrorKind::Corrupt);
    assert!(message.contains("column \"x\" is stored as Utf8, which cannot be read as Int64"), "{message}");
    // Narrowing is never silent.
    let narrow: ArrayRef = Arc::new(arrow::array::Int32Array::from(vec![7]));
    assert_eq!(refused(&table_of(numbers(7..8), narrow), "SELECT x FROM t").await.0, ErrorKind::Corrupt);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_required_column_that_the_file_lacks_is_an_error() {
    let schema: SchemaRef = Arc::new(Schema::new(vec![Field::new("y", DataType::Int64, false)]));
    let file = number_file(0..5, 10, RoaringTreemap::new());
    let logical = RecordBatch::try_new(Arc::clone(&schema), vec![numbers(0..5)]).unwrap();
    let files = vec![TestFile { logical, ..file }];
    let table = TestTable::build(&schema, by_name(&schema), files, &|_, _| false);
    let (kind, message) = refused(&table, "SELECT y FROM t").await;
    assert_eq!(kind, ErrorKind::Corrupt);
    assert!(message.contains("column \"y\" must have a value"), "{message}");
}

/// Whatever a byte becomes, the process lives, the query ends, and errors name the file. (A flip in
/// values or statistics without a checksum cannot be seen.)
#[tokio::test(flavor = "multi_thread")]
async fn flipped_bytes_never_crash() {
    let whole = table(vec![number_file(0..300, 100, RoaringTreemap::new())], true);
    let bytes = std::fs::read(whole.folder().join("0000.parquet")).unwrap();
    let footer_start = bytes.len()
        - 8
        - usize::try_from(u32::from_le_bytes(bytes[bytes.len() - 8..][..4].try_into().unwrap())).unwrap();
    let mut refused = 0;
    for position in (0..bytes.len()).filter(|at| *at >= footer_start || at % 37 == 0) {
        let mut broken = bytes.clone();
        broken[position] ^= 1 << (position % 8);
        let mut table = table(vec![number_file(0..300, 100, RoaringTreemap::new())], true);
        std::fs::write(table.folder().join("0000.parquet"), &broken).unwrap();
        table.change(|files| files[0].row_count = Some(300));
        let session = table.session(1, 1000);
        let answer = tokio::time::timeout(std::time::Duration::from_secs(20), run(&session, "SELECT x FROM t"));
        match answer.await.unwrap_or_else(|_| panic!("byte {position}: no answer")) {
            Ok(rows) => assert_eq!(rows.len(), 300, "byte {position}"),
            Err(error) => {
                refused += 1;
                let error = ours(&error).unwrap_or_else(|| panic!("byte {position}: {error:?}"));
                assert!(error.message().contains("0000.parquet"), "byte {position}: {error}");
            }
        }
    }
    assert!(refused > 0);
}
