//! A table in two forms: as its users see it, and with the position of each row.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{ScanArgs, ScanResult, Session, TableProvider};
use datafusion::common::{Constraints, Statistics};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::{Expr, LogicalPlan, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use lakeserve_common::error::{Error, ErrorKind, Result};

/// Name of the hidden column with a row's position: `UInt64`, not null, unique in the table and
/// ascending in the order (file key, row ordinal). No column of a served table may be named so.
pub const ROW_ORDINAL: &str = "__lakeserve_row";

/// A table that is `visible` to users and, where ties must be broken, is read `with_ordinal`: the
/// same columns and rows, and [`ROW_ORDINAL`] as the last column. Both forms read one snapshot.
#[derive(Debug)]
pub struct OrderedTable {
    visible: Arc<dyn TableProvider>,
    with_ordinal: Arc<dyn TableProvider>,
}

impl OrderedTable {
    /// Pairs the two forms.
    ///
    /// # Errors
    /// [`ErrorKind::Internal`] when `with_ordinal` does not have exactly the columns of `visible`
    /// followed by [`ROW_ORDINAL`] as `UInt64`; [`ErrorKind::Unsupported`] when a visible column has
    /// that name.
    pub fn new(visible: Arc<dyn TableProvider>, with_ordinal: Arc<dyn TableProvider>) -> Result<Self> {
        let (shown, full) = (visible.schema(), with_ordinal.schema());
        if shown.column_with_name(ROW_ORDINAL).is_some() {
            return Err(Error::new(ErrorKind::Unsupported, format!("a column may not be named {ROW_ORDINAL}")));
        }
        let same = full.fields().len() == shown.fields().len() + 1
            && shown.fields().iter().zip(full.fields()).all(|(left, right)| left == right);
        let ordinal = full
            .fields()
            .last()
            .is_some_and(|last| last.name() == ROW_ORDINAL && last.data_type() == &DataType::UInt64);
        if !same || !ordinal {
            return Err(Error::new(ErrorKind::Internal, "the two forms of an ordered table do not fit together"));
        }
        Ok(Self { visible, with_ordinal })
    }

    /// The form that users see.
    #[must_use]
    pub fn visible(&self) -> &Arc<dyn TableProvider> {
        &self.visible
    }

    /// The form with [`ROW_ORDINAL`] as the last column.
    #[must_use]
    pub fn with_ordinal(&self) -> &Arc<dyn TableProvider> {
        &self.with_ordinal
    }
}

/// Everything that reads is what the visible form does; everything that writes is refused by the
/// trait's defaults.
#[async_trait]
impl TableProvider for OrderedTable {
    fn schema(&self) -> SchemaRef {
        self.visible.schema()
    }

    fn constraints(&self) -> Option<&Constraints> {
        self.visible.constraints()
    }

    fn table_type(&self) -> TableType {
        self.visible.table_type()
    }

    fn get_table_definition(&self) -> Option<&str> {
        self.visible.get_table_definition()
    }

    fn get_logical_plan(&self) -> Option<Cow<'_, LogicalPlan>> {
        self.visible.get_logical_plan()
    }

    fn get_column_default(&self, column: &str) -> Option<&Expr> {
        self.visible.get_column_default(column)
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        self.visible.scan(state, projection, filters, limit).await
    }

    async fn scan_with_args<'a>(&self, state: &dyn Session, args: ScanArgs<'a>) -> DataFusionResult<ScanResult> {
        self.visible.scan_with_args(state, args).await
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> DataFusionResult<Vec<TableProviderFilterPushDown>> {
        self.visible.supports_filters_pushdown(filters)
    }

    fn statistics(&self) -> Option<Statistics> {
        self.visible.statistics()
    }
}
