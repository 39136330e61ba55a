//! The stores: one contract for both, and the Lua in lockstep with the Rust lane.

mod contract;
mod keys;
mod lockstep;
mod tenure;

use std::sync::Arc;
use std::time::Duration;

use turnstone::policy::{LaneKey, Rules, micros};
use turnstone::store::{RedisStore, Store};
use turnstone_lane::{Bounds, Owner, Pace, Ticket};
use turnstone_protocol::ClientId;
use turnstone_tests::redis::Redis;

fn key(client_id: &str) -> LaneKey {
    let client_id = ClientId::new(client_id).unwrap_or(ClientId::missing());
    LaneKey { policy: "raven".into(), client_id: Arc::new(client_id) }
}

fn rules(interval: Duration, settle: Duration) -> Rules {
    let pace = Pace { interval: micros(interval), settle: micros(settle) };
    Rules { pace, idle_ttl: Duration::from_secs(600), bounds: Bounds::default() }
}

fn ticket(n: u64) -> Ticket {
    Ticket::new(u128::from(n) + 1).expect("not zero")
}

/// A store of a Redis that is known to have lost nothing.
async fn trusted(redis: &Redis) -> RedisStore {
    let (store, _) = RedisStore::open(&redis.url(), ME).expect("a URL");
    store.vouch().await.expect("Redis answers");
    store
}

const ME: Owner = Owner(7);
