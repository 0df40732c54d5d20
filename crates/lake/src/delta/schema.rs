//! From a Delta schema to logical columns and their mapping, and which features we can serve.
//!
//! Every column is nullable here: a file that lacks a column yields NULL, whatever the schema says.

use std::sync::Arc;

use arrow::datatypes::{DataType as ArrowType, Field, FieldRef, Fields, Schema, TimeUnit};
use delta_kernel::schema::{DataType, PrimitiveType, StructField};
use delta_kernel::snapshot::Snapshot;
use delta_kernel::table_features::{ColumnMappingMode, TableFeature};
use lakeserve_common::{Error, ErrorKind, Result};
use url::Url;

use crate::snapshot::{ColumnMapping, TableSchema};

/// Refuses, by name, a reader feature that our scan cannot serve.
///
/// The kernel knows more features than we serve: what it can read but our scan cannot is refused
/// here. Variant features are let through, because a table may declare them and have no such
/// column; the column is what [`columns`] refuses.
pub(crate) fn check_features(kernel: &Snapshot, location: &Url) -> Result<()> {
    let protocol = kernel.table_configuration().protocol();
    for feature in protocol.reader_features().unwrap_or_default() {
        let served = match feature {
            TableFeature::ColumnMapping
            | TableFeature::DeletionVectors
            | TableFeature::TimestampWithoutTimezone
            | TableFeature::TypeWidening
            | TableFeature::TypeWideningPreview
            | TableFeature::V2Checkpoint
            | TableFeature::VacuumProtocolCheck
            | TableFeature::VariantType
            | TableFeature::VariantTypePreview
            | TableFeature::VariantShredding
            | TableFeature::VariantShreddingPreview => true,
            // Commits of a catalog-managed table may be known to the catalog alone: its log in
            // the folder can be behind without showing it.
            _ => false,
        };
        if !served {
            let message = format!("Delta table {location}: reader feature '{feature}' is not supported");
            return Err(Error::new(ErrorKind::Feature, message));
        }
    }
    Ok(())
}

/// The columns of a snapshot.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    /// Logical fields.
    pub(crate) fields: Vec<FieldRef>,
    /// One per field.
    pub(crate) mappings: Vec<ColumnMapping>,
    /// The kernel's primitive type of each column that has one.
    pub(crate) primitives: Vec<Option<PrimitiveType>>,
    /// Whether the type of the column was ever widened.
    pub(crate) widened: Vec<bool>,
    /// Indexes of the partition columns in `fields`.
    pub(crate) partitions: Vec<usize>,
}

impl Columns {
    /// The form that a snapshot holds.
    pub(crate) fn into_schema(self) -> TableSchema {
        TableSchema { arrow: Arc::new(Schema::new(self.fields)), columns: self.mappings }
    }
}

/// The columns of `kernel`; an error naming the column for a type that we cannot serve.
pub(crate) fn columns(kernel: &Snapshot, location: &Url) -> Result<Columns> {
    let configuration = kernel.table_configuration();
    let mode = configuration.column_mapping_mode();
    let schema = kernel.schema();
    let mut columns = Columns::default();
    for field in schema.fields() {
        let place = Place { location, column: field.name(), mode };
        columns.fields.push(nullable(field.name(), place.arrow_type(field.data_type())?));
        columns.mappings.push(place.mapping(field));
        columns.widened.push(field.metadata.contains_key("delta.typeChanges"));
        columns.primitives.push(match field.data_type() {
            DataType::Primitive(primitive) => Some(primitive.clone()),
            _ => None,
        });
    }
    for name in configuration.logical_partition_columns() {
        let at = columns.fields.iter().position(|field| field.name() == name);
        let at = at.ok_or_else(|| {
            let message = format!("Delta table {location}: partition column '{name}' is not in the schema");
            Error::new(ErrorKind::Corrupt, message)
        })?;
        columns.partitions.push(at);
    }
    Ok(columns)
}

fn nullable(name: &str, data_type: ArrowType) -> FieldRef {
    Arc::new(Field::new(name, data_type, true))
}

/// Where in which table's schema we are.
struct Place<'a> {
    location: &'a Url,
    column: &'a str,
    mode: ColumnMappingMode,
}

impl Place<'_> {
    fn refused(&self, what: &str) -> Error {
        let message =
            format!("Delta table {}: column '{}' has type {what}, which is not supported", self.location, self.column);
        Error::new(ErrorKind::Feature, message)
    }

    fn arrow_type(&self, data_type: &DataType) -> Result<ArrowType> {
        Ok(match data_type {
            DataType::Primitive(primitive) => self.primitive(primitive)?,
            DataType::Struct(fields) => {
                let fields =
                    fields.fields().map(|field| Ok(nullable(field.name(), self.arrow_type(field.data_type())?)));
                ArrowType::Struct(fields.collect::<Result<Vec<_>>>()?.into())
            }
            DataType::Array(array) => ArrowType::List(nullable("item", self.arrow_type(array.element_type())?)),
            DataType::Map(map) => {
                let key = Arc::new(Field::new("key", self.arrow_type(map.key_type())?, false));
                let value = nullable("value", self.arrow_type(map.value_type())?);
                let entries = Field::new("entries", ArrowType::Struct(Fields::from(vec![key, value])), false);
                ArrowType::Map(Arc::new(entries), false)
            }
            DataType::Variant(_) => return Err(self.refused("variant")),
            #[allow(unreachable_patterns, reason = "the kernel has further types behind features")]
            other => return Err(self.refused(&other.to_string())),
        })
    }

    fn primitive(&self, primitive: &PrimitiveType) -> Result<ArrowType> {
        Ok(match primitive {
            PrimitiveType::String => ArrowType::Utf8,
            PrimitiveType::Long => ArrowType::Int64,
            PrimitiveType::Integer => ArrowType::Int32,
            PrimitiveType::Short => ArrowType::Int16,
            PrimitiveType::Byte => ArrowType::Int8,
            PrimitiveType::Float => ArrowType::Float32,
            PrimitiveType::Double => ArrowType::Float64,
            PrimitiveType::Boolean => ArrowType::Boolean,
            PrimitiveType::Binary => ArrowType::Binary,
            PrimitiveType::Date => ArrowType::Date32,
            PrimitiveType::Timestamp => ArrowType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            PrimitiveType::TimestampNtz => ArrowType::Timestamp(TimeUnit::Microsecond, None),
            PrimitiveType::Void => ArrowType::Null,
            PrimitiveType::Decimal(decimal) => {
                let scale = i8::try_from(decimal.scale()).map_err(|_| self.refused("decimal"))?;
                ArrowType::Decimal128(decimal.precision(), scale)
            }
            other => return Err(self.refused(&other.to_string())),
        })
    }

    fn mapping(&self, field: &StructField) -> ColumnMapping {
        // Only in id mode are files to be read by field id; in name mode the ids in the files are
        // not authoritative.
        let by_id = self.mode == ColumnMappingMode::Id;
        let field_id = field.column_mapping_id().filter(|_| by_id).and_then(|id| i32::try_from(id).ok());
        ColumnMapping {
            field_id,
            physical_name: field.physical_name(self.mode).to_owned(),
            children: self.children(field.data_type()),
            ..ColumnMapping::default()
        }
    }

    fn children(&self, data_type: &DataType) -> Vec<ColumnMapping> {
        match data_type {
            DataType::Struct(fields) => fields.fields().map(|field| self.mapping(field)).collect(),
            DataType::Array(array) => vec![ColumnMapping::by_name("element", self.children(array.element_type()))],
            DataType::Map(map) => vec![
                ColumnMapping::by_name("key", self.children(map.key_type())),
                ColumnMapping::by_name("value", self.children(map.value_type())),
            ],
            _ => Vec::new(),
        }
    }
}
