//! Statements that are not plain queries: what a session may create, drop, insert and set.
//!
//! Only the session's own tables can change. Whatever would write elsewhere (`COPY`, a served table,
//! a function, a catalog) is refused by name, wherever in the plan it stands.

use std::sync::Arc;

use datafusion::common::TableReference;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{CreateExternalTable, DdlStatement, LogicalPlan, Statement as PlanStatement};
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement as Ast;
use datafusion::sql::sqlparser::ast::Statement as SqlStatement;
use lakeserve_common::{Error, ErrorKind, Result};
use lakeserve_lake::{TableFormat, TableOptions};
use lakeserve_query::dialect::Statement;
use lakeserve_query::error::{from_datafusion, no_such_table, to_datafusion};
use lakeserve_query::session::DEFAULT_SCHEMA;
use lakeserve_storage::Storage;

use super::EngineInner;
use super::local::{Local, View};
use super::scope::read_only;
use super::tables::{ServedTable, pick};

/// What is needed to run such a statement.
pub(crate) struct Context<'a> {
    pub(crate) engine: &'a Arc<EngineInner>,
    pub(crate) local: &'a Arc<Local>,
    pub(crate) state: &'a Arc<SessionState>,
    pub(crate) statement: &'a Statement,
}

/// What is left to do after it.
pub(crate) enum Done {
    /// Run this plan; its rows are the answer.
    Rows(LogicalPlan),
    /// Keep this setting in the session.
    Set(String, String),
    /// Forget this setting of the session.
    Reset(String),
    /// Nothing: it has been done.
    Nothing,
}

impl Context<'_> {
    /// Does what the statement says, unless it is a query, which is handed back.
    ///
    /// # Errors
    /// `Unsupported` for what is not the session's to change, `Plan` for a name that is taken.
    pub(crate) async fn run(&self, plan: LogicalPlan) -> Result<Done> {
        match plan {
            LogicalPlan::Ddl(ddl) => self.ddl(ddl).await.map(|()| Done::Nothing),
            LogicalPlan::Statement(PlanStatement::SetVariable(set)) => Ok(Done::Set(set.variable, set.value)),
            LogicalPlan::Statement(PlanStatement::ResetVariable(reset)) => Ok(Done::Reset(reset.variable)),
            LogicalPlan::Statement(other) => Err(unsupported(other.name())),
            plan => {
                self.check(&plan)?;
                Ok(Done::Rows(plan))
            }
        }
    }

    /// Refuses writes to anything but the session's memory tables, also below EXPLAIN.
    fn check(&self, plan: &LogicalPlan) -> Result<()> {
        let walked = plan.apply(|node| {
            let refused = match node {
                LogicalPlan::Dml(dml) if self.local.is_memory(dml.table_name.table()) => None,
                LogicalPlan::Dml(dml) => Some(read_only(dml.table_name.table())),
                LogicalPlan::Copy(_) => Some(unsupported("COPY")),
                LogicalPlan::Ddl(ddl) => Some(unsupported(&format!("{} here", ddl.name()))),
                LogicalPlan::Statement(statement) => Some(unsupported(&format!("{} here", statement.name()))),
                _ => None,
            };
            match refused {
                Some(error) => Err(to_datafusion(error)),
                None => Ok(TreeNodeRecursion::Continue),
            }
        });
        walked.map(drop).map_err(from_datafusion)
    }

    async fn ddl(&self, ddl: DdlStatement) -> Result<()> {
        match ddl {
            DdlStatement::CreateView(view) => {
                self.check(&view.input)?;
                self.create_view(view.name.table(), view.or_replace)
            }
            DdlStatement::CreateExternalTable(table) => self.create_external(table).await,
            DdlStatement::CreateMemoryTable(ref table) => {
                self.check(&table.input)?;
                self.through_datafusion(ddl).await
            }
            DdlStatement::DropTable(drop) if is_default(&drop.name) => self.drop(&drop.name, drop.if_exists, false),
            DdlStatement::DropView(drop) if is_default(&drop.name) => self.drop(&drop.name, drop.if_exists, true),
            DdlStatement::DropTable(_)
            | DdlStatement::DropView(_)
            | DdlStatement::CreateCatalogSchema(_)
            | DdlStatement::DropCatalogSchema(_) => self.through_datafusion(ddl).await,
            other => Err(unsupported(other.name())),
        }
    }

    async fn through_datafusion(&self, ddl: DdlStatement) -> Result<()> {
        let context = SessionContext::new_with_state(SessionState::clone(self.state));
        let done = context.execute_logical_plan(LogicalPlan::Ddl(ddl)).await;
        done.map(drop).map_err(from_datafusion)
    }

    fn drop(&self, reference: &TableReference, if_exists: bool, view: bool) -> Result<()> {
        let written = reference.table();
        let names = self.local.names();
        let found =
            if self.local.contains(written) { Some(written) } else { pick(written, names.iter().map(String::as_str))? };
        match found.filter(|name| self.local.view(name).is_some() == view) {
            Some(name) => self.local.drop_name(name).map(drop).map_err(from_datafusion),
            None if self.engine.tables.contains(written) => Err(read_only(written)),
            None if if_exists => Ok(()),
            None => Err(no_such_table(written, names.iter().map(String::as_str))),
        }
    }

    fn create_view(&self, name: &str, or_replace: bool) -> Result<()> {
        let replaces_a_view = or_replace && self.local.view(name).is_some();
        if !replaces_a_view {
            self.check_free(name)?;
        }
        let Ast::Statement(statement) = &self.statement.ast else {
            return Err(unsupported("this form of CREATE VIEW"));
        };
        let SqlStatement::CreateView(view) = statement.as_ref() else {
            return Err(unsupported("this form of CREATE VIEW"));
        };
        if !view.columns.is_empty() {
            return Err(
                unsupported("CREATE VIEW with a list of columns").with_hint("name the columns with AS in its query")
            );
        }
        let query = Statement {
            ast: Ast::Statement(Box::new(SqlStatement::Query(view.query.clone()))),
            text: self.statement.text.clone(),
            versions: self.statement.versions.clone(),
        };
        self.local.put_view(name, View { statement: query, definition: self.statement.text.clone() });
        Ok(())
    }

    fn check_free(&self, name: &str) -> Result<()> {
        if self.engine.tables.contains(name) {
            return Err(read_only(name));
        }
        if self.local.contains(name) {
            return Err(Error::new(ErrorKind::Plan, format!("a table or view named {name} exists already"))
                .with_hint("drop it first, or write OR REPLACE"));
        }
        Ok(())
    }

    /// Parquet, Delta and Iceberg are read by ourselves; CSV, JSON and Arrow files by DataFusion.
    async fn create_external(&self, create: Box<CreateExternalTable>) -> Result<()> {
        let format = match create.file_type.to_ascii_uppercase().as_str() {
            "PARQUET" => TableFormat::Parquet,
            "DELTA" | "DELTATABLE" => TableFormat::Delta,
            "ICEBERG" => TableFormat::Iceberg,
            _ => return self.through_datafusion(DdlStatement::CreateExternalTable(create)).await,
        };
        let name = create.name.table();
        let exists = self.local.contains(name);
        if exists && create.if_not_exists {
            return Ok(());
        }
        if exists && create.or_replace {
            self.local.drop_name(name).map_err(from_datafusion)?;
        }
        self.check_free(name)?;
        let [location] = create.locations.as_slice() else {
            return Err(unsupported("an external table with several locations"));
        };
        // What says how rows are stored would be dropped without a word otherwise.
        if !create.table_partition_cols.is_empty() || !create.options.is_empty() || !create.schema.fields().is_empty() {
            return Err(unsupported("columns, PARTITIONED BY and OPTIONS of an external lake table")
                .with_hint("the table itself says what its columns are"));
        }
        let location = Storage::parse_location(location)?;
        let options = TableOptions { format: Some(format) };
        let table = Arc::new(ServedTable::new(name, location, options, None));
        self.engine.refresher.refresh(&table).await?;
        self.local.put_external(table);
        Ok(())
    }
}

/// Whether a name lies in the default schema.
fn is_default(name: &TableReference) -> bool {
    name.schema().is_none_or(|schema| schema == DEFAULT_SCHEMA)
}

fn unsupported(what: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("not supported: {what}"))
}
