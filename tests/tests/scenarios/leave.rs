//! Callers that go away cost nobody a turn.

use std::time::Duration;

use turnstone_tests::until;
use turnstone_tests::world::{Plan, assert_all_ok};

use crate::{LATE, ms};

#[tokio::test]
async fn case_19_and_21_a_waiter_that_leaves_is_skipped_and_raven_sees_nothing_of_it() {
    let world = Plan::every(ms(1000)).penguins(2).start().await;
    let mut calls = world.send_in_order("a", 1..6).await;
    let first = world.raven.arrivals()[0].at;
    tokio::time::sleep_until((first + ms(1400)).into()).await;
    let third = calls.remove(2);
    third.abort();
    assert_all_ok(calls).await;
    let lanes = world.lanes();
    lanes.assert_paced(ms(1000), LATE);
    assert_eq!(lanes.order("a"), [1, 2, 4, 5]);
    assert_eq!(world.penguins[1].envoy.counter("turnstone_filter_left").await, 1);
    assert_eq!(world.penguins[1].sidecar.counter("turnstone_left_total").await, 1);
    world.assert_no_trap().await;
}

#[tokio::test]
async fn case_20_when_the_head_leaves_just_before_its_turn_the_next_takes_that_turn() {
    let world = Plan::every(ms(2000)).penguins(2).start().await;
    let mut calls = world.send_in_order("a", 0..3).await;
    let first = world.raven.arrivals()[0].at;
    tokio::time::sleep_until((first + ms(1900)).into()).await;
    calls.remove(1).abort();
    assert_all_ok(calls).await;
    let lanes = world.lanes();
    lanes.assert_paced(ms(2000), LATE);
    assert_eq!(lanes.order("a"), [0, 2]);
}

#[tokio::test]
async fn leaving_at_any_moment_around_the_turn_loses_no_turn_and_no_gap() {
    let world = Plan::every(ms(300)).penguins(2).start().await;
    for round in 0..10u64 {
        let client = format!("client-{round}");
        let mut calls = world.send_in_order(&client, 0..3).await;
        let first = world.lanes().lane(&client)[0].at;
        // From 18 ms before the turn to 18 ms after it.
        tokio::time::sleep_until((first + ms(282) + ms(4) * round as u32).into()).await;
        calls.remove(1).abort();
        assert_all_ok(calls).await;
    }
    let lanes = world.lanes();
    lanes.assert_gaps(ms(300));
    for (client, seen) in &lanes.0 {
        let last = seen.last().expect("two or three");
        assert_eq!(last.number, 2, "{client}");
        let turns = u32::try_from(seen.len() - 1).expect("small");
        assert!(last.at - seen[0].at < ms(300) * turns + LATE, "{client}: a turn was spent on nobody");
    }
    world.assert_no_trap().await;
}

#[tokio::test]
async fn a_hundred_leave_at_once_and_the_line_is_empty() {
    let world = Plan::every(Duration::from_secs(60)).start().await;
    let calls: Vec<_> = (0..101).map(|n| world.send(0, "a", n)).collect();
    world.until_held(100).await;
    calls.iter().for_each(|call| call.abort());
    until("nobody is held", ms(2000), async || world.held().await == 0).await;
    let key = "turnstone:{raven:a}:line";
    until("the line is empty", ms(2000), async || world.redis().run::<u64>(&["ZCARD", key]).await == 0).await;
    assert_eq!(world.penguins[0].envoy.counter("turnstone_filter_left").await, 100);
    world.assert_no_trap().await;
}
