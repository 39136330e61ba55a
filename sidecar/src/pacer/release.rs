//! The last steps to a turn: its start, the floors under it, and the ramp.

use std::sync::Arc;
use std::time::Instant;

use tokio::time::sleep_until;
use turnstone_lane::{Grant, Pace};

use super::Pacer;
use super::hold::{Call, Seated, backoff};
use super::seat::{Fate, Seat};
use crate::policy::span;

/// What a granted ticket does next.
pub(super) enum Release {
    Now,
    TakeAgain,
    Left,
}

impl Pacer {
    /// Waits for the turn to start. A turn that took too long to get here is not used.
    pub(super) async fn release(
        self: &Arc<Self>,
        call: &Call,
        grant: Grant,
        sent: Instant,
        seated: &mut Seated<'_>,
    ) -> Release {
        if let Some(since) = seated.sits.take() {
            self.house.stand(&call.lane, since, call.ticket);
        }
        let pace = self.rules_or_hold(&call.lane).pace;
        let due = Instant::now() + span(grant.start_in);
        let start = self.floor(call, grant, pace).map_or(due, |floor| floor.max(due));
        if start > due {
            self.metrics.floored(&call.lane);
        }
        while Instant::now() < start && seated.seat.fate().is_none() {
            tokio::select! {
                _ = async_io::Timer::at(start) => {}
                () = seated.seat.roused() => {}
            }
        }
        if seated.seat.fate() == Some(Fate::Left) {
            Box::pin(self.remove(&call.lane, call.ticket, true)).await;
            return Release::Left;
        }
        if Instant::now() >= sent + span(grant.start_in) + span(pace.settle) / 2 {
            return Release::TakeAgain;
        }
        self.house.let_go(&call.lane, call.ticket);
        Release::Now
    }

    /// No turn begins before this, whatever the store says: not within an interval of the last one that
    /// began here, and not sooner because the store's clock was put forward.
    fn floor(&self, call: &Call, grant: Grant, pace: Pace) -> Option<Instant> {
        let here = self.house.floor(&call.lane, call.ticket, pace);
        let stepped = self.store.stepped_within(span(pace.interval + pace.settle)).min(span(pace.interval));
        let later = (!grant.again && !stepped.is_zero()).then(|| Instant::now() + stepped);
        here.max(later)
    }

    /// While the store is away nobody asks but the watch: ten thousand waiters are one attempt.
    pub(super) async fn wait_for_the_store(&self, failures: u32, deadline: Instant, seat: &Seat) {
        let recovered = self.recovered.notified();
        tokio::pin!(recovered);
        recovered.as_mut().enable();
        let until = if self.is_holding() { deadline } else { deadline.min(Instant::now() + backoff(failures)) };
        tokio::select! {
            () = sleep_until(until.into()) => {}
            () = seat.roused() => {}
            () = recovered => {}
        }
    }

    /// Thousands that are due in one instant, after an outage say, go one after the other.
    pub(super) async fn enter_ramp(&self, call: &Call, seat: &Seat, deadline: Instant) {
        let pace = self.rules_or_hold(&call.lane).pace;
        if self.house.is_due(&call.lane, Instant::now(), pace).unwrap_or(true) {
            self.take_slot(seat, deadline).await;
        }
    }

    pub(super) async fn take_slot(&self, seat: &Seat, deadline: Instant) {
        let slot = self.ramp.lock().slot(Instant::now()).min(deadline);
        if slot <= Instant::now() {
            return;
        }
        self.metrics.ramped();
        // Another sidecar that waits behind this one asks where it is: it must not be taken for dead.
        while Instant::now() < slot && seat.fate().is_none() && !seat.must_go() {
            tokio::select! {
                () = sleep_until(slot.into()) => {}
                () = seat.roused() => {}
            }
        }
    }
}
