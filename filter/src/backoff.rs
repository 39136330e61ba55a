//! Growing pauses between asks that nobody answered, scattered so that thousands do not come at once.

use crate::Micros;

const FIRST: Micros = 50_000;
const MAX: Micros = 1_000_000;

/// A small generator (xorshift64*): scatter, not secrets.
#[derive(Debug)]
pub struct Scatter(u64);

impl Scatter {
    pub const fn new(seed: u64) -> Self {
        // Zero would stay zero.
        Self(seed | 1)
    }

    /// The pause after so many failures in a row: doubling up to a second, of which a random half is cut off.
    pub fn pause(&mut self, failures: u32) -> Micros {
        let doubled = FIRST.saturating_mul(1 << failures.saturating_sub(1).min(10)).min(MAX);
        let half = doubled / 2;
        half + self.next() % (half + 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_stay_within_bounds() {
        let mut scatter = Scatter::new(7);
        for failures in 1..100 {
            let most = MAX.min(FIRST << (failures - 1).min(10));
            let pause = scatter.pause(failures);
            assert!((most / 2..=most).contains(&pause), "{failures}: {pause}");
        }
    }

    #[test]
    fn pauses_differ() {
        let mut scatter = Scatter::new(0);
        let pauses: std::collections::BTreeSet<Micros> = (0..100).map(|_| scatter.pause(20)).collect();
        assert!(pauses.len() > 90);
    }
}
