//! An estimate of the store's clock from the replies it sent.

use std::time::{Duration, Instant};

use turnstone_lane::Micros;

use crate::policy::{micros, span};

/// A difference below this is drift, not a step.
const STEP: Duration = Duration::from_millis(2);
/// A sample older than this gives way to any newer one.
const STALE: Duration = Duration::from_secs(5);

/// The reading of a remote clock at some instant of ours, exact to half a round trip.
#[derive(Clone, Copy, Debug, Default)]
pub struct StoreClock {
    best: Option<Sample>,
    /// The last step forward: when it was noticed, and by how much.
    step: Option<(Instant, Micros)>,
}

/// What another clock showed at some instant of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    pub time: Micros,
    /// It may have shown so much more or less.
    pub error: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    /// Our instant, half way between call and reply.
    at: Instant,
    reading: Micros,
    round_trip: Duration,
}

impl StoreClock {
    /// Learns from a reply that was read at `reading`; the quickest of the last seconds counts.
    pub fn learn(&mut self, sent: Instant, received: Instant, reading: Micros) {
        let round_trip = received.saturating_duration_since(sent);
        let sample = Sample { at: sent + round_trip / 2, reading, round_trip };
        let forward = self.best.map_or(0, |best| best.forward_step(&sample));
        if forward > 0 {
            let earlier = self.step.filter(|(at, _)| received.saturating_duration_since(*at) < STALE);
            self.step = Some((received, forward + earlier.map_or(0, |(_, step)| step)));
        }
        if self.best.is_none_or(|best| best.gives_way_to(&sample)) {
            self.best = Some(sample);
        }
    }

    /// By how much the clock was put forward in the time before `now`.
    pub fn stepped_within(&self, time: Duration, now: Instant) -> Duration {
        let recent = self.step.filter(|(at, _)| now.saturating_duration_since(*at) < time);
        recent.map_or(Duration::ZERO, |(_, step)| span(step))
    }

    pub fn at(&self, instant: Instant) -> Option<Reading> {
        self.best.map(|best| Reading { time: best.read(instant), error: best.round_trip / 2 })
    }
}

impl Sample {
    fn read(&self, instant: Instant) -> Micros {
        match instant.checked_duration_since(self.at) {
            Some(later) => self.reading + micros(later),
            None => self.reading - micros(self.at.saturating_duration_since(instant)),
        }
    }

    fn forward_step(&self, newer: &Self) -> Micros {
        let ahead = newer.reading - self.read(newer.at);
        if ahead > micros(STEP + self.round_trip + newer.round_trip) { ahead } else { 0 }
    }

    fn gives_way_to(&self, newer: &Self) -> bool {
        let stepped = (self.read(newer.at) - newer.reading).unsigned_abs()
            > (self.round_trip + newer.round_trip).as_micros() as u64;
        newer.round_trip <= self.round_trip || newer.at > self.at + STALE || stepped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_quickest_reply_counts() {
        let (mut clock, t) = (StoreClock::default(), Instant::now());
        assert_eq!(clock.at(t), None);
        clock.learn(t, t + 2 * MS, 1_000_000);
        clock.learn(t + 10 * MS, t + 30 * MS, 1_012_000);
        assert_eq!(clock.at(t + 11 * MS), Some(Reading { time: 1_010_000, error: MS }));
        assert_eq!(clock.at(t).map(|reading| reading.time), Some(999_000));
    }

    #[test]
    fn a_step_forward_is_remembered_for_a_while_and_drift_is_none() {
        let (mut clock, t) = (StoreClock::default(), Instant::now());
        clock.learn(t, t + MS, 0);
        clock.learn(t + 100 * MS, t + 101 * MS, 101_000);
        assert_eq!(clock.stepped_within(1000 * MS, t + 101 * MS), Duration::ZERO);
        clock.learn(t + 200 * MS, t + 201 * MS, 700_000);
        let stepped = clock.stepped_within(1000 * MS, t + 1200 * MS);
        assert!(stepped > 498 * MS && stepped < 502 * MS, "{stepped:?}");
        assert_eq!(clock.stepped_within(1000 * MS, t + 1202 * MS), Duration::ZERO);
        clock.learn(t + 300 * MS, t + 301 * MS, 0);
        assert!(clock.stepped_within(1000 * MS, t + 301 * MS) < 502 * MS, "a step back is none forward");
    }

    #[test]
    fn a_step_of_the_clock_is_believed_at_once() {
        let (mut clock, t) = (StoreClock::default(), Instant::now());
        clock.learn(t, t + 2 * MS, 1_000_000);
        clock.learn(t + 10 * MS, t + 14 * MS, 9_000_000);
        assert_eq!(clock.at(t + 12 * MS), Some(Reading { time: 9_000_000, error: 2 * MS }));
    }
}
