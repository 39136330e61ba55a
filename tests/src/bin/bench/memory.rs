//! What a held request costs in the sidecar.

use std::time::Duration;

use turnstone_tests::until;
use turnstone_tests::world::Plan;

use super::MOST_BYTES;

/// Envoy takes a hundred streams per connection of a caller.
const STREAMS: u64 = 100;

pub async fn measure(held: u64) {
    println!("\n  {held} requests held at once, through Envoy:");
    one(held, "of one client, schedule in Redis", Plan::every(Duration::from_secs(3600)), |_| "same".to_owned()).await;
    // After its start the memory store grants nothing for a while: every lane is held.
    let memory = Plan::every(Duration::from_secs(3600)).memory();
    one(held, "of as many clients, embedded store", memory, |n| format!("client-{n}")).await;
}

async fn one(held: u64, name: &str, plan: Plan, client_of: impl Fn(u64) -> String) {
    let world = plan.start().await;
    let penguin = &world.penguins[0];
    let callers: Vec<_> = (0..=held / STREAMS)
        .map(|_| reqwest::Client::builder().http2_prior_knowledge().build().expect("a client"))
        .collect();
    // The first takes the turn that a fresh Redis grants at once.
    let first = u64::from(world.redis.is_some());
    let send = |n: u64| {
        let body = serde_json::json!({ "clientId": client_of(n) }).to_string();
        let caller = &callers[usize::try_from(n / STREAMS).expect("small")];
        penguin.send_raw(caller.post(penguin.url()).body(body))
    };
    let mut calls = Vec::new();
    if first == 1 {
        calls.push(send(0));
        world.until_arrived(1, Duration::from_secs(10)).await;
    }
    let before = penguin.sidecar.process.memory();
    calls.extend((first..held + first).map(send));
    let all = async || penguin.sidecar.held().await == held;
    until("all are held", Duration::from_secs(120), all).await;
    let each = (penguin.sidecar.process.memory() - before) / held;
    let envoy = penguin.envoy.process.memory() / held;
    let verdict = if each <= MOST_BYTES { "within" } else { "OVER" };
    println!("  {name:<36} sidecar {each} bytes each: {verdict} the bound of {MOST_BYTES} (Envoy {envoy})");
    calls.iter().for_each(|call| call.abort());
}
