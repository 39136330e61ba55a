//! An estimate of the store's clock from the replies it sent.

use std::time::{Duration, Instant};

use turnstone_lane::Micros;

use crate::policy::micros;

/// A sample older than this gives way to any newer one.
const STALE: Duration = Duration::from_secs(5);

/// The reading of a remote clock at some instant of ours, exact to half a round trip.
#[derive(Clone, Copy, Debug, Default)]
pub struct StoreClock {
    best: Option<Sample>,
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
        if self.best.is_none_or(|best| best.gives_way_to(&sample)) {
            self.best = Some(sample);
        }
    }

    pub fn at(&self, instant: Instant) -> Option<Micros> {
        self.best.map(|best| best.read(instant))
    }
}

impl Sample {
    fn read(&self, instant: Instant) -> Micros {
        match instant.checked_duration_since(self.at) {
            Some(later) => self.reading + micros(later),
            None => self.reading - micros(self.at.saturating_duration_since(instant)),
        }
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
        assert_eq!(clock.at(t + 11 * MS), Some(1_010_000));
        assert_eq!(clock.at(t), Some(999_000));
    }

    #[test]
    fn a_step_of_the_clock_is_believed_at_once() {
        let (mut clock, t) = (StoreClock::default(), Instant::now());
        clock.learn(t, t + 2 * MS, 1_000_000);
        clock.learn(t + 10 * MS, t + 14 * MS, 9_000_000);
        assert_eq!(clock.at(t + 12 * MS), Some(9_000_000));
    }
}
