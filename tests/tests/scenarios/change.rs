//! Rules that change while requests wait.

use std::time::Duration;

use turnstone_tests::world::{Plan, World, assert_all_ok};

use crate::{LATE, ms};

async fn set_interval(world: &mut World, interval: Duration) {
    let policies = Plan::every(interval).policies();
    for penguin in &mut world.penguins {
        penguin.sidecar.reload(&policies).await;
    }
}

#[tokio::test]
async fn case_31_a_shorter_interval_governs_the_very_next_turn() {
    let mut world = Plan::every(ms(5000)).penguins(2).start().await;
    let calls = world.send_in_order("a", 0..8).await;
    let first = world.first_arrival("a").await;
    tokio::time::sleep_until((first + ms(6000)).into()).await;
    set_interval(&mut world, ms(2000)).await;
    world.until_arrived(5, ms(10_000)).await;
    let lanes = world.lanes();
    let at: Vec<Duration> = lanes.lane("a").iter().map(|seen| seen.at - first).collect();
    assert!(at[1] >= ms(5000) && at[1] < ms(5000) + LATE, "{at:?}");
    assert!(at[2] >= at[1] + ms(2000) && at[2] < ms(7000) + 2 * LATE, "{at:?}");
    assert!(lanes.gaps("a")[2..].iter().all(|gap| *gap >= ms(2000) && *gap < ms(2000) + LATE), "{at:?}");
    calls.iter().for_each(|call| call.abort());
}

#[tokio::test]
async fn case_31_a_longer_interval_governs_the_very_next_turn_and_back_again_stalls_nothing() {
    let mut world = Plan::every(ms(500)).penguins(2).start().await;
    let calls = world.send_in_order("a", 0..5).await;
    world.until_arrived(2, ms(3000)).await;
    set_interval(&mut world, ms(3000)).await;
    world.until_arrived(3, ms(5000)).await;
    set_interval(&mut world, ms(500)).await;
    assert_all_ok(calls).await;
    let gaps = world.lanes().gaps("a");
    assert!(gaps[1] >= ms(3000) && gaps[1] < ms(3000) + LATE, "{gaps:?}");
    assert!(gaps[2..].iter().all(|gap| *gap >= ms(500) && *gap < ms(500) + LATE), "{gaps:?}");
}

#[tokio::test]
async fn a_file_with_faults_changes_nothing() {
    let world = Plan::every(ms(500)).start().await;
    let sidecar = &world.penguins[0].sidecar;
    std::fs::write(sidecar.file(), "[policies.raven]\ninterval = 'soon'\nsettle = '1ms'").expect("a writable folder");
    sidecar.process.signal(nix::sys::signal::Signal::SIGHUP);
    let kept = async || sidecar.process.output().contains("kept the old configuration");
    turnstone_tests::until("the fault is logged", ms(5000), kept).await;
    let log = sidecar.process.output();
    assert!(log.contains("policies.raven.interval") && log.contains("policies.raven.settle"), "{log}");
    assert_all_ok((0..2).map(|n| world.send(0, "a", n)).collect()).await;
    world.lanes().assert_paced(ms(500), LATE);
}
