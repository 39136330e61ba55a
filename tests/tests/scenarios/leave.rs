//! Callers that go away cost nobody a turn.

use std::time::Duration;

use tokio::io::AsyncWriteExt;
use turnstone_tests::until;
use turnstone_tests::world::{Plan, World, assert_all_ok};

use crate::{LATE, ms};

#[tokio::test]
async fn case_19_and_21_a_waiter_that_leaves_is_skipped_and_raven_sees_nothing_of_it() {
    let world = Plan::every(ms(1000)).penguins(2).start().await;
    let mut calls = world.send_in_order("a", 1..6).await;
    let first = world.first_arrival("a").await;
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
    let first = world.first_arrival("a").await;
    tokio::time::sleep_until((first + ms(1900)).into()).await;
    calls.remove(1).abort();
    assert_all_ok(calls).await;
    let lanes = world.lanes();
    lanes.assert_paced(ms(2000), LATE);
    assert_eq!(lanes.order("a"), [0, 2]);
}

#[tokio::test]
async fn leaving_at_any_moment_around_the_turn_costs_no_gap_and_no_more_than_it_must() {
    let (interval, settle) = (ms(300), ms(250));
    let world = Plan::every(interval).settle(settle).penguins(2).start().await;
    for round in 0..12u64 {
        let client = format!("client-{round}");
        let left_before = left(&world).await;
        let mut calls = world.send_in_order(&client, 0..3).await;
        let first = world.first_arrival(&client).await;
        // From 22 ms before the turn to 22 ms after it.
        tokio::time::sleep_until((first + ms(278) + ms(4) * round as u32).into()).await;
        calls.remove(1).abort();
        assert_all_ok(calls).await;
        let lanes = world.lanes();
        let took = lanes.lane(&client).last().expect("two or three").at - first;
        let most = match (lanes.order(&client).as_slice(), left(&world).await - left_before) {
            // It left the line: its turn went to the next.
            ([0, 2], 1) => interval,
            // Raven had it, and nobody was left to see the answer: a settle, as after any lost answer.
            ([0, 1, 2], 0) => 2 * interval + settle,
            // It was let go and broke off on its way: nobody can tell that raven never had it.
            ([0, 2], 0) => 2 * interval + settle,
            other => panic!("{client}: {other:?}"),
        };
        assert!(took < most + LATE, "{client}: {took:?}, at most {most:?}");
    }
    world.lanes().assert_gaps(interval);
    world.assert_no_trap().await;
}

async fn left(world: &World) -> u64 {
    let (a, b) = (&world.penguins[0].envoy, &world.penguins[1].envoy);
    a.counter("turnstone_filter_left").await + b.counter("turnstone_filter_left").await
}

#[tokio::test]
async fn a_caller_that_goes_before_its_body_ends_never_stood_in_the_line() {
    let world = Plan::every(ms(500)).start().await;
    let half = b"POST /v1/fly HTTP/1.1\r\nhost: raven\r\ncontent-length: 100\r\n\r\n{\"clientId\":\"a\"";
    let mut stream = tokio::net::TcpStream::connect(world.penguins[0].envoy.address()).await.expect("Envoy listens");
    stream.write_all(half).await.expect("sent");
    let began = async || world.penguins[0].envoy.stat("http.egress.downstream_rq_total").await == 1;
    until("the request begins", ms(5000), began).await;
    drop(stream);
    let ended = async || world.penguins[0].envoy.stat("http.egress.downstream_rq_active").await == 0;
    until("the request is gone", ms(5000), ended).await;
    let calls = world.send_in_order("a", 0..2).await;
    assert_all_ok(calls).await;
    world.lanes().assert_paced(ms(500), LATE);
    assert_eq!(world.raven.count(), 2);
    assert_eq!(world.penguins[0].envoy.counter("turnstone_filter_asked").await, 2);
    assert_eq!(world.penguins[0].envoy.counter("turnstone_filter_left").await, 0);
    world.assert_no_trap().await;
}

#[tokio::test]
async fn a_caller_that_goes_while_raven_thinks_has_used_its_turn() {
    let world = Plan::every(ms(500)).penguins(2).start().await;
    world.raven.answer_after(ms(2000));
    let mut calls = world.send_in_order("a", 0..3).await;
    world.first_arrival("a").await;
    calls.remove(0).abort();
    assert_all_ok(calls).await;
    let lanes = world.lanes();
    lanes.assert_paced(ms(500), ms(250) + LATE);
    assert_eq!(lanes.order("a"), [0, 1, 2], "raven had it");
    assert_eq!(world.penguins[0].envoy.counter("turnstone_filter_left").await, 0);
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
