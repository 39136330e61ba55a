//! The gap, the order, and nobody lost.

use std::time::{Duration, Instant};

use turnstone_tests::verdict::Lanes;
use turnstone_tests::world::{Plan, assert_all_ok};

const LATE: Duration = Duration::from_millis(250);

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[tokio::test]
async fn a_request_3_s_after_the_last_one_leaves_2_s_later() {
    let world = Plan::every(Duration::from_secs(5)).start().await;
    assert_all_ok(vec![world.send(0, "a", 0)]).await;
    tokio::time::sleep_until((world.raven.arrivals()[0].at + Duration::from_secs(3)).into()).await;
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
    let lanes: Lanes = world.lanes();
    lanes.assert_gaps(ms(300));
    lanes.assert_in_order();
    assert_eq!(lanes.0.values().map(Vec::len).sum::<usize>(), 500, "each arrived once");
    world.assert_no_trap().await;
}
