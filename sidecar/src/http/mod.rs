//! The calls of filters and of operators, as routers without a socket.

mod admin;
mod calls;

use std::sync::Arc;

use axum::Router;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use turnstone_protocol::{ANSWERS_PATH, LEAVES_PATH, PROBLEM_JSON, Problem, SIDECAR_MARK, TURNS_PATH};

use crate::pacer::Pacer;

/// What filters call.
pub fn calls(pacer: Arc<Pacer>) -> Router {
    Router::new()
        .route(TURNS_PATH, post(calls::turn))
        .route(ANSWERS_PATH, post(calls::answers))
        .route(LEAVES_PATH, post(calls::leaves))
        .fallback(async || mark(problem("not-found", "Not found", StatusCode::NOT_FOUND, "there is no such path")))
        .with_state(pacer)
}

/// What operators call: health, metrics, and single lanes.
pub fn admin(pacer: Arc<Pacer>) -> Router {
    Router::new()
        .route("/healthz", get(admin::healthz))
        .route("/readyz", get(admin::readyz))
        .route("/metrics", get(admin::metrics))
        .route("/lanes", get(admin::look))
        .route("/lanes/pause", post(admin::pause))
        .route("/lanes/resume", post(admin::resume))
        .route("/store/vouch", post(admin::vouch))
        .with_state(pacer)
}

/// Whatever lacks this came from Envoy itself. No layer: it would cost each held call half a kilobyte.
fn mark(response: impl IntoResponse) -> Response {
    let mut response = response.into_response();
    response.headers_mut().insert(SIDECAR_MARK, HeaderValue::from_static("1"));
    response
}

fn problem(kind: &str, title: &'static str, status: StatusCode, detail: impl Into<String>) -> Response {
    let problem = Problem::new(kind, title, status.as_u16(), detail);
    let body = serde_json::to_vec(&problem).unwrap_or_default();
    (status, [(header::CONTENT_TYPE, PROBLEM_JSON)], body).into_response()
}
