//! Random histories through the Lua and the Rust lane: every answer is equal.

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use turnstone::policy::LaneKey;
use turnstone::store::RedisStore;
use turnstone_lane::{Bounds, Evidence, LOOKAHEAD, Lane, Micros, NEW_FOR, Operation, Owner, Revision, Take};
use turnstone_tests::redis::Redis;

use crate::{key, rules, ticket, trusted};

const START: Micros = 1_790_000_000_000_000;
const HISTORIES: u32 = 300;

/// One step; what it refers to is picked from what happened so far.
#[derive(Clone, Debug)]
struct Step {
    /// The clock moves by this much; sometimes backwards.
    passes: Micros,
    what: What,
    ticket: u64,
    owner: u64,
    number: Micros,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Take,
    /// Few places, so that some tickets share one.
    TakeAtOldPlace,
    /// At the last microsecond at which an arrival is new, or one before.
    TakeLate,
    TakeWithEvidence,
    TakeWithNewerEvidence,
    /// The head asks at the first microsecond at which it may be granted, or one before.
    HeadOnTime,
    TakeWithBounds,
    Join,
    Answered,
    Leave,
    LeaveUnsent,
    Evict,
    Pause,
    Resume,
    Look,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    use What::*;
    let what = prop_oneof![
        6 => Just(Take), 2 => Just(TakeAtOldPlace), 2 => Just(TakeLate), 2 => Just(TakeWithEvidence), 1 => Just(TakeWithNewerEvidence), 3 => Just(TakeWithBounds), 3 => Just(Join),
        6 => Just(HeadOnTime), 4 => Just(Answered), 2 => Just(Leave), 2 => Just(LeaveUnsent), 1 => Just(Evict),
        1 => Just(Pause), 1 => Just(Resume), 1 => Just(Look),
    ];
    let passes = prop_oneof![8 => 0..2_000_000i64, 1 => Just(0), 1 => -8_000_000..0i64, 1 => 0..60_000_000i64];
    let step = (passes, what, 0..8u64, 1..4u64, -100_000..6_000_000i64)
        .prop_map(|(passes, what, ticket, owner, number)| Step { passes, what, ticket, owner, number });
    prop::collection::vec(step, 1..50)
}

fn operation(step: &Step, lane: &Lane, now: Micros, interval: Micros) -> Operation {
    let plain = Take::new(ticket(step.ticket), Owner(step.owner));
    let pace = rules(Duration::from_micros(interval.unsigned_abs()), SETTLE).pace;
    let look = lane.look(now, pace);
    let seen = |revision: Revision| Some(Evidence { revision, age: step.number });
    match step.what {
        What::Take => Operation::Take(plain),
        What::TakeAtOldPlace => Operation::Take(Take { since: Some(START - step.number % 3), ..plain }),
        What::TakeLate => {
            let since = Some(now - NEW_FOR - (step.number & 1));
            Operation::Take(Take { since, ..plain })
        }
        What::TakeWithEvidence => Operation::Take(Take { evidence: seen(look.revision), ..plain }),
        What::TakeWithNewerEvidence => Operation::Take(Take { evidence: seen(look.revision + step.number), ..plain }),
        What::HeadOnTime => match look.head {
            Some(head) => Operation::Take(Take { ticket: head.ticket, ..plain }),
            None => Operation::Look,
        },
        What::Join => Operation::Take(Take { only_join: true, ..plain }),
        What::TakeWithBounds => {
            let bounds = Bounds { max_wait: Some(step.number), max_line: Some(step.owner) };
            Operation::Take(Take { bounds, ..plain })
        }
        What::Answered => Operation::Answered { ticket: plain.ticket, age: step.number.max(0) },
        What::Leave => Operation::Leave { ticket: plain.ticket, unsent: false },
        What::LeaveUnsent => Operation::Leave { ticket: plain.ticket, unsent: true },
        What::Evict => {
            let head = look.head.map_or(plain.ticket, |head| head.ticket);
            Operation::Evict { owner: plain.owner, head, skip: ticket_skip(step) }
        }
        What::Pause => Operation::Pause { until: now + step.number.max(1) },
        What::Resume => Operation::Resume,
        What::Look => Operation::Look,
    }
}

/// Mostly the beginning of an eviction, sometimes a later slice.
fn ticket_skip(step: &Step) -> u64 {
    if step.number % 3 == 0 { step.ticket % 3 } else { 0 }
}

const SETTLE: Duration = Duration::from_millis(250);

async fn agree(store: &RedisStore, lane_key: &LaneKey, history: &[Step]) -> Result<(), TestCaseError> {
    let mut lane = Lane::default();
    let mut now = START;
    for (index, step) in history.iter().enumerate() {
        // The interval changes now and then: it is no part of the lane.
        let interval = if index % 7 == 6 { 1_000_000 } else { 5_000_000 };
        let rules = rules(Duration::from_micros(interval), SETTLE);
        let interval = interval.cast_signed();
        now += step.passes;
        if matches!(step.what, What::HeadOnTime) {
            let first = lane.look(now, rules.pace).opens_in - LOOKAHEAD - (step.number & 1);
            now += first.max(0);
        }
        let operation = operation(step, &lane, now, interval);
        let rust = lane.apply(operation, now, rules.pace);
        let lua = store.apply_at(lane_key, operation, rules, Some(now)).await;
        let lua = lua.map_err(|error| TestCaseError::fail(format!("step {index} {operation:?}: {error}")))?;
        prop_assert_eq!(rust, lua, "step {} at {}: {:?}", index, now - START, operation);
    }
    Ok(())
}

#[test]
fn the_lua_says_what_the_rust_lane_says_on_random_histories() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let (redis, store) = runtime.block_on(async {
        let redis = Redis::start().await;
        let store = trusted(&redis).await;
        (redis, store)
    });
    let number = std::cell::Cell::new(0u32);
    let mut runner = TestRunner::new(Config { cases: HISTORIES, failure_persistence: None, ..Config::default() });
    let result = runner.run(&steps(), |history| {
        number.set(number.get() + 1);
        runtime.block_on(agree(&store, &key(&format!("history-{}", number.get())), &history))
    });
    drop(redis);
    if let Err(error) = result {
        panic!("{error}");
    }
}
