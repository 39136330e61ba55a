//! What is refused, and how that is said.

use serde_json::Value;
use turnstone_tests::envoy::{Changes, Endpoint, Envoy, Module};
use turnstone_tests::raven::Raven;
use turnstone_tests::world::{Plan, Reply};

use crate::ms;

fn problem(reply: &Reply) -> Value {
    assert_eq!(reply.kind, "application/problem+json", "{reply:?}");
    let problem: Value = serde_json::from_str(&reply.body).expect("JSON");
    assert_eq!(problem["status"], reply.status);
    problem
}

#[tokio::test]
async fn an_unknown_policy_is_a_clear_500_and_counted() {
    let world = Plan::every(ms(500)).rules(r#"[{"policy": "crow"}]"#).start().await;
    let reply = world.send(0, "a", 0).await.expect("a reply");
    assert_eq!(reply.status, 500);
    let detail = problem(&reply)["detail"].to_string();
    assert!(detail.contains("crow") && detail.contains("raven"), "{detail}");
    assert_eq!(world.raven.count(), 0);
    assert_eq!(world.penguins[0].envoy.counter("turnstone_filter_refused").await, 1);
    assert_eq!(world.penguins[0].sidecar.counter("turnstone_refused_total").await, 1);
    world.assert_no_trap().await;
}

#[tokio::test]
async fn a_missing_id_can_be_refused_or_passed() {
    let rules = r#"[
        {"policy": "raven", "path_prefix": "/reject", "on_missing": "reject"},
        {"policy": "raven", "path_prefix": "/pass", "on_missing": "pass"}]"#;
    let world = Plan::every(ms(60_000)).rules(rules).start().await;
    let penguin = &world.penguins[0];
    let post = |path: &str| {
        let url = format!("http://{}{path}", penguin.envoy.address());
        penguin.send_raw(penguin.client.post(url).body("{}"))
    };
    let refused = post("/reject").await.expect("a reply");
    assert_eq!(refused.status, 400);
    assert_eq!(problem(&refused)["type"], "urn:turnstone:problem:missing-client-id");
    for path in ["/pass", "/pass", "/no-rule", "/no-rule"] {
        let reply = post(path).await.expect("a reply");
        assert_eq!((reply.status, reply.waited_ms), (200, None), "{path}");
    }
    assert_eq!(world.raven.count(), 4, "neither waited a minute");
    assert_eq!(penguin.envoy.counter("turnstone_filter_missing_id").await, 3);
    world.assert_no_trap().await;
}

#[tokio::test]
async fn the_filter_refuses_a_configuration_with_all_its_faults_named() {
    let raven = Raven::start().await;
    let rules = r#"[{"policy": "", "on_missing": "drop"}, {"policy": "raven", "client_id": [{"json": "nope"}]}]"#;
    let sidecar = Endpoint::Unix("/nowhere.sock".into());
    let changes =
        Changes { sidecar: &sidecar, rules: Some(rules), replace: &[], workers: 1, module: Module::Ours, ecds: false };
    let said = Envoy::refuse(raven.address(), &changes).await;
    for place in ["rules[0].policy", "rules[0].on_missing", "rules[1].client_id"] {
        assert!(said.contains(place), "{place} is not in\n{said}");
    }
}

#[tokio::test]
async fn the_sidecar_refuses_a_configuration_with_all_its_faults_named() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("turnstone.toml");
    std::fs::write(&file, "listen = 'x'\ntypo = 1\n[policies.raven]\nsettle = '1ms'").expect("writable");
    for words in [&["check"][..], &["serve"], &[]] {
        let mut command = std::process::Command::new(turnstone_tests::parts::sidecar());
        let output = command.args(words).arg("--config").arg(&file).output().expect("it runs");
        assert_eq!(output.status.code(), Some(1));
        let said = String::from_utf8_lossy(&output.stderr);
        for place in ["listen: ", "typo: ", "policies.raven.interval: ", "policies.raven.settle: "] {
            assert!(said.contains(place), "{place} is not in\n{said}");
        }
    }
    std::fs::write(&file, "[policies.raven]\ninterval = '5s'").expect("writable");
    let mut command = std::process::Command::new(turnstone_tests::parts::sidecar());
    let output = command.arg("check").arg("--config").arg(&file).output().expect("it runs");
    assert!(output.status.success());
}
