//! Tables and catalogs as the configuration names them.

use std::fmt;

use lakeserve_common::Result;
use lakeserve_lake::{TableFormat, TableOptions};
use lakeserve_storage::Storage;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use url::Url;

/// One table: `name = "location"`, or a section with the fields below.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TableConfig {
    /// The table's root folder, an Iceberg `*.metadata.json`, or a Parquet file: a path or a URL.
    pub location: String,
    /// `delta`, `iceberg` or `parquet`. Default: found out by looking.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<TableFormatName>,
}

impl TableConfig {
    /// Where it lies.
    ///
    /// # Errors
    /// `Option` when the location cannot be one.
    pub fn url(&self) -> Result<Url> {
        Storage::parse_location(&self.location)
    }

    /// How to open it.
    #[must_use]
    pub fn options(&self) -> TableOptions {
        TableOptions { format: self.format.map(TableFormat::from) }
    }
}

/// A table format by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TableFormatName {
    /// Delta.
    Delta,
    /// Iceberg.
    Iceberg,
    /// Plain Parquet.
    Parquet,
}

impl From<TableFormatName> for TableFormat {
    fn from(name: TableFormatName) -> Self {
        match name {
            TableFormatName::Delta => Self::Delta,
            TableFormatName::Iceberg => Self::Iceberg,
            TableFormatName::Parquet => Self::Parquet,
        }
    }
}

/// A source of tables. A type that is not listed here is refused by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case", deny_unknown_fields)]
pub enum CatalogConfig {
    /// Every folder (and every Parquet file) directly below a location is a table of its name. Read
    /// once, at the start.
    Folder {
        /// The folder that holds the tables: a path or a URL.
        location: String,
    },
}

impl CatalogConfig {
    /// Where its tables lie.
    ///
    /// # Errors
    /// `Option` when the location cannot be one.
    pub fn url(&self) -> Result<Url> {
        match self {
            Self::Folder { location } => Storage::parse_location(location),
        }
    }
}

impl<'de> Deserialize<'de> for TableConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Section {
            location: String,
            format: Option<TableFormatName>,
        }

        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = TableConfig;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a location, or a section with `location`")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> std::result::Result<TableConfig, E> {
                Ok(TableConfig { location: text.to_owned(), format: None })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> std::result::Result<TableConfig, A::Error> {
                let Section { location, format } = Section::deserialize(MapAccessDeserializer::new(map))?;
                Ok(TableConfig { location, format })
            }
        }

        deserializer.deserialize_any(Either)
    }
}
