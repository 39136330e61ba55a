//! For operators: health, metrics, and a look at one lane.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use turnstone_lane::Look;
use turnstone_protocol::ClientId;

use super::problem;
use crate::pacer::{Pacer, UnknownPolicy};
use crate::store::StoreError;

type Shared = State<Arc<Pacer>>;

#[derive(Serialize)]
struct Health {
    /// `ok`, `holding` while the store does not answer, `draining` after SIGTERM.
    status: &'static str,
    held: usize,
}

/// Which lane: `?policy=raven&client_id=…`, and for how long to pause it.
#[derive(Deserialize)]
pub struct Which {
    policy: String,
    client_id: ClientId,
    /// Seconds.
    #[serde(default)]
    seconds: u32,
}

#[derive(Serialize)]
struct Lane {
    waiting: u64,
    /// 0: a request may go now.
    opens_in_ms: i64,
    /// The revision of the last grant.
    turn: i64,
    head: Option<String>,
}

/// The process lives. What it says of itself is in the body.
pub async fn healthz(State(pacer): Shared) -> Response {
    Json(health(&pacer)).into_response()
}

/// Ready unless draining. A store that is away does not make penguin unready: its requests are held.
pub async fn readyz(State(pacer): Shared) -> Response {
    let ready = if pacer.is_draining() { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
    (ready, Json(health(&pacer))).into_response()
}

pub async fn metrics(State(pacer): Shared) -> Response {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], pacer.metrics.render()).into_response()
}

pub async fn look(State(pacer): Shared, Query(which): Query<Which>) -> Response {
    match pacer.lane(&which.policy, which.client_id) {
        Ok(key) => answer(pacer.look(&key).await),
        Err(error) => unknown(&error),
    }
}

pub async fn pause(State(pacer): Shared, Query(which): Query<Which>) -> Response {
    if which.seconds == 0 {
        return problem("malformed", "Malformed call", StatusCode::BAD_REQUEST, "seconds: must be at least 1");
    }
    match pacer.lane(&which.policy, which.client_id) {
        Ok(key) => answer(pacer.pause(&key, Duration::from_secs(which.seconds.into())).await),
        Err(error) => unknown(&error),
    }
}

pub async fn resume(State(pacer): Shared, Query(which): Query<Which>) -> Response {
    match pacer.lane(&which.policy, which.client_id) {
        Ok(key) => answer(pacer.pause(&key, Duration::ZERO).await),
        Err(error) => unknown(&error),
    }
}

/// The operator knows that the store lost nothing: lanes need not hold after a change of the master.
pub async fn vouch(State(pacer): Shared) -> Response {
    match pacer.vouch().await {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(error) => away(&error),
    }
}

fn away(error: &StoreError) -> Response {
    problem("holding", "The store is away", StatusCode::SERVICE_UNAVAILABLE, error.to_string())
}

fn health(pacer: &Pacer) -> Health {
    let status = match (pacer.is_draining(), pacer.is_holding()) {
        (true, _) => "draining",
        (false, true) => "holding",
        (false, false) => "ok",
    };
    Health { status, held: pacer.held() }
}

fn unknown(error: &UnknownPolicy) -> Response {
    problem("unknown-policy", "Unknown policy", StatusCode::NOT_FOUND, error.to_string())
}

fn answer(look: Result<Look, StoreError>) -> Response {
    match look {
        Ok(look) => Json(Lane {
            waiting: look.waiting,
            opens_in_ms: look.opens_in.max(0) / 1000,
            turn: look.revision,
            head: look.head.map(|head| head.ticket.to_string()),
        })
        .into_response(),
        Err(error) => away(&error),
    }
}
