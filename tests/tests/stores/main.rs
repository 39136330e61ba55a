//! The stores: one contract for both, and the Lua in lockstep with the Rust lane.

mod contract;
mod keys;
mod lockstep;

use std::sync::Arc;
use std::time::Duration;

use turnstone::policy::{LaneKey, Rules, micros};
use turnstone_lane::{Owner, Pace, Ticket};
use turnstone_protocol::ClientId;

fn key(client_id: &str) -> LaneKey {
    let client_id = ClientId::new(client_id).unwrap_or(ClientId::missing());
    LaneKey { policy: "raven".into(), client_id: Arc::new(client_id) }
}

fn rules(interval: Duration, settle: Duration) -> Rules {
    let pace = Pace { interval: micros(interval), settle: micros(settle) };
    Rules { pace, idle_ttl: Duration::from_secs(600) }
}

fn ticket(n: u64) -> Ticket {
    Ticket::new(u128::from(n) + 1).expect("not zero")
}

const ME: Owner = Owner(7);
