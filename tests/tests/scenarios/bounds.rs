//! Bounds that the operator set.

use turnstone_tests::world::{Plan, assert_all_ok};

use crate::{LATE, ms};

#[tokio::test]
async fn case_6_who_would_wait_too_long_is_refused_at_once() {
    // Behind two it would wait 2 to 2.95 s, whether raven's answer to the first is known already or not.
    let world = Plan::every(ms(900)).more("max_wait = '2060ms'").penguins(2).start().await;
    let calls = world.send_in_order("a", 0..3).await;
    let refused = world.send(0, "a", 3).await.expect("the caller lives");
    assert_eq!((refused.status, refused.kind.as_str()), (429, "application/problem+json"), "{refused:?}");
    assert!(refused.body.contains("urn:turnstone:problem:line-too-long"), "{refused:?}");
    assert_eq!(refused.retry_after.as_deref(), Some("3"), "the estimate, rounded up");
    assert!(refused.took < ms(500), "{refused:?}");
    assert_all_ok(calls).await;
    let lanes = world.lanes();
    lanes.assert_paced(ms(900), LATE);
    assert_eq!(lanes.order("a"), [0, 1, 2]);
    assert_eq!(world.penguins[0].envoy.counter("turnstone_filter_refused").await, 1);
    assert_eq!(world.penguins[0].sidecar.counter("turnstone_refused_total").await, 1);
    world.assert_no_trap().await;
}

#[tokio::test]
async fn who_has_a_place_keeps_it_over_restarts_whatever_the_bound() {
    let mut world = Plan::every(ms(500)).more("max_line = 3\nclients.vip = { max_line = 5 }").start().await;
    let mut calls = world.send_in_order("a", 0..4).await;
    assert_eq!(world.send(0, "a", 4).await.expect("the caller lives").status, 429);
    calls.extend(world.send_in_order("vip", 0..6).await);
    assert_eq!(world.send(0, "vip", 6).await.expect("the caller lives").status, 429);
    world.penguins[0].sidecar.restart().await;
    assert_all_ok(calls).await;
    let lanes = world.lanes();
    lanes.assert_gaps(ms(500));
    assert_eq!((lanes.order("a"), lanes.order("vip")), ((0..4).collect(), (0..6).collect()));
}
