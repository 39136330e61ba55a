//! All that is held in this process: seats by ticket, lanes, and tickets nobody asks for just now.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use turnstone_lane::{Evidence, Look, Micros, Pace, Ticket};

use super::local::{Complaint, LocalLane};
use super::seat::{Fate, Order, Seat};
use crate::policy::{LaneKey, Rules};

/// A ticket whose call broke, or that was told to ask again, is kept for this long.
const DETACHED_FOR: Duration = Duration::from_secs(3);

/// A table of this size is worth shrinking once it is nearly empty.
const ROOMY: usize = 10_000;

#[derive(Debug, Default)]
pub(super) struct House(Mutex<Rooms>);

#[derive(Debug, Default)]
struct Rooms {
    seats: HashMap<Ticket, Arc<Seat>>,
    lanes: HashMap<LaneKey, LocalLane>,
    detached: HashMap<Ticket, (LaneKey, Instant)>,
}

/// Where a ticket is that somebody says leads its lane.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Whereabouts {
    Held,
    /// Its filter was told to ask again, or its call broke a moment ago.
    Expected,
    /// A duplicate of a command left it behind.
    Ghost,
}

impl House {
    /// A call came in. An older one of the same ticket is sent back.
    pub fn enter(&self, ticket: Ticket) -> Arc<Seat> {
        let seat = Arc::new(Seat::new(ticket));
        let mut rooms = self.0.lock();
        rooms.detached.remove(&ticket);
        if let Some(older) = rooms.seats.insert(ticket, Arc::clone(&seat)) {
            older.end(Fate::Released);
        }
        seat
    }

    /// A call ended. `expected`: its ticket will ask again, or leaves in three seconds.
    pub fn exit(&self, seat: &Arc<Seat>, key: &LaneKey, since: Option<Micros>, expected: bool) {
        let mut rooms = self.0.lock();
        let current = rooms.seats.get(&seat.ticket).is_some_and(|held| Arc::ptr_eq(held, seat));
        if current {
            rooms.seats.remove(&seat.ticket);
            if expected {
                rooms.detached.insert(seat.ticket, (key.clone(), Instant::now() + DETACHED_FOR));
            }
            if let (Some(since), Some(lane)) = (since, rooms.lanes.get_mut(key)) {
                lane.unseat(since, seat.ticket);
            }
        }
    }

    /// A ticket waits in its lane.
    pub fn sit(&self, key: &LaneKey, since: Micros, seat: &Arc<Seat>) {
        let mut rooms = self.0.lock();
        if rooms.seats.get(&seat.ticket).is_some_and(|held| Arc::ptr_eq(held, seat)) {
            rooms.lanes.entry(key.clone()).or_default().seat(since, seat);
        }
    }

    pub fn learn(&self, key: &LaneKey, look: &Look, received: Instant, pace: Pace) {
        self.0.lock().lanes.entry(key.clone()).or_default().learn(look, received, pace);
    }

    pub fn evidence(&self, key: &LaneKey, now: Instant) -> Option<Evidence> {
        self.0.lock().lanes.get(key)?.evidence(now)
    }

    pub fn ask_at(&self, key: &LaneKey, ticket: Ticket, ahead: u64, now: Instant, pace: Pace) -> Option<Instant> {
        self.0.lock().lanes.get(key)?.ask_at(ticket, ahead, now, pace)
    }

    pub fn complain(&self, key: &LaneKey, look: &Look, me: turnstone_lane::Owner, now: Instant) -> Option<Complaint> {
        self.0.lock().lanes.get_mut(key)?.complain(look, me, now)
    }

    /// Others wait for this ticket to go: its holder asks now, whatever else it waits for.
    pub fn must_go(&self, ticket: Ticket) {
        if let Some(seat) = self.0.lock().seats.get(&ticket) {
            seat.order(Order::Go);
        }
    }

    /// The holder of a ticket that leads looks again.
    pub fn rouse(&self, ticket: Ticket) -> Whereabouts {
        let rooms = self.0.lock();
        match rooms.seats.get(&ticket) {
            Some(seat) => {
                seat.rouse();
                Whereabouts::Held
            }
            None if rooms.detached.contains_key(&ticket) => Whereabouts::Expected,
            None => Whereabouts::Ghost,
        }
    }

    /// The request of this ticket is gone: its call, if one is held here, ends.
    pub fn leave(&self, key: &LaneKey, ticket: Ticket, unsent: bool) {
        let mut rooms = self.0.lock();
        rooms.detached.remove(&ticket);
        if let Some(seat) = rooms.seats.get(&ticket) {
            seat.end(Fate::Left);
        }
        if let Some(lane) = rooms.lanes.get_mut(key).filter(|_| unsent) {
            lane.take_back(ticket);
        }
    }

    /// A call was given the turn: it waits in the line no more.
    pub fn stand(&self, key: &LaneKey, since: Micros, ticket: Ticket) {
        if let Some(lane) = self.0.lock().lanes.get_mut(key) {
            lane.unseat(since, ticket);
        }
    }

    pub fn let_go(&self, key: &LaneKey, ticket: Ticket) {
        self.0.lock().lanes.entry(key.clone()).or_default().let_go(ticket, Instant::now());
    }

    pub fn floor(&self, key: &LaneKey, ticket: Ticket, pace: Pace) -> Option<Instant> {
        self.0.lock().lanes.get(key)?.floor(ticket, pace)
    }

    pub fn mend(&self, key: &LaneKey, look: &Look) {
        if let Some(lane) = self.0.lock().lanes.get_mut(key) {
            lane.mend(look, Instant::now());
        }
    }

    /// The store may have forgotten who waits.
    pub fn ask_all(&self) {
        self.0.lock().lanes.values().for_each(LocalLane::ask_first);
    }

    /// The store keeps lanes closed no longer.
    pub fn reopen(&self) {
        self.0.lock().lanes.values_mut().for_each(LocalLane::reopen);
    }

    /// Whether an ask may be granted now; `None`: nothing is known of the lane.
    pub fn is_due(&self, key: &LaneKey, now: Instant, pace: Pace) -> Option<bool> {
        self.0.lock().lanes.get(key)?.is_due(now, pace)
    }

    /// Intervals changed: whoever has a timer sets it anew.
    pub fn rouse_all(&self) {
        for lane in self.0.lock().lanes.values() {
            lane.rouse_first();
        }
    }

    /// Every held call ends; the filters ask again.
    pub fn release_all(&self) -> usize {
        let rooms = self.0.lock();
        rooms.seats.values().for_each(|seat| seat.end(Fate::Released));
        rooms.seats.len()
    }

    /// Tickets that nobody asked for in time, and forgets lanes that nothing depends on.
    pub fn sweep(&self, now: Instant, rules: impl Fn(&LaneKey) -> Option<Rules>) -> Vec<(LaneKey, Ticket)> {
        let mut rooms = self.0.lock();
        rooms.lanes.retain(|key, lane| rules(key).is_some_and(|rules| !lane.is_spent(now, rules.pace)));
        // After a crowd the tables give their room back.
        if rooms.lanes.capacity() > ROOMY && rooms.lanes.len() < rooms.lanes.capacity() / 8 {
            rooms.lanes.shrink_to_fit();
            rooms.seats.shrink_to_fit();
        }
        let overdue = rooms.detached.extract_if(|_, (_, until)| *until <= now);
        overdue.map(|(ticket, (key, _))| (key, ticket)).collect()
    }

    pub fn held(&self) -> usize {
        self.0.lock().seats.len()
    }
}
