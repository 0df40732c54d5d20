//! The eight TPC-H tables: names, schemas, sizes and their rows as record batches.
//!
//! A table can be generated in parts (part `1..=parts`), each independent of the others; the parts
//! laid end to end are the whole table in its key order. Types: keys Int64, decimals Decimal(15,2),
//! dates Date32, text Utf8, nothing nullable.

use std::sync::{Arc, LazyLock};

use arrow::array::RecordBatch;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator, PartSuppGenerator,
    RegionGenerator, SupplierGenerator,
};
use tpchgen_arrow::{
    CustomerArrow, LineItemArrow, NationArrow, OrderArrow, PartArrow, PartSuppArrow, RegionArrow, SupplierArrow,
};

/// One of the eight tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TpchTable {
    /// 5 rows at any scale.
    Region,
    /// 25 rows at any scale.
    Nation,
    /// 10,000 rows per unit of scale.
    Supplier,
    /// 200,000 rows per unit of scale.
    Part,
    /// 800,000 rows per unit of scale.
    Partsupp,
    /// 150,000 rows per unit of scale.
    Customer,
    /// 1,500,000 rows per unit of scale.
    Orders,
    /// One to seven rows per order: 6,001,215 at scale 1.
    Lineitem,
}

/// The rows of one part, as batches of a few thousand rows.
pub(crate) type Batches = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>> + Send>;

impl TpchTable {
    /// All eight, the largest first, which is the best order to hand them to workers.
    pub const ALL: [Self; 8] = [
        Self::Lineitem,
        Self::Orders,
        Self::Partsupp,
        Self::Customer,
        Self::Part,
        Self::Supplier,
        Self::Nation,
        Self::Region,
    ];

    /// The table's name, as the benchmark's queries write it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Region => "region",
            Self::Nation => "nation",
            Self::Supplier => "supplier",
            Self::Part => "part",
            Self::Partsupp => "partsupp",
            Self::Customer => "customer",
            Self::Orders => "orders",
            Self::Lineitem => "lineitem",
        }
    }

    /// The table's schema.
    #[must_use]
    pub fn schema(self) -> SchemaRef {
        static SCHEMAS: LazyLock<Vec<(TpchTable, SchemaRef)>> = LazyLock::new(|| {
            TpchTable::ALL.iter().map(|table| (*table, plain_text(&table.generated_schema()))).collect()
        });
        SCHEMAS
            .iter()
            .find(|(table, _)| *table == self)
            .map_or_else(|| Arc::new(Schema::empty()), |(_, schema)| Arc::clone(schema))
    }

    /// How many rows the table has at `scale`; for lineitem an estimate within 1 %.
    #[must_use]
    pub fn approximate_rows(self, scale: f64) -> u64 {
        match self {
            Self::Region => 5,
            Self::Nation => 25,
            Self::Supplier => scaled(10_000, scale),
            Self::Part => scaled(200_000, scale),
            Self::Partsupp => scaled(800_000, scale),
            Self::Customer => scaled(150_000, scale),
            Self::Orders => scaled(1_500_000, scale),
            Self::Lineitem => scaled(6_001_215, scale),
        }
    }

    /// The most parts that the table can be split into at `scale` without an empty one.
    pub(crate) fn most_parts(self, scale: f64) -> u32 {
        let units = match self {
            Self::Lineitem => Self::Orders.approximate_rows(scale),
            Self::Partsupp => Self::Part.approximate_rows(scale),
            other => other.approximate_rows(scale),
        };
        u32::try_from(units).unwrap_or(u32::MAX).max(1)
    }

    /// The rows of part `part` (from 1) of `parts`.
    pub(crate) fn batches(self, scale: f64, part: u32, parts: u32) -> Batches {
        let (index, count) = (i32::try_from(part).unwrap_or(i32::MAX), i32::try_from(parts).unwrap_or(i32::MAX));
        match self {
            Self::Region => slice_of(RegionArrow::new(RegionGenerator::new(scale, 1, 1)), part, parts),
            Self::Nation => slice_of(NationArrow::new(NationGenerator::new(scale, 1, 1)), part, parts),
            Self::Supplier => Box::new(SupplierArrow::new(SupplierGenerator::new(scale, index, count))),
            Self::Part => Box::new(PartArrow::new(PartGenerator::new(scale, index, count))),
            Self::Partsupp => Box::new(PartSuppArrow::new(PartSuppGenerator::new(scale, index, count))),
            Self::Customer => Box::new(CustomerArrow::new(CustomerGenerator::new(scale, index, count))),
            Self::Orders => Box::new(OrderArrow::new(OrderGenerator::new(scale, index, count))),
            Self::Lineitem => Box::new(LineItemArrow::new(LineItemGenerator::new(scale, index, count))),
        }
    }

    fn generated_schema(self) -> SchemaRef {
        match self {
            Self::Region => RegionArrow::schema_ref(),
            Self::Nation => NationArrow::schema_ref(),
            Self::Supplier => SupplierArrow::schema_ref(),
            Self::Part => PartArrow::schema_ref(),
            Self::Partsupp => PartSuppArrow::schema_ref(),
            Self::Customer => CustomerArrow::schema_ref(),
            Self::Orders => OrderArrow::schema_ref(),
            Self::Lineitem => LineItemArrow::schema_ref(),
        }
    }
}

/// `batch` with every column cast to the type that `schema` gives it.
pub(crate) fn conform(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let columns = batch.columns().iter().zip(schema.fields()).map(|(column, field)| cast(column, field.data_type()));
    RecordBatch::try_new(Arc::clone(schema), columns.collect::<Result<_, _>>()?)
}

/// The generator emits string views; tables are written with plain text columns.
fn plain_text(schema: &Schema) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| match field.data_type() {
        DataType::Utf8View => Field::new(field.name(), DataType::Utf8, field.is_nullable()),
        _ => field.as_ref().clone(),
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// Region and nation have no parts of their own: part `part` of `parts` is a slice of the rows.
fn slice_of(
    whole: impl Iterator<Item = Result<RecordBatch, ArrowError>> + Send + 'static,
    part: u32,
    parts: u32,
) -> Batches {
    Box::new(whole.map(move |batch| {
        let batch = batch?;
        let (part, parts) = (part as usize, parts as usize);
        let bound = |index: usize| batch.num_rows() * index / parts;
        Ok(batch.slice(bound(part - 1), bound(part) - bound(part - 1)))
    }))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the same rounding as the generator's own row counts"
)]
fn scaled(base: u32, scale: f64) -> u64 {
    (f64::from(base) * scale) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(table: TpchTable, scale: f64, parts: u32) -> usize {
        (1..=parts).flat_map(|part| table.batches(scale, part, parts)).map(|batch| batch.unwrap().num_rows()).sum()
    }

    #[test]
    fn parts_lay_end_to_end_to_the_whole_table() {
        for table in TpchTable::ALL {
            let whole = rows(table, 0.001, 1);
            assert_eq!(rows(table, 0.001, 3), whole, "{}", table.name());
            if table != TpchTable::Lineitem {
                assert_eq!(table.approximate_rows(0.001), whole as u64, "{}", table.name());
            }
        }
    }

    #[test]
    fn batches_conform_to_the_schema_without_string_views() {
        for table in TpchTable::ALL {
            let schema = table.schema();
            assert!(schema.fields().iter().all(|field| *field.data_type() != DataType::Utf8View));
            let batch = table.batches(0.001, 1, 1).next().unwrap().unwrap();
            assert_eq!(conform(&batch, &schema).unwrap().schema(), schema);
        }
    }
}
