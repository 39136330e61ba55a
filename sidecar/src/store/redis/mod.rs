//! One schedule for all sidecars: every operation is one script on the keys of one hash slot.

mod keys;
mod link;
mod reply;
mod script;
mod wakes;

use std::time::Instant;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use turnstone_lane::{Micros, Operation, Outcome, Owner};

use self::link::Link;
use self::script::Scripts;
use super::{Store, StoreClock, StoreError, Wake};
use crate::policy::{LaneKey, Rules};

/// Lanes in one Redis 7 or newer.
#[derive(Debug)]
pub struct RedisStore {
    link: Link,
    scripts: Scripts,
    clock: Mutex<StoreClock>,
}

impl RedisStore {
    /// Opens nothing yet: a Redis that is away is waited for. Wakes for `owner` come by the receiver.
    ///
    /// # Errors
    /// The URL is none that the driver understands.
    pub fn open(url: &str, owner: Owner) -> Result<(Self, mpsc::Receiver<Wake>), StoreError> {
        let client = redis::Client::open(url).map_err(StoreError::Refused)?;
        let wakes = wakes::listen(client.clone(), owner);
        let link = Link::new(client);
        Ok((Self { link, scripts: Scripts::default(), clock: Mutex::default() }, wakes))
    }

    /// As [`Store::apply`], at a given `now` instead of Redis' own; for tests in lockstep.
    ///
    /// # Errors
    /// As [`Store::apply`].
    pub async fn apply_at(
        &self,
        lane: &LaneKey,
        operation: Operation,
        rules: Rules,
        now: Option<Micros>,
    ) -> Result<Outcome, StoreError> {
        let call = self.scripts.call(lane, operation, rules, now);
        let sent = Instant::now();
        let reply = self.link.run(&call).await?;
        let (reading, outcome) = reply::read(&reply)?;
        self.clock.lock().learn(sent, Instant::now(), reading);
        Ok(outcome)
    }
}

impl Store for RedisStore {
    fn apply<'a>(
        &'a self,
        lane: &'a LaneKey,
        operation: Operation,
        rules: Rules,
    ) -> BoxFuture<'a, Result<Outcome, StoreError>> {
        Box::pin(self.apply_at(lane, operation, rules, None))
    }

    fn clock_at(&self, instant: Instant) -> Option<Micros> {
        self.clock.lock().at(instant)
    }

    fn wake(&self, owner: Owner, wake: Wake) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            let publish = wakes::publish(owner, &wake);
            self.link.query(&publish).await.map(drop)
        })
    }
}
