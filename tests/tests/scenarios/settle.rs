//! The way from the release to raven, and what `settle` means.

use std::time::Duration;

use turnstone_tests::world::{Plan, World, assert_all_ok};

use crate::ms;

/// Sends many pairs while each request takes a random time to raven.
async fn pairs(world: &World, name: &str, clients: u64, each: u64) {
    let mut calls = Vec::new();
    for n in 0..each {
        for client in 0..clients {
            calls.push(world.send(client as usize % world.penguins.len(), &format!("{name}-{client}"), n));
        }
    }
    assert_all_ok(calls).await;
    world.assert_no_trap().await;
}

#[tokio::test]
async fn case_10_random_delays_inside_settle_shorten_no_gap_of_1000_pairs() {
    let world = Plan::every(ms(400)).settle(ms(450)).penguins(2).cable().start().await;
    world.cable.as_ref().expect("a cable").delay_up_to(ms(200));
    // These answers come after settle: only settle guards the gap. Then they come at once.
    world.raven.answer_after(ms(500));
    pairs(&world, "late", 100, 6).await;
    world.raven.answer_after(Duration::ZERO);
    pairs(&world, "prompt", 100, 6).await;
    let lanes = world.lanes();
    let gaps = lanes.0.values().map(|lane| lane.len() - 1).sum::<usize>();
    assert!(gaps >= 1000, "{gaps}");
    lanes.assert_gaps(ms(400));
}

#[tokio::test]
async fn case_10_delays_beyond_settle_shorten_gaps_and_that_is_what_it_means() {
    let world = Plan::every(ms(400)).settle(ms(20)).cable().start().await;
    world.cable.as_ref().expect("a cable").delay_up_to(ms(300));
    world.raven.answer_after(ms(400));
    pairs(&world, "far", 20, 4).await;
    let smallest = world.lanes().smallest_gap().expect("gaps");
    assert!(smallest < ms(400), "{smallest:?}");
}

#[tokio::test]
async fn case_14_a_large_settle_means_one_request_in_flight() {
    let world = Plan::every(ms(500)).settle(ms(5000)).penguins(2).start().await;
    world.raven.answer_after(ms(800));
    assert_all_ok(world.send_in_order("a", 0..3).await).await;
    let gaps = world.lanes().gaps("a");
    assert_eq!(gaps.len(), 2);
    assert!(gaps.iter().all(|gap| *gap >= ms(1300) && *gap < ms(1300 + 250)), "{gaps:?}");
}

#[tokio::test]
async fn whoever_dies_or_leaves_in_flight_costs_one_settle() {
    let (interval, settle) = (ms(400), ms(1500));
    let mut world = Plan::every(interval).settle(settle).penguins(2).start().await;
    world.raven.answer_after(ms(60_000));
    // Its caller goes away while raven thinks; then the whole penguin that holds the next one dies.
    let gone = world.send(1, "a", 0);
    world.until_arrived(1, ms(5000)).await;
    let calls = [world.send_and_stand(0, "a", 1).await];
    let last = world.send_and_stand(1, "a", 2).await;
    gone.abort();
    world.until_arrived(2, ms(5000)).await;
    drop(world.penguins.remove(0));
    world.until_arrived(3, ms(5000)).await;
    let lanes = world.lanes();
    assert_eq!(lanes.order("a"), [0, 1, 2]);
    let gaps = lanes.gaps("a");
    assert!(
        gaps.iter().all(|gap| *gap >= interval + settle - ms(20) && *gap < interval + settle + ms(250)),
        "{gaps:?}"
    );
    calls.iter().for_each(|call| call.abort());
    last.abort();
}
