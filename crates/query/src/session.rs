//! The DataFusion session that every statement is planned and run in: settings, types, own
//! aggregates and rules. It differs from DataFusion's defaults where Lakeserve gives SQL one meaning
//! on every path:
//! - number literals are decimals; unqualified `TIMESTAMP` counts microseconds; the time zone is UTC
//!   unless the session says otherwise;
//! - identifiers are taken as spelled, because [`crate::dialect::resolve_identifiers`] has put the
//!   right spelling there;
//! - doubles beside decimals are compared and computed as doubles ([`crate::doubles`]);
//! - integer arithmetic fails where it would wrap around ([`crate::arithmetic`]);
//! - our aggregates replace DataFusion's of the same name;
//! - ties are broken by row position ([`crate::ties`]);
//! - the top-k aggregation, which loses NULL groups, is off.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use arrow::array::timezone::Tz;
use arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};
use datafusion::config::ConfigOptions;
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::disk_manager::DiskManagerBuilder;
use datafusion::execution::disk_manager::DiskManagerMode;
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::optimizer::{Analyzer, AnalyzerRule};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion::sql::sqlparser::ast::{DataType as SqlType, TimezoneInfo};
use lakeserve_common::error::{Error, ErrorKind, Result};
use lakeserve_common::units::ByteSize;
use serde::{Deserialize, Serialize};

use crate::arithmetic::CheckArithmetic;
use crate::doubles::DoublesWin;
use crate::error::from_datafusion;
use crate::ties::BreakTies;

/// The catalog that served tables and session tables stand in.
pub const DEFAULT_CATALOG: &str = "lakeserve";
/// The schema that served tables and session tables stand in.
pub const DEFAULT_SCHEMA: &str = "public";

/// How statements of one session are planned and run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SessionOptions {
    /// Time zone of `TIMESTAMP WITH TIME ZONE` and of zoned literals without a zone: a name such as
    /// `Europe/Berlin` or an offset such as `+02:00`. Default `UTC`.
    pub time_zone: String,
    /// How many partitions of a query run at the same time. Default: the number of cores.
    pub target_partitions: usize,
    /// Rows in a batch. Default 8192.
    pub batch_size: usize,
    /// Memory that one runtime may reserve for sorts, joins and groups before it spills. Default 1GiB.
    pub memory_limit: ByteSize,
    /// Folder for spilled data; none: the system's temporary folder. Default none.
    pub spill_folder: Option<PathBuf>,
    /// Most bytes of spilled data on disk; 0 forbids spilling. Default 10GiB.
    pub spill_limit: ByteSize,
}

impl Default for SessionOptions {
    fn default() -> Self {
        Self {
            time_zone: "UTC".to_owned(),
            target_partitions: std::thread::available_parallelism().map_or(1, usize::from),
            batch_size: 8192,
            memory_limit: ByteSize::gib(1),
            spill_folder: None,
            spill_limit: ByteSize::gib(10),
        }
    }
}

/// A session of its own with a runtime (memory and spill budget) of its own.
///
/// # Errors
/// [`ErrorKind::Option`] when a setting is impossible.
pub fn context(options: &SessionOptions) -> Result<SessionContext> {
    context_with_runtime(options, runtime(options)?)
}

/// The memory and spill budget that the sessions which share it may use together.
///
/// # Errors
/// [`ErrorKind::Option`] when the spill folder cannot be used.
pub fn runtime(options: &SessionOptions) -> Result<Arc<RuntimeEnv>> {
    let mode = match (&options.spill_folder, options.spill_limit.0) {
        (_, 0) => DiskManagerMode::Disabled,
        (Some(folder), _) => DiskManagerMode::Directories(vec![folder.clone()]),
        (None, _) => DiskManagerMode::OsTmpDirectory,
    };
    let disk = DiskManagerBuilder::default().with_mode(mode).with_max_temp_directory_size(options.spill_limit.0);
    RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::new(FairSpillPool::new(options.memory_limit.as_usize())))
        .with_disk_manager_builder(disk)
        .build_arc()
        .map_err(from_datafusion)
}

/// A session over a shared runtime. Sessions do not see each other's tables and settings.
///
/// # Errors
/// [`ErrorKind::Option`] when a setting is impossible.
pub fn context_with_runtime(options: &SessionOptions, runtime: Arc<RuntimeEnv>) -> Result<SessionContext> {
    if Tz::from_str(&options.time_zone).is_err() {
        return Err(Error::new(ErrorKind::Option, format!("time_zone: no time zone is named {}", options.time_zone))
            .with_hint("write for example UTC, Europe/Berlin or +02:00"));
    }
    if options.batch_size == 0 || options.target_partitions == 0 {
        return Err(Error::new(ErrorKind::Option, "batch_size and target_partitions must be at least 1"));
    }
    let mut config = SessionConfig::new()
        .with_default_catalog_and_schema(DEFAULT_CATALOG, DEFAULT_SCHEMA)
        .with_information_schema(true)
        .with_target_partitions(options.target_partitions)
        .with_batch_size(options.batch_size);
    apply(config.options_mut(), options);
    let state = SessionStateBuilder::new()
        .with_config(config)
        .with_runtime_env(runtime)
        .with_default_features()
        .with_type_planner(Arc::new(MicrosecondTimestamps))
        .with_analyzer_rules(analyzer_rules())
        .build();
    let context = SessionContext::new_with_state(state);
    crate::aggregates::register(&context).map_err(from_datafusion)?;
    Ok(context)
}

/// Ours around DataFusion's, which coerce types: before them doubles must win over decimals, after
/// them arithmetic is checked and ties are broken.
fn analyzer_rules() -> Vec<Arc<dyn AnalyzerRule + Send + Sync>> {
    let mut rules: Vec<Arc<dyn AnalyzerRule + Send + Sync>> = vec![Arc::new(DoublesWin)];
    rules.extend(Analyzer::new().rules);
    rules.push(Arc::new(CheckArithmetic));
    rules.push(Arc::new(BreakTies));
    rules
}

fn apply(config: &mut ConfigOptions, options: &SessionOptions) {
    config.sql_parser.parse_float_as_decimal = true;
    config.sql_parser.enable_ident_normalization = false;
    config.execution.time_zone = Some(options.time_zone.clone());
    // It answers `SELECT DISTINCT v … ORDER BY v NULLS FIRST LIMIT 1` without the NULL.
    config.optimizer.enable_topk_aggregation = false;
}

/// `TIMESTAMP` and `DATETIME` without a precision count microseconds, as both table formats do.
#[derive(Debug)]
struct MicrosecondTimestamps;

impl TypePlanner for MicrosecondTimestamps {
    fn plan_type_field(&self, sql_type: &SqlType) -> DataFusionResult<Option<FieldRef>> {
        let data_type = match sql_type {
            SqlType::Timestamp(None, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) | SqlType::Datetime(None) => {
                DataType::Timestamp(TimeUnit::Microsecond, None)
            }
            _ => return Ok(None),
        };
        Ok(Some(Arc::new(Field::new("", data_type, true))))
    }
}

#[cfg(test)]
mod tests;
