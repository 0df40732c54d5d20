//! The HTTP front end: the native interface, Pinot's, and what operators ask for.
//!
//! | path | what |
//! |---|---|
//! | `POST /v1/query` | SQL as JSON → JSON or an Arrow IPC stream |
//! | `POST` and `GET /query/sql`, `POST /query` | Pinot's query interface |
//! | `POST /query/sql/validateSyntax`, `DELETE /query/{id}`, `GET /queries` | as Pinot's |
//! | `GET /tables…`, `/schemas…`, `/tableConfigs/{t}`, `/segments/{t}`, `/databases`, `/v2/brokers/…` | as Pinot's controller |
//! | `GET /health`, `/health/liveness`, `/health/readiness`, `/metrics` | for operators |
//! | `GET /admin/tables`, `POST /admin/tables/{t}/refresh` | for operators |
//!
//! Layers of a request, outermost first: request id and metrics; gzip of the answer; gunzip of the
//! body; the handler, which reads the body within its limit. A handler that is dropped because its
//! client went away drops its query, which ends it.

mod admin;
mod body;
mod encode;
pub mod errors;
mod native;
mod observe;
pub mod options;
mod pinot;
mod stream;

use std::future::IntoFuture;
use std::io;
use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::{delete, get, post};
use axum::serve::ListenerExt;
use lakeserve_common::Result;
use lakeserve_common::shutdown::Shutdown;
use tokio::net::TcpListener;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{NotForContentType, Predicate, SizeAbove};
use tower_http::decompression::RequestDecompressionLayer;

use crate::engine::Engine;
use observe::HttpMetrics;
pub use options::HttpOptions;

/// Answers below this many bytes are not worth compressing.
const COMPRESS_ABOVE: u64 = 1024;
/// How long requests that were cancelled at the end of the grace period may take to say so.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// What handlers share. Cheap to clone.
#[derive(Debug, Clone)]
struct App(Arc<AppInner>);

#[derive(Debug)]
struct AppInner {
    engine: Engine,
    options: HttpOptions,
    metrics: HttpMetrics,
    address: SocketAddr,
    /// As Pinot names its brokers: `Broker_127.0.0.1_8099`.
    broker_id: Arc<str>,
    shutdown: Shutdown,
}

impl Deref for App {
    type Target = AppInner;

    fn deref(&self) -> &AppInner {
        &self.0
    }
}

/// Answers requests at `listener` until `shutdown`, then drains: readiness turns to 503, after
/// `drain_delay` no more connections are accepted, and requests under way have `drain_grace` to end
/// before their queries are cancelled.
///
/// # Errors
/// When the listener has no address, or metrics cannot be registered.
pub async fn serve(listener: TcpListener, engine: Engine, options: HttpOptions, shutdown: Shutdown) -> io::Result<()> {
    let address = listener.local_addr()?;
    let app = App::new(engine.clone(), options.clone(), address, shutdown.clone()).map_err(io::Error::other)?;
    let listener = listener.tap_io(|connection| {
        // Without it the last piece of an answer may wait for the client's acknowledgement.
        if let Err(error) = connection.set_nodelay(true) {
            tracing::debug!(%error, "a connection does not take TCP_NODELAY");
        }
    });
    let (delay, grace) = (options.drain_delay.0, options.drain_grace.0);
    let stop_accepting = {
        let shutdown = shutdown.clone();
        async move {
            shutdown.triggered().await;
            tokio::time::sleep(delay).await;
        }
    };
    let server = axum::serve(listener, router(app)).with_graceful_shutdown(stop_accepting);
    let mut server = std::pin::pin!(server.into_future());
    let out_of_patience = async {
        shutdown.triggered().await;
        tokio::time::sleep(delay.saturating_add(grace)).await;
    };
    tokio::select! {
        ended = &mut server => return ended,
        () = out_of_patience => {}
    }
    tracing::warn!(
        queries = engine.running().len(),
        "the grace period is over, the queries that still run are cancelled"
    );
    engine.cancel_all();
    match tokio::time::timeout(LAST_WORDS, server).await {
        Ok(ended) => ended,
        Err(_) => Ok(()),
    }
}

impl App {
    fn new(engine: Engine, options: HttpOptions, address: SocketAddr, shutdown: Shutdown) -> Result<Self> {
        let metrics = HttpMetrics::new(engine.registry())?;
        let broker_id = format!("Broker_{}_{}", address.ip(), address.port()).into();
        Ok(Self(Arc::new(AppInner { engine, options, metrics, address, broker_id, shutdown })))
    }
}

fn router(app: App) -> Router {
    let worth_it = SizeAbove::new(COMPRESS_ABOVE).and(NotForContentType::const_new("text/event-stream"));
    let compression = CompressionLayer::new().gzip(app.options.gzip).compress_when(worth_it);
    let decompression = RequestDecompressionLayer::new().gzip(true).pass_through_unaccepted(true);
    let queries = Router::new()
        .route("/v1/query", post(native::query))
        .route("/query", post(pinot::post))
        .route("/query/sql", post(pinot::post).get(pinot::get))
        .route("/query/sql/validateSyntax", post(pinot::validate))
        .route("/query/{id}", delete(admin::cancel))
        .route("/queries", get(admin::queries));
    let catalog = Router::new()
        .route("/tables", get(pinot::tables))
        .route("/tables/{table}", get(pinot::table))
        .route("/tables/{table}/schema", get(pinot::table_schema))
        .route("/tables/{table}/metadata", get(pinot::table_metadata))
        .route("/tables/{table}/size", get(pinot::table_size))
        .route("/schemas", get(pinot::schemas))
        .route("/schemas/{table}", get(pinot::table_schema))
        .route("/tableConfigs/{table}", get(pinot::table_config))
        .route("/segments/{table}", get(pinot::segments))
        .route("/databases", get(pinot::databases))
        .route("/v2/brokers/tenants/{tenant}", get(pinot::brokers));
    let operators = Router::new()
        .route("/health", get(admin::ready))
        .route("/health/liveness", get(admin::live))
        .route("/health/readiness", get(admin::ready))
        .route("/metrics", get(admin::metrics))
        .route("/admin/tables", get(admin::tables))
        .route("/admin/tables/{table}/refresh", post(admin::refresh));
    Router::new()
        .merge(queries)
        .merge(catalog)
        .merge(operators)
        .fallback(admin::no_such_path)
        .method_not_allowed_fallback(admin::wrong_method)
        .layer(decompression)
        .layer(compression)
        .layer(axum::middleware::from_fn_with_state(app.clone(), observe::observe))
        .with_state(app)
}
