//! What can be configured about storage. All of it has defaults; credentials come from the
//! standard environment variables and profile files unless a [`StoreOptions`] names others.

use std::fmt;

use lakeserve_common::units::{ByteSize, Span};
use serde::{Deserialize, Serialize, Serializer};

/// Storage as a whole: cache, request shape, patience, and exceptions per URL prefix.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StorageOptions {
    /// Bytes of data files kept in memory by the range cache. Default 1GiB; 0 switches it off.
    pub cache_bytes: ByteSize,
    /// Ranges of one file that lie at most this far apart are fetched by one request. Default 1MiB.
    pub coalesce_gap: ByteSize,
    /// The most bytes that one request asks for. Default 16MiB.
    pub max_request: ByteSize,
    /// Requests for data files in flight at a time, over the whole process. Default 32.
    pub parallel_requests: usize,
    /// How often a transient failure is tried again. Default 4.
    pub retry_attempts: u32,
    /// No retry begins that could not end within this time from the first attempt. Default 10s.
    pub retry_timeout: Span,
    /// How long to wait for a connection. Default 2s.
    pub connect_timeout: Span,
    /// How long a request may make no progress: until the answer begins, and between any two
    /// pieces of its body. Default 10s.
    pub request_timeout: Span,
    /// Endpoints and credentials for locations below a URL prefix; the longest prefix that fits
    /// wins. Default none.
    pub stores: Vec<StoreOptions>,
}

impl Default for StorageOptions {
    fn default() -> Self {
        Self {
            cache_bytes: ByteSize::gib(1),
            coalesce_gap: ByteSize::mib(1),
            max_request: ByteSize::mib(16),
            parallel_requests: 32,
            retry_attempts: 4,
            retry_timeout: Span::secs(10),
            connect_timeout: Span::secs(2),
            request_timeout: Span::secs(10),
            stores: Vec::new(),
        }
    }
}

/// Endpoint and credentials of the stores below one URL prefix. Whatever is absent comes from the
/// standard environment (`AWS_…`, `GOOGLE_…`, `AZURE_…`) and, for S3, from the AWS profile files.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoreOptions {
    /// The locations that this is for, for example `s3://bucket/` or `s3://`.
    pub prefix: String,
    /// S3, GCS, Azure: the service's URL, when it is not the provider's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// S3: the region. Without one anywhere, `us-east-1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// Whether plain HTTP is allowed. By default exactly when the endpoint begins with `http://`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_http: Option<bool>,
    /// S3: whether the bucket stands in the endpoint's host name. Default false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub virtual_hosted_style: bool,
    /// Sends requests without a signature, for public buckets. Default false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub skip_signature: bool,
    /// S3: the profile of the AWS files to use, before `AWS_PROFILE`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// S3: the access key's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_key_id: Option<String>,
    /// S3: the secret access key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_access_key: Option<Secret>,
    /// S3: the session token that goes with temporary keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_token: Option<Secret>,
    /// GCS: path of the service account's JSON file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account_path: Option<String>,
    /// Azure: the storage account's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account_name: Option<String>,
    /// Azure: the storage account's key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account_key: Option<Secret>,
}

/// A text that is never shown: it prints and serialises as `***`.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The secret itself, for the one place that sends it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_shown() {
        let options = StoreOptions {
            prefix: "s3://b".into(),
            secret_access_key: Some(Secret::new("hush")),
            ..StoreOptions::default()
        };
        assert!(!format!("{options:?}").contains("hush"));
    }
}
