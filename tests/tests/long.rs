//! What takes minutes, side by side: a short siege, and a line as long as the idle timeouts of others.

use std::process::Command;
use std::time::Duration;

use turnstone_tests::world::{Plan, assert_all_ok};

#[test]
fn a_siege_of_two_minutes() {
    let siege = Command::new(env!("CARGO_BIN_EXE_siege")).args(["--minutes", "2"]).output().expect("it runs");
    let said = String::from_utf8_lossy(&siege.stdout);
    assert!(
        siege.status.success() && said.contains("every promise held"),
        "{said}{}",
        String::from_utf8_lossy(&siege.stderr)
    );
}

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
