//! A Redis that may have lost the last turns grants nothing for one `interval + settle` (P6).

use std::time::{Duration, Instant};

use tokio::sync::mpsc::Receiver;
use turnstone::policy::{LaneKey, Rules};
use turnstone::store::{Hint, RedisStore, Store};
use turnstone_lane::{Operation, Owner, Take, Verdict};
use turnstone_tests::redis::Redis;
use turnstone_tests::until;

use crate::{ME, key, rules, ticket, trusted};

const INTERVAL: Duration = Duration::from_millis(400);
const SETTLE: Duration = Duration::from_millis(100);
const HOLD: Duration = INTERVAL.saturating_add(SETTLE);

fn open(redis: &Redis) -> (RedisStore, Receiver<Hint>) {
    RedisStore::open(&redis.url(), Owner(rand::random())).expect("a URL")
}

async fn take(store: &RedisStore, lane: &LaneKey, n: u64) -> Verdict {
    store.apply(lane, Operation::Take(Take::new(ticket(n), ME)), lane_rules()).await.expect("answered").verdict
}

fn lane_rules() -> Rules {
    rules(INTERVAL, SETTLE)
}

/// Asks until granted; how long after `since` that was.
async fn turn(store: &RedisStore, n: u64, since: Instant) -> Duration {
    while !matches!(take(store, &key("a"), n).await, Verdict::Granted(_)) {
        store.watch().await.expect("answered");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    since.elapsed()
}

#[tokio::test]
async fn a_new_redis_grants_nothing_for_one_interval_and_settle_and_keeps_the_places() {
    let redis = Redis::start().await;
    let (store, _hints) = open(&redis);
    let met = Instant::now();
    let first = store.apply(&key("a"), Operation::Take(Take::new(ticket(0), ME)), lane_rules()).await.unwrap();
    assert!(matches!(first.verdict, Verdict::Waiting(waiting) if waiting.ahead == 0), "{first:?}");
    assert!(first.look.opens_in > 400_000, "it says how long: {}", first.look.opens_in);
    assert!(matches!(take(&store, &key("a"), 1).await, Verdict::Waiting(waiting) if waiting.ahead == 1));
    let held = turn(&store, 0, met).await;
    assert!(held >= HOLD && held < HOLD + Duration::from_millis(100), "{held:?}");
    assert!(matches!(take(&store, &key("b"), 9).await, Verdict::Granted(_)), "every lane is open then");
}

#[tokio::test]
async fn a_sidecar_that_starts_later_need_not_hold() {
    let redis = Redis::start().await;
    let (first, _hints) = open(&redis);
    turn(&first, 0, Instant::now()).await;
    first.watch().await.expect("answered");
    let (second, _hints) = open(&redis);
    assert!(matches!(take(&second, &key("b"), 1).await, Verdict::Granted(_)));
}

#[tokio::test]
async fn one_that_waits_hears_that_another_has_waited_long_enough() {
    let redis = Redis::start().await;
    let (first, _hints) = open(&redis);
    let met = Instant::now();
    take(&first, &key("a"), 0).await;
    tokio::time::sleep(INTERVAL).await;
    let (second, mut hints) = open(&redis);
    take(&second, &key("b"), 1).await;
    assert!(second.watch().await.expect("answered"), "it keeps lanes closed");
    turn(&first, 0, met).await;
    first.watch().await.expect("answered");
    assert!(!second.watch().await.expect("answered"));
    assert_eq!((hints.recv().await, hints.recv().await), (Some(Hint::Lost), Some(Hint::Found)));
    assert!(matches!(take(&second, &key("b"), 1).await, Verdict::Granted(_)));
    assert!(met.elapsed() < HOLD + INTERVAL, "it did not wait for a hold of its own");
}

#[tokio::test]
async fn each_promotion_is_a_new_tenure_also_the_second_of_a_node_that_never_stopped() {
    let (a, b) = (Redis::start().await, Redis::start().await);
    let (on_a, on_b) = (trusted(&a).await, trusted(&b).await);
    assert!(matches!(take(&on_a, &key("a"), 0).await, Verdict::Granted(_)));
    b.follow(Some(&a)).await;
    b.follow(None).await;
    assert!(matches!(take(&on_b, &key("a"), 1).await, Verdict::Waiting(_)), "b was promoted");
    a.follow(Some(&b)).await;
    assert!(on_a.apply(&key("a"), Operation::Look, lane_rules()).await.is_ok());
    a.follow(None).await;
    let again = Instant::now();
    assert!(matches!(take(&on_a, &key("z"), 2).await, Verdict::Waiting(_)), "its scripts and markers are still there");
    let held = async || {
        on_a.watch().await.expect("answered");
        matches!(take(&on_a, &key("z"), 2).await, Verdict::Granted(_))
    };
    until("it opens again", HOLD * 2, held).await;
    assert!(again.elapsed() >= HOLD);
}

#[tokio::test]
async fn a_replica_is_no_master() {
    let (a, b) = (Redis::start().await, Redis::start().await);
    b.follow(Some(&a)).await;
    let (store, _hints) = open(&b);
    let answer = store.apply(&key("a"), Operation::Take(Take::new(ticket(0), ME)), lane_rules()).await;
    let error = answer.unwrap_err().to_string();
    assert!(error.contains("read only"), "{error}");
}

#[tokio::test]
async fn markers_survive_that_redis_forgets_its_scripts() {
    let redis = Redis::start().await;
    let store = trusted(&redis).await;
    let _: () = redis.run(&["SCRIPT", "FLUSH"]).await;
    store.watch().await.expect("answered");
    let (later, _hints) = open(&redis);
    assert!(matches!(take(&later, &key("a"), 0).await, Verdict::Granted(_)));
}

#[tokio::test]
async fn what_is_not_ours_in_a_lanes_keys_goes_and_the_lane_holds_where_its_last_turn_is_lost() {
    let redis = Redis::start().await;
    let (store, mut hints) = open(&redis);
    store.vouch().await.expect("answered");
    for (n, damage) in [
        vec!["LPUSH", "turnstone:{raven:a}", "x"],
        vec!["SET", "turnstone:{raven:a}", "short"],
        vec!["SET", "turnstone:{raven:a}:line", "x"],
        vec!["SADD", "turnstone:{raven:a}:owners", "x"],
    ]
    .into_iter()
    .enumerate()
    {
        let _: i64 = redis.run(&["DEL", damage[1]]).await;
        let _: ::redis::Value = redis.run(&damage).await;
        let damaged = Instant::now();
        let n = n as u64;
        take(&store, &key("a"), 100 + n).await;
        store
            .apply(&key("a"), Operation::Leave { ticket: ticket(100 + n), unsent: false }, lane_rules())
            .await
            .unwrap();
        let held = turn(&store, n, damaged).await;
        assert!(n > 1 || held >= INTERVAL, "{damage:?}: {held:?}");
        let said = std::iter::from_fn(|| hints.try_recv().ok());
        assert_eq!(said.filter(|hint| *hint == Hint::Repaired(key("a"))).count(), 1, "{damage:?}");
    }
}
