//! Holds calls until their turn. The only one that sleeps.

mod head;
mod health;
mod hold;
mod house;
mod local;
mod ramp;
mod release;
mod seat;

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use tokio::sync::{Notify, Semaphore};
use turnstone_lane::{Look, Micros, Operation, Outcome, Owner, Ticket, Verdict};
use turnstone_protocol::ClientId;

pub use hold::{Call, Held};

use self::house::House;
use self::ramp::Ramp;
use crate::metrics::Metrics;
use crate::policy::{LaneKey, Policies, Rules, micros};
use crate::store::{Store, StoreError};

const MOST_TAKES: usize = 256;
/// Requests that arrive at two sidecars so close to each other have no order.
const EXACT: Duration = Duration::from_micros(500);
/// A leave is worth some tries; after that the ticket is found by its absence.
const LEAVE_TRIES: u32 = 8;

/// Decides nothing about when: it asks the store, sleeps, and asks again.
#[derive(Debug)]
pub struct Pacer {
    me: Owner,
    store: Arc<dyn Store>,
    policies: RwLock<Arc<Policies>>,
    house: House,
    ramp: Mutex<Ramp>,
    holding: AtomicBool,
    recovered: Notify,
    /// Questions under way: more would wait in Redis' pipe, and their grants grow old there.
    takes: Semaphore,
    /// When a refusal was last logged.
    refused: Mutex<Option<Instant>>,
    draining: AtomicBool,
    pub metrics: Metrics,
}

impl std::fmt::Debug for dyn Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Store")
    }
}

/// The policy is none of ours.
#[derive(Debug, thiserror::Error)]
#[error("there is no policy {name:?}; configured are: {known}")]
pub struct UnknownPolicy {
    name: String,
    known: String,
}

impl Pacer {
    /// `ramp`: how many held calls go per second when more than that are due at once.
    pub fn new(me: Owner, store: Arc<dyn Store>, policies: Policies, ramp: NonZeroU32) -> Arc<Self> {
        Arc::new(Self {
            me,
            store,
            policies: RwLock::new(Arc::new(policies)),
            house: House::default(),
            ramp: Mutex::new(Ramp::new(ramp, Instant::now())),
            holding: AtomicBool::new(false),
            recovered: Notify::new(),
            takes: Semaphore::new(MOST_TAKES),
            refused: Mutex::new(None),
            draining: AtomicBool::new(false),
            metrics: Metrics::new(),
        })
    }

    /// The lane of a client, if the policy is known.
    ///
    /// # Errors
    /// It is not; the message names those that are.
    pub fn lane(&self, policy: &str, client_id: ClientId) -> Result<LaneKey, UnknownPolicy> {
        let policies = self.policies.read();
        match policies.get_key_value(policy) {
            Some((name, _)) => Ok(LaneKey { policy: Arc::clone(name), client_id: Arc::new(client_id) }),
            None => {
                let mut known: Vec<&str> = policies.keys().map(AsRef::as_ref).collect();
                known.sort_unstable();
                Err(UnknownPolicy { name: policy.to_owned(), known: known.join(", ") })
            }
        }
    }

    /// Replaces all policies; every timer is set anew under the new intervals.
    pub fn reload(&self, policies: Policies) {
        *self.policies.write() = Arc::new(policies);
        self.house.rouse_all();
    }

    /// The upstream answered this request `age` before `noticed`.
    pub async fn answered(self: &Arc<Self>, key: LaneKey, ticket: Ticket, age: Duration, noticed: Instant) {
        let age = micros(age + noticed.elapsed());
        // A lost answer costs one settle at most: not worth a second try.
        let _ = self.operate(&key, Operation::Answered { ticket, age }).await;
    }

    /// The request is gone; `unsent`: it certainly never went out.
    pub async fn leave(self: &Arc<Self>, key: LaneKey, ticket: Ticket, unsent: bool) {
        self.house.leave(&key, ticket, unsent);
        self.metrics.left(&key);
        self.remove(&key, ticket, unsent).await;
    }

    /// How a lane stands.
    ///
    /// # Errors
    /// The store does not answer.
    pub async fn look(self: &Arc<Self>, key: &LaneKey) -> Result<Look, StoreError> {
        self.operate(key, Operation::Look).await.map(|outcome| outcome.look)
    }

    /// Closes a lane for a while, on the store's clock; zero opens it.
    ///
    /// # Errors
    /// The store does not answer.
    pub async fn pause(self: &Arc<Self>, key: &LaneKey, time: Duration) -> Result<Look, StoreError> {
        self.operate(key, Operation::Look).await?;
        let operation = match self.store.clock_at(Instant::now()) {
            Some(now) if !time.is_zero() => Operation::Pause { until: now.time + micros(time) },
            _ => Operation::Resume,
        };
        self.operate(key, operation).await.map(|outcome| outcome.look)
    }

    /// Every held call is told to ask again; later ones too.
    pub fn drain(&self) -> usize {
        self.draining.store(true, Ordering::Release);
        self.house.release_all()
    }

    /// The store does not answer: everything is held.
    pub fn is_holding(&self) -> bool {
        self.holding.load(Ordering::Acquire)
    }

    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    /// Calls held at this moment.
    pub fn held(&self) -> usize {
        self.house.held()
    }

    fn rules(&self, key: &LaneKey) -> Option<Rules> {
        self.policies.read().get(&key.policy).map(|policy| policy.rules(&key.client_id))
    }

    /// The rules of a lane; of a policy that a reload removed, the strictest there are.
    fn rules_or_hold(&self, key: &LaneKey) -> Rules {
        self.rules(key).unwrap_or(Rules {
            pace: turnstone_lane::Pace { interval: micros(Duration::from_secs(60)), settle: 250_000 },
            idle_ttl: crate::policy::DEFAULT_IDLE_TTL,
            bounds: turnstone_lane::Bounds::default(),
        })
    }

    /// One operation on the store: learns from the answer, and tells a new head.
    async fn operate(self: &Arc<Self>, key: &LaneKey, operation: Operation) -> Result<Outcome, StoreError> {
        let rules = self.rules_or_hold(key);
        let begun = Instant::now();
        let result = self.store.apply(key, operation, rules).await;
        self.metrics.store_call(begun.elapsed(), result.is_ok());
        match &result {
            Err(StoreError::Unreachable(_)) => self.hold_on(true, result.as_ref().err()),
            Err(StoreError::Away) | Ok(_) => {}
            Err(error) => self.notice_refusal(error),
        }
        let outcome = result?;
        self.house.learn(key, &outcome.look, Instant::now(), rules.pace);
        match outcome.verdict {
            Verdict::Granted(_) | Verdict::Changed | Verdict::Evicted { .. } => self.tell_head(key, &outcome.look),
            Verdict::Waiting(_) => self.mind_the_head(key, &outcome.look),
            Verdict::Unchanged | Verdict::Refused(_) => {}
        }
        Ok(outcome)
    }

    pub(super) fn remove_later(self: &Arc<Self>, key: LaneKey, ticket: Ticket) {
        let pacer = Arc::clone(self);
        tokio::spawn(async move { Box::pin(pacer.remove(&key, ticket, false)).await });
    }

    async fn remove(self: &Arc<Self>, key: &LaneKey, ticket: Ticket, unsent: bool) {
        for again in 0..LEAVE_TRIES {
            if self.operate(key, Operation::Leave { ticket, unsent }).await.is_ok() {
                return;
            }
            tokio::time::sleep(hold::backoff(again)).await;
        }
    }

    fn sweep(self: &Arc<Self>) {
        for (key, ticket) in self.house.sweep(Instant::now(), |key| self.rules(key)) {
            self.metrics.detached(&key);
            self.remove_later(key, ticket);
        }
        self.store.sweep(&|key| self.rules(key));
        self.metrics.held(self.held());
    }

    /// When a request arrived that first asked `age` ago, on the store's clock. `None`: the store itself
    /// says so better, as the request is new and its clock not well known here.
    fn arrival(&self, age: Duration) -> Option<Micros> {
        let reading = self.store.clock_at(Instant::now())?;
        (reading.error <= age.max(EXACT)).then(|| reading.time - micros(age))
    }
}
