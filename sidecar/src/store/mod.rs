//! Where lanes are kept. One trait, two stores, one contract suite that runs on both.

mod clock;
mod memory;
pub mod redis;

use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use turnstone_lane::{Micros, Operation, Outcome, Owner, Revision, Ticket};

pub use clock::{Reading, StoreClock};
pub use memory::MemoryStore;
pub use redis::RedisStore;

use crate::policy::{LaneKey, Rules};

/// Keeps lanes. Every operation is atomic, and safe to repeat with the same ticket.
pub trait Store: Send + Sync + 'static {
    /// Carries out one operation on one lane, at the store's own clock.
    fn apply<'a>(
        &'a self,
        lane: &'a LaneKey,
        operation: Operation,
        rules: Rules,
    ) -> BoxFuture<'a, Result<Outcome, StoreError>>;

    /// Looks after itself: reads its clock, and learns whether it lost what it knew. True: it keeps
    /// lanes closed for now.
    fn watch(&self) -> BoxFuture<'_, Result<bool, StoreError>>;

    /// An operator says that this store has lost nothing.
    fn vouch(&self) -> BoxFuture<'_, Result<(), StoreError>>;

    /// The store's clock at `instant`, as well as it is known here.
    fn clock_at(&self, instant: Instant) -> Option<Reading>;

    /// By how much the store's clock was put forward in the time before now.
    fn stepped_within(&self, _time: Duration) -> Duration {
        Duration::ZERO
    }

    /// Tells another sidecar that its ticket leads now. A hint: it may be lost.
    fn wake(&self, owner: Owner, wake: Wake) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Drops what nothing needs any more; stores that expire by themselves do nothing.
    fn sweep(&self, _rules: &dyn Fn(&LaneKey) -> Option<Rules>) {}
}

/// What a store has to say by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hint {
    /// Another sidecar's word.
    Wake(Wake),
    /// The store may have lost what it knew: whoever waits should ask, to stand in the line again.
    Lost,
    /// Lanes that the store kept closed because of that are open.
    Found,
    /// Something that is not ours stood in this lane's keys, and is taken away.
    Repaired(LaneKey),
}

/// "Your ticket leads its lane; it may go so and so soon." No clock travels, only a span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wake {
    pub lane: LaneKey,
    pub ticket: Ticket,
    pub revision: Revision,
    /// `Look::bound_in` at the time of sending.
    pub bound_in: Option<Micros>,
    pub opens_in: Micros,
}

/// Why a store did not answer. Waiting helps against all of these: hold, and ask again.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("cannot reach Redis: {0}")]
    Unreachable(#[source] ::redis::RedisError),
    #[error("Redis refused: {0}")]
    Refused(#[source] ::redis::RedisError),
    #[error("Redis could not be reached a moment ago")]
    Away,
    #[error("Redis gave an answer that is none of ours: {0}")]
    Garbled(String),
}

impl StoreError {
    /// Nobody answers; else somebody does, but not as hoped.
    pub fn is_absence(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::Away)
    }
}
