//! Policies: the rules of one upstream, and where a lane finds its own.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use turnstone_lane::{Bounds, LOOKAHEAD, Micros, Pace};
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
    pub bounds: Bounds,
    /// Clients with rules of their own.
    pub clients: HashMap<ClientId, Client>,
}

/// What differs for a single client; `None`: as the policy says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Client {
    pub interval: Option<Duration>,
    pub bounds: Bounds,
}

/// What governs one lane at this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    pub pace: Pace,
    pub idle_ttl: Duration,
    pub bounds: Bounds,
}

impl Policy {
    pub fn rules(&self, client_id: &ClientId) -> Rules {
        let client = self.clients.get(client_id).copied().unwrap_or_default();
        let interval = client.interval.unwrap_or(self.interval);
        let pace = Pace { interval: micros(interval), settle: micros(self.settle) };
        let bounds = Bounds {
            max_wait: client.bounds.max_wait.or(self.bounds.max_wait),
            max_line: client.bounds.max_line.or(self.bounds.max_line),
        };
        Rules { pace, idle_ttl: self.idle_ttl.max(interval + self.settle), bounds }
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
