//! Around every request: its id, its count, its time, and how many are under way.

use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::{HeaderName, HeaderValue};
use lakeserve_common::Result;
use prometheus::{HistogramVec, IntCounter, IntCounterVec, IntGauge, Registry};
use tracing::Instrument;

use super::App;
use crate::engine::metrics::{counters, gauge, histograms};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// A longer request id is not taken over.
const ID_BYTES: usize = 200;

/// Metrics of the HTTP front end.
#[derive(Debug, Clone)]
pub(super) struct HttpMetrics {
    requests: IntCounterVec,
    seconds: HistogramVec,
    in_flight: IntGauge,
    /// Streamed answers that had to be broken off.
    pub(super) broken: IntCounter,
}

impl HttpMetrics {
    pub(super) fn new(registry: &Registry) -> Result<Self> {
        let broken = counters(
            registry,
            "lakeserve_http_broken_answers_total",
            "Streamed answers that were broken off by an error.",
            &[],
        )?;
        Ok(Self {
            requests: counters(
                registry,
                "lakeserve_http_requests_total",
                "Requests by route and status.",
                &["front_end", "route", "status"],
            )?,
            seconds: histograms(
                registry,
                "lakeserve_http_request_seconds",
                "Time from a request's head to its answer's head.",
                &["front_end", "route"],
            )?,
            in_flight: gauge(registry, "lakeserve_http_requests_in_flight", "Requests whose answer has not begun.")?,
            broken: broken.with_label_values(&[] as &[&str]),
        })
    }
}

/// Counts a request when it ends, also when its client goes away before the answer.
struct Counted {
    app: App,
    route: String,
    started: Instant,
    status: Option<u16>,
}

impl Drop for Counted {
    fn drop(&mut self) {
        let metrics = &self.app.metrics;
        metrics.in_flight.dec();
        let front_end = front_end(&self.route);
        let status = self.status.map_or_else(|| "gone".to_owned(), |status| status.to_string());
        metrics.requests.with_label_values(&[front_end, self.route.as_str(), status.as_str()]).inc();
        let took = self.app.engine.clock().instant().duration_since(self.started);
        metrics.seconds.with_label_values(&[front_end, self.route.as_str()]).observe(took.as_secs_f64());
    }
}

fn front_end(route: &str) -> &'static str {
    match route {
        "/v1/query" => "native",
        "/health" | "/health/liveness" | "/health/readiness" | "/metrics" | "other" => "operator",
        route if route.starts_with("/admin/") => "operator",
        _ => "pinot",
    }
}

/// The layer.
pub(super) async fn observe(State(app): State<App>, request: Request, next: Next) -> Response {
    // Routes are few; whatever does not match one shares a label.
    let route = request.extensions().get::<MatchedPath>().map_or("other", MatchedPath::as_str).to_owned();
    let id = request_id(&app, &request);
    app.metrics.in_flight.inc();
    let started = app.engine.clock().instant();
    let mut counted = Counted { app, route, started, status: None };
    let span = tracing::info_span!("request", request_id = id.to_str().unwrap_or_default(), route = counted.route);
    let mut response = next.run(request).instrument(span).await;
    counted.status = Some(response.status().as_u16());
    response.headers_mut().insert(REQUEST_ID, id);
    response
}

/// The client's id for the request, if it sent one that can be logged, else a fresh one.
fn request_id(app: &App, request: &Request) -> HeaderValue {
    let given = request.headers().get(REQUEST_ID);
    if let Some(id) = given.filter(|id| id.len() <= ID_BYTES && !id.is_empty() && id.to_str().is_ok()) {
        return id.clone();
    }
    HeaderValue::try_from(app.engine.fresh_id().as_str()).unwrap_or_else(|_| HeaderValue::from_static(""))
}
