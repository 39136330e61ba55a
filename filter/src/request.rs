//! One request, from its head to its end: `Reading → Asking → (Backoff → Asking)* → Passed | Refused`.

use std::borrow::Cow;

use turnstone_protocol::{Answer, ClientId, DEFAULT_WAIT_MS, Granted, Leave, Problem, TurnReply, TurnRequest, Waiting};

use crate::Micros;
use crate::config::{Rule, Source};
use crate::head::Head;
use crate::scan;

/// A sidecar that says "ask again" sooner than this is going away: do not spin with it.
const TOO_SOON: Micros = 200_000;
/// Headers that the sidecar gets too, so that its log and traces can be matched.
const TRACE_HEADERS: [&str; 2] = ["traceparent", "x-request-id"];

/// What stands between a request and its turn.
#[derive(Debug)]
pub enum Request {
    /// The body is not complete.
    Reading(Reading),
    /// A call to the sidecar is open.
    Asking { ask: Ask, sent_at: Micros },
    /// The next call goes out at `due`.
    Backoff { ask: Ask, due: Micros },
    /// On its way to raven, under its turn.
    Passed { ask: Ask, waited: Micros },
    /// Answered here; the stream is about to end.
    Refused,
}

/// What is known of a request whose body is not complete.
#[derive(Debug)]
pub struct Reading {
    pub rule: usize,
    candidates: Vec<Candidate>,
    trace: Trace,
}

/// Where an id may be, in the order of the rule's sources.
#[derive(Debug)]
enum Candidate {
    Found(ClientId),
    InBody(Source),
}

type Trace = Vec<(&'static str, String)>;

/// A request for a turn; repeated with the same ticket.
#[derive(Debug)]
pub struct Ask {
    pub policy: String,
    pub client_id: ClientId,
    pub ticket: String,
    pub trace: Trace,
    since: Option<i64>,
    first_asked: Micros,
    failures: u32,
}

/// What the head alone says about the client.
#[derive(Debug)]
pub enum Search {
    Found(ClientId),
    Missing,
    /// Only the body can tell.
    Reading(Reading),
}

impl Search {
    /// Looks in the head; `bodiless`: there is no body, or none to wait for.
    pub fn begin(rule: usize, sources: &[Source], head: &Head<'_>, bodiless: bool) -> Self {
        let mut candidates = Vec::new();
        for source in sources {
            let id = match source {
                Source::Header(name) => head.get(&name.0).and_then(ClientId::new),
                Source::Query(field) => scan::form(head.query().as_bytes(), field).as_deref().and_then(ClientId::new),
                Source::Json(_) | Source::Form(_) => {
                    let readable = !bodiless && (matches!(source, Source::Json(_)) || head.is_form());
                    candidates.extend(readable.then(|| Candidate::InBody(source.clone())));
                    None
                }
            };
            match id {
                Some(id) if candidates.is_empty() => return Self::Found(id),
                Some(id) => candidates.push(Candidate::Found(id)),
                None => {}
            }
        }
        if candidates.is_empty() {
            return Self::Missing;
        }
        Self::Reading(Reading { rule, candidates, trace: trace(head) })
    }
}

impl Reading {
    /// The body is complete: whose request is it?
    pub fn end(self, body: &[u8]) -> (Option<ClientId>, Trace) {
        let found = self.candidates.into_iter().find_map(|candidate| match candidate {
            Candidate::Found(id) => Some(id),
            Candidate::InBody(source) => in_body(&source, body).as_deref().and_then(ClientId::new),
        });
        (found, self.trace)
    }
}

fn in_body<'a>(source: &Source, body: &'a [u8]) -> Option<Cow<'a, str>> {
    match source {
        Source::Json(pointer) => scan::json(body, pointer),
        Source::Form(field) => scan::form(body, field),
        Source::Header(_) | Source::Query(_) => None,
    }
}

/// The headers that travel with an ask.
pub fn trace(head: &Head<'_>) -> Trace {
    TRACE_HEADERS.iter().filter_map(|name| Some((*name, head.get(name)?.to_owned()))).collect()
}

/// What the sidecar, or Envoy in its place, said to an ask.
#[derive(Debug)]
pub enum Reply<'a> {
    Sidecar {
        status: u16,
        retry_after: Option<String>,
        body: &'a [u8],
    },
    /// Refused, timed out, reset: the sidecar said nothing.
    Nobody,
}

/// What follows from a reply.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    Release {
        turn: i64,
    },
    AskAgainNow,
    AskAgainLater,
    Refuse(Refusal),
    /// As `AskAgainLater`; where the operator said `fail_open`, pass.
    Unreachable,
}

/// A local reply.
#[derive(Debug, PartialEq, Eq)]
pub struct Refusal {
    pub status: u16,
    pub retry_after: Option<String>,
    /// problem+json
    pub body: Vec<u8>,
}

impl Refusal {
    pub fn new(kind: &str, title: &'static str, status: u16, detail: impl Into<String>) -> Self {
        let body = serde_json::to_vec(&Problem::new(kind, title, status, detail)).unwrap_or_default();
        Self { status, retry_after: None, body }
    }
}

impl Ask {
    pub fn new(rule: &Rule, client_id: ClientId, ticket: String, trace: Trace, now: Micros) -> Self {
        let policy = rule.policy.clone();
        Self { policy, client_id, ticket, trace, since: None, first_asked: now, failures: 0 }
    }

    pub fn is_first(&self) -> bool {
        self.failures == 0 && self.since.is_none()
    }

    /// The call's body.
    pub fn body(&self, now: Micros) -> Vec<u8> {
        let request = TurnRequest {
            policy: self.policy.clone(),
            client_id: self.client_id.clone(),
            ticket: self.ticket.clone(),
            since: self.since,
            age_us: self.waited(now),
            wait_ms: Some(DEFAULT_WAIT_MS),
        };
        serde_json::to_vec(&request).unwrap_or_default()
    }

    pub fn waited(&self, now: Micros) -> Micros {
        now.saturating_sub(self.first_asked)
    }

    /// Failures in a row, this one included.
    pub fn fail(&mut self) -> u32 {
        self.failures = self.failures.saturating_add(1);
        self.failures
    }

    pub fn hear(&mut self, reply: &Reply<'_>, sent_at: Micros, now: Micros) -> Next {
        let Reply::Sidecar { status, retry_after, body } = reply else { return Next::Unreachable };
        match (status, serde_json::from_slice(body)) {
            (200, Ok(TurnReply::Granted(Granted { turn, .. }))) => Next::Release { turn },
            (202, Ok(TurnReply::Waiting(Waiting { since, .. }))) => {
                self.since = since.or(self.since);
                if now.saturating_sub(sent_at) < TOO_SOON {
                    return Next::AskAgainLater;
                }
                self.failures = 0;
                Next::AskAgainNow
            }
            (429, _) => {
                let retry_after = retry_after.clone();
                Next::Refuse(Refusal { status: 429, retry_after, body: body.to_vec() })
            }
            (400 | 404, _) => Next::Refuse(misconfigured(*status, body)),
            (_, _) => Next::AskAgainLater,
        }
    }

    pub fn answer(self, age_us: Micros) -> Answer {
        Answer { policy: self.policy, client_id: self.client_id, ticket: self.ticket, age_us }
    }

    pub fn leave(self, unsent: bool) -> Leave {
        Leave { policy: self.policy, client_id: self.client_id, ticket: self.ticket, unsent }
    }
}

/// Filter and sidecar do not fit together: no fault of the caller.
fn misconfigured(status: u16, body: &[u8]) -> Refusal {
    let detail = match serde_json::from_slice::<Problem>(body) {
        Ok(problem) => problem.detail,
        Err(_) => format!("the sidecar answered {status}"),
    };
    Refusal::new("pacing-misconfigured", "Pacing is misconfigured", 500, detail)
}
