//! How values are spelled on the way out, for every front end.
//!
//! | spelling | used by | text-like values | nested values |
//! |---|---|---|---|
//! | [`Spelling::Canonical`] | `/v1/query`, `--format json` and `jsonl` | JSON strings | JSON arrays and objects, maps as sorted pairs |
//! | [`Spelling::Pinot`] | `/query/sql` | JSON strings in Pinot's forms | lists of scalars as arrays, all else as JSON text |
//! | [`Spelling::Text`] | CSV and the text table | bare | canonical JSON text |
//!
//! Invariants: a value is spelled from the Arrow arrays straight into a byte buffer, with no tree of
//! values between; every Arrow type except unions has a spelling; the spelling of a value does not
//! depend on how it is encoded (dictionary, run-end, view, large).

mod cell;
mod csv;
mod json;
mod nested;
mod number;
mod row;
mod table;
#[cfg(test)]
mod tests;
mod time;
mod types;

pub use csv::CsvWriter;
pub use json::string as json_string;
pub use row::RowEncoder;
pub use table::text_table;
pub use types::{pinot_type, sql_type};

/// Which of the outward spellings a value takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spelling {
    /// JSON: decimals, dates, times and timestamps as text, `0x…` for bytes, `"NaN"`, `"Infinity"` and
    /// `"-Infinity"`, maps as lists of pairs sorted by key, float32 widened to double.
    Canonical,
    /// JSON as Apache Pinot writes it: `yyyy-mm-dd hh:mm:ss.f` for timestamps, plain hex for bytes.
    Pinot,
    /// The canonical content without JSON's quotes; NULL is written as nothing.
    Text,
}
