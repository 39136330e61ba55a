//! When a request may go: the line and the clock of one (policy, client id).
//!
//! A [`Lane`] is a pure state machine. It reads no clock and does no I/O: every operation takes
//! `now`, and says what to do and when the lane opens next. All times are integer microseconds
//! on one clock, whichever the store uses.

mod lane;
mod line;
mod types;

pub use lane::{Lane, Last};
pub use types::{
    Bounds, EVICT_SLICE, Evidence, Grant, Head, LOOKAHEAD, Look, Micros, NEW_FOR, Operation, Outcome, Owner, Pace,
    Refused, Revision, Take, Ticket, Verdict, Waiting,
};
