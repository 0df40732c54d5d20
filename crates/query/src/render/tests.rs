//! The spelling of every Arrow type, as the conformance suite's `canon.py` lays it down.

use std::sync::Arc;

use arrow::array::*;
use arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::*;

use super::{CsvWriter, RowEncoder, Spelling, pinot_type, sql_type, text_table};

fn spell(array: ArrayRef, spelling: Spelling) -> Vec<String> {
    let batch = RecordBatch::try_from_iter_with_nullable([("v", array, true)]).unwrap();
    let encoder = RowEncoder::arrays(&batch, spelling).unwrap();
    (0..encoder.num_rows())
        .map(|row| {
            let mut out = Vec::new();
            encoder.encode_row(row, &mut out);
            let text = String::from_utf8(out).unwrap();
            text[1..text.len() - 1].to_owned()
        })
        .collect()
}

/// Array, canonical spelling of each row, Pinot's spelling, SQL type, Pinot type.
type Case = (ArrayRef, Vec<&'static str>, Vec<&'static str>, &'static str, &'static str);

fn same(array: ArrayRef, rows: Vec<&'static str>, sql: &'static str, pinot: &'static str) -> Case {
    (array, rows.clone(), rows, sql, pinot)
}

fn scalars() -> Vec<Case> {
    vec![
        same(Arc::new(NullArray::new(1)), vec!["null"], "NULL", "STRING"),
        same(
            Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)])),
            vec!["true", "null", "false"],
            "BOOLEAN",
            "BOOLEAN",
        ),
        same(Arc::new(Int8Array::from(vec![Some(-128), None])), vec!["-128", "null"], "TINYINT", "INT"),
        same(Arc::new(Int16Array::from(vec![i16::MIN])), vec!["-32768"], "SMALLINT", "INT"),
        same(Arc::new(Int32Array::from(vec![i32::MIN])), vec!["-2147483648"], "INTEGER", "INT"),
        same(Arc::new(Int64Array::from(vec![i64::MIN, 0])), vec!["-9223372036854775808", "0"], "BIGINT", "LONG"),
        same(Arc::new(UInt8Array::from(vec![255])), vec!["255"], "TINYINT UNSIGNED", "INT"),
        same(Arc::new(UInt16Array::from(vec![65535])), vec!["65535"], "SMALLINT UNSIGNED", "INT"),
        same(Arc::new(UInt32Array::from(vec![u32::MAX])), vec!["4294967295"], "INTEGER UNSIGNED", "LONG"),
        same(Arc::new(UInt64Array::from(vec![u64::MAX])), vec!["18446744073709551615"], "BIGINT UNSIGNED", "LONG"),
        (
            Arc::new(Float16Array::from(vec![half(0.1), half(1.5)])),
            vec!["0.0999755859375", "1.5"],
            vec!["0.099975586", "1.5"],
            "HALF",
            "FLOAT",
        ),
        (
            Arc::new(Float32Array::from(vec![Some(0.1), None, Some(f32::NAN), Some(f32::NEG_INFINITY)])),
            vec!["0.10000000149011612", "null", "\"NaN\"", "\"-Infinity\""],
            vec!["0.1", "null", "\"NaN\"", "\"-Infinity\""],
            "REAL",
            "FLOAT",
        ),
        same(
            Arc::new(Float64Array::from(vec![0.1, -0.0, 1e21, f64::INFINITY])),
            vec!["0.1", "-0.0", "1e+21", "\"Infinity\""],
            "DOUBLE",
            "DOUBLE",
        ),
        same(
            Arc::new(Decimal32Array::from(vec![-12345]).with_precision_and_scale(9, 2).unwrap()),
            vec!["\"-123.45\""],
            "DECIMAL(9,2)",
            "BIG_DECIMAL",
        ),
        same(
            Arc::new(Decimal64Array::from(vec![5]).with_precision_and_scale(18, 3).unwrap()),
            vec!["\"0.005\""],
            "DECIMAL(18,3)",
            "BIG_DECIMAL",
        ),
        same(
            Arc::new(Decimal128Array::from(vec![Some(100), None]).with_precision_and_scale(15, 2).unwrap()),
            vec!["\"1.00\"", "null"],
            "DECIMAL(15,2)",
            "BIG_DECIMAL",
        ),
        same(
            Arc::new(Decimal256Array::from(vec![i256::from_i128(-7)]).with_precision_and_scale(76, 1).unwrap()),
            vec!["\"-0.7\""],
            "DECIMAL(76,1)",
            "BIG_DECIMAL",
        ),
        same(
            Arc::new(StringArray::from(vec![Some("a\"b\\\n\u{1}é\u{7f}"), None, Some("")])),
            vec!["\"a\\\"b\\\\\\n\\u0001é\u{7f}\"", "null", "\"\""],
            "VARCHAR",
            "STRING",
        ),
        same(Arc::new(LargeStringArray::from(vec!["x"])), vec!["\"x\""], "VARCHAR", "STRING"),
        same(
            Arc::new(StringViewArray::from(vec!["longer than twelve bytes"])),
            vec!["\"longer than twelve bytes\""],
            "VARCHAR",
            "STRING",
        ),
        (
            Arc::new(BinaryArray::from(vec![Some(&[0u8, 255][..]), None])),
            vec!["\"0x00ff\"", "null"],
            vec!["\"00ff\"", "null"],
            "VARBINARY",
            "BYTES",
        ),
        (Arc::new(LargeBinaryArray::from(vec![&[1u8][..]])), vec!["\"0x01\""], vec!["\"01\""], "VARBINARY", "BYTES"),
        (Arc::new(BinaryViewArray::from(vec![&b""[..]])), vec!["\"0x\""], vec!["\"\""], "VARBINARY", "BYTES"),
        (
            Arc::new(FixedSizeBinaryArray::try_from_iter([[171u8, 205]].into_iter()).unwrap()),
            vec!["\"0xabcd\""],
            vec!["\"abcd\""],
            "BINARY(2)",
            "BYTES",
        ),
    ]
}

fn half(value: f32) -> <Float16Type as ArrowPrimitiveType>::Native {
    <Float16Type as ArrowPrimitiveType>::Native::from_f32(value)
}

fn temporal() -> Vec<Case> {
    let zoned = |unit: &str| -> Vec<&'static str> {
        if unit == "ns" { vec!["\"1970-01-01T00:00:00.000000001Z\""] } else { vec!["\"1970-01-01T00:00:01.000000Z\""] }
    };
    vec![
        same(
            Arc::new(Date32Array::from(vec![Some(0), Some(-719_529), Some(2_932_897), None])),
            vec!["\"1970-01-01\"", "\"-001-12-31\"", "\"10000-01-01\"", "null"],
            "DATE",
            "STRING",
        ),
        same(
            Arc::new(Date64Array::from(vec![86_400_000, -1])),
            vec!["\"1970-01-02\"", "\"1969-12-31\""],
            "DATE",
            "STRING",
        ),
        same(Arc::new(Time32SecondArray::from(vec![3661])), vec!["\"01:01:01\""], "TIME", "STRING"),
        same(Arc::new(Time32MillisecondArray::from(vec![1500])), vec!["\"00:00:01.500000\""], "TIME", "STRING"),
        same(Arc::new(Time64MicrosecondArray::from(vec![1])), vec!["\"00:00:00.000001\""], "TIME", "STRING"),
        same(
            Arc::new(Time64NanosecondArray::from(vec![1, 1000])),
            vec!["\"00:00:00.000000001\"", "\"00:00:00.000001\""],
            "TIME",
            "STRING",
        ),
        (
            Arc::new(TimestampMicrosecondArray::from(vec![Some(1_700_000_000_000_001), None])),
            vec!["\"2023-11-14T22:13:20.000001\"", "null"],
            vec!["\"2023-11-14 22:13:20.000001\"", "null"],
            "TIMESTAMP",
            "TIMESTAMP",
        ),
        (
            Arc::new(TimestampSecondArray::from(vec![1]).with_timezone("UTC")),
            zoned("s"),
            vec!["\"1970-01-01 00:00:01.0\""],
            "TIMESTAMP(0) WITH TIME ZONE",
            "TIMESTAMP",
        ),
        (
            Arc::new(TimestampMillisecondArray::from(vec![1000]).with_timezone("Europe/Berlin")),
            zoned("ms"),
            vec!["\"1970-01-01 00:00:01.0\""],
            "TIMESTAMP(3) WITH TIME ZONE",
            "TIMESTAMP",
        ),
        (
            Arc::new(TimestampNanosecondArray::from(vec![1]).with_timezone("+02:00")),
            zoned("ns"),
            vec!["\"1970-01-01 00:00:00.000000001\""],
            "TIMESTAMP(9) WITH TIME ZONE",
            "TIMESTAMP",
        ),
        same(
            Arc::new(DurationMillisecondArray::from(vec![90_500])),
            vec!["\"PT1M30.5S\""],
            "INTERVAL DAY TO SECOND",
            "STRING",
        ),
        same(
            Arc::new(IntervalYearMonthArray::from(vec![-14])),
            vec!["\"P-1Y-2M\""],
            "INTERVAL YEAR TO MONTH",
            "STRING",
        ),
        same(
            Arc::new(IntervalDayTimeArray::from(vec![IntervalDayTime::new(1, 250)])),
            vec!["\"P1DT0.25S\""],
            "INTERVAL DAY TO SECOND",
            "STRING",
        ),
        same(
            Arc::new(IntervalMonthDayNanoArray::from(vec![IntervalMonthDayNano::new(1, 2, 3_000_000_000)])),
            vec!["\"P1M2DT3S\""],
            "INTERVAL",
            "STRING",
        ),
    ]
}

fn encoded() -> Vec<Case> {
    let dictionary: DictionaryArray<Int32Type> = vec![Some("a"), None, Some("b"), Some("a")].into_iter().collect();
    let empty_dictionary = DictionaryArray::<Int8Type>::new(
        Int8Array::from(vec![None, None]),
        Arc::new(StringArray::from(Vec::<&str>::new())),
    );
    let runs = RunArray::try_new(&Int32Array::from(vec![2, 3]), &Int64Array::from(vec![Some(7), None])).unwrap();
    let sliced_runs = runs.slice(1, 2);
    vec![
        same(Arc::new(dictionary), vec!["\"a\"", "null", "\"b\"", "\"a\""], "VARCHAR", "STRING"),
        same(Arc::new(empty_dictionary), vec!["null", "null"], "VARCHAR", "STRING"),
        same(Arc::new(runs), vec!["7", "7", "null"], "BIGINT", "LONG"),
        same(Arc::new(sliced_runs), vec!["7", "null"], "BIGINT", "LONG"),
    ]
}

fn nested() -> Vec<Case> {
    let ints = vec![Some(vec![Some(1), None]), None, Some(vec![])];
    let list = ListArray::from_iter_primitive::<Int64Type, _, _>(ints.clone());
    let sliced = list.slice(1, 2);
    let large = LargeListArray::from_iter_primitive::<Int32Type, _, _>(vec![Some(vec![Some(1)])]);
    let fixed = FixedSizeListArray::from_iter_primitive::<Float64Type, _, _>(
        vec![Some(vec![Some(1.0), None]), None, Some(vec![Some(2.0), Some(3.0)])],
        2,
    );
    let fixed_tail = fixed.slice(1, 2);
    let item = Arc::new(Field::new_list_field(DataType::Int64, true));
    let view = ListViewArray::new(
        item,
        ScalarBuffer::from(vec![1, 0]),
        ScalarBuffer::from(vec![1, 2]),
        Arc::new(Int64Array::from(vec![10, 20])),
        None,
    );
    let dates = ListArray::new(
        Arc::new(Field::new_list_field(DataType::Date32, true)),
        OffsetBuffer::from_lengths([1]),
        Arc::new(Date32Array::from(vec![1])),
        None,
    );
    let lists = ListArray::new(
        Arc::new(Field::new_list_field(list.data_type().clone(), true)),
        OffsetBuffer::from_lengths([2, 1]),
        Arc::new(list.clone()),
        None,
    );
    let fields = Fields::from(vec![Field::new("a", DataType::Int64, true), Field::new("b\"", DataType::Utf8, true)]);
    let structs = StructArray::new(
        fields,
        vec![Arc::new(Int64Array::from(vec![Some(1), None])), Arc::new(StringArray::from(vec!["x", "y"]))],
        Some(NullBuffer::from(vec![true, false])),
    );
    vec![
        same(Arc::new(list), vec!["[1,null]", "null", "[]"], "BIGINT[]", "LONG_ARRAY"),
        same(Arc::new(sliced), vec!["null", "[]"], "BIGINT[]", "LONG_ARRAY"),
        same(Arc::new(large), vec!["[1]"], "INTEGER[]", "INT_ARRAY"),
        same(Arc::new(fixed), vec!["[1.0,null]", "null", "[2.0,3.0]"], "DOUBLE[]", "DOUBLE_ARRAY"),
        same(Arc::new(fixed_tail), vec!["null", "[2.0,3.0]"], "DOUBLE[]", "DOUBLE_ARRAY"),
        same(Arc::new(view), vec!["[20]", "[10,20]"], "BIGINT[]", "LONG_ARRAY"),
        same(Arc::new(dates), vec!["[\"1970-01-02\"]"], "DATE[]", "STRING_ARRAY"),
        (
            Arc::new(lists),
            vec!["[[1,null],null]", "[[]]"],
            vec!["\"[[1,null],null]\"", "\"[[]]\""],
            "BIGINT[][]",
            "JSON",
        ),
        (
            Arc::new(structs),
            vec!["{\"a\":1,\"b\\\"\":\"x\"}", "null"],
            vec![r#""{\"a\":1,\"b\\\"\":\"x\"}""#, "null"],
            "STRUCT(a BIGINT, b\" VARCHAR)",
            "JSON",
        ),
        (
            map(&[("z", 1), ("é", 2), ("a", 3)]),
            vec![r#"[["é",2],["a",3],["z",1]]"#],
            vec![r#""[[\"é\",2],[\"a\",3],[\"z\",1]]""#],
            "MAP(VARCHAR, BIGINT)",
            "JSON",
        ),
    ]
}

/// A one-row map. `é` sorts as `\u00e9`, so before letters.
fn map(entries: &[(&str, i64)]) -> ArrayRef {
    let mut builder = MapBuilder::new(None, StringBuilder::new(), Int64Builder::new());
    for (key, value) in entries {
        builder.keys().append_value(key);
        builder.values().append_value(*value);
    }
    builder.append(true).unwrap();
    Arc::new(builder.finish())
}

#[test]
fn every_type_is_spelled_and_named() {
    for (array, canonical, pinot, sql, pinot_name) in
        scalars().into_iter().chain(temporal()).chain(encoded()).chain(nested())
    {
        let data_type = array.data_type().clone();
        assert_eq!(spell(Arc::clone(&array), Spelling::Canonical), canonical, "{data_type}");
        assert_eq!(spell(Arc::clone(&array), Spelling::Pinot), pinot, "{data_type}");
        assert_eq!(sql_type(&data_type), sql);
        assert_eq!(pinot_type(&data_type), pinot_name, "{data_type}");
        for row in &canonical {
            serde_json::from_str::<serde_json::Value>(row).unwrap();
        }
        // Text is the canonical content without the quotes, and nothing for NULL.
        if !data_type.is_floating() && !matches!(data_type, DataType::Utf8) {
            let bare: Vec<_> = canonical
                .iter()
                .map(|row| {
                    if *row == "null" {
                        ""
                    } else {
                        row.strip_prefix('"').and_then(|row| row.strip_suffix('"')).unwrap_or(row)
                    }
                })
                .collect();
            assert_eq!(spell(array, Spelling::Text), bare, "{data_type}");
        }
    }
}

#[test]
fn map_keys_sort_by_their_escaped_json_text() {
    let rows = spell(map(&[("b", 1), ("\u{1F600}", 2), ("\"", 3)]), Spelling::Canonical);
    assert_eq!(rows, [r#"[["\"",3],["😀",2],["b",1]]"#]);
}

#[test]
fn unions_are_refused_by_column() {
    let fields = UnionFields::try_new(vec![0], vec![Field::new("i", DataType::Int64, true)]).unwrap();
    let union = UnionArray::try_new(fields, vec![0i8].into(), None, vec![Arc::new(Int64Array::from(vec![1]))]).unwrap();
    let batch = RecordBatch::try_from_iter([("u", Arc::new(union) as ArrayRef)]).unwrap();
    let error = RowEncoder::arrays(&batch, Spelling::Canonical).err().unwrap();
    assert_eq!(error.message(), "column \"u\": values of a union type cannot be written out yet");
}

fn two_columns() -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable([
        ("n", Arc::new(Int64Array::from(vec![Some(1), None, Some(-30)])) as ArrayRef, true),
        ("t,x", Arc::new(StringArray::from(vec![Some("a \"q\"\nb"), Some(""), None])), true),
    ])
    .unwrap()
}

#[test]
fn objects_keep_schema_order_and_refuse_equal_names() {
    let batch = two_columns();
    let mut out = Vec::new();
    RowEncoder::objects(&batch, Spelling::Canonical).unwrap().encode_all(b'\n', &mut out);
    let expected = "{\"n\":1,\"t,x\":\"a \\\"q\\\"\\nb\"}\n{\"n\":null,\"t,x\":\"\"}\n{\"n\":-30,\"t,x\":null}";
    assert_eq!(String::from_utf8(out).unwrap(), expected);

    let schema = Schema::new(vec![Field::new("a", DataType::Int64, true), Field::new("a", DataType::Int64, true)]);
    let column: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let twice = RecordBatch::try_new(Arc::new(schema), vec![Arc::clone(&column), column]).unwrap();
    assert!(RowEncoder::objects(&twice, Spelling::Canonical).err().unwrap().message().contains("\"a\""));
    assert_eq!(RowEncoder::arrays(&twice, Spelling::Canonical).unwrap().num_rows(), 1);
}

#[test]
fn csv_tells_null_from_empty() {
    let batch = two_columns();
    let (mut writer, mut out) = (CsvWriter::new(), Vec::new());
    writer.header(batch.schema_ref(), &mut out);
    writer.batch(&batch, &mut out).unwrap();
    assert_eq!(String::from_utf8(out).unwrap(), "n,\"t,x\"\n1,\"a \"\"q\"\"\nb\"\n,\"\"\n-30,\n");
}

#[test]
fn tables_align_and_wrap_but_never_cut() {
    let batch = two_columns();
    let expected = "\
┌──────┬───────┐
│    n │ t,x   │
├──────┼───────┤
│    1 │ a \"q\" │
│      │ b     │
│ NULL │       │
│  -30 │ NULL  │
└──────┴───────┘
3 rows
";
    assert_eq!(text_table(batch.schema_ref(), std::slice::from_ref(&batch)).unwrap(), expected);

    let long: ArrayRef = Arc::new(StringArray::from(vec!["x".repeat(200) + "\u{1b}[2J"]));
    let batch = RecordBatch::try_from_iter([("long", long)]).unwrap();
    let table = text_table(batch.schema_ref(), std::slice::from_ref(&batch)).unwrap();
    assert_eq!(table.matches('x').count(), 200);
    assert!(!table.contains('\u{1b}') && table.ends_with("1 row\n"));
    assert!(table.lines().all(|line| line.chars().count() <= 84));
}
