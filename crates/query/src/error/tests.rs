use std::sync::Arc;

use super::*;

#[test]
fn our_own_errors_come_out_as_they_went_in() {
    let ours = || Error::new(ErrorKind::Corrupt, "a.parquet: no magic bytes").with_hint("rewrite the file");
    let shared = DataFusionError::Shared(Arc::new(to_datafusion(ours()).context("scan")));
    let arrow = DataFusionError::from(ArrowError::ExternalError(Box::new(to_datafusion(ours()))));
    for wrapped in [to_datafusion(ours()), shared, arrow] {
        let error = from_datafusion(wrapped);
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert_eq!(error.message(), "a.parquet: no magic bytes");
        assert_eq!(error.hint(), Some("rewrite the file"));
    }
}

#[test]
fn missing_columns_name_the_nearest() {
    let error = from_datafusion(DataFusionError::SchemaError(
        Box::new(SchemaError::FieldNotFound {
            field: Box::new(Column::from_name("l_quantty")),
            valid_fields: vec![Column::from_name("l_orderkey"), Column::from_name("l_quantity")],
        }),
        Box::new(None),
    ));
    assert_eq!(error.kind(), ErrorKind::NoSuchColumn);
    assert_eq!(error.to_string(), "no column named l_quantty (did you mean l_quantity?)");
}

#[test]
fn missing_tables_lose_the_default_catalog() {
    let error = from_datafusion(DataFusionError::Plan("table 'lakeserve.public.linitem' not found".into()));
    assert_eq!(error.kind(), ErrorKind::NoSuchTable);
    assert_eq!(error.message(), "no table named linitem");
    assert_eq!(no_such_table("linitem", ["orders", "lineitem"]).hint(), Some("did you mean lineitem?"));
}

#[test]
fn each_kind_of_failure_has_its_kind() {
    let cases = [
        (DataFusionError::Plan("No function matches".into()), ErrorKind::Plan),
        (DataFusionError::NotImplemented("FETCH".into()), ErrorKind::Unsupported),
        (DataFusionError::ResourcesExhausted("pool".into()), ErrorKind::Resource),
        (DataFusionError::from(ArrowError::DivideByZero), ErrorKind::Value),
        (
            DataFusionError::from(ArrowError::CastError("Cannot cast".into())).context("Optimizer rule"),
            ErrorKind::Value,
        ),
        (DataFusionError::Internal("oops".into()), ErrorKind::Internal),
        (DataFusionError::Configuration("bad".into()), ErrorKind::Option),
        (DataFusionError::SQL(Box::new(ParserError::RecursionLimitExceeded), None), ErrorKind::Resource),
    ];
    for (error, kind) in cases {
        let shown = error.to_string();
        assert_eq!(from_datafusion(error).kind(), kind, "{shown}");
    }
}

#[test]
fn parse_errors_say_where() {
    let error =
        from_parser(&ParserError::ParserError("Expected: end of statement, found: FROM at Line: 2, Column: 8".into()));
    assert_eq!(error.message(), "expected end of statement, found FROM at line 2, column 8");
}

#[test]
fn internal_errors_do_not_ask_for_bug_reports() {
    let error = from_datafusion(DataFusionError::Internal("No such plan".into()));
    assert_eq!(error.message(), "no such plan");
}

#[test]
fn distances_are_levenshteins() {
    assert_eq!(edit_distance("kitten", "sitting"), 3);
    assert_eq!(edit_distance("", "abc"), 3);
    assert_eq!(edit_distance("same", "same"), 0);
}
