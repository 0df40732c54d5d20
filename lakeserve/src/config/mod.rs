//! The configuration: one TOML file, an environment overlay over it, flags over both.
//!
//! Every field has a default and stands in `docs/configuration.md`, which a test keeps true. A key
//! that nobody knows is refused by name, in the file and in the environment.

mod reference;
mod tables;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use figment::Figment;
use figment::providers::{Env, Format as _, Toml};
use lakeserve_broker::engine::EngineOptions;
use lakeserve_broker::http::HttpOptions;
use lakeserve_common::telemetry::LogFormat;
use lakeserve_exec::ScanOptions;
use lakeserve_storage::StorageOptions;
use serde::{Deserialize, Serialize};

pub use tables::{CatalogConfig, TableConfig, TableFormatName};

use crate::failure::Failure;

/// The file that is read when none is named.
pub const DEFAULT_FILE: &str = "lakeserve.toml";
/// What the names of overlaying environment variables begin with.
pub const ENVIRONMENT_PREFIX: &str = "LAKESERVE__";

/// Everything that can be configured.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The HTTP front end: where it listens, what it accepts, how it drains.
    pub http: HttpOptions,
    /// Tables' refreshes, admission, deadlines and limits of queries, memory and spill budget.
    pub engine: EngineOptions,
    /// How data files are scanned.
    pub scan: ScanOptions,
    /// Stores, their endpoints and credentials, and the range cache.
    pub storage: StorageOptions,
    /// Where files of our own lie.
    pub data: DataConfig,
    /// Logs.
    pub telemetry: TelemetryConfig,
    /// Tables by the name that they are served under.
    pub tables: BTreeMap<String, TableConfig>,
    /// Sources of further tables, by a name of one's own.
    pub catalogs: BTreeMap<String, CatalogConfig>,
}

/// Files of our own.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DataConfig {
    /// Folder for what Lakeserve keeps, such as the demo's tables. Default `~/.local/share/lakeserve`.
    pub folder: String,
}

impl Default for DataConfig {
    fn default() -> Self {
        Self { folder: "~/.local/share/lakeserve".to_owned() }
    }
}

impl DataConfig {
    /// The folder, with `~` in its place.
    ///
    /// # Errors
    /// Usage when it begins with `~` and there is no `HOME`.
    pub fn path(&self) -> Result<PathBuf, Failure> {
        match self.folder.strip_prefix("~/") {
            None => Ok(PathBuf::from(&self.folder)),
            Some(below) => match std::env::var_os("HOME") {
                Some(home) => Ok(PathBuf::from(home).join(below)),
                None => Err(Failure::usage(format!("data.folder is `{}`, but HOME is not set", self.folder))),
            },
        }
    }
}

/// Logs go to standard error.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TelemetryConfig {
    /// Log filter in `tracing`'s syntax, for example `warn,lakeserve=info,lakeserve_lake=debug`. Default
    /// `warn,lakeserve=info`; `query` and `check` log errors alone unless this is set.
    pub log: String,
    /// `text` or `json`. Default `text`.
    pub log_format: LogFormat,
}

impl Default for TelemetryConfig {
    fn default() -> Self {
        Self { log: "warn,lakeserve=info".to_owned(), log_format: LogFormat::Text }
    }
}

impl TelemetryConfig {
    /// Installs the log subscriber; `quiet` raises an untouched filter to `error`.
    ///
    /// # Errors
    /// Usage when the filter cannot be parsed.
    pub fn install(&self, quiet: bool) -> Result<(), Failure> {
        let untouched = self.log == Self::default().log;
        let filter = if quiet && untouched { "error" } else { self.log.as_str() };
        lakeserve_common::telemetry::init_logs(filter, self.log_format)
            .map_err(|error| Failure::usage(format!("telemetry.log: {error}")))
    }
}

impl Config {
    /// The configuration in effect: `file`, else [`DEFAULT_FILE`] where there is one, under the
    /// environment.
    ///
    /// # Errors
    /// Usage, naming the key, when it is unknown or its value impossible, or the file cannot be read.
    pub fn load(file: Option<&Path>) -> Result<Self, Failure> {
        let text = match file {
            Some(path) => read(path).map(|text| Some((path, text)))?,
            None => {
                let path = Path::new(DEFAULT_FILE);
                if path.exists() { Some((path, read(path)?)) } else { None }
            }
        };
        let figment = Figment::new();
        let figment = match &text {
            Some((_, text)) => figment.merge(Toml::string(text)),
            None => figment,
        };
        let figment = figment.merge(Env::prefixed(ENVIRONMENT_PREFIX).split("__"));
        let config: Self = figment.extract().map_err(|error| {
            let place =
                text.as_ref().map_or_else(|| "the environment".to_owned(), |(path, _)| path.display().to_string());
            Failure::usage(explain(error, &place))
        })?;
        config.check()?;
        Ok(config)
    }

    /// The configuration as TOML, secrets masked.
    ///
    /// # Errors
    /// When it cannot be written as TOML, which is a fault of ours.
    pub fn to_toml(&self) -> Result<String, Failure> {
        toml::to_string(self).map_err(|error| Failure::failed(format!("the configuration cannot be written: {error}")))
    }

    /// Adds tables that were given as flags; they win over the file's.
    ///
    /// # Errors
    /// Usage when two flags give one name.
    pub fn add_tables(&mut self, tables: Vec<(String, String)>) -> Result<(), Failure> {
        let mut given = BTreeSet::new();
        for (name, location) in tables {
            if !given.insert(name.clone()) {
                return Err(Failure::usage(format!("--table {name} is given twice: each table needs its own name")));
            }
            self.tables.insert(name, TableConfig { location, format: None });
        }
        Ok(())
    }

    fn check(&self) -> Result<(), Failure> {
        let engine = &self.engine;
        for (key, span) in [
            ("query_timeout", engine.query_timeout),
            ("max_query_timeout", engine.max_query_timeout),
            ("refresh_interval", engine.refresh_interval),
        ] {
            if span.0.is_zero() {
                return Err(Failure::usage(format!("engine.{key} cannot be `{span}`: it takes a time above zero")));
            }
        }
        for (name, table) in &self.tables {
            table.url().map_err(|error| Failure::usage(format!("tables.{name}: {error}")))?;
        }
        for (name, catalog) in &self.catalogs {
            catalog.url().map_err(|error| Failure::usage(format!("catalogs.{name}: {error}")))?;
        }
        Ok(())
    }
}

fn read(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("the configuration file {} cannot be read: {error}", path.display())))
}

/// One line per fault: the key, what is wrong with it, and whether it stands in the file or in the
/// environment.
fn explain(error: figment::Error, file: &str) -> String {
    let faults = error.into_iter().map(|fault| {
        let of_environment = fault.metadata.as_ref().is_some_and(|metadata| metadata.name.contains("environment"));
        let place = if of_environment { "the environment" } else { file };
        let key = fault.path.join(".");
        let key = if key.is_empty() { String::new() } else { format!("{key}: ") };
        format!("{place}: {key}{}", fault.kind)
    });
    faults.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str) -> Result<Config, Failure> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("c.toml");
        std::fs::write(&file, text).unwrap();
        Config::load(Some(&file))
    }

    fn refusal(text: &str) -> String {
        match load(text) {
            Err(Failure::Usage(message)) => message,
            other => panic!("{text} gave {other:?}"),
        }
    }

    #[test]
    fn a_wrong_key_is_named_at_every_level() {
        for (text, key) in [
            ("htpp = 1", "htpp"),
            ("[http]\nadress = 'x'", "adress"),
            ("[engine]\nquery_timeuot = '5s'", "query_timeuot"),
            ("[engine.session]\nmemory = '5s'", "memory"),
            ("[scan]\nfoo = 1", "foo"),
            ("[storage]\ncache = 1", "cache"),
            ("[[storage.stores]]\nprefix = 's3://'\nkey = 'k'", "key"),
            ("[tables.t]\nlocation = '/x'\nfromat = 'delta'", "fromat"),
            ("[telemetry]\nlogs = ''", "logs"),
            ("[catalogs.c]\ntype = 'folder'\nlocation = '/x'\nwarehouse = 'w'", "warehouse"),
        ] {
            let message = refusal(text);
            assert!(message.contains(&format!("`{key}`")) && message.contains("c.toml"), "{text}: {message}");
        }
    }

    #[test]
    fn a_wrong_value_is_named_with_its_key() {
        for (text, parts) in [
            ("[engine]\nquery_timeout = '5 parsecs'", ["engine.query_timeout", "5 parsecs"]),
            ("[engine]\nquery_timeout = '0s'", ["engine.query_timeout", "0"]),
            ("[engine]\nrefresh_interval = '0s'", ["engine.refresh_interval", "0"]),
            ("[http]\nlisten = '8099'", ["http.listen", "127.0.0.1:8099"]),
            ("[storage]\ncache_bytes = 'much'", ["storage.cache_bytes", "much"]),
            ("[tables.t]\nlocation = 'ftp://x/y'", ["tables.t", "ftp"]),
            ("[tables.t]\nlocation = '/x'\nformat = 'hudi'", ["tables.t.format", "hudi"]),
            ("[catalogs.prod]\ntype = 'glue'", ["catalogs.prod", "glue"]),
            ("[http", ["c.toml", "TOML"]),
        ] {
            let message = refusal(text);
            for part in parts {
                assert!(message.contains(part), "{text}: {message}");
            }
        }
    }

    #[test]
    fn tables_are_written_short_or_long() {
        let config = load("[tables]\na = '/data/a'\nb = { location = 's3://b/p', format = 'delta' }").unwrap();
        assert_eq!(config.tables["a"], TableConfig { location: "/data/a".into(), format: None });
        assert_eq!(config.tables["b"].format, Some(TableFormatName::Delta));
    }

    #[test]
    fn what_is_dumped_is_what_is_loaded() {
        let text = "[engine]\nquery_timeout = '7s'\n[tables]\nt = '/data/t'\n\
            [[storage.stores]]\nprefix = 's3://b'\naccess_key_id = 'k'\nsecret_access_key = 'hush'";
        let dumped = load(text).unwrap().to_toml().unwrap();
        assert!(dumped.contains("query_timeout = \"7s\"") && dumped.contains("***"), "{dumped}");
        assert!(!dumped.contains("hush"));
        assert_eq!(load(&dumped).unwrap().to_toml().unwrap(), dumped);
    }
}
