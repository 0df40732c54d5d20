//! What can be configured about the HTTP front end. Everything has a default.

use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};

use lakeserve_common::units::{ByteSize, Span};
use serde::{Deserialize, Deserializer, Serialize, de};

/// The HTTP listener and what it accepts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HttpOptions {
    /// Address and port to listen at. Default 127.0.0.1:8099.
    #[serde(deserialize_with = "address")]
    pub listen: SocketAddr,
    /// Host and port that clients are told to connect to; none: the ones they used. Default none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advertise: Option<String>,
    /// Bytes that a request's body may have, after decompression. Default 8MiB.
    pub max_body_bytes: ByteSize,
    /// How long a request's body may take to arrive. Default 30s.
    pub body_timeout: Span,
    /// Whether answers are compressed with gzip for clients that accept it. Default true.
    pub gzip: bool,
    /// How long connections are still accepted after shutdown has begun and readiness has turned to
    /// 503, so that load balancers notice in time. Default 0s.
    pub drain_delay: Span,
    /// How long requests under way may go on after that. Default 30s.
    pub drain_grace: Span,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8099)),
            advertise: None,
            max_body_bytes: ByteSize::mib(8),
            body_timeout: Span::secs(30),
            gzip: true,
            drain_delay: Span::secs(0),
            drain_grace: Span::secs(30),
        }
    }
}

/// An address by number or by name, as the command line takes it.
fn address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SocketAddr, D::Error> {
    let text = String::deserialize(deserializer)?;
    let found = text.to_socket_addrs().map(|mut found| found.next());
    let why = match found {
        Ok(Some(address)) => return Ok(address),
        Ok(None) => "the name has no address".to_owned(),
        Err(error) => error.to_string(),
    };
    Err(de::Error::custom(format!("`{text}` is no address to listen at ({why}); write for example 127.0.0.1:8099")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_field_is_refused_by_name() {
        let error = serde_json::from_str::<HttpOptions>(r#"{"lissten":"127.0.0.1:1"}"#).unwrap_err();
        assert!(error.to_string().contains("lissten"), "{error}");
        let error = serde_json::from_str::<HttpOptions>(r#"{"listen":"8099"}"#).unwrap_err();
        assert!(error.to_string().contains("127.0.0.1:8099"), "{error}");
        let named: HttpOptions = serde_json::from_str(r#"{"listen":"localhost:8099"}"#).unwrap();
        assert!(named.listen.ip().is_loopback() && named.listen.port() == 8099);
        assert_eq!(serde_json::from_str::<HttpOptions>("{}").unwrap(), HttpOptions::default());
    }
}
