//! Sidecars that are killed or restarted, and wake-ups and scripts that are lost.

use std::time::Instant;

use nix::sys::signal::Signal;
use turnstone_tests::until;
use turnstone_tests::world::{Plan, assert_all_ok};

use crate::{LATE, ms};

#[tokio::test]
async fn case_22_kill_the_sidecar_that_holds_4_and_5_of_6() {
    let mut world = Plan::every(ms(1500)).penguins(2).start().await;
    let mut calls = world.send_in_order("a", 1..2).await;
    for (n, penguin) in [(2, 1), (3, 1), (4, 0), (5, 0), (6, 1)] {
        calls.push(world.send_and_stand(penguin, "a", n).await);
    }
    world.penguins[0].sidecar.restart().await;
    assert_all_ok(calls).await;
    let lanes = world.lanes();
    lanes.assert_paced(ms(1500), LATE);
    assert_eq!(lanes.order("a"), [1, 2, 3, 4, 5, 6]);
    world.assert_no_trap().await;
}

#[tokio::test]
async fn case_24_all_sidecars_restarted_with_20_waiting() {
    let mut world = Plan::every(ms(400)).penguins(2).start().await;
    let calls = world.send_in_order("a", 0..21).await;
    let before = world.raven.count();
    let killed = Instant::now();
    for penguin in &mut world.penguins {
        penguin.sidecar.restart().await;
    }
    world.until_arrived(before + 2, ms(3000)).await;
    assert!(killed.elapsed() < ms(3000));
    assert_all_ok(calls).await;
    let lanes = world.lanes();
    lanes.assert_gaps(ms(400));
    assert_eq!(lanes.order("a"), (0..21).collect::<Vec<_>>());
    world.assert_no_trap().await;
}

#[tokio::test]
async fn a_sidecar_of_the_memory_store_that_is_killed_loses_no_order_and_no_gap() {
    let mut world = Plan::every(ms(500)).memory().start().await;
    let calls = world.send_in_order("a", 0..6).await;
    world.until_arrived(2, ms(5000)).await;
    world.penguins[0].sidecar.restart().await;
    assert_all_ok(calls).await;
    let lanes = world.lanes();
    lanes.assert_gaps(ms(500));
    assert_eq!(lanes.order("a"), (0..6).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_sidecar_that_is_told_to_stop_goes_within_seconds_and_nobody_notices() {
    let mut world = Plan::every(ms(500)).start().await;
    let calls = world.send_in_order("a", 0..8).await;
    let took = world.penguins[0].sidecar.stop().await;
    assert!(took < ms(4000), "{took:?}");
    world.penguins[0].sidecar.restart().await;
    assert_all_ok(calls).await;
    let lanes = world.lanes();
    lanes.assert_gaps(ms(500));
    assert_eq!(lanes.order("a"), (0..8).collect::<Vec<_>>());
    world.assert_no_trap().await;
}

#[tokio::test]
async fn case_25_every_wake_up_is_lost_and_all_leave_at_most_one_settle_late() {
    let world = Plan::every(ms(1000)).penguins(3).start().await;
    let _: () = world.redis().run(&["ACL", "SETUSER", "default", "resetchannels"]).await;
    assert_all_ok(world.send_in_order("a", 0..9).await).await;
    let lanes = world.lanes();
    lanes.assert_paced(ms(1000), ms(250) + LATE);
    assert_eq!(lanes.order("a"), (0..9).collect::<Vec<_>>());
    let heard = world.penguins[0].sidecar.counter("turnstone_wakes_received_total").await;
    assert_eq!(heard, 0, "the scenario is one without wake-ups");
}

#[tokio::test]
async fn case_26_redis_forgets_its_scripts_under_load() {
    let world = Plan::every(ms(200)).penguins(2).start().await;
    let mut calls = Vec::new();
    for n in 0..200u64 {
        calls.push(world.send(n as usize % 2, &format!("client-{}", n % 10), n));
        if n % 4 == 0 {
            let _: () = world.redis().run(&["SCRIPT", "FLUSH"]).await;
        }
    }
    assert_all_ok(calls).await;
    let lanes = world.lanes();
    lanes.assert_gaps(ms(200));
    assert_eq!(lanes.0.values().map(Vec::len).sum::<usize>(), 200);
    world.assert_no_trap().await;
}

#[tokio::test]
async fn case_23_kill_sidecar_and_envoy_that_hold_4_and_5_of_6() {
    let mut world = Plan::every(ms(2000)).penguins(2).start().await;
    let mut calls = world.send_in_order("a", 1..2).await;
    for (n, penguin) in [(2, 1), (3, 1), (4, 0), (5, 0), (6, 1)] {
        let call = world.send_and_stand(penguin, "a", n).await;
        // The other callers die with their Envoy.
        if penguin == 1 {
            calls.push(call);
        }
    }
    drop(world.penguins.remove(0));
    assert_all_ok(calls).await;
    let lanes = world.lanes();
    lanes.assert_gaps(ms(2000));
    assert_eq!(lanes.order("a"), [1, 2, 3, 6]);
    // Evicted after a grace of half a second and a second of patience.
    let last = lanes.lane("a")[3].at - lanes.lane("a")[2].at;
    assert!(last < ms(2000 + 3000), "the turn of the dead is skipped within three seconds, not waited for: {last:?}");
}

#[tokio::test]
async fn case_27_while_redis_stands_still_all_are_held_and_that_is_visible_once() {
    let world = Plan::every(ms(500)).penguins(2).start().await;
    let calls = world.send_in_order("a", 0..12).await;
    world.redis().process.signal(Signal::SIGSTOP);
    let sidecar = &world.penguins[0].sidecar;
    until("it says that it holds", ms(5000), async || sidecar.get("/healthz").await.contains("holding")).await;
    assert_eq!(sidecar.counter("turnstone_holding").await, 1);
    let stopped = world.raven.count();
    tokio::time::sleep(ms(2000)).await;
    assert_eq!(world.raven.count(), stopped, "never unpaced");
    world.redis().process.signal(Signal::SIGCONT);
    assert_all_ok(calls).await;
    let lanes = world.lanes();
    lanes.assert_gaps(ms(500));
    assert_eq!(lanes.order("a"), (0..12).collect::<Vec<_>>());
    let warnings = sidecar.process.output().matches("holding: the store does not answer").count();
    assert_eq!(warnings, 1, "once, not per request");
    world.assert_no_trap().await;
}

#[tokio::test]
async fn case_28_a_redis_that_forgets_all_is_held_to_the_turns_that_a_living_sidecar_saw() {
    let world = Plan::every(ms(1000)).penguins(2).start().await;
    let calls = world.send_in_order("a", 0..6).await;
    world.until_arrived(2, ms(5000)).await;
    let _: () = world.redis().run(&["FLUSHALL"]).await;
    assert_all_ok(calls).await;
    let lanes = world.lanes();
    lanes.assert_gaps(ms(1000));
    assert_eq!(lanes.order("a"), (0..6).collect::<Vec<_>>());
}
