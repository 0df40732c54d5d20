use arrow::array::{Array, AsArray};
use arrow::datatypes::Int32Type;
use serde_json::json;

use super::*;

fn logical(fields: &Json, mapping: Option<&Json>) -> Result<TableSchema> {
    let schema = Schema::parse(&json!({"schema-id": 5, "fields": fields}), "test")?;
    let mapping = mapping.map(|mapping| parse_name_mapping(&mapping.to_string(), "test")).transpose()?;
    schema.logical(mapping.as_deref(), "test")
}

#[test]
fn nested_columns_are_mapped_by_field_id() {
    let fields = json!([
        {"id": 1, "name": "id", "required": true, "type": "long"},
        {"id": 2, "name": "s", "type": {"type": "struct", "fields": [{"id": 3, "name": "x", "required": true, "type": "decimal(9, 2)"}]}},
        {"id": 4, "name": "l", "type": {"type": "list", "element-id": 5, "element-required": true, "element": "string"}},
        {"id": 6, "name": "m", "type": {"type": "map", "key-id": 7, "key": "string", "value-id": 8, "value-required": false, "value": "fixed[3]"}}]);
    let schema = logical(&fields, None).unwrap();
    let names: Vec<_> =
        schema.arrow.fields().iter().map(|field| (field.name().as_str(), field.is_nullable())).collect();
    assert_eq!(names, [("id", false), ("s", true), ("l", true), ("m", true)]);
    let child = |column: usize, child: usize| schema.columns[column].children[child].field_id;
    assert_eq!((child(1, 0), child(2, 0), child(3, 0), child(3, 1)), (Some(3), Some(5), Some(7), Some(8)));
    let DataType::Struct(parts) = schema.arrow.field(1).data_type() else { panic!() };
    assert_eq!(parts[0].data_type(), &DataType::Decimal128(9, 2));
    assert!(parts[0].is_nullable());
    assert!(matches!(schema.arrow.field(3).data_type(), DataType::Map(..)));
}

#[test]
fn a_name_mapping_alone_names_the_columns_of_files_without_ids() {
    let fields = json!([
        {"id": 1, "name": "a", "type": "int"}, {"id": 2, "name": "b", "type": "int"},
        {"id": 3, "name": "s", "type": {"type": "struct", "fields": [{"id": 4, "name": "x", "type": "int"}, {"id": 5, "name": "y", "type": "int"}]}}]);
    let mapping = json!([
        {"field-id": 1, "names": ["old_a", "a"]},
        {"field-id": 3, "names": ["s"], "fields": [{"field-id": 4, "names": ["old_x"]}]}, {"names": ["gone"]}]);
    let schema = logical(&fields, Some(&mapping)).unwrap();
    let [a, b, s] = &schema.columns[..] else { panic!() };
    assert_eq!((a.physical_name.as_str(), a.aliases.as_slice()), ("old_a", &["a".to_owned()][..]));
    assert_eq!(b.physical_name, "", "not listed: in no such file");
    assert_eq!((s.children[0].physical_name.as_str(), s.children[1].physical_name.as_str()), ("old_x", ""));
    let schema = logical(&fields, None).unwrap();
    assert_eq!(schema.columns[1].physical_name, "b");
    assert!(logical(&fields, Some(&json!({"not": "a list"}))).is_err());
}

#[test]
fn initial_defaults_are_typed_or_refused() {
    let with_default = |kind: Json, default: Json| {
        logical(&json!([{"id": 1, "name": "c", "type": kind, "initial-default": default}]), None)
    };
    let schema = with_default(json!("int"), json!(-1)).unwrap();
    assert_eq!(schema.columns[0].initial_default.as_ref().unwrap().as_primitive::<Int32Type>().value(0), -1);
    let parts = json!({"type": "struct", "fields": [
        {"id": 2, "name": "x", "type": "int", "initial-default": 7}, {"id": 3, "name": "y", "type": "string"}]});
    let schema = with_default(parts, json!({})).unwrap();
    let value = schema.columns[0].initial_default.clone().unwrap();
    assert_eq!(value.as_struct().column(0).as_primitive::<Int32Type>().value(0), 7);
    assert!(value.is_valid(0) && value.as_struct().column(1).is_null(0));
    assert!(with_default(json!("int"), json!(null)).unwrap().columns[0].initial_default.is_none());
    assert_eq!(with_default(json!("int"), json!("x")).unwrap_err().kind(), ErrorKind::Corrupt);
    let list = json!({"type": "list", "element-id": 2, "element": "int"});
    assert_eq!(with_default(list, json!([1])).unwrap_err().kind(), ErrorKind::Feature);
}

#[test]
fn types_that_cannot_be_are_refused() {
    for kind in [
        "decimal(39, 2)",
        "decimal(0, 0)",
        "decimal(5, 9)",
        "decimal(5)",
        "fixed[-1]",
        "fixed[x]",
        "variant",
        "geography",
    ] {
        let error = logical(&json!([{"id": 1, "name": "c", "type": kind}]), None).unwrap_err();
        assert!(error.kind() == ErrorKind::Feature && error.message().contains(kind), "{error}");
    }
    assert_eq!(logical(&json!([{"name": "c", "type": "int"}]), None).unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(logical(&json!("x"), None).unwrap_err().kind(), ErrorKind::Corrupt);
}
