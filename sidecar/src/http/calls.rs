//! The calls of DESIGN 5: turns, answers, leaves.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use serde::de::DeserializeOwned;
use turnstone_lane::Ticket;
use turnstone_protocol::{Answer, ClientId, DEFAULT_WAIT_MS, Granted, Leave, TurnReply, TurnRequest, Waiting};

use super::{mark, problem};
use crate::metrics::Refusal;
use crate::pacer::{Call, Held, Pacer};
use crate::policy::LaneKey;

/// Longer holds would only make a dead filter harder to notice.
const MAX_WAIT: Duration = Duration::from_secs(60);
/// The age of a request is believed up to here; it orders the line, no more.
const MAX_AGE: Duration = Duration::from_secs(24 * 3600);
/// Stamps travel through Lua and sorted sets as doubles, exact up to here.
const MAX_STAMP: i64 = 1 << 53;

type Shared = State<Arc<Pacer>>;

/// `POST /v1/turns`: holds its answer until the turn comes.
pub async fn turn(State(pacer): Shared, headers: HeaderMap, body: Bytes) -> Response {
    let call = match read(&body).and_then(|request: TurnRequest| call(&pacer, request)) {
        Ok(call) => call,
        Err(refused) => return refused.answer(&pacer),
    };
    tracing::debug!(ticket = %call.ticket, request_id = ?text(&headers, "x-request-id"), traceparent = ?text(&headers, "traceparent"), "asked");
    // A held call keeps nothing that it does not need.
    drop((headers, body));
    match pacer.hold(call).await {
        Held::Granted { turn, waited } => {
            let granted = Granted { waited_ms: millis(waited), turn };
            mark((StatusCode::OK, Json(TurnReply::Granted(granted))))
        }
        Held::Waiting { since, ahead, eta } => {
            let waiting = Waiting { since, ahead, eta_ms: millis(eta) };
            mark((StatusCode::ACCEPTED, Json(TurnReply::Waiting(waiting))))
        }
        Held::Refused { wait, ahead } => refused_by_bound(&pacer, wait, ahead),
        Held::Left => mark(problem("left", "Left", StatusCode::GONE, "this request has left the line")),
    }
}

fn refused_by_bound(pacer: &Pacer, wait: Duration, ahead: u64) -> Response {
    pacer.metrics.refused(Refusal::Bound);
    let seconds = wait.as_millis().div_ceil(1000).max(1);
    let detail = format!("{ahead} requests of this client wait already; a turn would come in about {seconds} s");
    let mut response = mark(problem("line-too-long", "The line is too long", StatusCode::TOO_MANY_REQUESTS, detail));
    if let Ok(seconds) = HeaderValue::from_str(&seconds.to_string()) {
        response.headers_mut().insert(RETRY_AFTER, seconds);
    }
    response
}

/// `POST /v1/answers`: taken over at once; a lost one costs a settle at most.
pub async fn answers(State(pacer): Shared, body: Bytes) -> Response {
    let noticed = Instant::now();
    let entries: Vec<Answer> = match read(&body) {
        Ok(entries) => entries,
        Err(refused) => return refused.answer(&pacer),
    };
    for entry in entries {
        let (lane, ticket) = match name(&pacer, &entry.policy, entry.client_id, &entry.ticket) {
            Ok(named) => named,
            Err(refused) => return refused.answer(&pacer),
        };
        let pacer = Arc::clone(&pacer);
        let age = Duration::from_micros(entry.age_us).min(MAX_AGE);
        tokio::spawn(async move { pacer.answered(lane, ticket, age, noticed).await });
    }
    mark(StatusCode::NO_CONTENT)
}

/// `POST /v1/leaves`: taken over at once; the pacer tells the store as often as it takes.
pub async fn leaves(State(pacer): Shared, body: Bytes) -> Response {
    let entries: Vec<Leave> = match read(&body) {
        Ok(entries) => entries,
        Err(refused) => return refused.answer(&pacer),
    };
    for entry in entries {
        let (lane, ticket) = match name(&pacer, &entry.policy, entry.client_id, &entry.ticket) {
            Ok(named) => named,
            Err(refused) => return refused.answer(&pacer),
        };
        let pacer = Arc::clone(&pacer);
        tokio::spawn(async move { pacer.leave(lane, ticket, entry.unsent).await });
    }
    mark(StatusCode::NO_CONTENT)
}

/// Why a call gets no turn; asking again would not help.
enum Refused {
    Malformed(String),
    UnknownPolicy(String),
}

impl Refused {
    fn answer(self, pacer: &Pacer) -> Response {
        mark(match self {
            Self::Malformed(detail) => {
                pacer.metrics.refused(Refusal::Malformed);
                problem("malformed", "Malformed call", StatusCode::BAD_REQUEST, detail)
            }
            Self::UnknownPolicy(detail) => {
                pacer.metrics.refused(Refusal::UnknownPolicy);
                problem("unknown-policy", "Unknown policy", StatusCode::NOT_FOUND, detail)
            }
        })
    }
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refused> {
    serde_json::from_slice(body).map_err(|error| Refused::Malformed(error.to_string()))
}

fn call(pacer: &Pacer, request: TurnRequest) -> Result<Call, Refused> {
    let (lane, ticket) = name(pacer, &request.policy, request.client_id, &request.ticket)?;
    if request.since.is_some_and(|since| !(0..MAX_STAMP).contains(&since)) {
        return Err(Refused::Malformed("since: is no stamp that this service gave".to_owned()));
    }
    Ok(Call {
        lane,
        ticket,
        since: request.since,
        age: Duration::from_micros(request.age_us).min(MAX_AGE),
        wait: Duration::from_millis(request.wait_ms.unwrap_or(DEFAULT_WAIT_MS)).min(MAX_WAIT),
    })
}

fn name(pacer: &Pacer, policy: &str, client_id: ClientId, ticket: &str) -> Result<(LaneKey, Ticket), Refused> {
    let ticket = ticket.parse().map_err(|error| Refused::Malformed(format!("ticket: {error}")))?;
    let lane = pacer.lane(policy, client_id).map_err(|error| Refused::UnknownPolicy(error.to_string()))?;
    Ok((lane, ticket))
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
