//! Random tables and random queries.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int32Array, Int64Array,
    RecordBatch, StringArray, StructArray, TimestampMicrosecondArray, new_null_array,
};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};
use lakeserve_lake::ColumnMapping;
use parquet::arrow::PARQUET_FIELD_ID_META_KEY;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use proptest::prelude::*;
use roaring::RoaringTreemap;

use super::{TestFile, TestTable, run};

/// SplitMix64: a whole table from one number.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % n as u64).unwrap()
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }
}

const TEXTS: [&str; 12] = ["", "a", "ab", "abc", "abd", "ac", "b", "ba", "zz", "é", "a%b", "\u{10FFFF}"];
const FLOATS: [f64; 12] =
    [0.0, -0.0, 1.5, -1.5, 3.0, 47.71, -122.44, 1e300, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 0.1];

fn pair_fields() -> Fields {
    Fields::from(vec![Field::new("a", DataType::Int64, true), Field::new("c", DataType::Utf8, true)])
}

fn table_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("i", DataType::Int32, true),
        Field::new("x", DataType::Float64, true),
        Field::new("f", DataType::Float32, true),
        Field::new("s", DataType::Utf8, true),
        Field::new("d", DataType::Date32, true),
        Field::new("m", DataType::Decimal128(10, 2), true),
        Field::new("t", DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())), true),
        Field::new("b", DataType::Boolean, true),
        Field::new("p", DataType::Utf8, true),
        Field::new("w", DataType::Int64, true),
        Field::new("n", DataType::Struct(pair_fields()), true),
    ]))
}

/// Column indexes with a part to play.
const PARTITION: usize = 9;
const WIDENED: usize = 10;
const PAIR: usize = 11;

fn values(dice: &mut Dice, field: &Field, rows: usize, first: usize) -> ArrayRef {
    // Values are clustered, so that bounds exclude something; some files and columns are all NULL.
    let base = i64::try_from(first / 20 + dice.below(3)).unwrap();
    let all_null = field.is_nullable() && dice.one_in(12);
    let constant = dice.one_in(8);
    let seed = dice.next();
    let draw = move |dice: &mut Dice| if constant { Dice(seed) } else { Dice(dice.next()) };
    let null = |dice: &mut Dice| all_null || (field.is_nullable() && dice.one_in(6));
    macro_rules! column {
        ($array:ty, $value:expr) => {{
            let values = (0..rows).map(|_| {
                let mut one = draw(dice);
                let value = $value(&mut one);
                (!null(dice)).then_some(value)
            });
            values.collect::<$array>()
        }};
    }
    let narrow = |value: i64| i32::try_from(value).unwrap();
    match field.name().as_str() {
        "id" => Arc::new(Int64Array::from_iter_values((0..rows).map(|row| i64::try_from(first + row).unwrap()))),
        "i" => Arc::new(column!(Int32Array, |one: &mut Dice| narrow(base + one.below(4) as i64))),
        "x" => Arc::new(column!(Float64Array, |one: &mut Dice| {
            let value = one.pick(&FLOATS);
            if value.is_nan() && one.one_in(2) { -value } else { value }
        })),
        "f" => Arc::new(column!(Float32Array, |one: &mut Dice| {
            #[expect(clippy::cast_possible_truncation, reason = "rounding is wanted")]
            let value = one.pick(&FLOATS) as f32;
            value
        })),
        "s" => Arc::new(column!(StringArray, |one: &mut Dice| one.pick(&TEXTS))),
        "d" => Arc::new(column!(Date32Array, |one: &mut Dice| narrow(base * 10 - 5 + one.below(9) as i64))),
        "m" => Arc::new(
            column!(Decimal128Array, |one: &mut Dice| i128::from(base * 100 + one.below(150) as i64))
                .with_precision_and_scale(10, 2)
                .unwrap(),
        ),
        "t" => Arc::new(
            column!(TimestampMicrosecondArray, |one: &mut Dice| base * 86_400_000_000 + one.below(1_000_000) as i64
                - 7)
            .with_timezone("UTC"),
        ),
        "b" => Arc::new(column!(BooleanArray, |one: &mut Dice| one.one_in(2))),
        "w" => Arc::new(column!(Int64Array, |one: &mut Dice| base + one.below(5) as i64)),
        "n" => {
            let a = column!(Int64Array, |one: &mut Dice| one.below(4) as i64);
            let c = column!(StringArray, |one: &mut Dice| one.pick(&TEXTS));
            let valid: NullBuffer = (0..rows).map(|_| !null(dice)).collect::<Vec<bool>>().into();
            Arc::new(StructArray::new(pair_fields(), vec![Arc::new(a), Arc::new(c)], Some(valid)))
        }
        other => panic!("no values for {other}"),
    }
}

/// One column as a file stores it, and what a reader must see; `None` if the file lacks it.
fn stored(dice: &mut Dice, index: usize, logical: ArrayRef) -> (Option<ArrayRef>, ArrayRef) {
    let rows = logical.len();
    match index {
        WIDENED => match dice.below(4) {
            // Missing: every row takes the initial default.
            0 => (None, Arc::new(Int64Array::from(vec![7; rows]))),
            1 => (Some(cast(&logical, &DataType::Int32).unwrap()), logical),
            2 => (Some(cast(&logical, &DataType::Int16).unwrap()), logical),
            _ => (Some(Arc::clone(&logical)), logical),
        },
        PAIR => {
            let pair = logical.as_any().downcast_ref::<StructArray>().unwrap();
            match dice.below(4) {
                0 => (None, new_null_array(logical.data_type(), rows)),
                1 => {
                    // The second child is missing, the first is narrower, and there is a stranger.
                    let fields = Fields::from(vec![
                        Field::new("stranger", DataType::Boolean, true),
                        Field::new("a", DataType::Int32, true),
                    ]);
                    let narrow = cast(pair.column(0), &DataType::Int32).unwrap();
                    let stranger = new_null_array(&DataType::Boolean, rows);
                    let file = StructArray::new(fields, vec![stranger, narrow], pair.nulls().cloned());
                    let seen = StructArray::new(
                        pair_fields(),
                        vec![Arc::clone(pair.column(0)), new_null_array(&DataType::Utf8, rows)],
                        pair.nulls().cloned(),
                    );
                    (Some(Arc::new(file)), Arc::new(seen))
                }
                _ => (Some(Arc::clone(&logical)), logical),
            }
        }
        2 if dice.one_in(3) => {
            let narrow = cast(&logical, &DataType::Float32).unwrap();
            let seen = cast(&narrow, &DataType::Float64).unwrap();
            (Some(narrow), seen)
        }
        5 if dice.one_in(20) => (None, new_null_array(logical.data_type(), rows)),
        _ => (Some(Arc::clone(&logical)), logical),
    }
}

fn file(dice: &mut Dice, schema: &SchemaRef, by_id: bool, first: usize) -> TestFile {
    let rows = if dice.one_in(10) { 0 } else { dice.below(120) };
    let partition: ArrayRef = Arc::new(StringArray::from(vec![dice.pick(&[None, Some("a"), Some("ab"), Some("b")])]));
    let mut seen: Vec<ArrayRef> = Vec::new();
    let mut columns: Vec<(Field, ArrayRef)> = Vec::new();
    for (index, field) in schema.fields().iter().enumerate() {
        if index == PARTITION {
            seen.push(crate::schema_map::repeat(&partition, rows).unwrap());
            continue;
        }
        let drawn = values(dice, field, rows, first);
        let (file, logical) = stored(dice, index, drawn);
        seen.push(logical);
        if let Some(array) = file {
            let nullable = field.is_nullable();
            let field = if by_id {
                let name = format!("any{}", dice.below(1_000_000));
                let id = (PARQUET_FIELD_ID_META_KEY.to_owned(), (index + 1).to_string());
                Field::new(name, array.data_type().clone(), nullable).with_metadata([id].into())
            } else {
                Field::new(format!("phys_{}", field.name()), array.data_type().clone(), nullable)
            };
            columns.push((field, array));
        }
    }
    // The order of columns in a file means nothing.
    for i in (1..columns.len()).rev() {
        columns.swap(i, dice.below(i + 1));
    }
    let (fields, arrays): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
    let mut deleted = RoaringTreemap::new();
    match dice.below(6) {
        0..=2 => {}
        3 => {
            deleted.insert_range(0..rows as u64);
        }
        _ => {
            let share = 1 + dice.below(9);
            deleted.extend((0..rows as u64).filter(|_| dice.one_in(share)));
        }
    }
    let statistics = dice.pick(&[EnabledStatistics::None, EnabledStatistics::Chunk, EnabledStatistics::Page]);
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(1 + dice.below(60)))
        .set_data_page_row_count_limit(1 + dice.below(30))
        .set_write_batch_size(1 + dice.below(30))
        .set_dictionary_enabled(dice.one_in(2))
        .set_statistics_enabled(statistics)
        .set_statistics_truncate_length(Some(1 + dice.below(3)))
        .build();
    TestFile {
        stored: RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap(),
        logical: RecordBatch::try_new(Arc::clone(schema), seen).unwrap(),
        deleted,
        constants: vec![(PARTITION, partition)],
        properties,
    }
}

fn table(dice: &mut Dice) -> TestTable {
    let schema = table_schema();
    let by_id = dice.one_in(2);
    let count = dice.below(7);
    let files = (0..count).map(|index| file(dice, &schema, by_id, index * 200)).collect();
    let mappings = schema
        .fields()
        .iter()
        .enumerate()
        .map(|(index, field)| ColumnMapping {
            field_id: by_id.then(|| i32::try_from(index + 1).unwrap()),
            physical_name: format!("phys_{}", field.name()),
            initial_default: (index == WIDENED).then(|| Arc::new(Int64Array::from(vec![7])) as ArrayRef),
            ..ColumnMapping::default()
        })
        .collect();
    let known = dice.next();
    TestTable::build(&schema, mappings, files, &|file, column| {
        column != PARTITION && !Dice(known ^ (file * 64 + column) as u64).one_in(4)
    })
}

fn literal(dice: &mut Dice, column: &str) -> String {
    let float = |dice: &mut Dice| match dice.pick(&FLOATS) {
        value if value.is_nan() => "CAST('NaN' AS DOUBLE)".to_owned(),
        value if value.is_infinite() => format!("CAST('{}Infinity' AS DOUBLE)", if value < 0.0 { "-" } else { "" }),
        value => format!("{value:?}"),
    };
    match column {
        "x" | "f" => float(dice),
        "s" | "p" => format!("'{}'", dice.pick(&TEXTS)),
        "d" => format!("DATE '1970-0{}-{:02}'", 1 + dice.below(3), 1 + dice.below(28)),
        "m" => format!("{}.{:02}", dice.below(40), dice.below(100)),
        "t" => format!(
            "TIMESTAMP '1970-01-{:02}T00:00:00.{:06}Z'",
            1 + dice.below(31),
            dice.pick(&[0, 500_000, 999_999, 1])
        ),
        "b" => dice.pick(&["true", "false"]).to_owned(),
        _ => dice.below(45).to_string(),
    }
}

fn atom(dice: &mut Dice) -> String {
    let column = dice.pick(&["id", "i", "x", "x", "f", "s", "d", "m", "t", "b", "p", "w"]);
    let value = literal(dice, column);
    let op = dice.pick(&["=", "<>", "<", "<=", ">", ">="]);
    match dice.below(12) {
        0 => format!("{column} IS NULL"),
        1 => format!("{column} IS NOT NULL"),
        2 => {
            let list: Vec<String> = (0..1 + dice.below(6))
                .map(|_| if dice.one_in(12) { "NULL".to_owned() } else { literal(dice, column) })
                .collect();
            format!("{column} {}IN ({})", dice.pick(&["", "NOT "]), list.join(", "))
        }
        3 => format!("{column} {}BETWEEN {value} AND {}", dice.pick(&["", "NOT "]), literal(dice, column)),
        4 => format!(
            "s {}LIKE '{}'",
            dice.pick(&["", "NOT "]),
            dice.pick(&["a%", "ab%", "b_%", "a%b", "é%", "zz", "%a", "a\\%%"])
        ),
        5 => format!("starts_with(p, '{}')", dice.pick(&["a", "ab", "z", ""])),
        6 => dice.pick(&["b", "NOT b", "b IS TRUE", "b IS NOT TRUE", "b IS FALSE", "b IS UNKNOWN"]).to_owned(),
        7 => format!("CAST(i AS BIGINT) {op} {}", dice.below(45)),
        8 => format!("CAST(f AS DOUBLE) {op} {}", literal(dice, "x")),
        9 => format!("{value} {op} {column}"),
        _ => format!("{column} {op} {value}"),
    }
}

fn predicate(dice: &mut Dice, depth: usize) -> String {
    if depth == 0 || dice.one_in(3) {
        return atom(dice);
    }
    let (left, right) = (predicate(dice, depth - 1), predicate(dice, depth - 1));
    match dice.below(5) {
        0 | 1 => format!("({left} AND {right})"),
        2 | 3 => format!("({left} OR {right})"),
        _ => format!("NOT ({left})"),
    }
}

async fn check(seed: u64) -> Result<(), TestCaseError> {
    let mut dice = Dice(seed);
    let table = table(&mut dice);
    let session = table.session(1 + dice.below(4), 1 + dice.below(50));
    let mut compared = 0;
    for _ in 0..8 {
        let filter = predicate(&mut dice, 3);
        let columns = dice.pick(&["*", "id", "count(*)", "s, x", "n", "p, w", "w, d, id", "count(x), max(t)", "b"]);
        let compare = |ours: &str, theirs: &str| {
            (
                format!("SELECT {columns} FROM {ours} WHERE {filter}"),
                format!("SELECT {columns} FROM {theirs} WHERE {filter}"),
            )
        };
        for (ours, theirs) in [compare("t", "m"), compare("o", "mo")] {
            let got = run(&session, &ours).await;
            let expected = run(&session, &theirs).await;
            match (got, expected) {
                (Ok(mut got), Ok(mut expected)) => {
                    compared += 1;
                    got.sort();
                    expected.sort();
                    prop_assert_eq!(got, expected, "seed {}: {}", seed, ours);
                }
                (Err(got), Ok(_)) => prop_assert!(false, "seed {seed}: {ours}: {got}"),
                // What the engine refuses over memory says nothing about the scan.
                (_, Err(_)) => {}
            }
        }
    }
    prop_assert!(compared >= 12, "seed {}: only {} of 16 queries could be compared", seed, compared);
    let count = run(&session, "SELECT count(*) FROM t").await.unwrap();
    prop_assert_eq!(count, vec![table.live_rows().to_string()], "seed {}", seed);
    let limited = run(&session, "SELECT id FROM t LIMIT 13").await.unwrap();
    prop_assert_eq!(limited.len(), table.live_rows().min(13), "seed {}", seed);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn a_scan_answers_like_the_rows_in_memory(seed in any::<u64>()) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(check(seed))?;
    }
}
