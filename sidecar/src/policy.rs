//! Policies: the rules of one upstream, and where a lane finds its own.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use turnstone_lane::{LOOKAHEAD, Micros, Pace};
use turnstone_protocol::ClientId;

/// Shorter intervals cannot be told from the lookahead.
pub const MIN_INTERVAL: Duration = Duration::from_micros(5 * LOOKAHEAD as u64);
pub const MIN_SETTLE: Duration = Duration::from_millis(20);
pub const DEFAULT_SETTLE: Duration = Duration::from_millis(250);
pub const DEFAULT_IDLE_TTL: Duration = Duration::from_secs(3600);

/// The rule set of one upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    pub interval: Duration,
    pub settle: Duration,
    /// How long a lane is remembered after its last request.
    pub idle_ttl: Duration,
    /// Intervals of single clients.
    pub clients: HashMap<ClientId, Duration>,
}

/// What governs one lane at this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    pub pace: Pace,
    pub idle_ttl: Duration,
}

impl Policy {
    pub fn rules(&self, client_id: &ClientId) -> Rules {
        let interval = *self.clients.get(client_id).unwrap_or(&self.interval);
        let pace = Pace { interval: micros(interval), settle: micros(self.settle) };
        Rules { pace, idle_ttl: self.idle_ttl.max(interval + self.settle) }
    }
}

/// Every policy by its name.
pub type Policies = HashMap<Arc<str>, Policy>;

/// The name of one lane: a client of one policy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneKey {
    pub policy: Arc<str>,
    pub client_id: Arc<ClientId>,
}

/// Saturates at 292,000 years.
pub fn micros(span: Duration) -> Micros {
    Micros::try_from(span.as_micros()).unwrap_or(Micros::MAX)
}

/// A span in microseconds as a duration; a negative one is zero.
pub fn span(micros: Micros) -> Duration {
    Duration::from_micros(micros.max(0).unsigned_abs())
}
