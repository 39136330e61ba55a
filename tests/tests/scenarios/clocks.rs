//! Clocks that are wrong, and clocks that are put back and forth.

use std::time::Duration;

use turnstone_tests::cable::Cable;
use turnstone_tests::clock::FakeClock;
use turnstone_tests::redis::Redis;
use turnstone_tests::world::{Plan, World, assert_all_ok};

use crate::{LATE, ms};

const INTERVAL: Duration = Duration::from_millis(800);
const SETTLE: Duration = Duration::from_millis(250);
const HOUR: i64 = 3_600_000;

/// Two penguins on a Redis whose clock the scenario holds.
async fn world(clock: &FakeClock) -> (World, Redis) {
    let redis = Redis::with_clock(clock).await;
    let world = Plan::every(INTERVAL).settle(SETTLE).penguins(2).store(redis.url()).start().await;
    (world, redis)
}

#[tokio::test]
async fn case_9_sidecars_whose_clocks_are_30_seconds_apart_do_not_notice() {
    let mut world = Plan::every(INTERVAL).penguins(2).start().await;
    let clocks = [FakeClock::start(), FakeClock::start()];
    clocks[0].set(-30_000);
    clocks[1].set(30_000);
    for clock in &clocks {
        let penguin = world.penguin_with(&clock.environment()).await;
        world.penguins.push(penguin);
    }
    assert_all_ok(world.send_in_order("a", 0..12).await).await;
    let lanes = world.lanes();
    lanes.assert_paced(INTERVAL, LATE);
    assert_eq!(lanes.order("a"), (0..12).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_step_back_by_an_hour_stalls_no_lane_longer_than_one_interval() {
    let clock = FakeClock::start();
    let (world, redis) = world(&clock).await;
    let calls = world.send_in_order("a", 0..6).await;
    assert_all_ok(vec![world.send(0, "idle", 0)]).await;
    world.until_arrived(3, ms(5000)).await;
    let before: (u64, u64) = redis.run(&["TIME"]).await;
    clock.set(-HOUR);
    let after: (u64, u64) = redis.run(&["TIME"]).await;
    assert!(after.0 < before.0 - 3590, "Redis lives in the past");
    let calls_too = vec![world.send(1, "idle", 1), world.send(1, "new", 0)];
    assert_all_ok(calls).await;
    assert_all_ok(calls_too).await;
    let lanes = world.lanes();
    lanes.assert_paced(INTERVAL, INTERVAL + SETTLE + LATE);
    assert_eq!(lanes.order("a"), (0..6).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_step_forward_by_an_hour_shortens_no_gap_of_those_who_wait() {
    let clock = FakeClock::start();
    let (world, _redis) = world(&clock).await;
    let calls = world.send_in_order("a", 0..6).await;
    world.until_arrived(2, ms(5000)).await;
    clock.set(HOUR);
    assert_all_ok(calls).await;
    let lanes = world.lanes();
    lanes.assert_paced(INTERVAL, INTERVAL + SETTLE + LATE);
    assert_eq!(lanes.order("a"), (0..6).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_step_forward_that_a_sidecar_noticed_shortens_no_gap_that_it_did_not_see_begin() {
    let clock = FakeClock::start();
    let (world, _redis) = world(&clock).await;
    let mut offset = 0;
    for n in 0..6 {
        let client = format!("client-{n}");
        assert_all_ok(vec![world.send(0, &client, 0)]).await;
        offset += if n % 2 == 0 { HOUR } else { 300 };
        clock.set(offset);
        // It knows the time again after a second at most; one request of another client is enough.
        let calls = vec![world.send(1, &format!("other-{n}"), 0), world.send(1, &client, 1)];
        assert_all_ok(calls).await;
    }
    world.lanes().assert_gaps(INTERVAL);
}

#[tokio::test]
async fn a_sidecar_far_from_redis_keeps_the_order_with_one_that_is_near() {
    let mut world = Plan::every(ms(400)).start().await;
    let cable = Cable::to(([127, 0, 0, 1], world.redis().port()).into()).await;
    // Its picture of Redis' clock is off by half of this.
    cable.delay_replies(ms(100));
    world.store = format!("redis://{}", cable.address());
    let far = world.penguin().await;
    world.penguins.push(far);
    assert_all_ok(world.send_in_order("a", 0..10).await).await;
    let lanes = world.lanes();
    lanes.assert_gaps(ms(400));
    assert_eq!(lanes.order("a"), (0..10).collect::<Vec<_>>());
}
