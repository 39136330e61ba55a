//! How long the node that answers has been the master, as far as anyone saw (P6).
//!
//! A promoted or restarted Redis may have lost the last turns. Its `master_replid` is new then. Lanes
//! hold for `interval + settle` after that id was first seen. A *marker* says how long ago that was: a
//! script of no use, loaded on that node only, not replicated, and gone with a restart. So a sidecar
//! that starts later need not hold.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Markers exist for these ages in milliseconds, as powers of two: up to 70 minutes.
const MARKED: std::ops::RangeInclusive<u32> = 0..=22;

/// Ten thousand lanes that hold are one question.
const ASK_SPACING: Duration = Duration::from_millis(50);

/// The tenure of the node that answered last.
#[derive(Debug, Default)]
pub(super) struct Tenure(Mutex<Option<Known>>);

#[derive(Debug)]
struct Known {
    replid: String,
    /// The node was the master for at least `age` at this instant.
    at: Instant,
    age: Duration,
    /// Spans that lanes held for; each gets a marker when it is over.
    awaited: Vec<Duration>,
    /// When markers were last asked for.
    asked: Option<Instant>,
}

impl Known {
    fn age(&self, now: Instant) -> Duration {
        self.age + now.saturating_duration_since(self.at)
    }
}

impl Tenure {
    /// The id to show to the node: only if it has been the master for `hold`.
    pub fn vouch(&self, hold: Duration, now: Instant) -> Option<String> {
        let known = self.0.lock();
        known.as_ref().filter(|known| known.age(now) >= hold).map(|known| known.replid.clone())
    }

    /// A node answered that grants nothing to whoever waits less than `hold`. True: it is a new one.
    pub fn meet(&self, replid: &str, hold: Option<Duration>, now: Instant) -> bool {
        let mut known = self.0.lock();
        let is_new = known.as_ref().is_none_or(|known| known.replid != replid);
        if is_new {
            *known = Some(Known {
                replid: replid.to_owned(),
                at: now,
                age: Duration::ZERO,
                awaited: Vec::new(),
                asked: None,
            });
        }
        if let (Some(known), Some(hold)) = (known.as_mut(), hold)
            && !known.awaited.contains(&hold)
        {
            known.awaited.push(hold);
        }
        is_new
    }

    /// Somebody watched this node for `age`. True: that is longer than was known.
    pub fn is_older(&self, replid: &str, age: Duration, now: Instant) -> bool {
        let mut known = self.0.lock();
        let Some(known) = known.as_mut().filter(|known| known.replid == replid && known.age(now) < age) else {
            return false;
        };
        (known.at, known.age) = (now, age);
        true
    }

    /// How long a lane still has to hold.
    pub fn remaining(&self, hold: Duration, now: Instant) -> Duration {
        self.0.lock().as_ref().map_or(hold, |known| hold.saturating_sub(known.age(now)))
    }

    /// The id, and the ages worth asking for: what lanes hold for, and all that are longer. `None`: nothing
    /// is left to ask, or somebody asked a moment ago.
    pub fn wanted(&self, now: Instant) -> Option<(String, Vec<Duration>)> {
        let mut known = self.0.lock();
        let lately = |asked: &Instant| now.saturating_duration_since(*asked) < ASK_SPACING;
        let known = known.as_mut().filter(|known| !known.asked.as_ref().is_some_and(lately))?;
        known.asked = Some(now);
        let age = known.age(now);
        let marked = MARKED.map(|power| Duration::from_millis(1 << power));
        let ages: Vec<_> = known.awaited.iter().copied().chain(marked).filter(|marked| *marked > age).collect();
        // Older than any marker can tell: there is nothing to ask.
        (!ages.is_empty()).then(|| (known.replid.clone(), ages))
    }

    /// The markers to load now: of each span that is over, and the longest.
    pub fn due(&self, now: Instant) -> Vec<String> {
        let mut known = self.0.lock();
        let Some(known) = known.as_mut() else { return Vec::new() };
        let age = known.age(now);
        let over = known.awaited.extract_if(.., |hold| *hold <= age);
        let mut ages: Vec<Duration> = over.collect();
        ages.extend(MARKED.rev().map(|power| Duration::from_millis(1 << power)).find(|marked| *marked <= age));
        ages.iter().map(|age| marker(&known.replid, *age)).collect()
    }

    /// Lanes hold because the node is new.
    pub fn is_awaited(&self) -> bool {
        self.0.lock().as_ref().is_some_and(|known| !known.awaited.is_empty())
    }

    /// The longest age that a marker can tell.
    pub fn longest() -> Duration {
        Duration::from_millis(1 << MARKED.end())
    }
}

/// The text of the marker script.
pub(super) fn marker(replid: &str, age: Duration) -> String {
    format!("return 'turnstone: {replid} has been the master for {} us'", age.as_micros())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOLD: Duration = Duration::from_millis(5250);

    #[test]
    fn a_new_node_is_vouched_for_after_the_hold() {
        let (tenure, t) = (Tenure::default(), Instant::now());
        assert_eq!(tenure.vouch(HOLD, t), None);
        assert!(tenure.meet("a", Some(HOLD), t));
        assert!(!tenure.meet("a", Some(HOLD), t + HOLD / 2));
        assert_eq!(tenure.vouch(HOLD, t + HOLD - Duration::from_micros(1)), None);
        assert_eq!(tenure.vouch(HOLD, t + HOLD).as_deref(), Some("a"));
        assert_eq!(tenure.vouch(2 * HOLD, t + HOLD), None, "another lane's interval is longer");
        assert!(tenure.meet("b", None, t + HOLD));
        assert_eq!(tenure.vouch(HOLD, t + HOLD), None);
    }

    #[test]
    fn what_others_watched_counts() {
        let (tenure, t) = (Tenure::default(), Instant::now());
        tenure.meet("a", Some(HOLD), t);
        let (replid, ages) = tenure.wanted(t).unwrap();
        assert!(replid == "a" && ages.contains(&HOLD) && ages.contains(&Tenure::longest()));
        assert!(!tenure.is_older("b", HOLD, t), "another node's marker");
        assert!(tenure.is_older("a", HOLD, t));
        assert_eq!(tenure.vouch(HOLD, t).as_deref(), Some("a"));
    }

    #[test]
    fn of_a_node_that_is_old_enough_nothing_is_asked() {
        let (tenure, t) = (Tenure::default(), Instant::now());
        tenure.meet("a", Some(HOLD), t);
        tenure.is_older("a", Tenure::longest(), t);
        assert!(tenure.is_awaited() && tenure.wanted(t).is_none());
    }

    #[test]
    fn markers_are_due_once_for_each_hold_and_the_longest_always() {
        let (tenure, t) = (Tenure::default(), Instant::now());
        tenure.meet("a", Some(HOLD), t);
        assert_eq!(tenure.due(t + Duration::from_millis(3)), [marker("a", Duration::from_millis(2))]);
        let longest = marker("a", Duration::from_millis(4096));
        assert_eq!(tenure.due(t + HOLD), [marker("a", HOLD), longest.clone()]);
        assert_eq!(tenure.due(t + HOLD), [longest]);
    }
}
