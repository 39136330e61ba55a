//! The gap, the order, and nobody lost.

use std::time::{Duration, Instant};

use turnstone_tests::world::{Plan, assert_all_ok};

use crate::{LATE, ms};

#[tokio::test]
async fn a_request_3_s_after_the_last_one_leaves_2_s_later() {
    let world = Plan::every(Duration::from_secs(5)).start().await;
    assert_all_ok(vec![world.send(0, "a", 0)]).await;
    tokio::time::sleep_until((world.first_arrival("a").await + Duration::from_secs(3)).into()).await;
    let replies = assert_all_ok(vec![world.send(0, "a", 1)]).await;
    world.lanes().assert_paced(Duration::from_secs(5), LATE);
    let waited = replies[0].waited_ms.expect("the filter says how long");
    assert!((1900..2250).contains(&waited), "{waited} ms");
}

#[tokio::test]
async fn case_1_ten_at_once_through_three_penguins() {
    let world = Plan::every(ms(500)).penguins(3).start().await;
    let begun = Instant::now();
    let calls = (0..10).map(|n| world.send(n as usize % 3, "a", n)).collect();
    assert_all_ok(calls).await;
    let lanes = world.lanes();
    lanes.assert_paced(ms(500), LATE);
    assert_eq!(lanes.lane("a").len(), 10);
    let last = lanes.lane("a")[9].at - begun;
    assert!(last < ms(9 * 500) + LATE + LATE, "{last:?}");
    world.assert_no_trap().await;
}

#[tokio::test]
async fn case_11_idle_time_buys_no_burst() {
    let world = Plan::every(ms(500)).start().await;
    assert_all_ok(vec![world.send(0, "a", 0)]).await;
    tokio::time::sleep(ms(3000)).await;
    let begun = Instant::now();
    assert_all_ok((1..4).map(|n| world.send(0, "a", n)).collect()).await;
    let lanes = world.lanes();
    lanes.assert_gaps(ms(500));
    let at: Vec<Duration> = lanes.lane("a")[1..].iter().map(|seen| seen.at - begun).collect();
    assert!(at[0] < LATE && at[1] < ms(500) + LATE && at[2] < ms(1000) + LATE, "{at:?}");
}

#[tokio::test]
async fn three_envoys_and_500_requests_of_20_clients() {
    let world = Plan::every(ms(300)).penguins(3).start().await;
    let mut calls = Vec::new();
    for n in 0..500u64 {
        let client = format!("client-{}", n % 20);
        calls.push(world.send(n as usize / 20 % 3, &client, n));
        tokio::time::sleep(ms(5)).await;
    }
    assert_all_ok(calls).await;
    let lanes = world.lanes();
    lanes.assert_gaps(ms(300));
    lanes.assert_in_order();
    assert_eq!(lanes.0.values().map(Vec::len).sum::<usize>(), 500, "each arrived once");
    world.assert_no_trap().await;
}

#[tokio::test]
async fn case_8_of_a_thousand_first_requests_exactly_one_leaves() {
    let world = Plan::every(Duration::from_secs(5)).penguins(3).start().await;
    let calls: Vec<_> = (0..1000).map(|n| world.send(n as usize % 3, "fresh", n)).collect();
    world.until_arrived(1, ms(10_000)).await;
    let first = world.first_arrival("fresh").await;
    world.until_held(999).await;
    tokio::time::sleep_until((first + ms(4900)).into()).await;
    assert_eq!(world.raven.count(), 1);
    world.until_arrived(2, ms(1000)).await;
    world.lanes().assert_paced(Duration::from_secs(5), LATE);
    calls.iter().for_each(|call| call.abort());
}

#[tokio::test]
async fn case_12_no_state_expires_before_it_stops_mattering() {
    let mut plan = Plan::every(ms(3000));
    "idle_ttl = '1s'".clone_into(&mut plan.more);
    let world = plan.start().await;
    assert_all_ok(vec![world.send(0, "a", 0)]).await;
    tokio::time::sleep_until((world.first_arrival("a").await + ms(2900)).into()).await;
    assert_all_ok(vec![world.send(0, "a", 1)]).await;
    world.lanes().assert_paced(ms(3000), LATE);
}

#[tokio::test]
async fn case_15_not_one_byte_before_its_turn() {
    let world = Plan::every(ms(2000)).start().await;
    assert_all_ok(vec![world.send(0, "a", 0)]).await;
    let (first, bytes) = (world.first_arrival("a").await, world.raven.bytes());
    let big = serde_json::json!({ "clientId": "a", "n": 1, "padding": "x".repeat(300_000) }).to_string();
    let penguin = &world.penguins[0];
    let call = penguin.send_raw(penguin.client.post(penguin.url()).body(big));
    world.until_held(1).await;
    tokio::time::sleep_until((first + ms(1990)).into()).await;
    assert_eq!(world.raven.bytes(), bytes);
    assert_all_ok(vec![call]).await;
    world.lanes().assert_paced(ms(2000), LATE);
}

#[tokio::test]
async fn case_16_arrivals_faster_than_turns_leave_in_order() {
    let world = Plan::every(ms(250)).penguins(2).start().await;
    let mut calls = Vec::new();
    for n in 0..60 {
        calls.push(world.send(n as usize % 2, "a", n));
        tokio::time::sleep(ms(50)).await;
    }
    assert_all_ok(calls).await;
    let lanes = world.lanes();
    lanes.assert_paced(ms(250), LATE);
    assert_eq!(lanes.order("a"), (0..60).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_slow_raven_costs_at_most_one_settle_per_turn() {
    let world = Plan::every(ms(500)).settle(ms(200)).start().await;
    world.raven.answer_after(ms(900));
    assert_all_ok((0..4).map(|n| world.send(0, "a", n)).collect()).await;
    let gaps = world.lanes().gaps("a");
    assert!(gaps.iter().all(|gap| *gap >= ms(690) && *gap < ms(700) + LATE), "{gaps:?}");
}

#[tokio::test]
async fn case_14_a_large_settle_means_one_in_flight() {
    let world = Plan::every(ms(500)).settle(ms(5000)).start().await;
    world.raven.answer_after(ms(800));
    assert_all_ok((0..3).map(|n| world.send(0, "a", n)).collect()).await;
    let gaps = world.lanes().gaps("a");
    assert!(gaps.iter().all(|gap| *gap >= ms(1300) && *gap < ms(1300) + LATE), "{gaps:?}");
}

#[tokio::test]
async fn the_memory_store_holds_for_one_interval_and_settle_after_its_start() {
    let plan = Plan::every(ms(3000)).memory();
    let begun = std::time::Instant::now();
    let world = plan.start().await;
    assert_all_ok(world.send_in_order("a", 0..3).await).await;
    let lanes = world.lanes();
    assert!(lanes.lane("a")[0].at - begun >= ms(3250));
    lanes.assert_paced(ms(3000), LATE);
    assert_eq!(lanes.order("a"), [0, 1, 2]);
}
