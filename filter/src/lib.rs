//! Envoy side: find the client id, ask, hold, let go.
//!
//! Everything but the shell is pure: host callbacks come in as events with `now`, and what to do
//! comes out as actions. Nothing here may panic: a trap loses every held request of a worker.

pub mod action;
pub mod backoff;
mod calls;
pub mod config;
pub mod head;
mod outbox;
pub mod request;
pub mod scan;
// Clippy reads the shell too: what it denies matters most there.
#[cfg(any(target_arch = "wasm32", clippy))]
mod shell;
pub mod worker;

/// An instant or a span on the monotonic clock, in microseconds.
pub type Micros = u64;
