//! Bodies and client ids of every kind get the documented answer, and never a trap.

use serde_json::{Value, json};
use turnstone_tests::world::{Plan, World, assert_all_ok};

use crate::{LATE, ms};

const REJECT: &str = r#"[{"policy": "raven", "on_missing": "reject"}]"#;

/// Whether a lane of this client was ever granted a turn.
async fn has_lane(world: &World, client_id: &str) -> bool {
    let query = form(&[("policy", "raven"), ("client_id", client_id)]);
    let lane: Value =
        serde_json::from_str(&world.penguins[0].sidecar.get(&format!("/lanes?{query}")).await).expect("JSON");
    lane["turn"].as_i64().expect("a number") > 0
}

fn form(pairs: &[(&str, &str)]) -> String {
    reqwest::Url::parse_with_params("http://x", pairs).expect("a URL").query().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn case_34_to_36_bodies_in_one_piece() {
    let deep = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    let megabyte = "m".repeat(1 << 20);
    let found: Vec<(String, &str)> = vec![
        (r#"{"clientId": 7}"#.into(), "7"),
        (r#"{"clientId": "8"}"#.into(), "8"),
        (r#"{"clientId":"a","clientId":"b"}"#.into(), "b"),
        (r#"{"client\u0049d":"x"}"#.into(), "x"),
        (format!(r#"{{"clientId":"deep","x":{}}}"#, deep(10_000)), "deep"),
        (format!(r#"{{"clientId":"{megabyte}"}}"#), &megabyte),
    ];
    let missing: Vec<Vec<u8>> = vec![
        b"".into(),
        b"\x00\x01\xfe\xff".into(),
        b"{\"clientId\":\"\xff\"}".into(),
        b"{\"clientId\":\"a\"".into(),
        br#"{"clientId":true}"#.into(),
        br#"{"clientId":null}"#.into(),
        br#"{"clientId":{}}"#.into(),
        br#"{"clientId":[]}"#.into(),
        br#"{"clientId":1.5}"#.into(),
        br#"{"clientId":""}"#.into(),
        br#"{"meta":{"clientId":"no"}}"#.into(),
        deep(10_000).into(),
        format!(r#"{{"clientId":{}}}"#, deep(10_000)).into(),
        "{\"clientId\":".repeat(10_000).into(),
    ];
    let world = Plan::every(ms(60_000)).rules(REJECT).start().await;
    let penguin = &world.penguins[0];
    for (body, client_id) in &found {
        assert_all_ok(vec![penguin.send_raw(penguin.client.post(penguin.url()).body(body.clone()))]).await;
        // A long id is paced under its digest, which the admin page is asked for by the id too.
        if client_id.len() < 1000 {
            assert!(has_lane(&world, client_id).await, "{client_id}");
        }
    }
    for body in &missing {
        let shown = String::from_utf8_lossy(&body[..body.len().min(60)]).into_owned();
        let reply = penguin.send_raw(penguin.client.post(penguin.url()).body(body.clone())).await.expect("a reply");
        assert_eq!(reply.status, 400, "{shown}: {reply:?}");
    }
    assert_eq!(world.raven.count(), found.len());
    let metric = penguin.envoy.counter("turnstone_filter_missing_id").await;
    assert_eq!(metric, missing.len() as u64);
    world.assert_no_trap().await;
}

#[tokio::test]
async fn case_34_seven_and_the_text_7_are_one_lane_and_so_is_all_that_is_missing() {
    let world = Plan::every(ms(500)).start().await;
    let penguin = &world.penguins[0];
    let bodies = [json!({"clientId": 7}), json!({"clientId": "7"}), json!({"clientId": null}), json!([])];
    let calls = bodies.map(|body| penguin.send_raw(penguin.client.post(penguin.url()).body(body.to_string())));
    assert_all_ok(calls.into()).await;
    let arrivals = world.raven.arrivals();
    let of = |bodies: [&str; 2]| {
        let at = |body: &str| arrivals.iter().find(|arrival| arrival.body == body.as_bytes()).expect("it arrived").at;
        let (a, b) = (at(bodies[0]), at(bodies[1]));
        a.max(b) - a.min(b)
    };
    for pair in [[r#"{"clientId":7}"#, r#"{"clientId":"7"}"#], [r#"{"clientId":null}"#, "[]"]] {
        let gap = of(pair);
        assert!(gap >= ms(500) && gap < ms(500) + LATE, "{pair:?}: {gap:?}");
    }
}

#[tokio::test]
async fn case_37_ids_of_any_letters_are_paced_as_themselves_and_never_mix() {
    let ids =
        ["}", "{", "{}", "}{", ":", "a:b", " ", "a b", "a\nb", "a\0b", "🦀", "é", "%7D", "raven", "~", "sha256:x"];
    let world = Plan::every(ms(1000)).start().await;
    let calls = ids.iter().flat_map(|id| [world.send(0, id, 0), world.send(0, id, 1)]).collect();
    assert_all_ok(calls).await;
    let lanes = world.lanes();
    assert_eq!(lanes.0.len(), ids.len());
    assert!(lanes.0.values().all(|seen| seen.len() == 2));
    // Were two ids one lane, somebody would have waited for two intervals.
    lanes.assert_paced(ms(1000), 2 * LATE);
    world.assert_no_trap().await;
}
