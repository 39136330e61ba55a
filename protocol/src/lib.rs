//! What filter and sidecar say to each other: calls, answers, header names.
//!
//! HTTP/2 cleartext, JSON bodies, errors as RFC 9457 problem+json. Built for wasm32 too.

mod client_id;
mod messages;

pub use client_id::ClientId;
pub use messages::{Answer, Granted, Leave, Problem, TurnReply, TurnRequest, Waiting};

/// Ask for a turn: the call is held until the turn comes, or `wait_ms` is over.
pub const TURNS_PATH: &str = "/v1/turns";
/// Tell which requests the upstream answered, and how long ago.
pub const ANSWERS_PATH: &str = "/v1/answers";
/// Tell which requests are gone.
pub const LEAVES_PATH: &str = "/v1/leaves";

/// On every answer of a sidecar. Whatever lacks it came from Envoy itself: ask again.
pub const SIDECAR_MARK: &str = "x-turnstone";
/// On the request to the upstream: the turn's revision, a fencing number.
pub const TURN_HEADER: &str = "x-turnstone-turn";
/// On the response to the caller: how long the request was held, in milliseconds.
pub const WAITED_HEADER: &str = "x-turnstone-waited-ms";
/// Every header of ours begins so; a caller's own are removed.
pub const OWN_HEADERS: &str = "x-turnstone-";

/// The media type of every error (RFC 9457).
pub const PROBLEM_JSON: &str = "application/problem+json";

/// How long a sidecar holds one call before it says "still waiting".
pub const DEFAULT_WAIT_MS: u64 = 25_000;
