//! The Iceberg metadata of data files, written by the `iceberg` crate: format version 2, one
//! fast-append snapshot, with counts and bounds of every column.
//!
//! The crate's own data writers take batches of another arrow version than ours. So the data files
//! are written by our Parquet writer and their manifest entries are built from the footers: no arrow
//! type crosses this module's boundary. Metadata files are named `00001-<uuid>.metadata.json`; the
//! highest number is the current one.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use arrow::datatypes::{DataType, Schema as ArrowSchema};
use iceberg::io::LocalFsStorageFactory;
use iceberg::memory::{MEMORY_CATALOG_WAREHOUSE, MemoryCatalogBuilder};
use iceberg::spec::{
    DataContentType, DataFile, DataFileBuilder, DataFileFormat, Datum, NestedField, PrimitiveType, Schema, Struct, Type,
};
use iceberg::transaction::{ApplyTransactionAction, Transaction};
use iceberg::{Catalog, CatalogBuilder, NamespaceIdent, TableCreation};
use parquet::file::metadata::ParquetMetaData;
use parquet::file::statistics::Statistics;

use crate::parquet_files::WrittenFile;

/// Text bounds are cut to this many characters, the format's usual `truncate(16)`.
const TEXT_BOUND_CHARS: usize = 16;

/// Makes an Iceberg table at `location` (an absolute path) of `files`, which lie in its `data/`
/// folder and carry the field ids 1, 2, … in the order of `schema`.
///
/// # Errors
/// When the path is not valid UTF-8, a column's type has no Iceberg counterpart here, or writing fails.
pub(crate) async fn commit_iceberg(
    location: &Path,
    name: &str,
    schema: &ArrowSchema,
    files: &[WrittenFile],
) -> Result<()> {
    let folder =
        location.to_str().with_context(|| format!("{} is not valid UTF-8, which Iceberg needs", location.display()))?;
    let types = schema.fields().iter().map(|field| iceberg_type(field.data_type())).collect::<Result<Vec<_>>>()?;
    let fields = schema.fields().iter().zip(&types).zip(1..).map(|((field, kind), id)| {
        Arc::new(NestedField::new(id, field.name(), Type::Primitive(kind.clone()), !field.is_nullable()))
    });
    let schema = Schema::builder().with_fields(fields).build()?;
    let data_files = files.iter().map(|file| data_file(file, &types)).collect::<Result<Vec<_>>>()?;

    let catalog = MemoryCatalogBuilder::default()
        .with_storage_factory(Arc::new(LocalFsStorageFactory))
        .load("datagen", HashMap::from([(MEMORY_CATALOG_WAREHOUSE.to_owned(), folder.to_owned())]))
        .await?;
    let namespace = NamespaceIdent::new("tpch".to_owned());
    catalog.create_namespace(&namespace, HashMap::new()).await?;
    let creation = TableCreation::builder().name(name.to_owned()).location(folder.to_owned()).schema(schema).build();
    let table = catalog.create_table(&namespace, creation).await?;
    let transaction = Transaction::new(&table);
    let append = transaction.fast_append().add_data_files(data_files);
    append
        .apply(transaction)?
        .commit(&catalog)
        .await
        .with_context(|| format!("committing the iceberg table {folder}"))?;
    Ok(())
}

fn iceberg_type(kind: &DataType) -> Result<PrimitiveType> {
    Ok(match kind {
        DataType::Int32 => PrimitiveType::Int,
        DataType::Int64 => PrimitiveType::Long,
        DataType::Date32 => PrimitiveType::Date,
        DataType::Utf8 => PrimitiveType::String,
        DataType::Decimal128(precision, scale) => {
            PrimitiveType::Decimal { precision: u32::from(*precision), scale: u32::try_from(*scale)? }
        }
        other => bail!("no iceberg type is mapped to {other}"),
    })
}

fn data_file(file: &WrittenFile, types: &[PrimitiveType]) -> Result<DataFile> {
    let columns = Columns::of(&file.footer, types)?;
    let path = file.path.to_str().with_context(|| format!("{} is not valid UTF-8", file.path.display()))?;
    let offsets = file.footer.row_groups().iter().map(parquet::file::metadata::RowGroupMetaData::file_offset);
    let built = DataFileBuilder::default()
        .content(DataContentType::Data)
        .file_path(path.to_owned())
        .file_format(DataFileFormat::Parquet)
        .partition(Struct::empty())
        .record_count(file.rows)
        .file_size_in_bytes(file.bytes)
        .column_sizes(columns.sizes)
        .value_counts(columns.values)
        .null_value_counts(columns.nulls)
        .lower_bounds(columns.lower)
        .upper_bounds(columns.upper)
        .split_offsets(offsets.collect())
        .build();
    built.with_context(|| format!("describing {path}"))
}

/// What a manifest says of each column of a file, by field id.
#[derive(Default)]
struct Columns {
    sizes: HashMap<i32, u64>,
    values: HashMap<i32, u64>,
    nulls: HashMap<i32, u64>,
    lower: HashMap<i32, Datum>,
    upper: HashMap<i32, Datum>,
}

impl Columns {
    fn of(footer: &ParquetMetaData, types: &[PrimitiveType]) -> Result<Self> {
        let mut columns = Self::default();
        for (index, (kind, id)) in types.iter().zip(1..).enumerate() {
            let mut bounds: Option<(Datum, Datum)> = None;
            for group in footer.row_groups() {
                let chunk = group.column(index);
                *columns.sizes.entry(id).or_default() += u64::try_from(chunk.compressed_size())?;
                *columns.values.entry(id).or_default() += u64::try_from(chunk.num_values())?;
                let statistics = chunk.statistics().context("a column chunk was written without statistics")?;
                *columns.nulls.entry(id).or_default() +=
                    statistics.null_count_opt().context("no null count was written")?;
                let (min, max) = chunk_bounds(statistics, kind)?;
                bounds = Some(match bounds {
                    None => (min, max),
                    Some((low, high)) => (if min < low { min } else { low }, if max > high { max } else { high }),
                });
            }
            if let Some((low, high)) = bounds {
                columns.lower.insert(id, cut_lower(low));
                if let Some(high) = cut_upper(high) {
                    columns.upper.insert(id, high);
                }
            }
        }
        Ok(columns)
    }
}

/// Minimum and maximum of a column chunk. No TPC-H column has nulls, so both are there.
fn chunk_bounds(statistics: &Statistics, kind: &PrimitiveType) -> Result<(Datum, Datum)> {
    let missing = "a column chunk was written without bounds";
    let pair = match (statistics, kind) {
        (Statistics::Int32(s), PrimitiveType::Int) => {
            (Datum::int(*s.min_opt().context(missing)?), Datum::int(*s.max_opt().context(missing)?))
        }
        (Statistics::Int32(s), PrimitiveType::Date) => {
            (Datum::date(*s.min_opt().context(missing)?), Datum::date(*s.max_opt().context(missing)?))
        }
        (Statistics::Int64(s), PrimitiveType::Long) => {
            (Datum::long(*s.min_opt().context(missing)?), Datum::long(*s.max_opt().context(missing)?))
        }
        (Statistics::Int64(s), PrimitiveType::Decimal { .. }) => {
            let decimal = |unscaled: i64| Datum::try_from_bytes(&unscaled.to_be_bytes(), kind.clone());
            (decimal(*s.min_opt().context(missing)?)?, decimal(*s.max_opt().context(missing)?)?)
        }
        (Statistics::ByteArray(s), PrimitiveType::String) => {
            let text = |bytes: &[u8]| Datum::try_from_bytes(bytes, PrimitiveType::String);
            (text(s.min_bytes_opt().context(missing)?)?, text(s.max_bytes_opt().context(missing)?)?)
        }
        (other, kind) => bail!("statistics {other:?} do not fit the type {kind}"),
    };
    Ok(pair)
}

fn text_of(bound: &Datum) -> Option<&str> {
    match bound.literal() {
        iceberg::spec::PrimitiveLiteral::String(text) => Some(text),
        _ => None,
    }
}

/// A prefix is still a lower bound.
fn cut_lower(bound: Datum) -> Datum {
    match text_of(&bound) {
        Some(text) if text.chars().count() > TEXT_BOUND_CHARS => {
            Datum::string(text.chars().take(TEXT_BOUND_CHARS).collect::<String>())
        }
        _ => bound,
    }
}

/// A prefix is an upper bound once its last character is raised; `None` when none can be.
fn cut_upper(bound: Datum) -> Option<Datum> {
    let Some(text) = text_of(&bound).filter(|text| text.chars().count() > TEXT_BOUND_CHARS) else { return Some(bound) };
    let mut prefix: Vec<char> = text.chars().take(TEXT_BOUND_CHARS).collect();
    while let Some(last) = prefix.pop() {
        if let Some(next) = char::from_u32(u32::from(last) + 1) {
            prefix.push(next);
            return Some(Datum::string(prefix.into_iter().collect::<String>()));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cut_text_bounds_still_enclose_the_value() {
        let value = "quickly ironic deposits sleep";
        let (low, high) = (cut_lower(Datum::string(value)), cut_upper(Datum::string(value)).unwrap());
        assert_eq!(low, Datum::string("quickly ironic d"));
        assert_eq!(high, Datum::string("quickly ironic e"));
        assert!(low <= Datum::string(value) && Datum::string(value) <= high);
        assert_eq!(cut_upper(Datum::string(char::MAX.to_string().repeat(17))), None);
        assert_eq!(cut_upper(Datum::long(5)), Some(Datum::long(5)));
    }
}
