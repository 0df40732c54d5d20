//! Pinot's request: `{"sql":…,"trace":…,"queryOptions":"k=v;k=v"}`, or the same as a query string.

use http::Uri;
use lakeserve_common::id::QueryId;
use lakeserve_common::{Error, ErrorKind, Result};
use serde::Deserialize;

use crate::engine::running::ClientQueryId;
use crate::engine::{QueryRequest, Settings};
use crate::http::body::{check_object, malformed};

/// The request's body. Fields that some clients still send and that mean the only thing there is
/// are accepted; all others are refused by name.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PinotRequest {
    /// The statement.
    pub(super) sql: String,
    #[serde(rename = "queryOptions", default)]
    query_options: Option<String>,
    /// Asks for a trace; an empty one is what there is.
    #[serde(rename = "trace", default)]
    _trace: Option<serde_json::Value>,
    #[serde(rename = "queryFormat", default)]
    query_format: Option<String>,
    #[serde(rename = "responseFormat", default)]
    response_format: Option<String>,
}

impl PinotRequest {
    pub(super) fn from_json(bytes: &[u8]) -> Result<Self> {
        check_object(bytes)?;
        let request: Self = serde_json::from_slice(bytes).map_err(|error| {
            malformed(&error).with_hint(r#"send {"sql":"SELECT …"}, optionally with queryOptions and trace"#)
        })?;
        for (name, value) in [("queryFormat", &request.query_format), ("responseFormat", &request.response_format)] {
            if let Some(value) = value.as_deref().filter(|value| !value.eq_ignore_ascii_case("sql")) {
                return Err(Error::new(ErrorKind::Option, format!("{name} cannot be `{value}`: it takes sql")));
            }
        }
        Ok(request)
    }

    pub(super) fn from_uri(uri: &Uri) -> Result<Self> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Parameters {
            sql: String,
            #[serde(rename = "queryOptions", default)]
            query_options: Option<String>,
            #[serde(rename = "trace", default)]
            _trace: Option<String>,
        }
        let axum::extract::Query(parameters) =
            axum::extract::Query::<Parameters>::try_from_uri(uri).map_err(|error| {
                Error::new(ErrorKind::Option, format!("the query string is not right: {}", error.body_text()))
                    .with_hint("write /query/sql?sql=SELECT%201")
            })?;
        Ok(Self { sql: parameters.sql, query_options: parameters.query_options, ..Self::default() })
    }

    /// The query for the engine. `clientQueryId` is looked at already here, so that the query can be
    /// cancelled by it from its first moment.
    pub(super) fn query(self, query_id: QueryId) -> Result<QueryRequest> {
        let mut settings = Settings::default();
        let mut options = Vec::new();
        for piece in self.query_options.iter().flat_map(|options| options.split(';')).map(str::trim) {
            if piece.is_empty() {
                continue;
            }
            settings.apply_all(piece, false)?;
            if let Some((name, value)) = piece.split_once('=') {
                options.push((name.trim().to_owned(), value.trim().trim_matches('\'').to_owned()));
            }
        }
        Ok(QueryRequest {
            sql: self.sql,
            options,
            query_id: Some(query_id),
            client_query_id: ClientQueryId::new(settings.client_query_id),
            ..QueryRequest::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_string_is_decoded_and_checked() {
        let uri: Uri = "/query/sql?sql=SELECT%20%27a%2Bb%27&queryOptions=timeoutMs%3D5".parse().unwrap();
        let request = PinotRequest::from_uri(&uri).unwrap();
        assert_eq!(request.sql, "SELECT 'a+b'");
        let query = request.query(QueryId::new("q")).unwrap();
        assert_eq!(query.options, [("timeoutMs".to_owned(), "5".to_owned())]);
        for wrong in ["/query/sql", "/query/sql?pql=x", "/query/sql?sql=SELECT%201&qeryOptions=x"] {
            assert!(PinotRequest::from_uri(&wrong.parse().unwrap()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn fields_of_older_clients_are_understood() {
        PinotRequest::from_json(
            br#"{"sql":"SELECT 1","trace":false,"queryOptions":"groupByMode=sql;responseFormat=sql"}"#,
        )
        .unwrap();
        PinotRequest::from_json(br#"{"sql":"SELECT 1","queryFormat":"sql"}"#).unwrap();
        assert!(PinotRequest::from_json(br#"{"sql":"SELECT 1","queryFormat":"pql"}"#).is_err());
        assert!(PinotRequest::from_json(br#"{"sql":"SELECT 1","queryoptions":""}"#).is_err());
        assert!(PinotRequest::from_json(br#"{"pql":"SELECT 1"}"#).is_err());
        assert!(PinotRequest::from_json(br#"["SELECT 1",null,null,null,null]"#).is_err());
    }
}
