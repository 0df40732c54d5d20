//! Building the undecorated store of a URL: the standard environment variables first, the AWS
//! profile files for S3, and the configured exception over both.
//!
//! The clients' own retries are off: [`crate::retrying`] is the one place that retries. HTTP runs on
//! the runtime for I/O, whichever runtime asks: a thread that computes must not hold a connection up.

use std::sync::Arc;
use std::time::Duration;

use lakeserve_common::{Error, ErrorKind, Result};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::client::SpawnedReqwestConnector;
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::http::HttpBuilder;
use object_store::local::LocalFileSystem;
use object_store::{ClientConfigKey, ObjectStore, RetryConfig};
use tokio::runtime::Handle;
use url::Url;

use crate::aws_profile;
use crate::location;
use crate::options::{StorageOptions, StoreOptions};

/// The outermost bound of one HTTP exchange, body included. Progress is watched far more closely
/// by the retrying decorator; this only ends what nobody watches any more.
const EXCHANGE_LIMIT: &str = "300s";

/// The kind of store, for metric labels.
pub(crate) fn kind(url: &Url) -> &'static str {
    match url.scheme() {
        "file" => "file",
        "s3" => "s3",
        "gs" => "gs",
        "abfss" | "az" => "azure",
        "http" | "https" => "http",
        _ => "other",
    }
}

/// Checks what can be checked without a location.
pub(crate) fn check(options: &StorageOptions) -> Result<()> {
    for store in &options.stores {
        let prefix = &store.prefix;
        let known = ["s3://", "s3a://", "gs://", "abfss://", "az://", "http://", "https://", "file:///"];
        if !known.iter().any(|scheme| prefix.starts_with(scheme)) {
            let message = format!("storage.stores: prefix `{prefix}` is not the beginning of a location");
            return Err(Error::new(ErrorKind::Option, message).with_hint("write for example s3://bucket/ or s3://"));
        }
        if store.access_key_id.is_some() != store.secret_access_key.is_some() {
            let message = format!("storage.stores: `{prefix}` has only one of access_key_id and secret_access_key");
            return Err(Error::new(ErrorKind::Option, message).with_hint("give both or neither"));
        }
    }
    Ok(())
}

/// Whether `url` lies below `prefix`, at a border between names.
pub(crate) fn prefix_fits(prefix: &str, url: &Url) -> bool {
    let prefix = prefix.replacen("s3a://", "s3://", 1);
    if prefix.ends_with("://") {
        return url.as_str().starts_with(&prefix);
    }
    let Ok(parsed) = location::parse(&prefix) else {
        return false;
    };
    let prefix = parsed.as_str().trim_end_matches('/');
    url.as_str().strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The store that holds `url`, rooted at the bucket, the host or the file system.
pub(crate) fn build(
    url: &Url,
    options: &StorageOptions,
    exception: Option<&StoreOptions>,
    io: Option<&Handle>,
) -> Result<Arc<dyn ObjectStore>> {
    let connector = io.map(|handle| SpawnedReqwestConnector::new(handle.clone()));
    let none = StoreOptions::default();
    let exception = exception.unwrap_or(&none);
    let connect = format!("{}ms", options.connect_timeout.0.as_millis());
    let built: object_store::Result<Arc<dyn ObjectStore>> = match url.scheme() {
        "file" => Ok(Arc::new(LocalFileSystem::new())),
        "s3" => return s3(url, exception, &connect, connector),
        "gs" => gcs(url, exception, &connect, connector),
        "abfss" | "az" => azure(url, exception, &connect, connector),
        "http" | "https" => http(url, &connect, connector),
        scheme => {
            return Err(Error::new(ErrorKind::Option, format!("location {url} has the unknown scheme `{scheme}`")));
        }
    };
    built.map_err(|error| unusable(url, &error))
}

fn unusable(url: &Url, error: &object_store::Error) -> Error {
    Error::new(ErrorKind::Option, format!("the store of {url} cannot be set up: {error}"))
        .with_hint("check the environment variables and [[storage.stores]] for this location")
}

fn no_retries() -> RetryConfig {
    RetryConfig { max_retries: 0, retry_timeout: Duration::from_secs(1), ..RetryConfig::default() }
}

fn client_settings(connect: &str) -> [(ClientConfigKey, &str); 3] {
    [
        (ClientConfigKey::ConnectTimeout, connect),
        (ClientConfigKey::Timeout, EXCHANGE_LIMIT),
        (ClientConfigKey::UserAgent, concat!("lakeserve/", env!("CARGO_PKG_VERSION"))),
    ]
}

/// Whether plain HTTP is allowed: as told, else exactly when the endpoint is spelled so.
fn allow_http(told: Option<bool>, endpoint: Option<&str>) -> bool {
    told.unwrap_or_else(|| endpoint.is_some_and(|endpoint| endpoint.starts_with("http://")))
}

fn s3(
    url: &Url,
    exception: &StoreOptions,
    connect: &str,
    connector: Option<SpawnedReqwestConnector>,
) -> Result<Arc<dyn ObjectStore>> {
    use AmazonS3ConfigKey as Key;
    let mut builder = AmazonS3Builder::from_env().with_bucket_name(url.host_str().unwrap_or_default());
    let has = |builder: &AmazonS3Builder, key: Key| builder.get_config_value(&key).is_some();

    let has_other_credentials = [Key::AccessKeyId, Key::WebIdentityTokenFile, Key::ContainerCredentialsRelativeUri]
        .into_iter()
        .chain([Key::ContainerCredentialsFullUri])
        .any(|key| has(&builder, key));
    let wants_profile_keys = exception.access_key_id.is_none()
        && !exception.skip_signature
        && (exception.profile.is_some() || !has_other_credentials);
    let profile = aws_profile::load(exception.profile.as_deref())?;
    if wants_profile_keys {
        if let Some((id, secret)) = &profile.keys {
            builder = builder.with_access_key_id(id).with_secret_access_key(secret.expose());
            if let Some(token) = &profile.session_token {
                builder = builder.with_token(token.expose());
            }
        } else if let Some(unsupported) = &profile.unsupported {
            let message = format!("AWS profile `{}` uses {unsupported}, which is not supported yet", profile.name);
            return Err(Error::new(ErrorKind::Option, message)
                .with_hint("give keys: aws configure export-credentials prints them"));
        }
    }
    if let Some(region) = profile.region.filter(|_| !has(&builder, Key::Region)) {
        builder = builder.with_region(region);
    }
    let has_endpoint = has(&builder, Key::Endpoint) || has(&builder, Key::S3Endpoint);
    if let Some(endpoint) = profile.endpoint_url.filter(|_| !has_endpoint) {
        builder = builder.with_endpoint(endpoint);
    }

    if let Some(endpoint) = &exception.endpoint {
        builder = builder.with_config(Key::S3Endpoint, endpoint);
    }
    if let Some(region) = &exception.region {
        builder = builder.with_region(region);
    }
    if let Some((id, secret)) = exception.access_key_id.as_ref().zip(exception.secret_access_key.as_ref()) {
        builder = builder.with_access_key_id(id).with_secret_access_key(secret.expose());
        // A session token of the environment belongs to the environment's keys.
        let token = exception.session_token.as_ref().map(|token| token.expose().to_owned());
        builder = match token {
            Some(token) => builder.with_token(token),
            None => static_keys(builder, id, secret.expose()),
        };
    }
    if exception.virtual_hosted_style {
        builder = builder.with_virtual_hosted_style_request(true);
    }
    if exception.skip_signature {
        builder = builder.with_skip_signature(true);
    }
    let endpoint = builder.get_config_value(&Key::S3Endpoint).or_else(|| builder.get_config_value(&Key::Endpoint));
    if allow_http(exception.allow_http, endpoint.as_deref()) {
        builder = builder.with_allow_http(true);
    }
    for (key, value) in client_settings(connect) {
        builder = builder.with_config(Key::Client(key), value);
    }
    if let Some(connector) = connector {
        builder = builder.with_http_connector(connector);
    }
    let built = builder.with_retry(no_retries()).build();
    built.map(|store| Arc::new(store) as Arc<dyn ObjectStore>).map_err(|error| unusable(url, &error))
}

/// Keys without a session token, whatever the environment says.
fn static_keys(builder: AmazonS3Builder, id: &str, secret: &str) -> AmazonS3Builder {
    let credential = object_store::aws::AwsCredential { key_id: id.into(), secret_key: secret.into(), token: None };
    builder.with_credentials(Arc::new(object_store::StaticCredentialProvider::new(credential)))
}

fn gcs(
    url: &Url,
    exception: &StoreOptions,
    connect: &str,
    connector: Option<SpawnedReqwestConnector>,
) -> object_store::Result<Arc<dyn ObjectStore>> {
    let mut builder = GoogleCloudStorageBuilder::from_env().with_bucket_name(url.host_str().unwrap_or_default());
    if let Some(endpoint) = &exception.endpoint {
        builder = builder.with_base_url(endpoint);
    }
    if let Some(path) = &exception.service_account_path {
        builder = builder.with_service_account_path(path);
    }
    if exception.skip_signature {
        builder = builder.with_skip_signature(true);
    }
    if allow_http(exception.allow_http, exception.endpoint.as_deref()) {
        builder = builder.with_config(GoogleConfigKey::Client(ClientConfigKey::AllowHttp), "true");
    }
    for (key, value) in client_settings(connect) {
        builder = builder.with_config(GoogleConfigKey::Client(key), value);
    }
    if let Some(connector) = connector {
        builder = builder.with_http_connector(connector);
    }
    Ok(Arc::new(builder.with_retry(no_retries()).build()?))
}

fn azure(
    url: &Url,
    exception: &StoreOptions,
    connect: &str,
    connector: Option<SpawnedReqwestConnector>,
) -> object_store::Result<Arc<dyn ObjectStore>> {
    let mut root = url.clone();
    root.set_path("");
    let mut builder = MicrosoftAzureBuilder::from_env().with_url(root);
    if let Some(name) = &exception.account_name {
        builder = builder.with_account(name);
    }
    if let Some(key) = &exception.account_key {
        builder = builder.with_access_key(key.expose());
    }
    if let Some(endpoint) = &exception.endpoint {
        builder = builder.with_endpoint(endpoint.clone());
    }
    if exception.skip_signature {
        builder = builder.with_skip_signature(true);
    }
    if allow_http(exception.allow_http, exception.endpoint.as_deref()) {
        builder = builder.with_allow_http(true);
    }
    for (key, value) in client_settings(connect) {
        builder = builder.with_config(AzureConfigKey::Client(key), value);
    }
    if let Some(connector) = connector {
        builder = builder.with_http_connector(connector);
    }
    Ok(Arc::new(builder.with_retry(no_retries()).build()?))
}

fn http(
    url: &Url,
    connect: &str,
    connector: Option<SpawnedReqwestConnector>,
) -> object_store::Result<Arc<dyn ObjectStore>> {
    let mut root = url.clone();
    root.set_path("/");
    let mut builder = HttpBuilder::new().with_url(root);
    if url.scheme() == "http" {
        builder = builder.with_config(ClientConfigKey::AllowHttp, "true");
    }
    for (key, value) in client_settings(connect) {
        builder = builder.with_config(key, value);
    }
    if let Some(connector) = connector {
        builder = builder.with_http_connector(connector);
    }
    Ok(Arc::new(builder.with_retry(no_retries()).build()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_end_at_names() {
        let url = |text: &str| location::parse(text).unwrap();
        assert!(prefix_fits("s3://", &url("s3://b/x")));
        assert!(prefix_fits("s3://b", &url("s3://b/x")) && prefix_fits("s3a://b/", &url("s3://b")));
        assert!(prefix_fits("s3://b/x", &url("s3://b/x/y")));
        assert!(!prefix_fits("s3://b", &url("s3://bb/x")));
        assert!(!prefix_fits("s3://b/x", &url("s3://b/xy")));
    }

    #[test]
    fn half_a_key_and_a_wrong_prefix_are_refused() {
        let with = |store: StoreOptions| StorageOptions { stores: vec![store], ..StorageOptions::default() };
        let half = StoreOptions { prefix: "s3://b".into(), access_key_id: Some("k".into()), ..StoreOptions::default() };
        assert!(check(&with(half)).unwrap_err().to_string().contains("secret_access_key"));
        let odd = StoreOptions { prefix: "bucket".into(), ..StoreOptions::default() };
        assert!(check(&with(odd)).unwrap_err().to_string().contains("`bucket`"));
    }
}
