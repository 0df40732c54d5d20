//! From a store's error to one that tells an operator what to set.

use std::error::Error as StdError;
use std::io;

use lakeserve_common::{Error, ErrorKind};
use object_store::client::{HttpError, HttpErrorKind};

/// The marker of a failure that a retry may cure: the store stalled, or a test says so.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Transient(pub String);

impl Transient {
    pub(crate) fn into_store_error(self) -> object_store::Error {
        object_store::Error::Generic { store: "storage", source: Box::new(self) }
    }
}

/// Turns a store's error into an outward one that names `what` (the location, as a URL) and says
/// what to do. `NotFound` becomes `Corrupt` (a file that a log names is gone); a caller for whom
/// absence means something else matches on `object_store::Error::NotFound` first. Missing buckets,
/// refused credentials and unreachable endpoints become `Storage`.
#[must_use]
pub fn store_error(what: &str, error: object_store::Error) -> Error {
    let detail = error.to_string();
    let (kind, message, hint) = describe(&error, &detail, credentials_hint(what));
    let message = format!("{what}: {message}");
    let outward = match hint {
        Some(hint) => Error::new(kind, message).with_hint(hint),
        None => Error::new(kind, message),
    };
    outward.with_source(error)
}

fn credentials_hint(what: &str) -> &'static str {
    match what.split_once("://").map(|(scheme, _)| scheme) {
        Some("gs") => GCS_CREDENTIALS_HINT,
        Some("abfss" | "az") => AZURE_CREDENTIALS_HINT,
        Some("http" | "https") => "requests over plain http(s) carry no credentials; use s3://, gs:// or abfss://",
        Some("file") => "check the owner and mode of the file",
        _ => S3_CREDENTIALS_HINT,
    }
}

const GCS_CREDENTIALS_HINT: &str = "check GOOGLE_APPLICATION_CREDENTIALS, or service_account_path in \
    [[storage.stores]]; for a public bucket set skip_signature = true";

const AZURE_CREDENTIALS_HINT: &str = "check AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY, or account_name \
    and account_key in [[storage.stores]]";

const S3_CREDENTIALS_HINT: &str = "check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE and its files, \
    or the keys in [[storage.stores]]; for a public bucket set skip_signature = true";

const ENDPOINT_HINT: &str =
    "check AWS_ENDPOINT_URL, the profile's endpoint_url, or the endpoint in [[storage.stores]], and the network";

const REGION_HINT: &str = "set AWS_REGION, or the region in [[storage.stores]], to the bucket's region";

fn describe(
    error: &object_store::Error,
    detail: &str,
    credentials: &'static str,
) -> (ErrorKind, String, Option<&'static str>) {
    use object_store::Error as E;
    let code = service_code(detail).map(|code| format!(" ({code})")).unwrap_or_default();
    if detail.contains("NoSuchBucket") || detail.contains("ContainerNotFound") {
        return (
            ErrorKind::Storage,
            "the bucket does not exist".into(),
            Some("check the bucket's name and the endpoint"),
        );
    }
    if detail.contains("169.254.169.254") || detail.contains("metadata.google.internal") {
        return (ErrorKind::Storage, "no credentials were found".into(), Some(credentials));
    }
    match error {
        E::NotFound { .. } => (ErrorKind::Corrupt, "the file does not exist".into(), None),
        E::Precondition { .. } => {
            (ErrorKind::Corrupt, "file replaced: its ETag is no longer the one first seen".into(), Some(REPLACED_HINT))
        }
        E::PermissionDenied { .. } => {
            (ErrorKind::Storage, format!("the store refused access{code}"), Some(credentials))
        }
        E::Unauthenticated { .. } => {
            (ErrorKind::Storage, format!("the store did not accept the credentials{code}"), Some(credentials))
        }
        _ if denied_code(detail) => (ErrorKind::Storage, format!("the store refused access{code}"), Some(credentials)),
        _ if detail.contains("AuthorizationHeaderMalformed") || detail.contains("incorrectly configured region") => {
            (ErrorKind::Storage, "the request went to the wrong region".into(), Some(REGION_HINT))
        }
        _ if detail.contains("URL scheme is not allowed") => {
            (ErrorKind::Storage, "plain http is not allowed for this endpoint".into(), Some("set allow_http = true"))
        }
        _ if is_unreachable(error) => {
            (ErrorKind::Storage, format!("the store cannot be reached: {}", root_cause(error)), Some(ENDPOINT_HINT))
        }
        _ => match io_cause(error).map(io::Error::kind) {
            Some(io::ErrorKind::PermissionDenied) => {
                (ErrorKind::Storage, "permission denied".into(), Some("check the owner and mode of the file"))
            }
            Some(io::ErrorKind::NotADirectory) => (ErrorKind::Corrupt, "the file does not exist".into(), None),
            _ => (ErrorKind::Storage, format!("the store failed: {}", shorten(detail)), None),
        },
    }
}

pub(crate) const REPLACED_HINT: &str = "data files must never be changed in place; refresh the table or rewrite it";

/// Whether another attempt may succeed: connection failures, stalls, 5xx, 429 and 408.
pub(crate) fn is_transient(error: &object_store::Error) -> bool {
    let object_store::Error::Generic { source, .. } = error else {
        return false;
    };
    let source: &(dyn StdError + 'static) = source.as_ref();
    for cause in chain(source) {
        if cause.is::<Transient>() {
            return true;
        }
        if let Some(http) = cause.downcast_ref::<HttpError>() {
            return !matches!(http.kind(), HttpErrorKind::Unknown) || io_kind_is_transient(http);
        }
    }
    let detail = error.to_string();
    ["status code: 5", "status code: 429", "status code: 408"].iter().any(|mark| detail.contains(mark))
}

fn io_kind_is_transient(error: &(dyn StdError + 'static)) -> bool {
    use io::ErrorKind as K;
    chain(error).any(|cause| {
        let kind = cause.downcast_ref::<io::Error>().map(io::Error::kind);
        matches!(
            kind,
            Some(
                K::TimedOut
                    | K::ConnectionReset
                    | K::ConnectionAborted
                    | K::BrokenPipe
                    | K::UnexpectedEof
                    | K::Interrupted
            )
        )
    })
}

fn is_unreachable(error: &object_store::Error) -> bool {
    chain(error).any(|cause| {
        let connect = |http: &HttpError| matches!(http.kind(), HttpErrorKind::Connect | HttpErrorKind::Timeout);
        cause.is::<Transient>() || cause.downcast_ref::<HttpError>().is_some_and(connect)
    })
}

fn io_cause(error: &object_store::Error) -> Option<&io::Error> {
    chain(error).find_map(|cause| cause.downcast_ref::<io::Error>())
}

fn root_cause(error: &(dyn StdError + 'static)) -> String {
    chain(error).last().map(|cause| shorten(&cause.to_string())).unwrap_or_default()
}

fn chain<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |error: &&'a (dyn StdError + 'static)| (*error).source())
}

/// The `<Code>` of an S3, GCS or Azure error body.
fn service_code(detail: &str) -> Option<&str> {
    let (_, rest) = detail.split_once("<Code>")?;
    rest.split_once("</Code>").map(|(code, _)| code)
}

fn denied_code(detail: &str) -> bool {
    ["status code: 403", "status code: 401", "InvalidAccessKeyId", "SignatureDoesNotMatch", "AccessDenied"]
        .iter()
        .any(|mark| detail.contains(mark))
}

fn shorten(text: &str) -> String {
    const MOST: usize = 400;
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generic(text: &str) -> object_store::Error {
        object_store::Error::Generic { store: "S3", source: text.to_owned().into() }
    }

    #[test]
    fn messages_name_the_place_and_the_cure() {
        let denied = store_error("s3://b/x", generic("status code: 403 Forbidden: <Code>InvalidAccessKeyId</Code>"));
        assert_eq!(denied.kind(), ErrorKind::Storage);
        assert!(
            denied.to_string().contains("s3://b/x") && denied.to_string().contains("InvalidAccessKeyId"),
            "{denied}"
        );
        assert!(denied.to_string().contains("AWS_ACCESS_KEY_ID"));
        let bucket = store_error("s3://nope/x", generic("status code: 404: <Code>NoSuchBucket</Code>"));
        assert!(bucket.to_string().contains("bucket does not exist"), "{bucket}");
        let gone = object_store::Error::NotFound { path: "x".into(), source: "gone".into() };
        assert_eq!(store_error("s3://b/x", gone).kind(), ErrorKind::Corrupt);
    }

    #[test]
    fn only_passing_failures_are_tried_again() {
        assert!(is_transient(&Transient("stalled".into()).into_store_error()));
        assert!(is_transient(&generic("Server returned non-2xx status code: 503 Service Unavailable")));
        assert!(is_transient(&generic("Server returned non-2xx status code: 429 Too Many Requests")));
        assert!(!is_transient(&generic("Server returned non-2xx status code: 403 Forbidden")));
        assert!(!is_transient(&object_store::Error::NotFound { path: "x".into(), source: "gone".into() }));
    }
}
