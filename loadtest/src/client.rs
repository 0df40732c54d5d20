//! One keep-alive HTTP/1.1 connection, and what requests and answers look like on each interface.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use clap::ValueEnum;
use http::{HeaderValue, Request, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use lakeserve_common::spawn::spawn;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use url::Url;

/// The interface that is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Api {
    /// `POST /query/sql`, the shape that Apache Pinot's clients speak.
    Pinot,
    /// `POST /v1/query`, Lakeserve's own.
    V1,
}

/// No answer of these workloads is larger.
const LARGEST_ANSWER: usize = 1 << 20;

/// The rows of an answer.
pub(crate) type Rows = Vec<Vec<Value>>;

/// Why a query got no answer: a short kind that failures are counted under, and what happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) kind: String,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(kind: impl Into<String>, message: impl ToString) -> Self {
        Self { kind: kind.into(), message: message.to_string() }
    }
}

/// The server and interface that are asked.
#[derive(Debug)]
pub(crate) struct Target {
    address: SocketAddr,
    host: HeaderValue,
    path: String,
    api: Api,
}

impl Target {
    /// Resolves `url`.
    ///
    /// # Errors
    /// When it is not plain HTTP, does not resolve, or is not on this machine and `allow_remote` is not set.
    pub(crate) async fn resolve(url: &Url, api: Api, allow_remote: bool) -> Result<Self> {
        ensure!(url.scheme() == "http", "{url} is not a plain http:// address; other schemes are not supported yet");
        let host = url.host_str().with_context(|| format!("{url} names no host"))?;
        let port = url.port_or_known_default().unwrap_or(80);
        let name = host.trim_start_matches('[').trim_end_matches(']');
        let addresses: Vec<SocketAddr> =
            tokio::net::lookup_host((name, port)).await.with_context(|| format!("resolving {host}"))?.collect();
        let remote = addresses.iter().find(|address| !address.ip().is_loopback());
        if let Some(remote) = remote.filter(|_| !allow_remote) {
            bail!(
                "{host} is {}, which is not this machine; pass --allow-remote if that server is yours to load",
                remote.ip()
            );
        }
        let address = *addresses.first().with_context(|| format!("{host} has no address"))?;
        let base = url.path().trim_end_matches('/');
        let path = match api {
            Api::Pinot => format!("{base}/query/sql"),
            Api::V1 => format!("{base}/v1/query"),
        };
        Ok(Self { address, host: HeaderValue::from_str(&format!("{host}:{port}"))?, path, api })
    }

    /// The body of a request for `sql`.
    pub(crate) fn body(&self, sql: &str) -> Bytes {
        Bytes::from(json!({ "sql": sql }).to_string())
    }

    /// The rows of an answer.
    pub(crate) fn rows(&self, status: StatusCode, body: &[u8]) -> Result<Rows, Failure> {
        let malformed = |error: serde_json::Error| match status.is_success() {
            true => Failure::new("malformed answer", error),
            false => Failure::new(format!("http {}", status.as_u16()), String::from_utf8_lossy(body)),
        };
        match self.api {
            Api::Pinot => {
                let answer: PinotAnswer = serde_json::from_slice(body).map_err(malformed)?;
                if let Some(exception) = answer.exceptions.into_iter().next() {
                    return Err(Failure::new(format!("pinot {}", exception.error_code), exception.message));
                }
                let table = answer
                    .result_table
                    .ok_or_else(|| Failure::new("malformed answer", "no resultTable and no exception"))?;
                Ok(table.rows)
            }
            Api::V1 => {
                let answer: V1Answer = serde_json::from_slice(body).map_err(malformed)?;
                if let Some(error) = answer.error {
                    return Err(Failure::new(format!("v1 {}", error.kind), error.message));
                }
                answer.rows.ok_or_else(|| Failure::new("malformed answer", "no rows and no error"))
            }
        }
    }
}

#[derive(Deserialize)]
struct PinotAnswer {
    #[serde(rename = "resultTable")]
    result_table: Option<ResultTable>,
    #[serde(default)]
    exceptions: Vec<PinotException>,
}

#[derive(Deserialize)]
struct ResultTable {
    #[serde(default)]
    rows: Rows,
}

#[derive(Deserialize)]
struct PinotException {
    #[serde(rename = "errorCode")]
    error_code: i64,
    #[serde(default)]
    message: String,
}

#[derive(Deserialize)]
struct V1Answer {
    rows: Option<Rows>,
    error: Option<V1Error>,
}

#[derive(Deserialize)]
struct V1Error {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    message: String,
}

/// A connection that is opened again when the server closed it. One query at a time.
pub(crate) struct Connection {
    target: Arc<Target>,
    sender: Option<SendRequest<Full<Bytes>>>,
}

impl Connection {
    /// Connects.
    pub(crate) async fn open(target: Arc<Target>) -> Result<Self, Failure> {
        let mut connection = Self { target, sender: None };
        connection.sender = Some(connection.connect().await?);
        Ok(connection)
    }

    /// Sends a query and reads its answer. When the future is dropped halfway, the connection is
    /// given up and the next query opens another.
    pub(crate) async fn ask(&mut self, body: Bytes) -> Result<Rows, Failure> {
        let mut sender = match self.sender.take().filter(|sender| !sender.is_closed()) {
            Some(sender) => sender,
            None => self.connect().await?,
        };
        if sender.ready().await.is_err() {
            sender = self.connect().await?;
        }
        let mut request = Request::post(self.target.path.as_str())
            .header(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))
            .body(Full::new(body))
            .map_err(|error| Failure::new("request", error))?;
        request.headers_mut().insert(header::HOST, self.target.host.clone());
        let answer = sender.send_request(request).await.map_err(|error| Failure::new("connection", error))?;
        let (head, body) = answer.into_parts();
        let body =
            Limited::new(body, LARGEST_ANSWER).collect().await.map_err(|error| Failure::new("connection", error))?;
        self.sender = Some(sender);
        self.target.rows(head.status, &body.to_bytes())
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, Failure> {
        let failed = |error: &dyn std::error::Error| Failure::new("connect", error);
        let stream = TcpStream::connect(self.target.address).await.map_err(|error| failed(&error))?;
        stream.set_nodelay(true).map_err(|error| failed(&error))?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(|error| failed(&error))?;
        // Its errors come back through the sender.
        drop(spawn("loadtest-connection", connection));
        Ok(sender)
    }
}
