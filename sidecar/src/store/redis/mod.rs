//! One schedule for all sidecars: every operation is one script on the keys of one hash slot.

mod keys;
mod link;
mod reply;
mod script;
mod source;
mod tenure;
mod wakes;

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use redis::{FromRedisValue, RedisError, Script, Value};
use tokio::sync::mpsc;
use turnstone_lane::{LOOKAHEAD, Micros, Operation, Outcome, Owner};

use self::link::Link;
use self::reply::Reply;
use self::script::Scripts;
use self::source::Source;
use self::tenure::{Tenure, marker};
use super::{Hint, Reading, Store, StoreClock, StoreError, Wake};
use crate::policy::{LaneKey, Rules, micros, span};

pub use self::source::SENTINEL_FORM;

/// Hints beyond this many that nobody took are dropped; timers stand behind them.
const BACKLOG: usize = 4096;

/// Lanes in one Redis 7 or newer.
#[derive(Debug)]
pub struct RedisStore {
    link: Link,
    scripts: Scripts,
    clock: Mutex<StoreClock>,
    tenure: Tenure,
    hints: mpsc::Sender<Hint>,
}

/// Whether a URL names a Redis that this store can use.
///
/// # Errors
/// It does not; the text says why, and repeats no password.
pub fn check(url: &str) -> Result<(), String> {
    Source::parse(url).map(drop).map_err(|error| error.to_string())
}

impl RedisStore {
    /// Opens nothing yet: a Redis that is away is waited for. Hints for `owner` come by the receiver.
    ///
    /// # Errors
    /// The URL is none that the driver understands.
    pub fn open(url: &str, owner: Owner) -> Result<(Self, mpsc::Receiver<Hint>), StoreError> {
        let source = Arc::new(Source::parse(url).map_err(StoreError::Refused)?);
        let (hints, receiver) = mpsc::channel(BACKLOG);
        wakes::listen(Arc::clone(&source), owner, hints.clone());
        let store = Self {
            link: Link::new(source),
            scripts: Scripts::default(),
            clock: Mutex::default(),
            tenure: Tenure::default(),
            hints,
        };
        Ok((store, receiver))
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
        let hold = span(rules.pace.interval + rules.pace.settle);
        let mut reply = self.run(lane, operation, rules, now, hold).await?;
        let Some(replid) = &reply.stranger else { return Ok(reply.outcome) };
        self.met(replid, Some(hold)).await?;
        self.ask_for_markers().await?;
        if self.tenure.vouch(hold, Instant::now()).is_some() {
            // It is known after all, by a marker or because the hold just ended.
            reply = self.run(lane, operation, rules, now, hold).await?;
        }
        if reply.stranger.is_some() {
            let opens_in = micros(self.tenure.remaining(hold, Instant::now())) + LOOKAHEAD;
            reply.outcome.look.opens_in = reply.outcome.look.opens_in.max(opens_in);
        }
        Ok(reply.outcome)
    }

    async fn run(
        &self,
        lane: &LaneKey,
        operation: Operation,
        rules: Rules,
        now: Option<Micros>,
        hold: Duration,
    ) -> Result<Reply, StoreError> {
        let sent = Instant::now();
        let call = self.scripts.call(lane, operation, rules, now, self.tenure.vouch(hold, sent));
        let reply = match self.link.run(&call).await {
            Err(StoreError::Refused(error)) if is_damage(&error) => {
                self.link.run(&self.scripts.repair(lane, rules)).await?;
                let _ = self.hints.try_send(Hint::Repaired(lane.clone()));
                self.link.run(&call).await?
            }
            other => other?,
        };
        let reply = reply::read(reply)?;
        self.clock.lock().learn(sent, Instant::now(), reply.now);
        Ok(reply)
    }

    /// A node answered under this id; `hold`: and grants nothing to lanes that hold for so long.
    async fn met(&self, replid: &str, hold: Option<Duration>) -> Result<(), StoreError> {
        if !self.tenure.meet(replid, hold, Instant::now()) {
            return Ok(());
        }
        let _ = self.hints.try_send(Hint::Lost);
        self.ask_for_markers().await
    }

    async fn ask_for_markers(&self) -> Result<(), StoreError> {
        let asked = Instant::now();
        let Some((replid, ages)) = self.tenure.wanted(asked) else { return Ok(()) };
        let mut exists = redis::cmd("SCRIPT");
        exists.arg("EXISTS");
        for age in &ages {
            exists.arg(Script::new(&marker(&replid, *age)).get_hash());
        }
        let found: Vec<bool> = read(self.link.query(&exists).await?)?;
        let watched = ages.into_iter().zip(found).filter_map(|(age, found)| found.then_some(age)).max();
        if watched.is_some_and(|age| self.tenure.is_older(&replid, age, asked)) {
            let _ = self.hints.try_send(Hint::Found);
        }
        Ok(())
    }

    async fn load_markers(&self) -> Result<(), StoreError> {
        for marker in self.tenure.due(Instant::now()) {
            self.link.query(redis::cmd("SCRIPT").arg("LOAD").arg(marker)).await?;
        }
        Ok(())
    }

    async fn replid(&self) -> Result<String, StoreError> {
        let info: String = read(self.link.query(redis::cmd("INFO").arg("replication")).await?)?;
        let replid = info.lines().find_map(|line| line.strip_prefix("master_replid:"));
        replid.map(str::to_owned).ok_or_else(|| StoreError::Garbled("INFO without master_replid".to_owned()))
    }

    async fn look_after(&self) -> Result<bool, StoreError> {
        let sent = Instant::now();
        let (seconds, fraction): (Micros, Micros) = read(self.link.query(&redis::cmd("TIME")).await?)?;
        self.clock.lock().learn(sent, Instant::now(), seconds * 1_000_000 + fraction);
        self.met(&self.replid().await?, None).await?;
        if self.tenure.is_awaited() {
            self.ask_for_markers().await?;
        }
        self.load_markers().await?;
        Ok(self.tenure.is_awaited())
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

    fn watch(&self) -> BoxFuture<'_, Result<bool, StoreError>> {
        Box::pin(self.look_after())
    }

    fn vouch(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            let replid = self.replid().await?;
            self.met(&replid, None).await?;
            if self.tenure.is_older(&replid, Tenure::longest(), Instant::now()) {
                let _ = self.hints.try_send(Hint::Found);
            }
            self.load_markers().await
        })
    }

    fn clock_at(&self, instant: Instant) -> Option<Reading> {
        self.clock.lock().at(instant)
    }

    fn stepped_within(&self, time: Duration) -> Duration {
        self.clock.lock().stepped_within(time, Instant::now())
    }

    fn wake(&self, owner: Owner, wake: Wake) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            let publish = wakes::publish(owner, &wake);
            self.link.query(&publish).await.map(drop)
        })
    }
}

fn read<T: FromRedisValue>(value: Value) -> Result<T, StoreError> {
    T::from_redis_value(value).map_err(|error| StoreError::Garbled(error.to_string()))
}

/// A key of the lane holds something that is not ours.
fn is_damage(error: &RedisError) -> bool {
    matches!(error.code(), Some("WRONGTYPE" | "DAMAGED"))
}
