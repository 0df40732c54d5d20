//! From DataFusion's errors to ours: one place decides what kind of failure each is and how it is
//! said. Contexts, diagnostics and sharing are unwrapped; an error of our own that travelled through
//! DataFusion comes out as it went in. Where a name was not found the nearest ones become the hint.

use std::error::Error as StdError;

use arrow::error::ArrowError;
use datafusion::common::{Column, SchemaError};
use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::parser::ParserError;
use lakeserve_common::error::{Error, ErrorKind};

use crate::session::{DEFAULT_CATALOG, DEFAULT_SCHEMA};

/// Turns any error of planning or running a statement into ours, with the original kept as source
/// for the log.
#[must_use]
pub fn from_datafusion(error: DataFusionError) -> Error {
    classify(&error).with_source(error)
}

/// The same for an Arrow error that did not pass through DataFusion.
#[must_use]
pub fn from_arrow(error: ArrowError) -> Error {
    classify_arrow(&error).with_source(error)
}

/// Wraps one of our errors for its way through DataFusion; [`from_datafusion`] unwraps it.
#[must_use]
pub fn to_datafusion(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// The error for text that does not parse; `error` names the place as `line L, column C`.
#[must_use]
pub fn from_parser(error: &ParserError) -> Error {
    match error {
        ParserError::RecursionLimitExceeded => too_complex("expressions or subqueries are nested too deeply"),
        ParserError::ParserError(text) | ParserError::TokenizerError(text) => {
            Error::new(ErrorKind::Parse, lower_first(&place(text)))
        }
    }
}

/// The error for a statement that is beyond what one statement may be.
#[must_use]
pub fn too_complex(what: &str) -> Error {
    Error::new(ErrorKind::Resource, format!("the statement is too complex: {what}"))
}

/// Up to three of `candidates` that look most like `name`, best first; none when all are far off.
#[must_use]
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let wanted = name.to_lowercase();
    let mut scored: Vec<(usize, &str)> = candidates
        .into_iter()
        .filter_map(|candidate| {
            let lower = candidate.to_lowercase();
            let distance = edit_distance(&wanted, &lower);
            let longer = wanted.chars().count().max(lower.chars().count());
            (distance * 2 <= longer).then_some((distance, candidate))
        })
        .collect();
    scored.sort_unstable();
    scored.dedup();
    scored.into_iter().take(3).map(|(_, candidate)| candidate.to_owned()).collect()
}

/// `did you mean a, b or c?`, or `otherwise` when nothing is near.
#[must_use]
pub fn did_you_mean(names: &[String], otherwise: &str) -> String {
    match names {
        [] => otherwise.to_owned(),
        [one] => format!("did you mean {one}?"),
        [first @ .., last] => format!("did you mean {} or {last}?", first.join(", ")),
    }
}

/// The error for a table that does not exist; `known` are the tables that do.
#[must_use]
pub fn no_such_table<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Error {
    let error = Error::new(ErrorKind::NoSuchTable, format!("no table named {name}"));
    error.with_hint(did_you_mean(&nearest(name, known), "SHOW TABLES lists those that can be queried"))
}

fn classify(error: &DataFusionError) -> Error {
    match error {
        DataFusionError::Context(what, _) if what.starts_with("Error parsing ") => {
            Error::new(ErrorKind::Option, format!("cannot read the setting: {}", strip(what, "Error parsing ")))
        }
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => classify(inner),
        DataFusionError::Shared(inner) => classify(inner),
        DataFusionError::Collection(errors) => {
            errors.first().map_or_else(|| Error::new(ErrorKind::Internal, "an empty list of errors"), classify)
        }
        DataFusionError::External(inner) => classify_foreign(inner.as_ref()),
        DataFusionError::ArrowError(inner, _) => classify_arrow(inner),
        DataFusionError::SQL(inner, _) => from_parser(inner),
        DataFusionError::SchemaError(inner, _) => classify_schema(inner),
        DataFusionError::Plan(text) => classify_plan(text),
        DataFusionError::Configuration(text) => Error::new(ErrorKind::Option, tidy(text)),
        DataFusionError::NotImplemented(text) => Error::new(ErrorKind::Unsupported, not_supported(text)),
        DataFusionError::Execution(text) => classify_execution(text),
        DataFusionError::ResourcesExhausted(text) => Error::new(
            ErrorKind::Resource,
            format!("the query needs more memory or disk than it may use: {}", tidy(text)),
        )
        .with_hint("ask for fewer groups, rows or columns, or raise the query memory limit"),
        DataFusionError::ExecutionJoin(inner) if inner.is_cancelled() => {
            Error::new(ErrorKind::Cancelled, "the query was cancelled")
        }
        DataFusionError::IoError(inner) => Error::new(ErrorKind::Storage, format!("i/o error: {inner}")),
        other => Error::new(ErrorKind::Internal, tidy(&other.to_string())),
    }
}

/// An error of a library or of ours: ours if it stands anywhere along the chain of causes.
fn classify_foreign(error: &(dyn StdError + Send + Sync + 'static)) -> Error {
    let mut current: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(inner) = current {
        if let Some(ours) = inner.downcast_ref::<Error>() {
            return copy(ours);
        }
        if let Some(inner) = inner.downcast_ref::<DataFusionError>() {
            return classify(inner);
        }
        if let Some(inner) = inner.downcast_ref::<ArrowError>() {
            return classify_arrow(inner);
        }
        current = inner.source();
    }
    Error::new(ErrorKind::Internal, tidy(&error.to_string()))
}

/// Shared errors cannot be moved out, so kind, message and hint are copied.
fn copy(error: &Error) -> Error {
    let copied = Error::new(error.kind(), error.message());
    match error.hint() {
        Some(hint) => copied.with_hint(hint),
        None => copied,
    }
}

fn classify_arrow(error: &ArrowError) -> Error {
    match error {
        ArrowError::ExternalError(inner) => classify_foreign(inner.as_ref()),
        ArrowError::DivideByZero => Error::new(ErrorKind::Value, "division by zero"),
        ArrowError::ArithmeticOverflow(text) => {
            Error::new(ErrorKind::Value, format!("arithmetic overflow: {}", strip(text, "Overflow happened on: ")))
                .with_hint("cast to a wider type")
        }
        ArrowError::CastError(text)
        | ArrowError::ParseError(text)
        | ArrowError::ComputeError(text)
        | ArrowError::InvalidArgumentError(text) => Error::new(ErrorKind::Value, tidy(text)),
        ArrowError::NotYetImplemented(text) => Error::new(ErrorKind::Unsupported, not_supported(text)),
        ArrowError::MemoryError(text) => Error::new(ErrorKind::Resource, tidy(text)),
        ArrowError::OffsetOverflowError(_) | ArrowError::DictionaryKeyOverflowError => {
            Error::new(ErrorKind::Resource, "a batch of text or list values is larger than 2 GiB")
        }
        ArrowError::ParquetError(text) => Error::new(ErrorKind::Corrupt, tidy(text)),
        ArrowError::IoError(text, _) => Error::new(ErrorKind::Storage, format!("i/o error: {text}")),
        other => Error::new(ErrorKind::Internal, tidy(&other.to_string())),
    }
}

/// The engine spells whole syntax trees; the beginning tells what it is about.
fn not_supported(text: &str) -> String {
    const SHOWN: usize = 200;
    let text = tidy(text);
    match text.char_indices().nth(SHOWN) {
        Some((cut, _)) => format!("not supported: {}…", text.get(..cut).unwrap_or_default()),
        None => format!("not supported: {text}"),
    }
}

fn classify_schema(error: &SchemaError) -> Error {
    match error {
        SchemaError::FieldNotFound { field, valid_fields } => no_such_column(field, valid_fields),
        SchemaError::AmbiguousReference { field } => {
            Error::new(ErrorKind::NoSuchColumn, format!("the column name {} is ambiguous", plain(field)))
                .with_hint("put the table's name or alias and a dot before it")
        }
        SchemaError::DuplicateQualifiedField { name, .. } | SchemaError::DuplicateUnqualifiedField { name } => {
            Error::new(ErrorKind::Plan, format!("two columns are named {name}"))
                .with_hint("name one of them otherwise with AS")
        }
    }
}

fn no_such_column(field: &Column, valid: &[Column]) -> Error {
    let error = Error::new(ErrorKind::NoSuchColumn, format!("no column named {}", plain(field)));
    let names: Vec<String> = valid
        .iter()
        .filter(|column| field.relation.is_none() || column.relation == field.relation)
        .map(|column| column.name.clone())
        .collect();
    let near = nearest(&field.name, names.iter().map(String::as_str));
    let otherwise = match names.len() {
        0 => "no columns are visible here".to_owned(),
        1..=20 => format!("visible are {}", names.join(", ")),
        more => format!("{more} columns are visible here; DESCRIBE lists a table's"),
    };
    error.with_hint(did_you_mean(&near, &otherwise))
}

fn plain(column: &Column) -> String {
    match &column.relation {
        Some(relation) => format!("{}.{}", strip_default(&relation.to_string()), column.name),
        None => column.name.clone(),
    }
}

fn classify_plan(text: &str) -> Error {
    if let Some(name) = between(text, "table '", "' not found") {
        return no_such_table(strip_default(name), []);
    }
    if let Some(name) = between(text, "table function '", "' not found") {
        return Error::new(ErrorKind::Plan, format!("no table function named {name}"));
    }
    if let Some(name) = between(text, "Invalid function '", "'") {
        let error = Error::new(ErrorKind::Plan, format!("no function named {name}"));
        return match between(text, "Did you mean '", "'") {
            Some(near) => error.with_hint(format!("did you mean {near}?")),
            None => error,
        };
    }
    if let Some(error) = missing_parameter(text) {
        return error;
    }
    if text.contains("variable") && text.contains("has no type information") {
        return Error::new(ErrorKind::Plan, "variables (@name) are not supported: use parameters ($1 or $name)");
    }
    if text.contains("Could not find config namespace") || text.contains("Config value") {
        return Error::new(ErrorKind::Option, tidy(text));
    }
    Error::new(ErrorKind::Plan, tidy(text))
}

/// A parameter without a value, whichever phase notices it.
fn missing_parameter(text: &str) -> Option<Error> {
    let name = between(text, "laceholder '", "' was not provided a value")?;
    let error = Error::new(ErrorKind::Option, format!("the parameter {name} has no value"));
    Some(error.with_hint("send a list of values for $1, $2 … or an object for $name"))
}

fn classify_execution(text: &str) -> Error {
    if let Some(error) = missing_parameter(text) {
        return error;
    }
    let lower = text.to_lowercase();
    if let Some(name) =
        between(text, "Table '", "' doesn't exist").or_else(|| between(text, "View '", "' doesn't exist"))
    {
        return no_such_table(strip_default(name), []);
    }
    if lower.contains("already exists") {
        return Error::new(ErrorKind::Plan, tidy(text));
    }
    if lower.contains("divide by zero") || lower.contains("division by zero") {
        return Error::new(ErrorKind::Value, "division by zero");
    }
    Error::new(ErrorKind::Value, tidy(text))
}

/// The text between two markers, if both stand in `text` in this order.
fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let rest = text.split_once(before)?.1;
    Some(rest.split_once(after)?.0)
}

fn strip<'a>(text: &'a str, prefix: &str) -> &'a str {
    text.strip_prefix(prefix).unwrap_or(text)
}

/// `lakeserve.public.t` and `public.t` are `t` to whoever wrote `t`.
fn strip_default(name: &str) -> &str {
    let name = name.strip_prefix(DEFAULT_CATALOG).and_then(|rest| rest.strip_prefix('.')).unwrap_or(name);
    name.strip_prefix(DEFAULT_SCHEMA).and_then(|rest| rest.strip_prefix('.')).unwrap_or(name)
}

/// Without the engine's prefixes, its pleas for bug reports and its backtraces, first letter lower.
fn tidy(text: &str) -> String {
    const PREFIXES: [&str; 12] = [
        "Error during planning: ",
        "Execution error: ",
        "External error: ",
        "Arrow error: ",
        "Internal error: ",
        "Schema error: ",
        "Cast error: ",
        "Compute error: ",
        "Parser error: ",
        "Invalid argument error: ",
        "This feature is not implemented: ",
        "Optimizer rule failed: ",
    ];
    let mut text = text;
    for end in ["\n\nbacktrace:", ".\nThis issue was likely caused by a bug", "\nThis issue was likely caused by a bug"]
    {
        text = text.split_once(end).map_or(text, |(head, _)| head);
    }
    while let Some(rest) = PREFIXES.iter().find_map(|prefix| text.strip_prefix(prefix)) {
        text = rest;
    }
    lower_first(text.trim().trim_end_matches('.'))
}

/// `at Line: 1, Column: 8` as `at line 1, column 8`.
fn place(text: &str) -> String {
    let text = strip(text, "sql parser error: ");
    text.replace(" at Line: ", " at line ")
        .replace(", Column: ", ", column ")
        .replace("Expected: ", "expected ")
        .replace("found: ", "found ")
}

/// First letter lower, unless the word is spelled in capitals (`SQL`, `ORDER BY`).
fn lower_first(text: &str) -> String {
    let mut letters = text.chars();
    match (letters.next(), letters.next()) {
        (Some(first), Some(second)) if first.is_uppercase() && !second.is_uppercase() => {
            first.to_lowercase().chain(text.chars().skip(1)).collect()
        }
        _ => text.to_owned(),
    }
}

/// Levenshtein's distance in characters.
fn edit_distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, from) in left.chars().enumerate() {
        let mut diagonal = i;
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
        for (j, to) in right.iter().enumerate() {
            let substituted = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests;
