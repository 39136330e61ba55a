//! Scenarios that need the machine for themselves: they run one after the other.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tokio::sync::{Mutex, MutexGuard};
use turnstone_tests::redis::Redis;
use turnstone_tests::sidecar::{Settings, Sidecar};
use turnstone_tests::until;
use turnstone_tests::world::{Plan, World, assert_all_ok};

/// One scenario at a time.
async fn alone() -> MutexGuard<'static, ()> {
    static MACHINE: Mutex<()> = Mutex::const_new(());
    MACHINE.lock().await
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[tokio::test]
async fn case_4_of_1500_held_at_once_on_one_envoy_none_is_refused() {
    let _machine = alone().await;
    // After its start the memory store grants nothing for one interval and settle: all are held.
    let world = Plan::every(ms(10_000)).memory().start().await;
    let calls: Vec<_> = (0..1500).map(|n| world.send(0, &format!("client-{n}"), n)).collect();
    world.until_held(1500).await;
    assert_eq!(world.raven.count(), 0);
    assert_all_ok(calls).await;
    assert_eq!(world.raven.count(), 1500);
    let envoy = &world.penguins[0].envoy;
    assert_eq!(envoy.counter("turnstone_filter_asked").await, 1500);
    assert_eq!(envoy.counter("turnstone_filter_reasked").await, 0, "no call to the sidecar failed");
    world.assert_no_trap().await;
}

#[tokio::test]
async fn case_17_lateness_does_not_add_up_over_100_waiters() {
    let _machine = alone().await;
    let world = Plan::every(ms(100)).start().await;
    let calls = world.send_in_order("a", 0..100).await;
    assert_all_ok(calls).await;
    let lanes = world.lanes();
    lanes.assert_gaps(ms(100));
    let seen = lanes.lane("a");
    let late = (seen[99].at - seen[0].at).checked_sub(99 * ms(100)).expect("no gap is short");
    let alone = one_by_one(&world).await;
    eprintln!("100 waiters: {late:?} late in all; 100 requests that need not wait take {alone:?}");
    // On a machine that is not idle a way to raven and back alone takes more; a turn has a timer besides.
    assert!(late <= ms(250).max(alone * 3 / 2), "{late:?}, {alone:?}");
}

/// How long the same way takes, summed over a hundred requests of new clients, sent at the same pace.
async fn one_by_one(world: &World) -> Duration {
    let mut sum = Duration::ZERO;
    for n in 0..100 {
        tokio::time::sleep(ms(100)).await;
        let sent = Instant::now();
        assert_all_ok(vec![world.send(0, &format!("new-{n}"), n)]).await;
        sum += sent.elapsed();
    }
    sum
}

/// Sends `waiting` requests of one client, then one of another, and says how long that one took.
async fn beside_a_long_line(waiting: u64) -> Duration {
    let world = Plan::every(ms(60_000)).start().await;
    let crowd =
        (0..waiting / 100).map(|_| reqwest::Client::builder().http2_prior_knowledge().build().expect("a client"));
    let crowd: Vec<_> = crowd.collect();
    let penguin = &world.penguins[0];
    let send = |n: u64| {
        let body = serde_json::json!({ "clientId": "c1", "n": n }).to_string();
        penguin.send_raw(crowd[n as usize % crowd.len()].post(penguin.url()).body(body))
    };
    let calls: Vec<_> = (0..=waiting).map(send).collect();
    let asked = async || penguin.sidecar.counter("turnstone_asked_total").await == waiting + 1;
    until("all stand in the line", ms(60_000), asked).await;
    let begun = Instant::now();
    assert_all_ok(vec![world.send(0, "c2", 0)]).await;
    let arrived = world.lanes().lane("c2")[0].at - begun;
    calls.iter().for_each(|call| call.abort());
    until("nobody is held", ms(20_000), async || world.held().await == 0).await;
    world.assert_no_trap().await;
    arrived
}

#[tokio::test]
async fn case_18_a_line_of_1000_delays_no_other_lane() {
    let _machine = alone().await;
    let took = beside_a_long_line(1000).await;
    assert!(took < ms(100), "{took:?}");
}

#[tokio::test]
async fn case_18_a_line_of_10000_delays_no_other_lane() {
    let _machine = alone().await;
    let took = beside_a_long_line(10_000).await;
    assert!(took < ms(100), "{took:?}");
}

#[tokio::test]
async fn case_33_a_release_costs_the_same_few_commands_however_long_the_line_is() {
    let _machine = alone().await;
    let mut costs = Vec::new();
    for waiting in [100u64, 1000] {
        let world = Plan::every(ms(100)).penguins(2).start().await;
        let calls: Vec<_> = (0..waiting).map(|n| world.send(n as usize % 2, "a", n)).collect();
        until("the line stands", ms(20_000), async || world.held().await + world.raven.count() as u64 == waiting).await;
        let before = (world.raven.count(), commands(&world).await);
        world.until_arrived(before.0 + 50, ms(20_000)).await;
        let after = (world.raven.count(), commands(&world).await);
        costs.push((after.1 - before.1) as f64 / (after.0 - before.0) as f64);
        calls.iter().for_each(|call| call.abort());
    }
    eprintln!("commands per release with 100 and with 1000 waiting: {costs:.2?}");
    // A take, an answer, a wake-up for every second head, and the timers behind the wake-ups.
    assert!(costs.iter().all(|cost| *cost < 6.0), "{costs:?}");
    assert!((costs[1] - costs[0]).abs() < 1.0, "{costs:?}");
}

async fn commands(world: &World) -> u64 {
    let redis = world.redis();
    redis.calls("evalsha").await + redis.calls("eval").await + redis.calls("publish").await
}

/// Held while Redis is away, and due in the very instant that it is back.
#[tokio::test]
async fn cases_4_and_5_19000_lanes_become_free_in_the_same_instant() {
    let _machine = alone().await;
    let world = Plan::every(ms(2000)).settle(ms(1000)).start().await;
    let penguin = &world.penguins[0];
    let callers: Vec<_> =
        (0..HELD / 90).map(|_| reqwest::Client::builder().http2_prior_knowledge().build().expect("a client")).collect();
    world.redis().process.signal(Signal::SIGSTOP);
    let send = |n: u64| {
        let body = serde_json::json!({ "clientId": format!("client-{n}"), "n": n }).to_string();
        penguin.send_raw(callers[n as usize % callers.len()].post(penguin.url()).body(body))
    };
    let calls: Vec<_> = (0..HELD).map(send).collect();
    until("all are held", ms(120_000), async || penguin.sidecar.held().await == HELD).await;
    assert_eq!(world.raven.count(), 0);
    world.redis().process.signal(Signal::SIGCONT);
    let free = Instant::now();
    let answered = assert_all_ok(calls).await;
    let mut each_second = std::collections::BTreeMap::new();
    for arrival in world.raven.arrivals() {
        *each_second.entry((arrival.at - free).as_secs()).or_insert(0u64) += 1;
    }
    eprintln!(
        "arrivals in each second: {:?}, ramped {}",
        each_second.values(),
        penguin.sidecar.counter("turnstone_ramped_total").await
    );
    eprintln!("{} held and released within {:?}", answered.len(), free.elapsed());
    assert_eq!(world.raven.count() as u64, HELD, "each arrived once");
    world.assert_no_trap().await;
}

const HELD: u64 = 19_000;

/// A hundred thousand here; the growth, if there were any, would show after a tenth of it.
const ONE_SHOTS: u64 = 100_000;

#[tokio::test]
async fn case_32_one_shot_clients_leave_nothing_behind() {
    let _machine = alone().await;
    let redis = Redis::start().await;
    let policies = "[policies.raven]\ninterval = '50ms'\nsettle = '20ms'\nidle_ttl = '1s'";
    let sidecar = Sidecar::start(Settings::new(&redis.url(), policies)).await;
    sidecar.vouch().await;
    let mut memory = Vec::new();
    for round in 0..3 {
        one_shots(&sidecar, round).await;
        until("Redis is empty again", ms(10_000), async || redis.run::<u64>(&["DBSIZE"]).await == 0).await;
        memory.push(sidecar.process.memory() / 1024);
    }
    eprintln!("kilobytes after each {ONE_SHOTS} one-shot clients: {memory:?}");
    // The allocator takes room in steps; what each client left behind would be added in every round.
    let least = memory.windows(2).map(|pair| pair[1].saturating_sub(pair[0]) * 1024).min().expect("rounds");
    assert!(least < ONE_SHOTS * 10, "{memory:?}");
}

async fn one_shots(sidecar: &Sidecar, round: u64) {
    let url = format!("http://127.0.0.1:{}/v1/turns", sidecar.port());
    let client = reqwest::Client::builder().http2_prior_knowledge().build().expect("a client");
    let tasks = (0..50).map(|part| {
        let (client, url) = (client.clone(), url.clone());
        tokio::spawn(async move {
            for n in (part..ONE_SHOTS).step_by(50) {
                let ticket = format!("{round:016x}{:016x}", n + 1);
                let turn =
                    serde_json::json!({ "policy": "raven", "client_id": format!("{round}-{n}"), "ticket": ticket });
                let answer = client.post(&url).body(turn.to_string()).send().await.expect("the sidecar answers");
                assert_eq!(answer.status(), 200);
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.expect("every turn is given");
    }
}
