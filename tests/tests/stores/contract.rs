//! What every store promises, in real time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use turnstone::policy::{LaneKey, Rules, micros};
use turnstone::store::{MemoryStore, Store};
use turnstone_lane::{Bounds, Grant, Look, Micros, Operation, Outcome, Owner, Take, Ticket, Verdict};
use turnstone_tests::redis::Redis;

use crate::{ME, key, rules, ticket, trusted};

const INTERVAL: Duration = Duration::from_millis(200);
const SETTLE: Duration = Duration::from_millis(50);

/// A store under test, and what keeps it alive.
struct Bench {
    store: Arc<dyn Store>,
    _redis: Option<Redis>,
}

/// One lane of it.
struct Lane<'a> {
    store: &'a dyn Store,
    key: LaneKey,
    rules: Rules,
}

impl Lane<'_> {
    async fn apply(&self, operation: Operation) -> Outcome {
        self.store.apply(&self.key, operation, self.rules).await.expect("answered")
    }

    async fn take(&self, n: u64) -> Outcome {
        self.take_as(n, ME, None).await
    }

    async fn take_as(&self, n: u64, owner: Owner, since: Option<Micros>) -> Outcome {
        self.apply(Operation::Take(Take { since, ..Take::new(ticket(n), owner) })).await
    }

    async fn look(&self) -> Look {
        self.apply(Operation::Look).await.look
    }

    /// Asks until granted; when the turn starts.
    async fn turn(&self, n: u64) -> Instant {
        loop {
            if let Verdict::Granted(grant) = self.take(n).await.verdict {
                return Instant::now() + Duration::from_micros(grant.start_in.max(0).unsigned_abs());
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

fn granted(outcome: Outcome) -> Option<Grant> {
    match outcome.verdict {
        Verdict::Granted(grant) => Some(grant),
        _ => None,
    }
}

fn place(outcome: Outcome) -> Option<(Micros, u64)> {
    match outcome.verdict {
        Verdict::Waiting(waiting) => Some((waiting.since, waiting.ahead)),
        _ => None,
    }
}

fn leads(outcome: Outcome) -> Option<Ticket> {
    outcome.look.head.map(|head| head.ticket)
}

async fn memory() -> Bench {
    let store = MemoryStore::start();
    // P6: it grants nothing at first.
    tokio::time::sleep(INTERVAL + SETTLE).await;
    Bench { store: Arc::new(store), _redis: None }
}

async fn redis() -> Bench {
    let redis = Redis::start().await;
    let store = trusted(&redis).await;
    Bench { store: Arc::new(store), _redis: Some(redis) }
}

/// Each scenario runs on both stores.
macro_rules! on_both_stores {
    ($($name:ident),+ $(,)?) => {
        mod on_memory { $(#[tokio::test] async fn $name() { super::run(&super::memory().await, super::$name).await })+ }
        mod on_redis { $(#[tokio::test] async fn $name() { super::run(&super::redis().await, super::$name).await })+ }
    };
}

on_both_stores!(
    a_turn_each_interval_in_order_of_arrival,
    a_lost_reply_costs_no_second_turn,
    asking_again_keeps_the_place,
    an_old_since_gets_the_old_place_back,
    an_answer_opens_the_lane_earlier_than_settle,
    a_waiter_that_leaves_lets_the_next_move_up,
    a_turn_given_back_is_taken_at_once,
    all_tickets_of_a_dead_owner_go_at_once,
    a_paused_lane_grants_nothing_until_it_is_resumed,
    a_changed_interval_governs_the_next_grant,
    looking_changes_nothing,
    revisions_rise,
    lanes_do_not_know_one_another,
    joining_takes_a_place_and_no_turn,
    commands_that_arrive_twice_change_nothing,
    a_bound_refuses_a_new_ticket_and_leaves_no_trace_of_it,
);

async fn run(bench: &Bench, scenario: impl AsyncFn(&Lane<'_>)) {
    let lane = Lane { store: bench.store.as_ref(), key: key("a"), rules: rules(INTERVAL, SETTLE) };
    scenario(&lane).await;
}

async fn a_turn_each_interval_in_order_of_arrival(lane: &Lane<'_>) {
    let first = lane.turn(0).await;
    for n in 1..4 {
        assert_eq!(place(lane.take(n).await).map(|(_, ahead)| ahead), Some(n - 1));
    }
    assert!(granted(lane.take(3).await).is_none(), "the last does not overtake");
    let (second, third) = (lane.turn(1).await, lane.turn(2).await);
    assert!(second >= first + INTERVAL && third >= second + INTERVAL);
}

async fn a_lost_reply_costs_no_second_turn(lane: &Lane<'_>) {
    lane.turn(0).await;
    lane.take(1).await;
    let again = granted(lane.take(0).await).expect("the same turn");
    assert!(again.again);
    let second = granted(lane.take(0).await).expect("still the same turn");
    assert!(second.again);
    let from = Instant::now();
    assert!(lane.turn(1).await >= from + INTERVAL, "counted from the last time it was given");
}

async fn asking_again_keeps_the_place(lane: &Lane<'_>) {
    lane.turn(0).await;
    let first = place(lane.take(1).await).expect("waiting");
    lane.take(2).await;
    let other = Owner(8);
    assert_eq!(place(lane.take_as(1, other, None).await), Some(first));
    let head = lane.look().await.head.expect("a head");
    assert_eq!((head.ticket, head.owner), (ticket(1), other), "a ticket may change its sidecar");
}

async fn an_old_since_gets_the_old_place_back(lane: &Lane<'_>) {
    lane.turn(0).await;
    let (since, _) = place(lane.take(1).await).expect("waiting");
    lane.take(2).await;
    lane.apply(Operation::Leave { ticket: ticket(1), unsent: false }).await;
    assert_eq!(place(lane.take_as(1, ME, Some(since)).await), Some((since, 0)));
    assert_eq!(lane.look().await.head.map(|head| head.ticket), Some(ticket(1)));
}

async fn an_answer_opens_the_lane_earlier_than_settle(lane: &Lane<'_>) {
    lane.turn(0).await;
    let unanswered = lane.look().await.opens_in;
    assert_eq!(lane.apply(Operation::Answered { ticket: ticket(1), age: 0 }).await.verdict, Verdict::Unchanged);
    let answered = lane.apply(Operation::Answered { ticket: ticket(0), age: 0 }).await;
    assert_eq!(answered.verdict, Verdict::Changed);
    assert!(answered.look.opens_in < unanswered - 20_000, "{} {unanswered}", answered.look.opens_in);
    let twice = lane.apply(Operation::Answered { ticket: ticket(0), age: 0 }).await;
    assert_eq!(twice.verdict, Verdict::Unchanged);
}

async fn a_waiter_that_leaves_lets_the_next_move_up(lane: &Lane<'_>) {
    lane.turn(0).await;
    lane.take(1).await;
    lane.take(2).await;
    let left = lane.apply(Operation::Leave { ticket: ticket(1), unsent: true }).await;
    assert_eq!((left.verdict, leads(left)), (Verdict::Changed, Some(ticket(2))));
    let unknown = lane.apply(Operation::Leave { ticket: ticket(9), unsent: true }).await;
    assert_eq!(unknown.verdict, Verdict::Unchanged);
}

async fn a_turn_given_back_is_taken_at_once(lane: &Lane<'_>) {
    lane.turn(0).await;
    lane.take(1).await;
    let back = lane.apply(Operation::Leave { ticket: ticket(0), unsent: true }).await;
    assert_eq!(back.verdict, Verdict::Changed);
    assert!(granted(lane.take(1).await).is_some());
    lane.take(2).await;
    lane.apply(Operation::Leave { ticket: ticket(1), unsent: false }).await;
    assert!(granted(lane.take(2).await).is_none(), "a turn that was used is not given back");
}

async fn all_tickets_of_a_dead_owner_go_at_once(lane: &Lane<'_>) {
    lane.turn(0).await;
    let dead = Owner(13);
    for n in [1, 2, 4] {
        lane.take_as(n, dead, None).await;
    }
    lane.take(3).await;
    let wrong = lane.apply(Operation::Evict { owner: dead, head: ticket(2), skip: 0 }).await;
    assert_eq!(wrong.verdict, Verdict::Unchanged, "it is not the head");
    let evicted = lane.apply(Operation::Evict { owner: dead, head: ticket(1), skip: 0 }).await;
    assert_eq!((leads(evicted), evicted.look.waiting), (Some(ticket(3)), 1));
}

async fn a_paused_lane_grants_nothing_until_it_is_resumed(lane: &Lane<'_>) {
    let now = lane.store.clock_at(Instant::now());
    lane.look().await;
    let now = now.or(lane.store.clock_at(Instant::now())).expect("the clock is known after a reply");
    lane.apply(Operation::Pause { until: now.time + 60_000_000 }).await;
    assert!(granted(lane.take(0).await).is_none());
    assert!(lane.look().await.opens_in > 50_000_000);
    lane.apply(Operation::Resume).await;
    assert!(granted(lane.take(0).await).is_some());
}

async fn a_changed_interval_governs_the_next_grant(lane: &Lane<'_>) {
    let first = lane.turn(0).await;
    lane.take(1).await;
    let slow = Lane { key: lane.key.clone(), store: lane.store, rules: rules(Duration::from_secs(60), SETTLE) };
    assert!(slow.look().await.opens_in > 50_000_000);
    let quick = Lane { key: lane.key.clone(), store: lane.store, rules: rules(INTERVAL / 2, SETTLE) };
    let second = quick.turn(1).await;
    assert!(second >= first + INTERVAL / 2 && second < first + INTERVAL + SETTLE);
}

async fn looking_changes_nothing(lane: &Lane<'_>) {
    lane.turn(0).await;
    lane.take(1).await;
    let (before, after) = (lane.look().await, lane.look().await);
    assert_eq!((before.revision, before.head, before.waiting), (after.revision, after.head, after.waiting));
    assert_eq!(lane.apply(Operation::Look).await.verdict, Verdict::Unchanged);
}

async fn revisions_rise(lane: &Lane<'_>) {
    let mut last = lane.look().await.revision;
    for n in 0..3 {
        lane.turn(n).await;
        let granted = lane.look().await.revision;
        let answered = lane.apply(Operation::Answered { ticket: ticket(n), age: 0 }).await.look.revision;
        assert!(last < granted && granted < answered, "{last} {granted} {answered}");
        last = answered;
    }
}

async fn lanes_do_not_know_one_another(lane: &Lane<'_>) {
    lane.turn(0).await;
    lane.take(1).await;
    let other = Lane { key: key("b"), store: lane.store, rules: lane.rules };
    assert!(granted(other.take(0).await).is_some());
    assert_eq!(other.look().await.waiting, 0);
}

async fn a_bound_refuses_a_new_ticket_and_leaves_no_trace_of_it(lane: &Lane<'_>) {
    let bounds = Bounds { max_wait: Some(micros(INTERVAL + SETTLE)), max_line: None };
    let take = async |n| lane.apply(Operation::Take(Take { bounds, ..Take::new(ticket(n), ME) })).await;
    assert!(granted(take(0).await).is_some());
    assert!(place(take(1).await).is_some());
    let refused = take(2).await;
    assert!(matches!(refused.verdict, Verdict::Refused(refused) if refused.ahead == 1), "{refused:?}");
    assert_eq!(refused.look.waiting, 1);
    assert!(place(take(1).await).is_some(), "a place is kept");
}

/// As if a proxy sent everything a second time: nobody is granted more often, and no ticket is left behind.
async fn commands_that_arrive_twice_change_nothing(lane: &Lane<'_>) {
    let mut turns = Vec::new();
    for n in 0..4 {
        lane.take(n).await;
        lane.take(n).await;
    }
    for n in 0..4 {
        let turn = lane.turn(n).await;
        tokio::time::sleep_until(turn.into()).await;
        turns.push(turn);
        for _ in 0..2 {
            lane.apply(Operation::Answered { ticket: ticket(n), age: 0 }).await;
        }
        for _ in 0..2 {
            lane.apply(Operation::Leave { ticket: ticket(n), unsent: true }).await;
        }
    }
    assert!(turns.windows(2).all(|pair| pair[1] >= pair[0] + INTERVAL), "{turns:?}");
    assert_eq!(lane.look().await.waiting, 0);
}

async fn joining_takes_a_place_and_no_turn(lane: &Lane<'_>) {
    let join = async |n| lane.apply(Operation::Take(Take { only_join: true, ..Take::new(ticket(n), ME) })).await;
    assert_eq!(place(join(0).await).map(|(_, ahead)| ahead), Some(0));
    assert_eq!(place(join(1).await).map(|(_, ahead)| ahead), Some(1));
    lane.turn(0).await;
    assert!(granted(join(0).await).is_some_and(|grant| grant.again), "a turn that it has had");
    assert!(place(join(1).await).is_some());
}
