//! Settings of a query or a session: `SET name = value;` before a statement, and Pinot's
//! `queryOptions`. What is not known is refused by name; what cannot be honoured is refused by value.

use std::str::FromStr;
use std::time::Duration;

use arrow::array::timezone::Tz;
use lakeserve_common::{Error, ErrorKind, Result};

/// What can be set. `None` and empty mean: as the request or the engine says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// `timeoutMs`: how long the query may take.
    pub timeout: Option<Duration>,
    /// `timeZone`: the session's time zone, an IANA name or an offset.
    pub time_zone: Option<String>,
    /// `maxServerResponseSizeBytes`: a larger result is refused.
    pub max_result_bytes: Option<u64>,
    /// `maxExecutionThreads`: how many parts of the query may run at a time.
    pub max_threads: Option<usize>,
    /// `dropResults`: run the query, but send no rows.
    pub drop_results: bool,
    /// `clientQueryId`: the id under which the client may cancel the query.
    pub client_query_id: Option<String>,
    /// `datafusion.…`: options of the engine itself, for sessions of one's own process only.
    pub engine: Vec<(String, String)>,
}

/// Options that change how an answer is found but never the answer, with the values they take.
/// Every replica gives the same exact answer here, so there is nothing to choose.
const WITHOUT_EFFECT: [(&str, Takes); 9] = [
    ("useStarTree", Takes::Boolean),
    ("skipIndexes", Takes::Text),
    ("numReplicaGroupsToQuery", Takes::Count),
    ("useFixedReplica", Takes::Boolean),
    ("skipUnavailableServers", Takes::Boolean),
    ("workloadName", Takes::Text),
    ("useMultistageEngine", Takes::Boolean),
    // What Pinot's Java client sends with every query.
    ("groupByMode", Takes::Sql),
    ("responseFormat", Takes::Sql),
];

const NAMES: [&str; 16] = [
    "timeoutMs",
    "timeZone",
    "maxServerResponseSizeBytes",
    "maxExecutionThreads",
    "dropResults",
    "clientQueryId",
    "enableNullHandling",
    "useStarTree",
    "skipIndexes",
    "numReplicaGroupsToQuery",
    "useFixedReplica",
    "skipUnavailableServers",
    "workloadName",
    "useMultistageEngine",
    "groupByMode",
    "responseFormat",
];

#[derive(Clone, Copy)]
enum Takes {
    Boolean,
    Count,
    Text,
    Sql,
}

impl Settings {
    /// Applies one setting. Names match without case, as Pinot's do. `own_process` allows the
    /// options of DataFusion, which a shared engine does not.
    ///
    /// # Errors
    /// `Option` naming the setting when it is not known or its value is not possible.
    pub fn apply(&mut self, name: &str, value: &str, own_process: bool) -> Result<()> {
        let lower = name.to_ascii_lowercase();
        match lower.as_str() {
            "timeoutms" => self.timeout = Some(Duration::from_millis(positive(name, value)?)),
            "timezone" | "time_zone" | "datafusion.execution.time_zone" => {
                if Tz::from_str(value).is_err() {
                    return Err(wrong(name, value, "a time zone such as UTC, Europe/Berlin or +02:00"));
                }
                self.time_zone = Some(value.to_owned());
            }
            "maxserverresponsesizebytes" => self.max_result_bytes = Some(positive(name, value)?),
            "maxexecutionthreads" => {
                let threads = positive(name, value)?;
                self.max_threads = Some(usize::try_from(threads).unwrap_or(usize::MAX));
            }
            "dropresults" => self.drop_results = boolean(name, value)?,
            "clientqueryid" => self.client_query_id = Some(value.to_owned()),
            "enablenullhandling" => {
                if !boolean(name, value)? {
                    return Err(wrong(name, value, "true: NULL is never replaced by a default value"));
                }
            }
            _ if own_process && lower.starts_with("datafusion.") && !lower.starts_with("datafusion.runtime.") => {
                self.engine.push((lower, value.to_owned()));
            }
            _ => {
                let known = WITHOUT_EFFECT.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
                let Some((_, takes)) = known else { return Err(unknown(name)) };
                takes.check(name, value)?;
            }
        }
        Ok(())
    }

    /// Takes one setting back to what the engine says; one that was not set is left alone.
    pub fn reset(&mut self, name: &str) {
        let lower = name.to_ascii_lowercase();
        match lower.as_str() {
            "timeoutms" => self.timeout = None,
            "timezone" | "time_zone" | "datafusion.execution.time_zone" => self.time_zone = None,
            "maxserverresponsesizebytes" => self.max_result_bytes = None,
            "maxexecutionthreads" => self.max_threads = None,
            "dropresults" => self.drop_results = false,
            "clientqueryid" => self.client_query_id = None,
            _ => self.engine.retain(|(set, _)| *set != lower),
        }
    }

    /// Applies `name=value;name=value`, as Pinot's `queryOptions` are written.
    ///
    /// # Errors
    /// As [`Settings::apply`], and `Option` for a piece without `=`.
    pub fn apply_all(&mut self, options: &str, own_process: bool) -> Result<()> {
        for piece in options.split(';').map(str::trim).filter(|piece| !piece.is_empty()) {
            let Some((name, value)) = piece.split_once('=') else {
                let message = format!("query option `{piece}` has no value");
                return Err(Error::new(ErrorKind::Option, message).with_hint("write name=value;name=value"));
            };
            self.apply(name.trim(), value.trim().trim_matches('\''), own_process)?;
        }
        Ok(())
    }
}

impl Takes {
    fn check(self, name: &str, value: &str) -> Result<()> {
        match self {
            Self::Boolean => boolean(name, value).map(drop),
            Self::Count => positive(name, value).map(drop),
            Self::Text => Ok(()),
            Self::Sql if value.eq_ignore_ascii_case("sql") => Ok(()),
            Self::Sql => Err(wrong(name, value, "sql")),
        }
    }
}

fn boolean(name: &str, value: &str) -> Result<bool> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err(wrong(name, value, "true or false")),
    }
}

fn positive(name: &str, value: &str) -> Result<u64> {
    let number = value.parse::<u64>().ok().filter(|number| *number > 0);
    number.ok_or_else(|| wrong(name, value, "a whole number above zero"))
}

fn wrong(name: &str, value: &str, takes: &str) -> Error {
    Error::new(ErrorKind::Option, format!("option {name} cannot be `{value}`: it takes {takes}"))
}

fn unknown(name: &str) -> Error {
    let near = lakeserve_query::error::nearest(name, NAMES);
    let hint = lakeserve_query::error::did_you_mean(&near, &format!("the options are {}", NAMES.join(", ")));
    Error::new(ErrorKind::Option, format!("no option named {name}")).with_hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pinot_options_are_honoured_or_refused_by_name() {
        let mut settings = Settings::default();
        settings.apply_all("timeoutMs=500; useStarTree=true;clientQueryId='abc'; groupByMode=sql", false).unwrap();
        assert_eq!(settings.timeout, Some(Duration::from_millis(500)));
        assert_eq!(settings.client_query_id.as_deref(), Some("abc"));
        for (options, named) in [
            ("timeoutms=0", "timeoutms"),
            ("useStarTree=maybe", "useStarTree"),
            ("enableNullHandling=false", "enableNullHandling"),
            ("numGroupsLimit=5", "numGroupsLimit"),
            ("novalue", "novalue"),
            ("datafusion.execution.batch_size=1", "datafusion.execution.batch_size"),
        ] {
            let error = Settings::default().apply_all(options, false).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Option, "{options}");
            assert!(error.message().contains(named), "{error}");
        }
    }

    #[test]
    fn a_near_miss_is_pointed_out() {
        let error = Settings::default().apply("timeoutM", "5", false).unwrap_err();
        assert!(error.hint().unwrap().contains("timeoutMs"), "{error}");
    }

    #[test]
    fn every_listed_name_is_known() {
        for name in NAMES {
            let values = ["1", "true", "sql", "UTC"];
            assert!(values.iter().any(|value| Settings::default().apply(name, value, false).is_ok()), "{name}");
        }
    }
}
