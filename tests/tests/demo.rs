//! The demo itself, as a user runs it.

use std::process::Command;

fn demo(arguments: &[&str]) -> (bool, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_demo")).args(arguments).output().expect("it runs");
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn it_paces_on_the_embedded_store_and_with_three_penguins_on_one_redis() {
    for arguments in [&["--interval", "0.5s"][..], &["--interval", "0.5s", "--penguins", "3"]] {
        let (held, said) = demo(arguments);
        assert!(held && said.contains("every promise held"), "{said}");
    }
}
