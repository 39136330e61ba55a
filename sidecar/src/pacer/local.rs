//! What this process knows of one lane: who waits here, and when to ask next. Pure: `now` is an argument.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use turnstone_lane::{Evidence, Head, LOOKAHEAD, Look, Micros, Owner, Pace, Revision, Ticket};

use super::seat::{Order, Seat};
use crate::policy::{micros, span};

/// Asking this long before the lane opens lets the store grant early, and the hold end on time.
const ASK_EARLY: Duration = Duration::from_micros(LOOKAHEAD as u64 * 8 / 10);
/// A head that is this late may be dead, and a message about a new head may be lost.
const GRACE: Duration = Duration::from_millis(500);
/// A head that does not show up for this long after the first complaint is evicted.
const PATIENCE: Duration = Duration::from_secs(1);

/// One lane as this process sees it.
#[derive(Debug, Default)]
pub(super) struct LocalLane {
    /// In the order of the line. Nearly all join at the end and leave at the front.
    seats: VecDeque<((Micros, Ticket), Arc<Seat>)>,
    known: Option<Known>,
    head: Option<Head>,
    suspect: Option<(Ticket, Instant)>,
    /// The last turn that began here, by this process' own clock.
    let_go: Option<(Ticket, Instant)>,
    /// When all who wait here were last told to ask.
    asked_all: Option<Instant>,
}

/// The last grant by this process' monotonic clock: never earlier than it really was.
#[derive(Clone, Copy, Debug)]
struct Known {
    revision: Revision,
    bound: Option<Instant>,
    /// A pause: the lane opens no earlier, whatever the interval says.
    closed_until: Option<Instant>,
}

/// What to do about a head of another process that is overdue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Complaint {
    Nudge(Head),
    Evict(Head),
}

impl LocalLane {
    /// Learns how the lane stands, from a reply or a wake that came in at `received`.
    pub fn learn(&mut self, look: &Look, received: Instant, pace: Pace) {
        let bound = look.bound_in.and_then(|bound_in| shifted(received, bound_in));
        let free_in = look.bound_in.map_or(0, |bound_in| bound_in + pace.interval);
        let paused = look.opens_in > free_in.max(0);
        let closed_until = paused.then(|| received + span(look.opens_in));
        let new = Known { revision: look.revision, bound, closed_until };
        match &mut self.known {
            Some(known) if known.revision > new.revision => return,
            Some(known) if known.revision == new.revision => {
                known.bound = known.bound.zip(new.bound).map(|(a, b)| a.min(b));
                known.closed_until = closed_until;
            }
            known => *known = Some(new),
        }
        self.head = look.head;
    }

    /// A ticket waits here now.
    pub fn seat(&mut self, since: Micros, seat: &Arc<Seat>) {
        let place = (since, seat.ticket);
        match self.find(place) {
            Ok(index) => self.seats[index].1 = Arc::clone(seat),
            Err(index) => self.seats.insert(index, (place, Arc::clone(seat))),
        }
    }

    /// A ticket waits here no more; the first of those that remain takes over the timer.
    pub fn unseat(&mut self, since: Micros, ticket: Ticket) {
        if let Ok(index) = self.find((since, ticket)) {
            self.seats.remove(index);
        }
        self.rouse_first();
    }

    /// A turn begins here.
    pub fn let_go(&mut self, ticket: Ticket, now: Instant) {
        self.let_go = Some((ticket, now));
    }

    /// A turn that began here was not used.
    pub fn take_back(&mut self, ticket: Ticket) {
        self.let_go.take_if(|(last, _)| *last == ticket);
    }

    /// No turn of another ticket begins here before this, whatever the store says.
    pub fn floor(&self, ticket: Ticket, pace: Pace) -> Option<Instant> {
        let (_, at) = self.let_go.filter(|(last, _)| *last != ticket)?;
        at.checked_add(span(pace.interval))
    }

    /// The line is shorter than the number of those who wait in it here: it lost some.
    pub fn mend(&mut self, look: &Look, now: Instant) {
        let lost = usize::try_from(look.waiting).is_ok_and(|waiting| waiting < self.seats.len());
        let lately = self.asked_all.is_some_and(|at| now.saturating_duration_since(at) < PATIENCE);
        if lost && !lately {
            self.asked_all = Some(now);
            self.seats.iter().for_each(|(_, seat)| seat.order(Order::Join));
        }
    }

    /// The first here asks at once, to stand in the line if the store forgot it.
    pub fn ask_first(&self) {
        if let Some((_, first)) = self.seats.front() {
            first.order(Order::Join);
        }
    }

    /// The store keeps the lane closed no longer.
    pub fn reopen(&mut self) {
        if let Some(known) = &mut self.known {
            known.closed_until = None;
        }
        self.rouse_first();
    }

    pub fn rouse_first(&self) {
        if let Some((_, first)) = self.seats.front() {
            first.rouse();
        }
    }

    /// What this process can swear about the last grant.
    pub fn evidence(&self, now: Instant) -> Option<Evidence> {
        let known = self.known?;
        let bound = known.bound?;
        let age = micros(now.saturating_duration_since(bound)) - micros(bound.saturating_duration_since(now));
        Some(Evidence { revision: known.revision, age })
    }

    /// When this ticket should ask; `None`: another one here does so before.
    pub fn ask_at(&self, ticket: Ticket, ahead: u64, now: Instant, pace: Pace) -> Option<Instant> {
        let opens = self.opens_at(now, pace);
        if self.head.is_some_and(|head| head.ticket == ticket) {
            return Some(earlier(opens, ASK_EARLY));
        }
        let first = self.seats.front().is_some_and(|((_, first), _)| *first == ticket);
        first.then(|| {
            let intervals = u32::try_from(ahead).unwrap_or(u32::MAX);
            let expected = opens.checked_add(span(pace.interval).saturating_mul(intervals));
            let overdue = opens + GRACE.min(span(pace.interval) / 2);
            expected.map_or(overdue, |expected| earlier(expected, ASK_EARLY).min(overdue))
        })
    }

    /// Looks at a head of another process after `look` found this lane open and nobody going.
    pub fn complain(&mut self, look: &Look, me: Owner, now: Instant) -> Option<Complaint> {
        let overdue = look.opens_in < -micros(GRACE) / 2;
        let Some(head) = look.head.filter(|head| overdue && head.owner != me) else {
            self.suspect = None;
            return None;
        };
        match self.suspect {
            Some((ticket, at)) if ticket == head.ticket => {
                (now.saturating_duration_since(at) >= PATIENCE).then_some(Complaint::Evict(head))
            }
            _ => {
                self.suspect = Some((head.ticket, now));
                Some(Complaint::Nudge(head))
            }
        }
    }

    /// Nobody waits here, and what is known delays nobody any more.
    pub fn is_spent(&self, now: Instant, pace: Pace) -> bool {
        let floor = self.let_go.map(|(_, at)| at + span(pace.interval));
        self.seats.is_empty() && self.opens_at(now, pace).max(floor.unwrap_or(now - GRACE)) + GRACE < now
    }

    /// Whoever asks now may be granted; `None`: nothing is known of the lane.
    pub fn is_due(&self, now: Instant, pace: Pace) -> Option<bool> {
        self.known?;
        Some(earlier(self.opens_at(now, pace), ASK_EARLY) <= now)
    }

    fn find(&self, place: (Micros, Ticket)) -> Result<usize, usize> {
        self.seats.binary_search_by_key(&place, |(place, _)| *place)
    }

    fn opens_at(&self, now: Instant, pace: Pace) -> Instant {
        let Some(known) = self.known else { return now };
        let free = known.bound.map(|bound| bound + span(pace.interval));
        free.max(known.closed_until).unwrap_or(now)
    }
}

/// `instant` moved by a signed span; `None` before the clock began.
fn shifted(instant: Instant, by: Micros) -> Option<Instant> {
    if by >= 0 { instant.checked_add(span(by)) } else { instant.checked_sub(span(-by)) }
}

fn earlier(instant: Instant, by: Duration) -> Instant {
    instant.checked_sub(by).unwrap_or(instant)
}

#[cfg(test)]
mod tests;
