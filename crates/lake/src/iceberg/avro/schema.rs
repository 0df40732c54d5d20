//! The writer's schema of an Avro file, and where in its records Iceberg's fields stand.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value as Json;

use super::AvroError;

/// Deeper nesting than any manifest has.
const MAX_DEPTH: usize = 32;

/// A schema with its named types resolved. Recursive types do not occur in Iceberg's files and are
/// refused, so decoding is bounded by the schema's depth.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Schema {
    Null,
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Bytes,
    Text,
    Enum,
    Fixed(usize),
    Array(Box<Schema>),
    Map(Box<Schema>),
    Union(Vec<Schema>),
    Record(Arc<[Field]>),
}

/// A field of a record.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Field {
    name: String,
    id: Option<i32>,
    pub(super) schema: Schema,
}

impl Schema {
    /// Parses the JSON text in an Avro header.
    pub(super) fn parse(text: &[u8]) -> Result<Self, AvroError> {
        let json: Json = serde_json::from_slice(text).map_err(|error| AvroError::Schema(error.to_string()))?;
        Parser { names: HashMap::new() }.schema(&json, 0)
    }
}

struct Parser {
    names: HashMap<String, Schema>,
}

impl Parser {
    fn schema(&mut self, json: &Json, depth: usize) -> Result<Schema, AvroError> {
        if depth > MAX_DEPTH {
            return Err(AvroError::Schema(format!("it nests deeper than {MAX_DEPTH} levels")));
        }
        match json {
            Json::String(name) => self.named(name),
            Json::Array(branches) => {
                let branches = branches.iter().map(|branch| self.schema(branch, depth + 1));
                Ok(Schema::Union(branches.collect::<Result<_, _>>()?))
            }
            Json::Object(object) => match object.get("type") {
                Some(Json::String(kind)) => self.complex(kind, json, depth),
                Some(inner) => self.schema(inner, depth + 1),
                None => Err(AvroError::Schema("a type has no 'type'".into())),
            },
            other => Err(AvroError::Schema(format!("{other} is not a type"))),
        }
    }

    fn named(&self, name: &str) -> Result<Schema, AvroError> {
        Ok(match name {
            "null" => Schema::Null,
            "boolean" => Schema::Boolean,
            "int" => Schema::Int,
            "long" => Schema::Long,
            "float" => Schema::Float,
            "double" => Schema::Double,
            "bytes" => Schema::Bytes,
            "string" => Schema::Text,
            _ => {
                let found = self.names.get(name).or_else(|| self.names.get(name.rsplit('.').next().unwrap_or(name)));
                return found.cloned().ok_or_else(|| AvroError::Schema(format!("type '{name}' is not defined")));
            }
        })
    }

    fn complex(&mut self, kind: &str, json: &Json, depth: usize) -> Result<Schema, AvroError> {
        let part =
            |name: &str| json.get(name).ok_or_else(|| AvroError::Schema(format!("a type '{kind}' has no '{name}'")));
        let schema = match kind {
            "array" => return Ok(Schema::Array(Box::new(self.schema(part("items")?, depth + 1)?))),
            "map" => return Ok(Schema::Map(Box::new(self.schema(part("values")?, depth + 1)?))),
            "enum" => Schema::Enum,
            "fixed" => {
                let size = part("size")?.as_u64().and_then(|size| usize::try_from(size).ok());
                Schema::Fixed(size.ok_or_else(|| AvroError::Schema("a fixed type has no usable size".into()))?)
            }
            "record" | "error" => {
                let Json::Array(fields) = part("fields")? else {
                    return Err(AvroError::Schema("a record's 'fields' is not a list".into()));
                };
                let fields = fields.iter().map(|field| self.field(field, depth + 1));
                Schema::Record(fields.collect::<Result<Vec<_>, _>>()?.into())
            }
            primitive => return self.named(primitive),
        };
        if let Some(Json::String(name)) = json.get("name") {
            let short = name.rsplit('.').next().unwrap_or(name);
            self.names.insert(short.to_owned(), schema.clone());
        }
        Ok(schema)
    }

    fn field(&mut self, json: &Json, depth: usize) -> Result<Field, AvroError> {
        let (Some(name), Some(kind)) = (json.get("name").and_then(Json::as_str), json.get("type")) else {
            return Err(AvroError::Schema("a record's field has no name or no type".into()));
        };
        let id = json.get("field-id").and_then(Json::as_i64).and_then(|id| i32::try_from(id).ok());
        Ok(Field { name: name.to_owned(), id, schema: self.schema(kind, depth)? })
    }
}

/// Positions of fields in a record type.
#[derive(Debug, Clone, Copy)]
pub(in crate::iceberg) struct Layout<'s> {
    fields: &'s [Field],
}

impl<'s> Layout<'s> {
    /// The layout of `schema`, if that is a record or an optional record.
    pub(super) fn of(schema: &'s Schema) -> Option<Self> {
        match schema {
            Schema::Record(fields) => Some(Self { fields }),
            Schema::Union(branches) => branches.iter().find_map(Self::of),
            _ => None,
        }
    }

    /// The position of the field with Iceberg id `id`; by one of `names` in files without ids.
    pub(in crate::iceberg) fn position(&self, id: i32, names: &[&str]) -> Option<usize> {
        let by_id = self.fields.iter().position(|field| field.id == Some(id));
        by_id
            .or_else(|| self.fields.iter().position(|field| field.id.is_none() && names.contains(&field.name.as_str())))
    }

    /// The layout of the record in the field at `position`.
    pub(in crate::iceberg) fn nested(&self, position: Option<usize>) -> Option<Layout<'s>> {
        Self::of(&self.fields.get(position?)?.schema)
    }

    /// The Iceberg ids of all fields, by position; -1 where a field has none.
    pub(in crate::iceberg) fn ids(&self) -> Vec<i32> {
        self.fields.iter().map(|field| field.id.unwrap_or(-1)).collect()
    }
}
