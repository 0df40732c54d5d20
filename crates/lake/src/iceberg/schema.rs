//! Iceberg schemas, and what the rest of the system sees of them: the logical arrow schema and the
//! mapping that finds each column in a data file.

use std::sync::Arc;

use arrow::array::{ArrayRef, StructArray, new_null_array};
use arrow::datatypes::{DataType, Field as ArrowField, Fields, Schema as ArrowSchema, TimeUnit};
use lakeserve_common::{Error, ErrorKind, Result};
use serde::Deserialize;
use serde_json::Value as Json;

use super::scalar::{self, Scalar};
use crate::snapshot::{ColumnMapping, TableSchema};

/// Deeper nesting than any table has.
const MAX_DEPTH: usize = 64;

/// One schema of a table.
#[derive(Debug)]
pub(super) struct Schema {
    pub(super) id: i32,
    pub(super) fields: Vec<Field>,
}

/// A column or a part of one.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) id: i32,
    pub(super) name: String,
    required: bool,
    pub(super) kind: Type,
    initial_default: Option<Json>,
}

/// A type; primitives are known by the arrow type that they are read as.
#[derive(Debug)]
pub(super) enum Type {
    Primitive(DataType),
    Struct(Vec<Field>),
    List(Box<Field>),
    Map(Box<Field>, Box<Field>),
}

/// Names under which files without field ids may hold a column.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct MappedField {
    field_id: Option<i32>,
    #[serde(default)]
    names: Vec<String>,
    #[serde(default)]
    fields: Option<Vec<MappedField>>,
}

impl Schema {
    /// Parses a schema out of table metadata; `at` names the metadata file in errors.
    pub(super) fn parse(json: &Json, at: &str) -> Result<Self> {
        let reader = Reader { at };
        let id = match json.get("schema-id") {
            None => 0,
            Some(id) => reader.id(id)?,
        };
        Ok(Self { id, fields: reader.fields(json, "", 0)? })
    }

    /// The logical schema and its mapping. `names` is the table's name mapping, if it has one.
    pub(super) fn logical(&self, names: Option<&[MappedField]>, at: &str) -> Result<TableSchema> {
        let fields: Fields = self.fields.iter().map(|field| arrow_field(field, !field.required)).collect();
        let columns = self.fields.iter().map(|field| mapping(field, names, at)).collect::<Result<_>>()?;
        Ok(TableSchema { arrow: Arc::new(ArrowSchema::new(fields)), columns })
    }
}

/// Parses the value of the property `schema.name-mapping.default`.
pub(super) fn parse_name_mapping(text: &str, at: &str) -> Result<Vec<MappedField>> {
    serde_json::from_str(text).map_err(|error| {
        Error::new(ErrorKind::Corrupt, format!("{at}: the property schema.name-mapping.default is not usable: {error}"))
    })
}

struct Reader<'a> {
    at: &'a str,
}

impl Reader<'_> {
    fn corrupt(&self, what: &str) -> Error {
        Error::new(ErrorKind::Corrupt, format!("iceberg metadata file {}: {what}", self.at))
    }

    fn id(&self, json: &Json) -> Result<i32> {
        let id = json.as_i64().and_then(|id| i32::try_from(id).ok());
        id.ok_or_else(|| self.corrupt(&format!("'{json}' is not an id")))
    }

    fn part<'j>(&self, json: &'j Json, part: &str, path: &str) -> Result<&'j Json> {
        json.get(part).ok_or_else(|| self.corrupt(&format!("the schema has no '{part}' at '{path}'")))
    }

    fn fields(&self, json: &Json, path: &str, depth: usize) -> Result<Vec<Field>> {
        let fields = self.part(json, "fields", path)?.as_array();
        let fields = fields.ok_or_else(|| self.corrupt(&format!("the schema's 'fields' at '{path}' is no list")))?;
        fields.iter().map(|field| self.field(field, path, depth)).collect()
    }

    fn field(&self, json: &Json, path: &str, depth: usize) -> Result<Field> {
        let name = self.part(json, "name", path)?.as_str().ok_or_else(|| self.corrupt("a column's name is no text"))?;
        let path = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        Ok(Field {
            id: self.id(self.part(json, "id", &path)?)?,
            name: name.to_owned(),
            required: json.get("required").and_then(Json::as_bool).unwrap_or(false),
            kind: self.kind(self.part(json, "type", &path)?, &path, depth)?,
            initial_default: json.get("initial-default").filter(|value| !value.is_null()).cloned(),
        })
    }

    /// A list's element, a map's key or value.
    fn item(&self, json: &Json, part: &str, path: &str, depth: usize) -> Result<Box<Field>> {
        let path = format!("{path}.{part}");
        Ok(Box::new(Field {
            id: self.id(self.part(json, &format!("{part}-id"), &path)?)?,
            name: part.to_owned(),
            required: json.get(format!("{part}-required")).and_then(Json::as_bool).unwrap_or(false),
            kind: self.kind(self.part(json, part, &path)?, &path, depth)?,
            initial_default: None,
        }))
    }

    fn kind(&self, json: &Json, path: &str, depth: usize) -> Result<Type> {
        if depth > MAX_DEPTH {
            let message = format!("{}: column '{path}' nests deeper than {MAX_DEPTH} levels", self.at);
            return Err(Error::new(ErrorKind::Feature, message));
        }
        if let Some(name) = json.as_str() {
            let known = primitive(name).ok_or_else(|| self.unknown_type(name, path))?;
            return Ok(Type::Primitive(known));
        }
        match json.get("type").and_then(Json::as_str) {
            Some("struct") => Ok(Type::Struct(self.fields(json, path, depth + 1)?)),
            Some("list") => Ok(Type::List(self.item(json, "element", path, depth + 1)?)),
            Some("map") => {
                Ok(Type::Map(self.item(json, "key", path, depth + 1)?, self.item(json, "value", path, depth + 1)?))
            }
            _ => Err(self.unknown_type(&json.to_string(), path)),
        }
    }

    fn unknown_type(&self, name: &str, path: &str) -> Error {
        let message = format!("{}: column '{path}' has type {name}, which is not supported yet", self.at);
        Error::new(ErrorKind::Feature, message)
    }
}

/// The arrow type of a primitive type's name.
fn primitive(name: &str) -> Option<DataType> {
    let utc = || Some("UTC".into());
    Some(match name {
        "boolean" => DataType::Boolean,
        "int" => DataType::Int32,
        "long" => DataType::Int64,
        "float" => DataType::Float32,
        "double" => DataType::Float64,
        "date" => DataType::Date32,
        "time" => DataType::Time64(TimeUnit::Microsecond),
        "timestamp" => DataType::Timestamp(TimeUnit::Microsecond, None),
        "timestamptz" => DataType::Timestamp(TimeUnit::Microsecond, utc()),
        "timestamp_ns" => DataType::Timestamp(TimeUnit::Nanosecond, None),
        "timestamptz_ns" => DataType::Timestamp(TimeUnit::Nanosecond, utc()),
        "string" => DataType::Utf8,
        "uuid" => DataType::FixedSizeBinary(16),
        "binary" => DataType::Binary,
        _ => {
            if let Some(length) = name.strip_prefix("fixed[").and_then(|rest| rest.strip_suffix(']')) {
                return length.trim().parse().ok().filter(|length| *length >= 0).map(DataType::FixedSizeBinary);
            }
            let (precision, scale) = name.strip_prefix("decimal(")?.strip_suffix(')')?.split_once(',')?;
            let (precision, scale) = (precision.trim().parse::<u8>().ok()?, scale.trim().parse::<i8>().ok()?);
            let known = (1..=38).contains(&precision) && scale >= 0 && scale.unsigned_abs() <= precision;
            return known.then_some(DataType::Decimal128(precision, scale));
        }
    })
}

/// Parts of nested columns are always nullable: a file may lack them, whatever the schema asks.
fn arrow_field(field: &Field, nullable: bool) -> ArrowField {
    ArrowField::new(&field.name, arrow_type(&field.kind), nullable)
}

fn arrow_type(kind: &Type) -> DataType {
    match kind {
        Type::Primitive(known) => known.clone(),
        Type::Struct(fields) => DataType::Struct(fields.iter().map(|field| arrow_field(field, true)).collect()),
        Type::List(element) => DataType::List(Arc::new(arrow_field(element, true))),
        Type::Map(key, value) => {
            let entry = Fields::from(vec![arrow_field(key, false), arrow_field(value, true)]);
            DataType::Map(Arc::new(ArrowField::new("key_value", DataType::Struct(entry), false)), false)
        }
    }
}

/// The mapping of `field`. `names` are the entries of the name mapping on the field's level.
fn mapping(field: &Field, names: Option<&[MappedField]>, at: &str) -> Result<ColumnMapping> {
    let entry = names.map(|names| names.iter().find(|entry| entry.field_id == Some(field.id)));
    // A table with a name mapping knows the names of all columns that files without ids may hold:
    // a column that it does not list is in none of them, whatever their columns are called. The
    // empty name, which no file holds, says so.
    let mut known = match entry {
        None => vec![field.name.clone()],
        Some(None) => vec![String::new()],
        Some(Some(entry)) => entry.names.clone(),
    };
    if known.is_empty() {
        known.push(String::new());
    }
    let physical_name = known.remove(0);
    let below = entry.map(|entry| entry.and_then(|entry| entry.fields.as_deref()).unwrap_or_default());
    let children: Vec<&Field> = match &field.kind {
        Type::Primitive(_) => Vec::new(),
        Type::Struct(fields) => fields.iter().collect(),
        Type::List(element) => vec![element],
        Type::Map(key, value) => vec![key, value],
    };
    Ok(ColumnMapping {
        field_id: Some(field.id),
        physical_name,
        aliases: known,
        initial_default: initial_default(field, at)?,
        children: children.into_iter().map(|child| mapping(child, below, at)).collect::<Result<_>>()?,
    })
}

/// The value (an array of length one) of rows in files that were written before `field` was added.
fn initial_default(field: &Field, at: &str) -> Result<Option<ArrayRef>> {
    let Some(json) = &field.initial_default else {
        return Ok(None);
    };
    let unusable = |kind, why: &str| {
        let message = format!("{at}: the initial default {json} of column '{}' {why}", field.name);
        Error::new(kind, message)
    };
    match &field.kind {
        Type::Primitive(known) => {
            let value = Scalar::from_json(json, known);
            let value = value.ok_or_else(|| unusable(ErrorKind::Corrupt, "does not fit its type"))?;
            scalar::array(&[Some(value)], known).map(Some)
        }
        // The specification allows only the empty struct, which takes its parts' own defaults.
        Type::Struct(fields) if json.as_object().is_some_and(serde_json::Map::is_empty) => {
            let DataType::Struct(types) = arrow_type(&field.kind) else {
                return Ok(None);
            };
            let parts = fields.iter().map(|part| {
                let value = initial_default(part, at)?;
                Ok(value.unwrap_or_else(|| new_null_array(&arrow_type(&part.kind), 1)))
            });
            let parts = parts.collect::<Result<Vec<_>>>()?;
            let array = StructArray::try_new_with_length(types, parts, None, 1)
                .map_err(|error| unusable(ErrorKind::Corrupt, &error.to_string()))?;
            Ok(Some(Arc::new(array)))
        }
        _ => Err(unusable(ErrorKind::Feature, "is not supported yet")),
    }
}

#[cfg(test)]
mod tests;
