//! Sidecars that are frozen, killed in the middle of a turn, or out of file descriptors.

use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use turnstone_tests::process::Process;
use turnstone_tests::until;
use turnstone_tests::world::{Plan, assert_all_ok};

use crate::{LATE, ms};

const INTERVAL: Duration = Duration::from_millis(600);
const SETTLE: Duration = Duration::from_millis(250);

#[tokio::test]
async fn a_sidecar_frozen_for_3_seconds_loses_turns_and_no_request() {
    let world = Plan::every(INTERVAL).penguins(2).start().await;
    let calls = world.send_in_order("a", 0..12).await;
    world.until_arrived(2, ms(5000)).await;
    let frozen = Instant::now();
    world.penguins[0].sidecar.process.signal(Signal::SIGSTOP);
    tokio::time::sleep(ms(3000)).await;
    world.penguins[0].sidecar.process.signal(Signal::SIGCONT);
    assert_all_ok(calls).await;
    let lanes = world.lanes();
    lanes.assert_gaps(INTERVAL);
    let of_the_other = |number: &&u64| **number % 2 == 1;
    let order = lanes.order("a");
    assert!(order.iter().filter(of_the_other).is_sorted(), "{order:?}");
    let meanwhile = lanes.lane("a").iter().filter(|seen| seen.at > frozen && seen.at < frozen + ms(3000));
    assert!(meanwhile.count() >= 2, "the others go on: {order:?}");
    world.assert_no_trap().await;
}

#[tokio::test]
async fn a_timer_that_is_half_a_second_late_makes_one_turn_late_and_no_gap_short() {
    let world = Plan::every(INTERVAL).penguins(2).start().await;
    let calls = world.send_in_order("a", 0..5).await;
    let first = world.first_arrival("a").await;
    tokio::time::sleep_until((first + INTERVAL - ms(5)).into()).await;
    for penguin in &world.penguins {
        penguin.sidecar.process.signal(Signal::SIGSTOP);
    }
    tokio::time::sleep(ms(500)).await;
    for penguin in &world.penguins {
        penguin.sidecar.process.signal(Signal::SIGCONT);
    }
    assert_all_ok(calls).await;
    let lanes = world.lanes();
    lanes.assert_gaps(INTERVAL);
    assert_eq!(lanes.order("a"), [0, 1, 2, 3, 4]);
    let gaps = lanes.gaps("a");
    assert!(
        gaps[0] < INTERVAL + ms(500) + LATE && gaps[1..].iter().all(|gap| *gap < INTERVAL + SETTLE + LATE),
        "{gaps:?}"
    );
}

#[tokio::test]
async fn case_7_all_sidecars_are_restarted_one_by_one_with_100_held() {
    let mut world = Plan::every(ms(120)).penguins(3).start().await;
    let calls = world.send_in_order("a", 0..100).await;
    for index in 0..3 {
        world.penguins[index].sidecar.stop().await;
        world.penguins[index].sidecar.restart().await;
        tokio::time::sleep(ms(500)).await;
    }
    assert_all_ok(calls).await;
    let lanes = world.lanes();
    lanes.assert_gaps(ms(120));
    assert_eq!(lanes.order("a"), (0..100).collect::<Vec<_>>());
    world.assert_no_trap().await;
}

#[tokio::test]
async fn a_sidecar_killed_at_any_moment_around_the_turn_costs_no_gap_and_no_request() {
    let mut world = Plan::every(INTERVAL).settle(SETTLE).start().await;
    for round in 0..10u32 {
        let client = format!("client-{round}");
        let calls = world.send_in_order(&client, 0..3).await;
        let first = world.first_arrival(&client).await;
        // From 18 ms before the turn to 9 ms after it.
        tokio::time::sleep_until((first + INTERVAL - ms(18) + ms(3) * round).into()).await;
        world.penguins[0].sidecar.restart().await;
        assert_all_ok(calls).await;
        let lanes = world.lanes();
        assert_eq!(lanes.order(&client), [0, 1, 2]);
        let worst = lanes.gaps(&client).into_iter().max().expect("gaps");
        // It died with a turn that it had taken: its ticket takes the same turn again.
        assert!(worst <= INTERVAL + SETTLE + ms(1000) + LATE, "{client}: {worst:?}");
    }
    world.lanes().assert_gaps(INTERVAL);
    world.assert_no_trap().await;
}

#[tokio::test]
async fn an_instance_that_dies_with_a_hundred_of_three_hundred_stalls_the_others_once() {
    let mut world = Plan::every(ms(100)).penguins(3).start().await;
    let mut calls = Vec::new();
    for (n, call) in world.send_in_order("a", 0..300).await.into_iter().enumerate() {
        if n % 3 != 0 {
            calls.push(call);
        } else {
            // Its caller dies with its Envoy.
            drop(call);
        }
    }
    let dead = world.penguins.remove(0);
    let owners = async || -> usize {
        let owners: Vec<Vec<u8>> =
            world.redis.as_ref().expect("a Redis").run(&["HVALS", "turnstone:{raven:a}:owners"]).await;
        owners.into_iter().collect::<std::collections::BTreeSet<_>>().len()
    };
    assert_eq!(owners().await, 3);
    drop(dead);
    let killed = Instant::now();
    until("the dead one's tickets are gone", ms(4000), async || owners().await == 2).await;
    assert!(killed.elapsed() < ms(3000), "{:?}", killed.elapsed());
    assert_all_ok(calls).await;
    let lanes = world.lanes();
    lanes.assert_gaps(ms(100));
    let order = lanes.order("a");
    assert!(order.is_sorted(), "{order:?}");
    let stalls: Vec<_> = lanes.gaps("a").into_iter().filter(|gap| *gap > ms(100 + 250) + LATE).collect();
    assert!(stalls.len() <= 1 && stalls.iter().all(|stall| *stall < ms(3000)), "{stalls:?}");
}

#[tokio::test]
async fn the_last_waiter_dies_and_a_later_one_is_not_kept() {
    let mut world = Plan::every(INTERVAL).penguins(2).start().await;
    let gone: Vec<_> = (0..3).map(|n| world.send(0, "a", n)).collect();
    world.until_held(2).await;
    drop(world.penguins.remove(0));
    let later = Instant::now();
    assert_all_ok(vec![world.send(0, "a", 9)]).await;
    assert!(later.elapsed() < ms(3000), "{:?}", later.elapsed());
    world.lanes().assert_gaps(INTERVAL);
    drop(gone);
}

fn limit_files(process: &Process, limit: &str) {
    let status =
        Command::new("prlimit").arg(format!("--pid={}", process.pid())).arg(format!("--nofile={limit}")).status();
    assert!(status.expect("util-linux").success());
}

#[tokio::test]
async fn a_sidecar_out_of_file_descriptors_holds_and_goes_on() {
    let world = Plan::every(INTERVAL).penguins(2).start().await;
    let mut calls = world.send_in_order("a", 0..6).await;
    let process = &world.penguins[0].sidecar.process;
    // Not even a number that is given back can be taken again.
    limit_files(process, "3:4096");
    // Redis ends all connections, and no new one can be opened: this sidecar's requests are held.
    let _: i64 = world.redis().run(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).await;
    let _: i64 = world.redis().run(&["CLIENT", "KILL", "TYPE", "pubsub"]).await;
    let holds = async || process.output().contains("holding: the store does not answer");
    until("it holds", ms(5000), holds).await;
    calls.push(world.send(0, "b", 0));
    calls.push(world.send(1, "c", 0));
    until("the other goes on", ms(5000), async || world.lanes().order("c") == [0]).await;
    assert!(world.lanes().order("b").is_empty(), "never unpaced");
    limit_files(process, "4096:4096");
    assert_all_ok(calls).await;
    world.lanes().assert_gaps(INTERVAL);
    world.assert_no_trap().await;
}
