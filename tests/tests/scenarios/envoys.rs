//! Envoys that are reconfigured, drained, or killed while they hold requests.

use std::time::Instant;

use turnstone_tests::until;
use turnstone_tests::world::{Plan, assert_all_ok};

use crate::{LATE, ms};

#[tokio::test]
async fn an_update_of_the_filter_by_ecds_loses_nobody_who_is_held() {
    let world = Plan::every(ms(300)).ecds().start().await;
    let mut calls = world.send_in_order("a", 0..10).await;
    world.penguins[0].envoy.update_filter(r#""waited_header": false, "#).await;
    calls.extend(world.send_in_order("a", 10..20).await);
    let replies = assert_all_ok(calls).await;
    assert!(replies[..10].iter().all(|reply| reply.waited_ms.is_some()), "the old filter's answers");
    assert!(replies[10..].iter().all(|reply| reply.waited_ms.is_none()), "the new filter's answers");
    let lanes = world.lanes();
    // The old filter of each worker ends with its last request, before it has told that raven answered:
    // a lost answer costs a settle.
    lanes.assert_paced(ms(300), ms(250) + LATE);
    assert_eq!(lanes.order("a"), (0..20).collect::<Vec<_>>());
    world.assert_no_trap().await;
}

#[tokio::test]
async fn a_drained_listener_still_serves_those_who_are_held() {
    let world = Plan::every(ms(300)).penguins(2).start().await;
    let calls = world.send_in_order("a", 0..12).await;
    world.penguins[0].envoy.drain().await;
    assert_all_ok(calls).await;
    let lanes = world.lanes();
    lanes.assert_paced(ms(300), LATE);
    assert_eq!(lanes.order("a"), (0..12).collect::<Vec<_>>());
}

#[tokio::test]
async fn an_envoy_that_is_killed_leaves_no_ghosts_in_the_line() {
    let mut world = Plan::every(ms(800)).penguins(2).start().await;
    let mut calls = world.send_in_order("a", 0..8).await;
    world.until_arrived(2, ms(5000)).await;
    world.penguins[1].envoy.process.kill();
    let killed = Instant::now();
    let sidecar = &world.penguins[1].sidecar;
    until("its sidecar holds nobody", ms(3000), async || sidecar.held().await == 0).await;
    let key = "turnstone:{raven:a}:line";
    let line = async || world.redis().run::<u64>(&["ZCARD", key]).await <= 3;
    until("the line holds only the living", ms(4000), line).await;
    assert!(killed.elapsed() < ms(3700), "{:?}", killed.elapsed());
    // The callers of the dead one lost their calls.
    let mut n = 0;
    calls.retain(|call| {
        n += 1;
        if n % 2 == 0 {
            call.abort();
        }
        n % 2 == 1
    });
    assert_all_ok(calls).await;
    let lanes = world.lanes();
    lanes.assert_gaps(ms(800));
    let order = lanes.order("a");
    assert!(order.is_sorted() && [0, 2, 4, 6].iter().all(|n| order.contains(n)), "{order:?}");
}
