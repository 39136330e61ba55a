//! A mass release, made smooth: a storm of new connections would turn into 503s at raven.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

/// So much of a second's number may go at once.
const BURST: Duration = Duration::from_millis(100);

/// Slots, one after the other. Pure: `now` is an argument.
#[derive(Debug)]
pub(super) struct Ramp {
    spacing: Duration,
    next: Instant,
}

impl Ramp {
    pub fn new(per_second: NonZeroU32, now: Instant) -> Self {
        Self { spacing: Duration::from_secs(1) / per_second.get(), next: now }
    }

    /// The next free slot; in the past where there is no need to wait.
    pub fn slot(&mut self, now: Instant) -> Instant {
        let slot = now.checked_sub(BURST).map_or(self.next, |earliest| self.next.max(earliest));
        self.next = slot + self.spacing;
        slot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_at_once_are_spread_and_few_go_at_once() {
        let t = Instant::now() + Duration::from_secs(1);
        let mut ramp = Ramp::new(NonZeroU32::new(1000).unwrap(), t - BURST);
        let slots: Vec<Instant> = (0..1101).map(|_| ramp.slot(t)).collect();
        assert_eq!(slots.iter().filter(|slot| **slot <= t).count(), 101);
        assert_eq!(slots[1100] - t, Duration::from_secs(1));
        let later = t + Duration::from_secs(5);
        assert!((0..100).all(|_| ramp.slot(later) <= later), "a second later all is calm");
    }
}
