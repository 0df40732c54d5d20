//! Logical types of plain Parquet columns, and the union of several files' columns.
//!
//! Types follow from Parquet's own annotations alone, never from the Arrow schema that a writer
//! may have embedded, so that the same data has the same types whoever wrote it. INT96 becomes
//! microseconds without zone, milliseconds become microseconds, nanoseconds stay exact.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, Field, FieldRef, Fields, TimeUnit,
};
use lakeserve_common::{Error, ErrorKind, Result};
use parquet::arrow::parquet_to_arrow_schema;
use parquet::basic::Type as PhysicalType;
use parquet::schema::types::SchemaDescriptor;
use url::Url;

use crate::snapshot::ColumnMapping;

/// The columns of one file with their logical types, all nullable.
pub(crate) fn logical_fields(schema: &SchemaDescriptor) -> Result<Fields, String> {
    let arrow = parquet_to_arrow_schema(schema, None).map_err(|error| error.to_string())?;
    let mut leaves = (0..schema.num_columns()).map(|index| schema.column(index).physical_type());
    let mut names = std::collections::HashSet::new();
    let mut fields = Vec::with_capacity(arrow.fields().len());
    for field in arrow.fields() {
        if !names.insert(field.name().as_str()) {
            return Err(format!("two columns are called '{}'", field.name()));
        }
        fields.push(nullable(field.name(), logical_type(field.data_type(), &mut leaves)?));
    }
    Ok(fields.into())
}

fn nullable(name: &str, data_type: DataType) -> FieldRef {
    Arc::new(Field::new(name, data_type, true))
}

/// `leaves` yields the physical types of the leaves in schema order: Arrow alone cannot tell INT96
/// from nanoseconds.
fn logical_type(data_type: &DataType, leaves: &mut impl Iterator<Item = PhysicalType>) -> Result<DataType, String> {
    let child = |field: &FieldRef, name: &str, leaves: &mut _| -> Result<FieldRef, String> {
        Ok(nullable(name, logical_type(field.data_type(), leaves)?))
    };
    Ok(match data_type {
        DataType::Struct(fields) => {
            let fields = fields.iter().map(|field| child(field, field.name(), leaves));
            DataType::Struct(fields.collect::<Result<Vec<_>, _>>()?.into())
        }
        DataType::List(field) | DataType::LargeList(field) => DataType::List(child(field, "item", leaves)?),
        DataType::Map(entries, _) => {
            let DataType::Struct(pair) = entries.data_type() else {
                return Err(format!("a map without key and value: {entries:?}"));
            };
            let [key, value] = pair.as_ref() else {
                return Err(format!("a map without key and value: {entries:?}"));
            };
            let key = child(key, "key", leaves)?.as_ref().clone().with_nullable(false);
            let value = child(value, "value", leaves)?;
            let entries = Field::new("entries", DataType::Struct(vec![Arc::new(key), value].into()), false);
            DataType::Map(Arc::new(entries), false)
        }
        leaf => {
            let physical = leaves.next();
            match leaf {
                DataType::Timestamp(TimeUnit::Nanosecond, _) if physical == Some(PhysicalType::INT96) => {
                    DataType::Timestamp(TimeUnit::Microsecond, None)
                }
                DataType::Timestamp(TimeUnit::Second | TimeUnit::Millisecond, zone) => {
                    DataType::Timestamp(TimeUnit::Microsecond, zone.clone())
                }
                DataType::Time32(_) => DataType::Time64(TimeUnit::Microsecond),
                DataType::Float16 => DataType::Float32,
                DataType::Decimal256(precision, scale) if *precision <= DECIMAL128_MAX_PRECISION => {
                    DataType::Decimal128(*precision, *scale)
                }
                other => other.clone(),
            }
        }
    })
}

/// The mapping of a column that is found by its name, with its children.
pub(crate) fn mapping_by_name(field: &Field) -> ColumnMapping {
    let children = match field.data_type() {
        DataType::Struct(fields) => fields.iter().map(|field| mapping_by_name(field)).collect(),
        DataType::List(field) => vec![mapping_by_name(field)],
        DataType::Map(entries, _) => mapping_by_name(entries).children,
        _ => Vec::new(),
    };
    ColumnMapping::by_name(field.name(), children)
}

/// The union of several files' columns by name.
#[derive(Debug, Default)]
pub(crate) struct Union {
    fields: Vec<FieldRef>,
    index: HashMap<String, usize>,
    /// A file that each column was seen in, for the message.
    origin: Vec<Url>,
}

impl Union {
    /// Adds the columns of the file at `url`.
    pub(crate) fn add(&mut self, fields: &Fields, url: &Url) -> Result<()> {
        for field in fields {
            let Some(&at) = self.index.get(field.name()) else {
                self.index.insert(field.name().clone(), self.fields.len());
                self.fields.push(Arc::clone(field));
                self.origin.push(url.clone());
                continue;
            };
            let known = self.fields[at].data_type();
            let Some(wide) = widen(known, field.data_type()) else {
                let message = format!(
                    "column '{}' is {known} in {} but {} in {url}",
                    field.name(),
                    self.origin[at],
                    field.data_type()
                );
                return Err(Error::new(ErrorKind::Corrupt, message)
                    .with_hint("serve the files as two tables, or rewrite them with one type"));
            };
            if wide != *known {
                self.fields[at] = nullable(field.name(), wide);
            }
        }
        Ok(())
    }

    /// The columns, in order of first appearance.
    pub(crate) fn finish(self) -> Fields {
        self.fields.into()
    }
}

/// The type that holds every value of both types exactly, if there is one.
fn widen(a: &DataType, b: &DataType) -> Option<DataType> {
    use DataType::{
        Binary, Decimal128, Decimal256, Float32, Float64, Int8, Int16, Int32, Int64, List, Map, Null, Struct, UInt8,
        UInt16, UInt32, UInt64, Utf8,
    };
    if a == b {
        return Some(a.clone());
    }
    let pair = match (a, b) {
        (Null, other) | (other, Null) => return Some(other.clone()),
        (Struct(a), Struct(b)) => return widen_fields(a, b).map(Struct),
        (List(a), List(b)) => return Some(List(nullable("item", widen(a.data_type(), b.data_type())?))),
        (Map(a, _), Map(b, _)) => {
            let wide = widen(a.data_type(), b.data_type())?;
            let Struct(pair) = wide else { return None };
            let [key, value] = pair.as_ref() else { return None };
            let key = Arc::new(key.as_ref().clone().with_nullable(false));
            let entries = Field::new("entries", Struct(vec![key, Arc::clone(value)].into()), false);
            return Some(Map(Arc::new(entries), false));
        }
        (Decimal128(p, s) | Decimal256(p, s), Decimal128(q, t) | Decimal256(q, t)) => {
            let scale = (*s).max(*t);
            let whole = (i16::from(*p) - i16::from(*s)).max(i16::from(*q) - i16::from(*t));
            let precision = u8::try_from(whole + i16::from(scale)).ok()?;
            return match precision {
                0..=DECIMAL128_MAX_PRECISION => Some(Decimal128(precision, scale)),
                _ if precision <= DECIMAL256_MAX_PRECISION => Some(Decimal256(precision, scale)),
                _ => None,
            };
        }
        (a, b) => [(a, b), (b, a)],
    };
    pair.into_iter().find_map(|(narrow, wide)| {
        let fits = matches!(
            (narrow, wide),
            (Int8, Int16 | Int32 | Int64 | Float32 | Float64)
                | (Int16, Int32 | Int64 | Float32 | Float64)
                | (Int32, Int64 | Float64)
                | (UInt8, UInt16 | UInt32 | UInt64 | Int16 | Int32 | Int64)
                | (UInt16, UInt32 | UInt64 | Int32 | Int64)
                | (UInt32, UInt64 | Int64)
                | (Float32, Float64)
                | (Utf8, Binary)
        );
        fits.then(|| wide.clone())
    })
}

fn widen_fields(a: &Fields, b: &Fields) -> Option<Fields> {
    let mut fields = a.to_vec();
    for field in b {
        match fields.iter_mut().find(|known| known.name() == field.name()) {
            Some(known) => *known = nullable(field.name(), widen(known.data_type(), field.data_type())?),
            None => fields.push(Arc::clone(field)),
        }
    }
    Some(fields.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(name: &str, data_type: DataType) -> Fields {
        vec![nullable(name, data_type)].into()
    }

    #[test]
    fn a_union_widens_without_loss_and_names_both_files_otherwise() {
        let (x, y) = (Url::parse("file:///x.parquet").unwrap(), Url::parse("file:///y.parquet").unwrap());
        let mut union = Union::default();
        union.add(&one("a", DataType::Int32), &x).unwrap();
        union.add(&one("a", DataType::Int64), &y).unwrap();
        union.add(&one("b", DataType::Decimal128(5, 2)), &x).unwrap();
        union.add(&one("b", DataType::Decimal128(7, 0)), &y).unwrap();
        let error = union.add(&one("a", DataType::Utf8), &y).unwrap_err().to_string();
        assert!(error.contains("x.parquet") && error.contains("y.parquet") && error.contains("'a'"), "{error}");
        let fields = union.finish();
        assert_eq!(fields[0].data_type(), &DataType::Int64);
        assert_eq!(fields[1].data_type(), &DataType::Decimal128(9, 2));
    }

    #[test]
    fn sixty_four_bit_integers_do_not_become_doubles() {
        assert_eq!(widen(&DataType::Int64, &DataType::Float64), None);
        assert_eq!(widen(&DataType::UInt64, &DataType::Int64), None);
    }
}
