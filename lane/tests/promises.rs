//! The lane's promises, on random histories.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use std::collections::BTreeSet;

use proptest::prelude::*;
use turnstone_lane::{
    Bounds, LOOKAHEAD, Lane, Micros, NEW_FOR, Operation, Outcome, Owner, Pace, Refused, Take, Ticket, Verdict,
};

const START: Micros = 1_700_000_000_000_000;
const PACE: Pace = Pace { interval: 5_000_000, settle: 250_000 };

fn ticket(n: u8) -> Ticket {
    Ticket::new(u128::from(n) + 1).unwrap()
}

fn take(n: u8) -> Operation {
    Operation::Take(Take::new(ticket(n), Owner(1)))
}

fn start_in(outcome: Outcome) -> Option<Micros> {
    match outcome.verdict {
        Verdict::Granted(grant) => Some(grant.start_in),
        _ => None,
    }
}

/// One step of a history: time passes, then something happens.
#[derive(Clone, Debug)]
enum Step {
    Arrive,
    /// The one in the line that stands at this place (modulo its length) gives up.
    GiveUp(u8),
    /// The head asks at the very moment that the lane said it opens.
    HeadAsks,
    Answer,
    GiveBack,
    LostReply,
}

fn steps() -> impl Strategy<Value = Vec<(Micros, Step)>> {
    let step = prop_oneof![
        4 => Just(Step::Arrive),
        1 => any::<u8>().prop_map(Step::GiveUp),
        6 => Just(Step::HeadAsks),
        3 => Just(Step::Answer),
        1 => Just(Step::GiveBack),
        1 => Just(Step::LostReply),
    ];
    prop::collection::vec((0..3_000_000i64, step), 1..80)
}

/// A naive account of the same lane: who waits, who went, and when at the latest.
#[derive(Default)]
struct Naive {
    lane: Lane,
    now: Micros,
    arrived: u8,
    waiting: Vec<u8>,
    releases: Vec<(u8, Micros)>,
    answered: bool,
    gone: BTreeSet<u8>,
}

impl Naive {
    fn new() -> Self {
        Self { now: START, ..Self::default() }
    }

    fn apply(&mut self, operation: Operation) -> Outcome {
        self.lane.apply(operation, self.now, PACE)
    }

    fn ask(&mut self, n: u8) -> Outcome {
        let outcome = self.apply(take(n));
        if let Some(start_in) = start_in(outcome) {
            assert_eq!(self.waiting.first(), Some(&n), "only the first arrival is granted");
            self.waiting.remove(0);
            self.releases.push((n, self.now + start_in));
            self.answered = false;
        }
        outcome
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Arrive => {
                self.waiting.push(self.arrived);
                self.arrived += 1;
                let first = self.ask(self.arrived - 1);
                if start_in(first).is_none() {
                    assert_eq!(self.ask(self.arrived - 1).verdict, first.verdict, "take is idempotent");
                }
            }
            Step::GiveUp(place) if !self.waiting.is_empty() => {
                let n = self.waiting.remove(usize::from(place) % self.waiting.len());
                self.gone.insert(n);
                let left = self.apply(Operation::Leave { ticket: ticket(n), unsent: false });
                assert_eq!(left.verdict, Verdict::Changed);
            }
            Step::HeadAsks => self.head_asks(),
            Step::Answer | Step::GiveBack | Step::LostReply => self.last_turn(step),
            Step::GiveUp(_) => {}
        }
    }

    fn head_asks(&mut self) {
        let Some(head) = self.waiting.first().copied() else { return };
        let look = self.apply(Operation::Look).look;
        assert_eq!(look.head.map(|h| h.ticket), Some(ticket(head)));
        self.now += (look.opens_in - LOOKAHEAD - 1).max(0);
        if look.opens_in > LOOKAHEAD {
            assert_eq!(start_in(self.ask(head)), None, "not a microsecond early");
            self.now += 1;
        }
        let granted = start_in(self.ask(head)).expect("open exactly when it said");
        assert!((0..=LOOKAHEAD).contains(&granted));
    }

    fn last_turn(&mut self, step: Step) {
        let Some((n, at)) = self.releases.last().copied() else { return };
        if self.answered {
            return;
        }
        match step {
            Step::Answer => {
                self.now = self.now.max(at);
                self.apply(Operation::Answered { ticket: ticket(n), age: 0 });
                self.answered = true;
            }
            Step::GiveBack => {
                self.apply(Operation::Leave { ticket: ticket(n), unsent: true });
                self.releases.pop();
                self.gone.insert(n);
                self.answered = true;
            }
            Step::LostReply => {
                let again = start_in(self.apply(take(n))).expect("a lost reply is given again");
                self.releases.pop();
                self.releases.push((n, self.now + again));
            }
            Step::Arrive | Step::GiveUp(_) | Step::HeadAsks => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn gaps_hold_order_holds_and_nobody_is_lost(history in steps()) {
        let mut naive = Naive::new();
        for (passed, step) in history {
            naive.now += passed;
            naive.step(step);
        }
        while !naive.waiting.is_empty() {
            naive.head_asks();
        }
        for pair in naive.releases.windows(2) {
            prop_assert!(pair[1].1 - pair[0].1 >= PACE.interval, "gap of {:?}", pair);
            prop_assert!(pair[0].0 < pair[1].0, "order of {:?}", pair);
        }
        let seen = naive.releases.len() + naive.gone.len();
        prop_assert_eq!(seen, usize::from(naive.arrived), "every ticket went or left");
    }

    #[test]
    fn a_changed_interval_governs_the_very_next_grant(old in 1_000_000..9_000_000i64, new in 1_000_000..9_000_000i64) {
        let mut lane = Lane::default();
        let (old, new) = (Pace { interval: old, ..PACE }, Pace { interval: new, ..PACE });
        lane.apply(take(0), START, old);
        lane.apply(Operation::Answered { ticket: ticket(0), age: 0 }, START, old);
        let look = lane.apply(take(1), START + 500_000, new).look;
        prop_assert_eq!(look.opens_in, new.interval - 500_000);
    }

    #[test]
    fn a_clock_that_runs_backwards_costs_at_most_one_interval(back in 1..10_000_000_000i64) {
        let mut lane = Lane::default();
        lane.apply(take(0), START, PACE);
        lane.apply(take(1), START + 1, PACE);
        let opens_in = lane.apply(take(1), START - back, PACE).look.opens_in;
        prop_assert!(opens_in <= PACE.interval + PACE.settle + LOOKAHEAD, "{} us", opens_in);
    }

    #[test]
    fn evidence_of_the_current_grant_replaces_the_wall_clock(step in -3_600_000_000..3_600_000_000i64, age in 0..20_000_000i64) {
        let mut lane = Lane::default();
        let revision = lane.apply(take(0), START, PACE).look.revision;
        let evidence = Some(turnstone_lane::Evidence { revision, age });
        let ask = Operation::Take(Take { evidence, ..Take::new(ticket(1), Owner(1)) });
        let outcome = lane.apply(ask, START + step, PACE);
        prop_assert_eq!(start_in(outcome).is_some(), age + LOOKAHEAD >= PACE.interval);
    }
}

#[test]
fn a_store_that_lost_the_grant_takes_the_callers_word() {
    let mut lane = Lane::default();
    let evidence = Some(turnstone_lane::Evidence { revision: START + 7, age: 1_000_000 });
    let ask = Operation::Take(Take { evidence, ..Take::new(ticket(1), Owner(1)) });
    let look = lane.apply(ask, START, PACE).look;
    assert_eq!((look.opens_in, look.revision), (4_000_000, START + 7));
}

#[test]
fn a_waiter_that_comes_back_gets_its_old_place() {
    let mut lane = Lane::unknown(START);
    let back = |n, since| Operation::Take(Take { since: Some(since), ..Take::new(ticket(n), Owner(1)) });
    lane.apply(take(9), START + 10, PACE);
    lane.apply(back(2, START - 50), START + 20, PACE);
    lane.apply(back(1, START - 60), START + 30, PACE);
    assert_eq!(lane.look(START + 40, PACE).head.unwrap().ticket, ticket(1));
}

#[test]
fn who_waited_somewhere_takes_its_place_before_any_turn() {
    let mut lane = Lane::default();
    let arrived = |n, since| Operation::Take(Take { since: Some(since), ..Take::new(ticket(n), Owner(1)) });
    // A store that stood still hears the later one first.
    let later = arrived(2, START - NEW_FOR - 1);
    assert!(start_in(lane.apply(later, START, PACE)).is_none());
    let first = arrived(1, START - NEW_FOR - 300_000);
    assert!(start_in(lane.apply(first, START, PACE)).is_none());
    assert!(start_in(lane.apply(later, START + 1, PACE)).is_none(), "not before the first");
    assert!(start_in(lane.apply(first, START + 2, PACE)).is_some());
}

#[test]
fn a_dead_owner_is_evicted_whole_and_only_while_it_leads() {
    let mut lane = Lane::unknown(START);
    let join = |n, owner| Operation::Take(Take::new(ticket(n), Owner(owner)));
    for (n, owner) in [(1, 7), (2, 8), (3, 7)] {
        lane.apply(join(n, owner), START + i64::from(n), PACE);
    }
    let other = Operation::Evict { owner: Owner(8), head: ticket(2), skip: 0 };
    assert_eq!(lane.apply(other, START + 9, PACE).verdict, Verdict::Unchanged);
    let dead = Operation::Evict { owner: Owner(7), head: ticket(1), skip: 0 };
    let look = lane.apply(dead, START + 9, PACE).look;
    assert_eq!((look.waiting, look.head.unwrap().ticket), (1, ticket(2)));
}

#[test]
fn a_paused_lane_opens_when_it_is_resumed() {
    let mut lane = Lane::default();
    lane.apply(Operation::Pause { until: START + 60_000_000 }, START, PACE);
    assert_eq!(lane.apply(take(1), START, PACE).look.opens_in, 60_000_000);
    lane.apply(Operation::Resume, START, PACE);
    assert_eq!(start_in(lane.apply(take(1), START, PACE)), Some(0));
}

#[test]
fn a_large_settle_means_one_in_flight() {
    let mut lane = Lane::default();
    let strict = Pace { settle: 60_000_000, ..PACE };
    lane.apply(take(0), START, strict);
    lane.apply(take(1), START, strict);
    let done = START + 8_000_000;
    assert!(start_in(lane.apply(take(1), done, strict)).is_none());
    lane.apply(Operation::Answered { ticket: ticket(0), age: 0 }, done, strict);
    assert_eq!(start_in(lane.apply(take(1), done + 5_000_000, strict)), Some(0));
}

#[test]
fn bounds_refuse_a_new_ticket_at_once_and_never_one_that_has_a_place() {
    let (mut lane, interval) = (Lane::default(), 5_000_000);
    let pace = Pace { interval, settle: 250_000 };
    let bounds = Bounds { max_wait: Some(12_000_000), max_line: None };
    let mut take = |n, now| lane.apply(Operation::Take(Take { bounds, ..Take::new(ticket(n), Owner(1)) }), now, pace);
    assert!(matches!(take(1, 0).verdict, Verdict::Granted(_)));
    assert!(matches!(take(2, 0).verdict, Verdict::Waiting(_)));
    assert!(matches!(take(3, 0).verdict, Verdict::Waiting(_)));
    let refused = Verdict::Refused(Refused { wait: 15_250_000, ahead: 2 });
    assert_eq!(take(4, 0).verdict, refused);
    assert_eq!(take(4, 0).look.waiting, 2, "it did not join");
    assert!(matches!(take(3, 0).verdict, Verdict::Waiting(_)), "asking again is no new ticket");
    let bounds = Bounds { max_wait: None, max_line: Some(2) };
    let mut take = |n, now| lane.apply(Operation::Take(Take { bounds, ..Take::new(ticket(n), Owner(1)) }), now, pace);
    assert!(matches!(take(5, 0).verdict, Verdict::Refused(_)));
    assert!(matches!(take(2, 5_250_000).verdict, Verdict::Granted(_)));
    assert!(matches!(take(5, 5_250_000).verdict, Verdict::Waiting(_)));
}
