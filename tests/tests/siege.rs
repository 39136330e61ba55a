//! A short siege; `cargo xtask siege` runs longer ones.

use std::process::Command;

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
