//! Tables written in each format and read back through the format's own library.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::AsArray;
use arrow::datatypes::{DataType, Date32Type, Decimal128Type};
use iceberg::TableIdent;
use iceberg::io::FileIO;
use iceberg::spec::{DataFile, Datum, TableMetadata};
use iceberg::table::Table;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::metadata::PageIndexPolicy;
use url::Url;

use crate::{Demo, Format, ICEBERG_LINEITEM, Progress, TpchTable, WriteOptions, ensure_demo, write_tpch};

const SCALE: f64 = 0.001;

fn rows_at_test_scale(name: &str) -> i64 {
    match name {
        "region" => 5,
        "nation" => 25,
        "supplier" => 10,
        "part" => 200,
        "partsupp" => 800,
        "customer" => 150,
        "orders" => 1_500,
        "lineitem" | ICEBERG_LINEITEM => 6_005,
        other => panic!("no such table {other}"),
    }
}

struct DeltaFacts {
    version: Option<u64>,
    files: usize,
    rows: i64,
    statistics: Vec<serde_json::Value>,
}

async fn read_delta(folder: &Path) -> DeltaFacts {
    let table = deltalake::open_table(Url::from_directory_path(folder).unwrap()).await.unwrap();
    let log = fs::read_to_string(folder.join("_delta_log/00000000000000000000.json")).unwrap();
    let actions = log.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let statistics: Vec<serde_json::Value> = actions
        .filter_map(|action| action["add"]["stats"].as_str().map(|stats| serde_json::from_str(stats).unwrap()))
        .collect();
    let files = table.get_file_uris().unwrap().count();
    let rows = statistics.iter().map(|stats| stats["numRecords"].as_i64().unwrap()).sum();
    DeltaFacts { version: table.version(), files, rows, statistics }
}

async fn read_iceberg(folder: &Path) -> (TableMetadata, Vec<DataFile>) {
    let mut metadata: Vec<PathBuf> =
        fs::read_dir(folder.join("metadata")).unwrap().map(|entry| entry.unwrap().path()).collect();
    metadata.retain(|path| path.to_str().unwrap().ends_with(".metadata.json"));
    metadata.sort();
    let file_io = FileIO::new_with_fs();
    let newest = metadata.last().unwrap().to_str().unwrap().to_owned();
    let metadata = TableMetadata::read_from(&file_io, &newest).await.unwrap();
    let table = Table::builder()
        .identifier(TableIdent::from_strs(["tpch", "lineitem"]).unwrap())
        .metadata(metadata.clone())
        .metadata_location(newest)
        .file_io(file_io.clone())
        .runtime(iceberg::Runtime::current())
        .build()
        .unwrap();
    let manifests = table.manifest_list_reader(metadata.current_snapshot().unwrap()).load().await.unwrap();
    let mut files = Vec::new();
    for manifest in manifests.entries() {
        let manifest = manifest.load_manifest(&file_io).await.unwrap();
        files.extend(manifest.entries().iter().map(|entry| entry.data_file().clone()));
    }
    files.sort_by(|left, right| left.file_path().cmp(right.file_path()));
    (metadata, files)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_is_written_whole_reused_and_made_anew_when_damaged() {
    let root = tempfile::tempdir().unwrap();
    let tables = ensure_demo(root.path(), SCALE, &Progress::silent()).await.unwrap();
    assert_eq!(tables.len(), 9);
    for table in &tables {
        let rows = if table.format == Format::Iceberg {
            let (_, files) = read_iceberg(&table.location).await;
            assert_eq!(files.len(), 4);
            i64::try_from(files.iter().map(DataFile::record_count).sum::<u64>()).unwrap()
        } else {
            let facts = read_delta(&table.location).await;
            assert_eq!(facts.version, Some(0), "{}", table.name);
            assert_eq!(facts.files, facts.statistics.len());
            assert!(facts.files >= 2, "{} has several files", table.name);
            facts.rows
        };
        assert_eq!(rows, rows_at_test_scale(&table.name), "{}", table.name);
    }

    let demo = Demo::new(root.path(), SCALE).unwrap();
    let marker = demo.folder().join("lakeserve-demo.json");
    let data = demo.folder().join("lineitem/part-00000.snappy.parquet");
    let written = |path: &Path| fs::metadata(path).unwrap().modified().unwrap();
    let first = (written(&marker), written(&data));
    assert_eq!(demo.ensure(&Progress::silent()).await.unwrap(), tables);
    assert_eq!((written(&marker), written(&data)), first, "whole data is kept");

    let damages: [fn(&Path, &Path); 4] = [
        |marker, _| fs::write(marker, "{").unwrap(),
        |marker, _| fs::remove_file(marker).unwrap(),
        |_, data| fs::remove_file(data).unwrap(),
        |_, data| fs::write(data, "PAR1").unwrap(),
    ];
    for damage in damages {
        damage(&marker, &data);
        assert!(!demo.is_whole());
        demo.ensure(&Progress::silent()).await.unwrap();
        assert!(demo.is_whole());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn leftovers_of_a_killed_run_do_not_stand_in_the_way_and_strange_folders_are_kept() {
    let root = tempfile::tempdir().unwrap();
    let demo = Demo::new(root.path(), SCALE).unwrap();
    fs::create_dir_all(root.path().join(".sf0.001.writing/lineitem")).unwrap();
    fs::create_dir_all(demo.folder().join("lineitem")).unwrap();
    fs::write(demo.folder().join("lineitem/part-00000.snappy.parquet"), "half").unwrap();
    demo.ensure(&Progress::silent()).await.unwrap();
    assert!(demo.is_whole());
    assert!(!root.path().join(".sf0.001.writing").exists());

    let strange = Demo::new(root.path(), 0.002).unwrap();
    fs::create_dir_all(strange.folder()).unwrap();
    fs::write(strange.folder().join("thesis.txt"), "years of work").unwrap();
    let error = strange.ensure(&Progress::silent()).await.unwrap_err().to_string();
    assert!(error.contains("holds other things"), "{error}");
    assert!(strange.folder().join("thesis.txt").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_moved_demo_is_made_anew_because_iceberg_holds_absolute_paths() {
    let root = tempfile::tempdir().unwrap();
    let (old, new) = (root.path().join("old"), root.path().join("new place 100%"));
    ensure_demo(&old, SCALE, &Progress::silent()).await.unwrap();
    fs::rename(&old, &new).unwrap();
    let demo = Demo::new(&new, SCALE).unwrap();
    assert!(!demo.is_whole());
    let tables = demo.ensure(&Progress::silent()).await.unwrap();
    let iceberg = tables.iter().find(|table| table.name == ICEBERG_LINEITEM).unwrap();
    let (metadata, files) = read_iceberg(&iceberg.location).await;
    assert_eq!(Path::new(metadata.location()), iceberg.location);
    assert!(files.iter().all(|file| Path::new(file.file_path()).is_file()));
    assert_eq!(read_delta(&demo.folder().join("lineitem")).await.rows, 6_005);
}

#[test]
fn a_scale_out_of_range_is_refused() {
    let root = tempfile::tempdir().unwrap();
    for scale in [0.0, -1.0, 1e-4, 2_000.0, f64::NAN, f64::INFINITY] {
        assert!(Demo::new(root.path(), scale).is_err(), "{scale}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn delta_statistics_bound_every_column() {
    let root = tempfile::tempdir().unwrap();
    let options = WriteOptions { files: Some(3), ..WriteOptions::at_scale(SCALE) };
    let written =
        write_tpch(&[TpchTable::Lineitem], Format::Delta, root.path(), &options, &Progress::silent()).await.unwrap();
    assert_eq!((written[0].rows, written[0].files), (6_005, 3));
    let facts = read_delta(&written[0].location).await;
    assert_eq!(facts.files, 3);
    for stats in &facts.statistics {
        for field in TpchTable::Lineitem.schema().fields() {
            let (min, max) = (&stats["minValues"][field.name()], &stats["maxValues"][field.name()]);
            assert!(!min.is_null() && !max.is_null(), "{}", field.name());
            assert_eq!(stats["nullCount"][field.name()], 0);
        }
        assert_eq!(stats["minValues"]["l_discount"], 0.0);
        assert_eq!(stats["maxValues"]["l_discount"], 0.1);
    }
    let again = write_tpch(&[TpchTable::Lineitem], Format::Parquet, root.path(), &options, &Progress::silent()).await;
    assert!(again.unwrap_err().to_string().contains("exists already"));
}

#[tokio::test(flavor = "multi_thread")]
async fn iceberg_manifests_agree_with_the_rows() {
    let root = tempfile::tempdir().unwrap();
    let options = WriteOptions { files: Some(2), row_group_rows: 1_000, ..WriteOptions::at_scale(SCALE) };
    let written =
        write_tpch(&[TpchTable::Lineitem], Format::Iceberg, root.path(), &options, &Progress::silent()).await.unwrap();
    let (metadata, files) = read_iceberg(&written[0].location).await;
    assert_eq!(metadata.format_version(), iceberg::spec::FormatVersion::V2);
    assert_eq!(metadata.snapshots().count(), 1);
    let schema = metadata.current_schema();
    for (field, id) in TpchTable::Lineitem.schema().fields().iter().zip(1..) {
        assert_eq!(schema.field_by_id(id).unwrap().name, *field.name());
    }
    for file in &files {
        assert_eq!(file.file_size_in_bytes(), fs::metadata(file.file_path()).unwrap().len());
        let reader = ParquetRecordBatchReaderBuilder::try_new(fs::File::open(file.file_path()).unwrap()).unwrap();
        let fields = reader.parquet_schema().root_schema().get_fields().to_vec();
        assert!(fields.iter().zip(1..).all(|(field, id)| field.get_basic_info().id() == id));
        assert_eq!(file.split_offsets().unwrap().len(), reader.metadata().num_row_groups());
        let (mut low, mut high) = (i32::MAX, i32::MIN);
        let (mut cheap, mut dear) = (i128::MAX, i128::MIN);
        for batch in reader.build().unwrap() {
            let batch = batch.unwrap();
            for day in batch.column_by_name("l_shipdate").unwrap().as_primitive::<Date32Type>().values() {
                (low, high) = (low.min(*day), high.max(*day));
            }
            for price in batch.column_by_name("l_extendedprice").unwrap().as_primitive::<Decimal128Type>().values() {
                (cheap, dear) = (cheap.min(*price), dear.max(*price));
            }
        }
        assert_eq!(
            (file.lower_bounds()[&11].clone(), file.upper_bounds()[&11].clone()),
            (Datum::date(low), Datum::date(high))
        );
        let unscaled = |bound: &Datum| match bound.literal() {
            iceberg::spec::PrimitiveLiteral::Int128(value) => *value,
            other => panic!("not a decimal: {other:?}"),
        };
        assert_eq!((unscaled(&file.lower_bounds()[&6]), unscaled(&file.upper_bounds()[&6])), (cheap, dear));
        for id in 1..=16 {
            assert_eq!(file.value_counts()[&id], file.record_count());
            assert_eq!(file.null_value_counts()[&id], 0);
            assert!(file.column_sizes()[&id] > 0);
            assert!(file.lower_bounds()[&id] <= file.upper_bounds()[&id]);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn parquet_folders_have_the_row_groups_asked_for_page_indexes_and_plain_types() {
    let root = tempfile::tempdir().unwrap();
    let options = WriteOptions { files: Some(2), row_group_rows: 300, ..WriteOptions::at_scale(SCALE) };
    let written =
        write_tpch(&TpchTable::ALL, Format::Parquet, root.path(), &options, &Progress::silent()).await.unwrap();
    for (table, written) in TpchTable::ALL.iter().zip(&written) {
        assert_eq!(i64::try_from(written.rows).unwrap(), rows_at_test_scale(&written.name));
        let files: Vec<PathBuf> = fs::read_dir(&written.location).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(files.len(), 2);
        for file in files {
            let options = parquet::arrow::arrow_reader::ArrowReaderOptions::new()
                .with_page_index_policy(PageIndexPolicy::Required);
            let reader =
                ParquetRecordBatchReaderBuilder::try_new_with_options(fs::File::open(file).unwrap(), options).unwrap();
            assert_eq!(reader.schema().fields(), table.schema().fields());
            assert!(reader.metadata().row_groups().iter().all(|group| group.num_rows() <= 300));
            assert!(reader.metadata().column_index().is_some() && reader.metadata().offset_index().is_some());
        }
    }
}

/// Q6 of the benchmark over the generated rows themselves, with its published answer.
#[test]
fn query_six_at_scale_one_has_its_known_answer() {
    let day = |text: &str| {
        let text = arrow::array::StringArray::from(vec![text]);
        arrow::compute::cast(&text, &DataType::Date32).unwrap().as_primitive::<Date32Type>().value(0)
    };
    let (from, to) = (day("1994-01-01"), day("1995-01-01"));
    let workers: Vec<_> = (1..=2)
        .map(|part| {
            std::thread::spawn(move || {
                let (mut rows, mut matching, mut revenue) = (0_usize, 0_usize, 0_i128);
                for batch in TpchTable::Lineitem.batches(1.0, part, 2) {
                    let batch = batch.unwrap();
                    let dates = batch.column_by_name("l_shipdate").unwrap().as_primitive::<Date32Type>();
                    let column = |name: &str| Arc::clone(batch.column_by_name(name).unwrap());
                    let (quantity, price, discount) =
                        (column("l_quantity"), column("l_extendedprice"), column("l_discount"));
                    let (quantity, price, discount) = (
                        quantity.as_primitive::<Decimal128Type>(),
                        price.as_primitive::<Decimal128Type>(),
                        discount.as_primitive::<Decimal128Type>(),
                    );
                    for row in 0..batch.num_rows() {
                        if (from..to).contains(&dates.value(row))
                            && (5..=7).contains(&discount.value(row))
                            && quantity.value(row) < 2_400
                        {
                            matching += 1;
                            revenue += price.value(row) * discount.value(row);
                        }
                    }
                    rows += batch.num_rows();
                }
                (rows, matching, revenue)
            })
        })
        .collect();
    let sums = workers.into_iter().map(|worker| worker.join().unwrap());
    let (rows, matching, revenue) = sums.fold((0, 0, 0), |sum, part| (sum.0 + part.0, sum.1 + part.1, sum.2 + part.2));
    assert_eq!((rows, matching, revenue), (6_001_215, 114_160, 1_231_410_782_283));
}
