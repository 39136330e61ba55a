//! The keys of a lane lie in one hash slot, and each has an end.

use std::collections::HashMap;
use std::time::Duration;

use turnstone::store::Store;
use turnstone_lane::{Operation, Owner, Take, Verdict};
use turnstone_tests::redis::Redis;

use crate::{ME, key, rules, ticket, trusted};

fn take(n: u64) -> Operation {
    Operation::Take(Take::new(ticket(n), ME))
}

#[tokio::test]
async fn all_keys_of_a_lane_lie_in_one_slot_and_expire() {
    let redis = Redis::start().await;
    let store = trusted(&redis).await;
    let ids = ["", "}", "{", "{}", "a", "a:b", "}{a}", " ", "a\0b", "🦀", &"x".repeat(100_000)];
    for id in ids {
        for n in 0..2 {
            store
                .apply(&key(id), take(n), rules(Duration::from_secs(60), Duration::from_secs(1)))
                .await
                .expect("answered");
        }
    }
    let keys: Vec<String> = redis.run(&["KEYS", "*"]).await;
    assert_eq!(keys.len(), 3 * ids.len(), "state, line and owners: {keys:?}");
    let mut slots: HashMap<String, Vec<u16>> = HashMap::new();
    for name in &keys {
        let tag = name.trim_end_matches(":line").trim_end_matches(":owners");
        slots.entry(tag.to_owned()).or_default().push(slot(name));
        let expires: i64 = redis.run(&["PTTL", name]).await;
        assert!(expires > 0, "{name} never expires");
    }
    assert_eq!(slots.len(), ids.len(), "no two ids share a lane");
    assert!(slots.values().all(|slots| slots.iter().all(|slot| *slot == slots[0])), "{slots:?}");
}

#[tokio::test]
async fn a_lane_costs_a_few_hundred_bytes_and_nothing_when_it_is_idle() {
    let redis = Redis::start().await;
    let store = trusted(&redis).await;
    let mut rules = rules(Duration::from_millis(50), Duration::from_millis(20));
    rules.idle_ttl = Duration::from_millis(300);
    let before: u64 = memory(&redis).await;
    for n in 0..2000 {
        store.apply(&key(&format!("one-shot-{n}")), take(0), rules).await.expect("answered");
    }
    let each = (memory(&redis).await - before) / 2000;
    assert!(each < 400, "{each} bytes per idle lane");
    let gone = async || redis.run::<u64>(&["DBSIZE"]).await == 0;
    turnstone_tests::until("every lane is forgotten", Duration::from_secs(10), gone).await;
}

#[tokio::test]
async fn half_of_ten_thousand_waiters_are_evicted_and_no_command_takes_ten_milliseconds() {
    let redis = Redis::start().await;
    let store = trusted(&redis).await;
    let rules = rules(Duration::from_secs(60), Duration::from_secs(1));
    let lane = key("a");
    for n in 0..10_001u64 {
        let take = Take::new(ticket(n), Owner(n % 2));
        store.apply(&lane, Operation::Take(take), rules).await.expect("answered");
    }
    let head = store.apply(&lane, Operation::Look, rules).await.expect("answered").look.head.expect("a head");
    let evict = |skip| Operation::Evict { owner: head.owner, head: head.ticket, skip };
    let (mut skip, mut slices) = (Some(0), 0);
    let _: () = redis.run(&["CONFIG", "RESETSTAT"]).await;
    while let Some(from) = skip {
        let outcome = store.apply(&lane, evict(from), rules).await.expect("answered");
        let Verdict::Evicted { next } = outcome.verdict else { panic!("{outcome:?}") };
        (skip, slices) = (next, slices + 1);
    }
    assert!(slices >= 10, "{slices}");
    let look = store.apply(&lane, Operation::Look, rules).await.expect("answered").look;
    assert_eq!((look.waiting, look.head.expect("a head").owner == head.owner), (5000, false));
    let took = redis.microseconds_per_call("evalsha").await;
    assert!(took < 10_000, "{took} µs");
}

async fn memory(redis: &Redis) -> u64 {
    let info: String = redis.run(&["INFO", "memory"]).await;
    let line = info.lines().find_map(|line| line.strip_prefix("used_memory:")).expect("Redis says so");
    line.trim().parse().expect("a number")
}

/// Redis Cluster's slot: CRC16 (XMODEM) of what stands between the first braces, if anything does.
fn slot(key: &str) -> u16 {
    let tagged = key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(tag, _)| tag);
    let hashed = tagged.filter(|tag| !tag.is_empty()).unwrap_or(key);
    let crc = hashed.bytes().fold(0u16, |crc, byte| {
        (0..8)
            .fold(crc ^ (u16::from(byte) << 8), |crc, _| if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 })
    });
    crc % 16_384
}
