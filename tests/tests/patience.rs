//! A line as long as the idle timeouts of others. `cargo xtask test` runs it beside everything else: it
//! takes five minutes, and does next to nothing.

use std::time::Duration;

use turnstone_tests::world::{Plan, assert_all_ok};

#[tokio::test]
async fn case_3_65_in_one_line_and_the_last_waits_320_seconds() {
    let world = Plan::every(Duration::from_secs(5)).start().await;
    let replies = assert_all_ok(world.send_in_order("a", 0..65).await).await;
    let lanes = world.lanes();
    lanes.assert_paced(Duration::from_secs(5), Duration::from_millis(250));
    assert_eq!(lanes.order("a"), (0..65).collect::<Vec<_>>());
    assert!(replies[64].took >= Duration::from_secs(318), "{:?}", replies[64]);
    world.assert_no_trap().await;
}
