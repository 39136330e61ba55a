//! One held call, from its arrival to its turn.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::sleep_until;
use turnstone_lane::{Bounds, Micros, NEW_FOR, Operation, Outcome, Refused, Take, Ticket, Verdict, Waiting};

use super::Pacer;
use super::release::Release;
use super::seat::{Fate, Order, Seat};
use crate::policy::{LaneKey, micros, span};
use crate::store::StoreError;

const FIRST_BACKOFF: Duration = Duration::from_millis(50);
const MAX_BACKOFF: Duration = Duration::from_millis(800);
/// Between two questions of one ticket: a clock that disagrees must not make it spin.
const ASK_SPACING: Duration = Duration::from_millis(1);

/// A call for a turn.
#[derive(Clone, Debug)]
pub struct Call {
    pub lane: LaneKey,
    pub ticket: Ticket,
    /// The arrival stamp that an earlier answer named.
    pub since: Option<Micros>,
    /// How long ago the filter first asked.
    pub age: Duration,
    /// How long the call may be held.
    pub wait: Duration,
}

/// How a held call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// The request may go, now.
    Granted { turn: i64, waited: Duration },
    /// Ask again, same ticket.
    Waiting { since: Option<Micros>, ahead: u64, eta: Duration },
    /// The request is gone; nobody reads this answer.
    Left,
    /// By a bound that the operator set; it would have waited so long.
    Refused { wait: Duration, ahead: u64 },
}

/// What is known of a ticket's place.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    since: Option<Micros>,
    ahead: u64,
    eta: Duration,
}

/// The wait of a call is over, or its seat is.
struct Over;

/// The seat of a call; gives it up when the call ends, however that is.
pub(super) struct Seated<'a> {
    pacer: &'a Pacer,
    pub seat: Arc<Seat>,
    lane: &'a LaneKey,
    pub sits: Option<Micros>,
    /// The call was answered for good: nobody will ask for this ticket again.
    settled: bool,
}

impl Drop for Seated<'_> {
    fn drop(&mut self) {
        self.pacer.house.exit(&self.seat, self.lane, self.sits, !self.settled);
    }
}

impl Pacer {
    /// Holds a call until its turn, or until its wait is over.
    ///
    /// Dropping the future keeps the ticket's place for three seconds.
    pub async fn hold(self: &Arc<Self>, call: Call) -> Held {
        let seat = self.house.enter(call.ticket);
        let mut seated = Seated { pacer: self, seat, lane: &call.lane, sits: None, settled: false };
        let begun = Instant::now();
        let held = self.hold_seated(&call, begun, &mut seated).await;
        seated.settled = !matches!(held, Held::Waiting { .. });
        held
    }

    async fn hold_seated(self: &Arc<Self>, call: &Call, begun: Instant, seated: &mut Seated<'_>) -> Held {
        let deadline = begun + call.wait;
        let mut place = Place { since: call.since, ..Place::default() };
        let mut failures = 0;
        let mut asked = false;
        // Whoever has waited somewhere, in an outage perhaps, first takes its place, then goes over the ramp.
        let mut only_join = micros(call.age) > NEW_FOR || call.since.is_some();
        loop {
            if self.is_draining() || seated.seat.fate() == Some(Fate::Released) {
                return place.ask_again();
            }
            let since = place.since.or_else(|| self.arrival(call.age + begun.elapsed()));
            let (sent, answer) = self.take(call, since, std::mem::take(&mut only_join)).await;
            if answer.is_ok() && !std::mem::replace(&mut asked, true) {
                self.metrics.asked(&call.lane);
            }
            if seated.seat.fate() == Some(Fate::Left) {
                Box::pin(self.remove(&call.lane, call.ticket, true)).await;
                return Held::Left;
            }
            match answer.as_ref().map(|outcome| outcome.verdict) {
                Ok(Verdict::Refused(Refused { wait, ahead })) => return Held::Refused { wait: span(wait), ahead },
                Ok(Verdict::Granted(grant)) => match self.release(call, grant, sent, seated).await {
                    Release::Now => return self.granted(call, &answer, begun),
                    Release::TakeAgain => {
                        self.metrics.renewed(&call.lane);
                        self.take_slot(&seated.seat, deadline).await;
                    }
                    Release::Left => return Held::Left,
                },
                Ok(Verdict::Waiting(waiting)) => {
                    failures = 0;
                    place = self.sit(call, waiting, &answer, seated);
                    match self.wait(call, place.ahead, sent, deadline, &seated.seat).await {
                        Ok(None) => {}
                        // Who is waited for passes by the ramp.
                        Ok(Some(order)) => {
                            only_join = order == Order::Join;
                            continue;
                        }
                        Err(Over) => return place.ask_again(),
                    }
                }
                Ok(Verdict::Changed | Verdict::Unchanged | Verdict::Evicted { .. }) | Err(_) => {
                    failures += 1;
                    self.wait_for_the_store(failures, deadline, &seated.seat).await;
                    if Instant::now() >= deadline {
                        return place.ask_again();
                    }
                    only_join = true;
                    continue;
                }
            }
            self.enter_ramp(call, &seated.seat, deadline).await;
        }
    }

    /// Asks the store; with the instant at which the question went out.
    async fn take(
        self: &Arc<Self>,
        call: &Call,
        since: Option<Micros>,
        only_join: bool,
    ) -> (Instant, Result<Outcome, StoreError>) {
        // Never closed.
        let _permit = self.takes.acquire().await;
        let sent = Instant::now();
        if self.is_holding() {
            return (sent, Err(StoreError::Away));
        }
        let evidence = self.house.evidence(&call.lane, Instant::now());
        // Who was told to wait keeps its place, whatever the bounds are now.
        let bounds = if call.since.is_none() { self.rules_or_hold(&call.lane).bounds } else { Bounds::default() };
        let take = Take { ticket: call.ticket, owner: self.me, since, evidence, bounds, only_join };
        (sent, self.operate(&call.lane, Operation::Take(take)).await)
    }

    fn granted(&self, call: &Call, answer: &Result<Outcome, StoreError>, begun: Instant) -> Held {
        let turn = answer.as_ref().map_or(0, |outcome| outcome.look.revision);
        let waited = begun.elapsed();
        self.metrics.granted(&call.lane, waited + call.age);
        Held::Granted { turn, waited }
    }

    fn sit(
        &self,
        call: &Call,
        waiting: Waiting,
        answer: &Result<Outcome, StoreError>,
        seated: &mut Seated<'_>,
    ) -> Place {
        if seated.sits.is_none() {
            self.house.sit(&call.lane, waiting.since, &seated.seat);
            seated.sits = Some(waiting.since);
        }
        let opens_in = answer.as_ref().map_or(0, |outcome| outcome.look.opens_in.max(0));
        let ahead = i64::try_from(waiting.ahead).unwrap_or(i64::MAX);
        let interval = self.rules_or_hold(&call.lane).pace.interval;
        let eta = span(opens_in.saturating_add(ahead.saturating_mul(interval)));
        Place { since: Some(waiting.since), ahead: waiting.ahead, eta }
    }

    /// Sleeps until this ticket should ask, by itself or because it was told to.
    async fn wait(
        &self,
        call: &Call,
        ahead: u64,
        asked: Instant,
        deadline: Instant,
        seat: &Seat,
    ) -> Result<Option<Order>, Over> {
        loop {
            match seat.fate() {
                Some(Fate::Left) => return Ok(None),
                Some(Fate::Released) => return Err(Over),
                None => {}
            }
            let now = Instant::now();
            if now >= deadline {
                return Err(Over);
            }
            if let Some(order) = seat.take_order() {
                return Ok(Some(order));
            }
            let pace = self.rules_or_hold(&call.lane).pace;
            let ask_at = self.house.ask_at(&call.lane, call.ticket, ahead, now, pace);
            let ask_at = ask_at.map(|at| at.max(asked + ASK_SPACING));
            if ask_at.is_some_and(|at| at <= now) {
                return Ok(None);
            }
            let until = ask_at.map_or(deadline, |at| at.min(deadline));
            tokio::select! {
                () = sleep_until(until.into()) => {}
                () = seat.roused() => {}
            }
        }
    }
}

impl Place {
    fn ask_again(self) -> Held {
        Held::Waiting { since: self.since, ahead: self.ahead, eta: self.eta }
    }
}

/// Doubles up to a cap, and scatters by a half.
pub(super) fn backoff(failures: u32) -> Duration {
    let doubled = FIRST_BACKOFF.saturating_mul(1 << failures.min(6)).min(MAX_BACKOFF);
    doubled.mul_f64(rand::random_range(0.5..1.0))
}
