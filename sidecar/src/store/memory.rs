//! The embedded default: lanes in this process.

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures_util::future::{BoxFuture, ready};
use parking_lot::Mutex;
use turnstone_lane::{Lane, Micros, Operation, Outcome, Owner};

use super::{Reading, Store, StoreError, Wake};
use crate::policy::{LaneKey, Rules, micros};

/// It cannot know what a former process granted: each lane counts as granted when this one began.
#[derive(Debug)]
pub struct MemoryStore {
    began: Instant,
    began_at: Micros,
    lanes: Mutex<HashMap<LaneKey, Entry>>,
}

#[derive(Debug)]
struct Entry {
    lane: Lane,
    touched: Micros,
}

impl MemoryStore {
    /// The wall clock is read once, so that stamps of a former process sort before ours.
    pub fn start() -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Self { began: Instant::now(), began_at: micros(since_epoch), lanes: Mutex::default() }
    }

    /// Lanes in memory.
    pub fn len(&self) -> usize {
        self.lanes.lock().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn read(&self, instant: Instant) -> Micros {
        self.began_at + micros(instant.saturating_duration_since(self.began))
            - micros(self.began.saturating_duration_since(instant))
    }

    fn apply_now(&self, key: &LaneKey, operation: Operation, rules: Rules) -> Outcome {
        let now = self.read(Instant::now());
        let mut lanes = self.lanes.lock();
        if let Some(entry) = lanes.get_mut(key) {
            entry.touched = now;
            return entry.lane.apply(operation, now, rules.pace);
        }
        let mut lane = Lane::unknown(self.began_at);
        let outcome = lane.apply(operation, now, rules.pace);
        lanes.insert(key.clone(), Entry { lane, touched: now });
        outcome
    }
}

impl Store for MemoryStore {
    fn apply<'a>(
        &'a self,
        lane: &'a LaneKey,
        operation: Operation,
        rules: Rules,
    ) -> BoxFuture<'a, Result<Outcome, StoreError>> {
        Box::pin(ready(Ok(self.apply_now(lane, operation, rules))))
    }

    fn watch(&self) -> BoxFuture<'_, Result<bool, StoreError>> {
        Box::pin(ready(Ok(false)))
    }

    fn vouch(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(ready(Ok(())))
    }

    fn clock_at(&self, instant: Instant) -> Option<Reading> {
        Some(Reading { time: self.read(instant), error: Duration::ZERO })
    }

    fn wake(&self, _owner: Owner, _wake: Wake) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(ready(Ok(())))
    }

    fn sweep(&self, rules: &dyn Fn(&LaneKey) -> Option<Rules>) {
        let now = self.read(Instant::now());
        self.lanes.lock().retain(|key, entry| {
            rules(key).is_some_and(|rules| {
                now - entry.touched < micros(rules.idle_ttl) || !entry.lane.is_idle(now, rules.pace)
            })
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use turnstone_lane::Pace;
    use turnstone_protocol::ClientId;

    use super::*;

    #[test]
    fn an_idle_lane_costs_nothing_after_its_ttl() {
        let store = MemoryStore::start();
        let client_id = Arc::new(ClientId::new("a").unwrap());
        let key = LaneKey { policy: "raven".into(), client_id };
        let pace = Pace { interval: 1, settle: 1 };
        let rules = |idle_ttl| Rules { pace, idle_ttl, bounds: Default::default() };
        store.apply_now(&key, Operation::Look, rules(Duration::ZERO));
        store.sweep(&|_| Some(rules(Duration::from_secs(60))));
        assert_eq!(store.len(), 1);
        store.sweep(&|_| Some(rules(Duration::ZERO)));
        assert!(store.is_empty());
    }
}
