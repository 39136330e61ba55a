//! Redis that restarts, fails over, forgets, stands still, refuses, or answers late.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use turnstone_tests::cable::Cable;
use turnstone_tests::redis::Redis;
use turnstone_tests::sentinels::Sentinels;
use turnstone_tests::until;
use turnstone_tests::world::{Plan, World, assert_all_ok};

use crate::ms;

const INTERVAL: Duration = Duration::from_millis(600);
const SETTLE: Duration = Duration::from_millis(250);

/// Gaps kept, all arrived, in order, nobody trapped.
async fn assert_kept(world: &World, count: u64) {
    let lanes = world.lanes();
    lanes.assert_gaps(world.plan.interval);
    assert_eq!(lanes.order("a"), (0..count).collect::<Vec<_>>());
    world.assert_no_trap().await;
}

/// The longest silence in the lane.
fn silence(world: &World) -> Duration {
    world.lanes().gaps("a").into_iter().max().expect("some gaps")
}

#[tokio::test]
async fn case_28_redis_restarts_empty() {
    let mut world = Plan::every(INTERVAL).penguins(2).start().await;
    let calls = world.send_in_order("a", 0..10).await;
    world.until_arrived(2, ms(5000)).await;
    world.redis.as_mut().expect("a Redis").restart().await;
    assert_all_ok(calls).await;
    assert_kept(&world, 10).await;
    assert!(silence(&world) < 2 * INTERVAL + SETTLE + ms(1000), "{:?}", silence(&world));
}

#[tokio::test]
async fn redis_restarts_empty_and_no_sidecar_lives_that_saw_the_last_turn() {
    let mut world = Plan::every(INTERVAL).penguins(2).start().await;
    let calls = world.send_in_order("a", 0..8).await;
    world.until_arrived(2, ms(5000)).await;
    for penguin in &mut world.penguins {
        penguin.sidecar.process.kill();
    }
    world.redis.as_mut().expect("a Redis").restart().await;
    for penguin in &mut world.penguins {
        penguin.sidecar.restart().await;
    }
    assert_all_ok(calls).await;
    assert_kept(&world, 8).await;
}

#[tokio::test]
async fn redis_restarts_with_what_it_wrote_down() {
    let kept = Redis::with(&["--appendonly", "yes", "--appendfsync", "everysec"]).await;
    let mut world = Plan::every(INTERVAL).penguins(2).store(kept.url()).start().await;
    world.redis = Some(kept);
    let calls = world.send_in_order("a", 0..10).await;
    world.until_arrived(3, ms(5000)).await;
    world.redis.as_mut().expect("a Redis").restart().await;
    assert_all_ok(calls).await;
    assert_kept(&world, 10).await;
}

#[tokio::test]
async fn case_29_failover_to_a_replica_that_missed_the_last_turns_and_back() {
    let mut sentinels = Sentinels::start().await;
    let world = Plan::every(INTERVAL).penguins(2).store(sentinels.url()).start().await;
    let calls = world.send_in_order("a", 0..16).await;
    world.until_arrived(2, ms(5000)).await;
    // What the replica knows now is all that it will ever know of the lane.
    let state = "turnstone:{raven:a}";
    let old: Vec<u8> = sentinels.nodes[1].run(&["DUMP", state]).await;
    world.until_arrived(4, ms(5000)).await;
    sentinels.nodes[0].process.kill();
    let _: () = sentinels.nodes[1].run(&["CONFIG", "SET", "replica-read-only", "no"]).await;
    sentinels.nodes[1].restore(state, &old).await;
    let _: i64 = sentinels.nodes[1].run(&["DEL", "turnstone:{raven:a}:line"]).await;
    sentinels.until_master(1).await;
    let promoted = world.raven.count();
    world.until_arrived(promoted + 2, ms(10_000)).await;
    // Back to the first, which now runs as a replica; its process never stops from here on.
    sentinels.nodes[0].restart().await;
    sentinels.until_calm().await;
    let before = world.raven.count();
    for master in [0, 1] {
        sentinels.fail_over().await.expect("a Sentinel is ready");
        sentinels.until_master(master).await;
        sentinels.until_calm().await;
    }
    world.until_arrived((before + 2).min(16), ms(20_000)).await;
    assert_all_ok(calls).await;
    assert_kept(&world, 16).await;
}

#[tokio::test]
async fn case_27_redis_is_away_for_a_while_and_the_line_moves_on_by_itself() {
    let mut world = Plan::every(INTERVAL).penguins(2).start().await;
    let calls = world.send_in_order("a", 0..10).await;
    world.until_arrived(2, ms(5000)).await;
    let redis = world.redis.as_mut().expect("a Redis");
    redis.process.kill();
    let gone = Instant::now();
    let sidecar = &world.penguins[0].sidecar;
    until("it says that it holds", ms(5000), async || sidecar.get("/healthz").await.contains("holding")).await;
    let stopped = world.raven.count();
    tokio::time::sleep_until((gone + ms(6000)).into()).await;
    assert_eq!(world.raven.count(), stopped, "never unpaced");
    world.redis.as_mut().expect("a Redis").restart().await;
    let back = Instant::now();
    world.until_arrived(stopped + 1, ms(10_000)).await;
    assert!(back.elapsed() < INTERVAL + SETTLE + ms(1500), "{:?}", back.elapsed());
    assert_all_ok(calls).await;
    assert_kept(&world, 10).await;
    for penguin in &world.penguins {
        let said = penguin.sidecar.process.output().matches("holding: the store does not answer").count();
        assert_eq!(said, 1, "once, not per request");
        assert!(penguin.sidecar.get("/healthz").await.contains("\"ok\""));
    }
}

#[tokio::test]
async fn redis_stands_still_for_400_ms_again_and_again() {
    let world = Plan::every(ms(300)).penguins(3).start().await;
    let calls = world.send_in_order("a", 0..30).await;
    while world.raven.count() < 28 {
        let _: () = world.redis().run(&["CLIENT", "PAUSE", "400", "ALL"]).await;
        tokio::time::sleep(ms(1500)).await;
    }
    assert_all_ok(calls).await;
    assert_kept(&world, 30).await;
    for penguin in &world.penguins {
        assert_eq!(penguin.sidecar.counter("turnstone_evicted_total").await, 0, "nobody was skipped");
    }
}

#[tokio::test]
async fn case_30_each_key_of_a_lane_is_deleted_while_some_wait() {
    let world = Plan::every(INTERVAL).penguins(2).start().await;
    let calls = world.send_in_order("a", 0..14).await;
    for (arrived, key) in [(1, ""), (3, ":line"), (6, ":owners"), (9, "")] {
        world.until_arrived(arrived, ms(10_000)).await;
        let key = format!("turnstone:{{raven:a}}{key}");
        let _: i64 = world.redis().run(&["DEL", &key]).await;
    }
    assert_all_ok(calls).await;
    assert_kept(&world, 14).await;
    assert!(silence(&world) < INTERVAL + SETTLE + ms(1000), "{:?}", silence(&world));
}

#[tokio::test]
async fn somebody_puts_something_else_into_the_keys_of_a_lane() {
    let world = Plan::every(INTERVAL).penguins(2).start().await;
    let calls = world.send_in_order("a", 0..10).await;
    for (arrived, key) in [(1, ""), (3, ":line"), (5, ":owners")] {
        world.until_arrived(arrived, ms(10_000)).await;
        let key = format!("turnstone:{{raven:a}}{key}");
        let _: () = world.redis().run(&["SET", &key, "nonsense"]).await;
    }
    assert_all_ok(calls).await;
    assert_kept(&world, 10).await;
    let mut repaired = 0;
    for penguin in &world.penguins {
        repaired += penguin.sidecar.counter("turnstone_repaired_total").await;
    }
    assert_eq!(repaired, 3, "each is counted");
}

#[tokio::test]
async fn redis_is_full_and_who_has_no_place_yet_is_held_until_it_is_not() {
    let world = Plan::every(INTERVAL).penguins(2).start().await;
    let mut calls = world.send_in_order("a", 0..4).await;
    world.until_arrived(1, ms(5000)).await;
    let _: () = world.redis().run(&["CONFIG", "SET", "maxmemory", "1"]).await;
    calls.push(world.send(0, "a", 4));
    let errors = async || world.penguins[0].sidecar.counter("turnstone_store_errors_total").await > 0;
    until("it counts errors", ms(5000), errors).await;
    // Those with a place go on: a grant needs no more memory. The fifth is not let go past its lane.
    world.until_arrived(4, ms(5000)).await;
    tokio::time::sleep(2 * INTERVAL).await;
    assert_eq!(world.raven.count(), 4, "never unpaced");
    let _: () = world.redis().run(&["CONFIG", "SET", "maxmemory", "0"]).await;
    assert_all_ok(calls).await;
    assert_kept(&world, 5).await;
}

#[tokio::test]
async fn after_an_outage_the_ramp_lets_go_in_order_of_arrival_and_skips_nobody() {
    let (clients, interval) = (40, ms(1000));
    let mut plan = Plan::every(interval).penguins(2);
    "ramp = 20".clone_into(&mut plan.top);
    let world = plan.start().await;
    assert_all_ok(vec![world.send(0, "x", 0), world.send(1, "y", 0)]).await;
    world.redis().process.signal(Signal::SIGSTOP);
    let mut calls = Vec::new();
    // The first of each client waits at one penguin, the second at the other.
    for number in 0..2 {
        calls.extend((0..clients).map(|n| world.send(number, &format!("client-{n}"), number as u64)));
        tokio::time::sleep(ms(300)).await;
    }
    world.until_held(2 * clients).await;
    tokio::time::sleep(ms(1500)).await;
    world.redis().process.signal(Signal::SIGCONT);
    let free = Instant::now();
    assert_all_ok(calls).await;
    assert!(free.elapsed() > ms(1700), "forty at twenty a second: {:?}", free.elapsed());
    let lanes = world.lanes();
    lanes.assert_gaps(interval);
    lanes.assert_in_order();
    for penguin in &world.penguins {
        assert_eq!(penguin.sidecar.counter("turnstone_evicted_total").await, 0);
    }
}

/// A world whose sidecars reach Redis by a cable.
async fn by_cable(redis: &Redis) -> (World, Cable) {
    let cable = Cable::to(([127, 0, 0, 1], redis.port()).into()).await;
    let world = Plan::every(INTERVAL).store(format!("redis://{}", cable.address())).start().await;
    (world, cable)
}

#[tokio::test]
async fn a_grant_that_comes_too_late_is_taken_again_before_it_is_used() {
    let redis = Redis::start().await;
    let (world, cable) = by_cable(&redis).await;
    let calls = world.send_in_order("a", 0..6).await;
    world.until_arrived(1, ms(5000)).await;
    cable.delay_replies(ms(300));
    let renewed = async || world.penguins[0].sidecar.counter("turnstone_renewed_total").await >= 2;
    until("grants are taken again", ms(10_000), renewed).await;
    cable.delay_replies(Duration::ZERO);
    assert_all_ok(calls).await;
    assert_kept(&world, 6).await;
}

#[tokio::test]
async fn replies_are_lost_and_the_same_ticket_goes_next_and_only_once() {
    let redis = Redis::start().await;
    let (world, cable) = by_cable(&redis).await;
    let calls = world.send_in_order("a", 0..8).await;
    for arrived in [1, 3, 5] {
        world.until_arrived(arrived, ms(20_000)).await;
        // The server carries out what is asked, and nobody hears of it.
        cable.deafen(true);
        tokio::time::sleep(INTERVAL).await;
        cable.deafen(false);
        cable.cut();
    }
    assert_all_ok(calls).await;
    assert_kept(&world, 8).await;
    assert!(silence(&world) < 2 * INTERVAL + ms(2500), "{:?}", silence(&world));
    let line: u64 = redis.run(&["ZCARD", "turnstone:{raven:a}:line"]).await;
    assert_eq!(line, 0, "no ticket is left behind");
}
