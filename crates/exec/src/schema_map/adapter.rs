//! Makes arrays as a file stores them into arrays of the logical type, nested types included.

use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, MapArray, StructArray, new_null_array};
use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use arrow::error::ArrowError;
use lakeserve_lake::ColumnMapping;
use parquet::arrow::PARQUET_FIELD_ID_META_KEY;

use super::casts::{Conversion, allowed, convert};
use super::repeat;

/// What must be done to the arrays of a stored column.
#[derive(Debug, Clone)]
pub(crate) enum Adapter {
    /// They are of the logical type already.
    Keep,
    /// A cast of values without children.
    Cast { to: DataType, conversion: Conversion },
    /// A struct whose children are picked, adapted or made up.
    Struct { fields: Fields, children: Vec<Child> },
    /// A list whose elements are adapted.
    List { field: FieldRef, element: Box<Adapter> },
    /// A map whose keys and values are adapted.
    Map { entries: FieldRef, sorted: bool, key: Box<Adapter>, value: Box<Adapter> },
}

/// One child of a logical struct.
#[derive(Debug, Clone)]
pub(crate) enum Child {
    File { index: usize, adapter: Adapter },
    Constant(ArrayRef),
}

/// Why a column cannot be read; the path is filled in on the way up.
#[derive(Debug)]
pub(crate) struct Problem {
    path: Vec<String>,
    what: String,
}

impl Problem {
    fn new(what: String) -> Self {
        Self { path: Vec::new(), what }
    }

    /// The same problem, of a child of `name`.
    pub(crate) fn under(mut self, name: &str) -> Self {
        self.path.insert(0, name.to_owned());
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column \"{}\" {}", self.path.join("."), self.what)
    }
}

/// A mapping by name alone, for columns that the table has no mapping for.
pub(crate) fn mapping_of(field: &Field) -> ColumnMapping {
    ColumnMapping { physical_name: field.name().clone(), ..ColumnMapping::default() }
}

/// The index of the field that a mapping points to.
pub(crate) fn find(fields: &Fields, mapping: &ColumnMapping, has_ids: bool) -> Option<usize> {
    if let Some(id) = mapping.field_id
        && has_ids
    {
        return fields.iter().position(|field| field_id(field) == Some(id));
    }
    let named = |name: &str| fields.iter().position(|field| field.name() == name);
    named(&mapping.physical_name).or_else(|| mapping.aliases.iter().find_map(|alias| named(alias)))
}

/// The Parquet field id of a field of a file's schema.
pub(crate) fn field_id(field: &Field) -> Option<i32> {
    field.metadata().get(PARQUET_FIELD_ID_META_KEY)?.parse().ok()
}

/// The value of rows whose file lacks the column.
pub(crate) fn missing(logical: &Field, mapping: &ColumnMapping) -> Result<ArrayRef, Problem> {
    match &mapping.initial_default {
        Some(value) if value.len() == 1 && value.data_type() == logical.data_type() => Ok(Arc::clone(value)),
        Some(value) => Err(Problem::new(format!(
            "has a default of type {}, but the column's type is {}",
            value.data_type(),
            logical.data_type()
        ))),
        None if logical.is_nullable() => Ok(new_null_array(logical.data_type(), 1)),
        None => Err(Problem::new("must have a value, but the file does not have the column".into())),
    }
}

impl Adapter {
    /// What makes arrays of `stored` into arrays of `logical`.
    pub(crate) fn between(
        stored: &Field,
        logical: &Field,
        mapping: &ColumnMapping,
        has_ids: bool,
    ) -> Result<Self, Problem> {
        match (stored.data_type(), logical.data_type()) {
            (DataType::Struct(from), DataType::Struct(to)) => {
                let children = to
                    .iter()
                    .enumerate()
                    .map(|(i, child)| Child::between(from, child, mapping.children.get(i), has_ids))
                    .collect::<Result<Vec<_>, _>>()?;
                Ok(Self::Struct { fields: to.clone(), children })
            }
            (DataType::List(from), DataType::List(to)) => {
                let element = Self::inner(from, to, mapping.children.first(), has_ids)?;
                Ok(Self::List { field: Arc::clone(to), element: Box::new(element) })
            }
            (DataType::Map(from, _), DataType::Map(to, sorted)) => {
                let (DataType::Struct(from), DataType::Struct(entries)) = (from.data_type(), to.data_type()) else {
                    return Err(Problem::new("is a map without entries".into()));
                };
                let ([from_key, from_value], [key, value]) = (from.as_ref(), entries.as_ref()) else {
                    return Err(Problem::new("is a map whose entries are not key and value".into()));
                };
                Ok(Self::Map {
                    entries: Arc::clone(to),
                    sorted: *sorted,
                    key: Box::new(Self::inner(from_key, key, mapping.children.first(), has_ids)?),
                    value: Box::new(Self::inner(from_value, value, mapping.children.get(1), has_ids)?),
                })
            }
            (from, to) if from == to => Ok(Self::Keep),
            (from, to) => match allowed(from, to) {
                Some(conversion) => Ok(Self::Cast { to: to.clone(), conversion }),
                None => Err(Problem::new(format!("is stored as {from}, which cannot be read as {to}"))),
            },
        }
    }

    /// An element, key or value: found by its place in the structure.
    fn inner(stored: &Field, logical: &Field, mapping: Option<&ColumnMapping>, has_ids: bool) -> Result<Self, Problem> {
        let by_name = mapping_of(logical);
        Self::between(stored, logical, mapping.unwrap_or(&by_name), has_ids)
            .map_err(|problem| problem.under(logical.name()))
    }

    /// Adapts an array.
    ///
    /// # Errors
    /// When a value does not fit the logical type, or a child that must have values lacks one.
    pub(crate) fn apply(&self, array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
        match self {
            Self::Keep => Ok(Arc::clone(array)),
            Self::Cast { to, conversion } => convert(array, to, *conversion),
            Self::Struct { fields, children } => {
                let stored = array.as_struct();
                let arrays = children
                    .iter()
                    .map(|child| match child {
                        Child::File { index, adapter } => adapter.apply(stored.column(*index)),
                        Child::Constant(value) => repeat(value, stored.len()),
                    })
                    .collect::<Result<Vec<_>, _>>()?;
                let adapted =
                    StructArray::try_new_with_length(fields.clone(), arrays, stored.nulls().cloned(), stored.len())?;
                Ok(Arc::new(adapted))
            }
            Self::List { field, element } => {
                let stored = array.as_list::<i32>();
                let values = element.apply(stored.values())?;
                let adapted =
                    ListArray::try_new(Arc::clone(field), stored.offsets().clone(), values, stored.nulls().cloned())?;
                Ok(Arc::new(adapted))
            }
            Self::Map { entries, sorted, key, value } => {
                let stored = array.as_map();
                let DataType::Struct(fields) = entries.data_type() else {
                    return Err(ArrowError::SchemaError("a map's entries must be a struct".into()));
                };
                let columns = vec![key.apply(stored.keys())?, value.apply(stored.values())?];
                let pairs = StructArray::try_new(fields.clone(), columns, stored.entries().nulls().cloned())?;
                let adapted = MapArray::try_new(
                    Arc::clone(entries),
                    stored.offsets().clone(),
                    pairs,
                    stored.nulls().cloned(),
                    *sorted,
                )?;
                Ok(Arc::new(adapted))
            }
        }
    }
}

impl Child {
    fn between(
        stored: &Fields,
        logical: &Field,
        mapping: Option<&ColumnMapping>,
        has_ids: bool,
    ) -> Result<Self, Problem> {
        let by_name = mapping_of(logical);
        let mapping = mapping.unwrap_or(&by_name);
        let child = match find(stored, mapping, has_ids) {
            Some(index) => {
                Adapter::between(&stored[index], logical, mapping, has_ids).map(|adapter| Self::File { index, adapter })
            }
            None => missing(logical, mapping).map(Self::Constant),
        };
        child.map_err(|problem| problem.under(logical.name()))
    }
}
