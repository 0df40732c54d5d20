//! What cannot be brought about from outside.

use std::sync::Arc;
use std::time::Duration;

use arrow::datatypes::DataType;
use datafusion::error::Result as PlanResult;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use lakeserve_common::clock;
use lakeserve_exec::ScanOptions;
use lakeserve_storage::StorageOptions;

use super::*;

/// A function with a fault.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Boom(Signature);

impl ScalarUDFImpl for Boom {
    fn name(&self) -> &str {
        "boom"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, _: &[DataType]) -> PlanResult<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> PlanResult<ColumnarValue> {
        panic!("boom said boom")
    }
}

#[tokio::test]
async fn a_panic_is_that_querys_error_and_nobody_elses() {
    use datafusion::execution::FunctionRegistry;
    let registry = Registry::new();
    let (clock, random) = (clock::system(), Arc::new(Random::seeded(1)));
    let storage = Storage::new(StorageOptions::default(), Arc::clone(&clock), Arc::clone(&random), &registry).unwrap();
    let scan = ScanContext::new(Arc::clone(&storage), ScanOptions::default(), &registry);
    let parts = EngineParts { storage, scan, clock, random, registry };
    let mut engine = Engine::new(parts, EngineOptions::default()).unwrap();
    let boom = Boom(Signature::any(1, Volatility::Volatile));
    Arc::get_mut(&mut engine.0).unwrap().base.register_udf(Arc::new(ScalarUDF::from(boom))).unwrap();

    let session = engine.session(Rights::Read);
    let run = |sql: &str| session.execute(QueryRequest { sql: sql.into(), ..QueryRequest::default() });
    for sql in [
        "SELECT boom(1)",
        "SELECT boom(column1) FROM (VALUES (1), (2))",
        "SELECT sum(boom(column1)) FROM (VALUES (1), (2)) GROUP BY column1",
    ] {
        let error = run(sql).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Internal, "{sql}: {error}");
    }
    let rows = run("SELECT 1").await.unwrap().collect().await.unwrap();
    assert_eq!(rows[0].num_rows(), 1);
    // A query's task ends a moment after its client has the answer.
    for _ in 0..500 {
        if engine.running().is_empty() && engine.0.metrics.running.get() == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{:?}", engine.running());
}
