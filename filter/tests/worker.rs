//! The worker's promises, natively: events in, actions out.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use proptest::prelude::*;
use serde_json::Value;
use turnstone_filter::Micros;
use turnstone_filter::action::{Action, Flow, Metric, Stream, Token};
use turnstone_filter::config::Config;
use turnstone_filter::head::Head;
use turnstone_filter::request::Reply;
use turnstone_filter::worker::Worker;

const SECOND: Micros = 1_000_000;
const PACED: &str = r#"{"rules":[{"policy":"raven","path_prefix":"/paced"}]}"#;
const GRANTED: Reply<'_> =
    Reply::Sidecar { status: 200, retry_after: None, body: br#"{"state":"granted","waited_ms":1,"turn":42}"# };
const WAITING: Reply<'_> =
    Reply::Sidecar { status: 202, retry_after: None, body: br#"{"state":"waiting","since":5,"ahead":1,"eta_ms":1}"# };
const HEARD: Reply<'_> = Reply::Sidecar { status: 204, retry_after: None, body: b"" };

/// Envoy as the worker sees it.
struct Bench {
    worker: Worker,
    now: Micros,
    next_token: Token,
    asks: BTreeMap<Stream, (Token, Value)>,
    released: BTreeMap<Stream, Option<i64>>,
    refused: BTreeMap<Stream, u16>,
    told: Vec<(&'static str, Token, Value)>,
    counted: Vec<Metric>,
    stripped: BTreeSet<String>,
    hurried: bool,
    breaker_full: bool,
}

impl Bench {
    fn new(config: &str) -> Self {
        Self {
            worker: Worker::new(Rc::new(Config::parse(config.as_bytes()).unwrap()), 9),
            now: SECOND,
            next_token: 0,
            asks: BTreeMap::new(),
            released: BTreeMap::new(),
            refused: BTreeMap::new(),
            told: Vec::new(),
            counted: Vec::new(),
            stripped: BTreeSet::new(),
            hurried: false,
            breaker_full: false,
        }
    }

    fn settle(&mut self) {
        loop {
            let actions = self.worker.take_actions();
            if actions.is_empty() {
                return;
            }
            self.act(actions);
        }
    }

    fn act(&mut self, actions: Vec<Action>) {
        for action in actions {
            self.next_token += 1;
            let token = self.next_token;
            match action {
                Action::Strip(names) => self.stripped.extend(names),
                Action::Ask { stream, .. } if self.breaker_full => self.worker.ask_failed(stream, self.now),
                Action::Tell { telling, .. } if self.breaker_full => self.worker.tell_failed(telling, self.now),
                Action::Ask { stream, body, .. } => {
                    self.worker.ask_sent(stream, token);
                    self.asks.insert(stream, (token, serde_json::from_slice(&body).unwrap()));
                }
                Action::Release { stream, turn, .. } => assert_eq!(self.released.insert(stream, turn), None, "once"),
                Action::Refuse { stream, refusal } => drop(self.refused.insert(stream, refusal.status)),
                Action::Tell { path, body, telling } => {
                    self.worker.tell_sent(telling, token);
                    self.told.push((path, token, serde_json::from_slice(&body).unwrap()));
                }
                Action::Hurry => self.hurried = true,
                Action::Count(metric) => self.counted.push(metric),
            }
        }
    }

    fn head(&mut self, stream: Stream, path: &str, more: &[(&str, &str)]) -> Flow {
        let mut headers = vec![(":path".to_owned(), path.into()), (":method".to_owned(), b"POST".to_vec())];
        headers.extend(more.iter().map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec())));
        let flow = self.worker.head(stream, &Head::new(&headers), false, self.now);
        self.settle();
        flow
    }

    fn body(&mut self, stream: Stream, body: &str) -> Flow {
        let flow = self.worker.body(stream, body.as_bytes(), self.now);
        self.settle();
        flow
    }

    /// A paced request whose ask is open.
    fn asking(&mut self, stream: Stream) {
        assert_eq!(self.head(stream, "/paced", &[]), Flow::Hold);
        assert_eq!(self.body(stream, r#"{"clientId":"a"}"#), Flow::Hold);
        assert!(self.asks.contains_key(&stream));
    }

    /// The open ask of a stream gets a reply; what was asked.
    fn reply(&mut self, stream: Stream, reply: &Reply<'_>) -> Value {
        let (token, asked) = self.asks.remove(&stream).expect("an open ask");
        self.worker.reply(token, reply, self.now);
        self.settle();
        asked
    }

    fn tick_after(&mut self, time: Micros) {
        self.now += time;
        self.worker.tick(self.now);
        self.settle();
    }

    fn gone(&mut self, stream: Stream) {
        self.worker.gone(stream, self.now);
        self.settle();
    }

    fn count(&self, metric: Metric) -> usize {
        self.counted.iter().filter(|counted| **counted == metric).count()
    }
}

#[test]
fn a_request_is_held_until_its_turn_and_then_let_go_under_its_revision() {
    let mut bench = Bench::new(PACED);
    bench.asking(1);
    assert_eq!(bench.worker.flow(1), Flow::Hold);
    bench.now += 3 * SECOND;
    let asked = bench.reply(1, &GRANTED);
    assert_eq!((&asked["policy"], &asked["client_id"], &asked["age_us"]), (&"raven".into(), &"a".into(), &0.into()));
    assert_eq!(bench.released[&1], Some(42));
    assert_eq!(bench.worker.flow(1), Flow::Continue);
    assert_eq!(bench.worker.response(1, bench.now), Some(3 * SECOND));
}

#[test]
fn what_no_rule_matches_is_not_touched() {
    let mut bench = Bench::new(PACED);
    assert_eq!(bench.head(1, "/free", &[("x-envoy-retry-on", "5xx"), ("x-turnstone-turn", "1")]), Flow::Continue);
    assert_eq!(bench.body(1, "{}"), Flow::Continue);
    assert_eq!(bench.worker.response(1, bench.now), None);
    assert!(bench.asks.is_empty() && bench.stripped.is_empty());
}

#[test]
fn headers_that_would_go_round_the_pace_are_stripped() {
    let mut bench = Bench::new(PACED);
    let names = ["x-envoy-retry-on", "x-envoy-max-retries", "x-envoy-hedge-on-per-try-timeout", "x-turnstone-any"];
    bench.head(1, "/paced", &names.map(|name| (name, "x")));
    assert_eq!(bench.stripped, names.map(str::to_owned).into());
}

#[test]
fn still_waiting_means_ask_again_at_once_with_the_same_ticket_and_its_since() {
    let mut bench = Bench::new(PACED);
    bench.asking(1);
    bench.now += 25 * SECOND;
    let first = bench.reply(1, &WAITING);
    let second = bench.reply(1, &GRANTED);
    assert_eq!(first["ticket"], second["ticket"]);
    assert_eq!((&second["since"], &second["age_us"]), (&5.into(), &(25 * SECOND).into()));
    assert_eq!((bench.count(Metric::Asked), bench.count(Metric::Reasked)), (1, 1));
}

#[test]
fn a_sidecar_that_says_so_too_soon_is_not_spun_with() {
    let mut bench = Bench::new(PACED);
    bench.asking(1);
    bench.now += 1000;
    bench.reply(1, &WAITING);
    assert!(bench.asks.is_empty());
    bench.tick_after(60_000);
    assert_eq!(bench.asks[&1].1["since"], 5);
}

#[test]
fn nobody_there_means_ask_again_later_and_later_up_to_a_second() {
    let mut bench = Bench::new(PACED);
    bench.asking(1);
    let ticket = bench.asks[&1].1["ticket"].clone();
    for _ in 0..20 {
        bench.reply(1, &Reply::Nobody);
        assert!(bench.asks.is_empty());
        let mut waited = 0;
        while bench.asks.is_empty() {
            bench.tick_after(20_000);
            waited += 20_000;
        }
        assert!(waited <= SECOND + 20_000, "{waited}");
        assert_eq!(bench.asks[&1].1["ticket"], ticket);
    }
    assert!(bench.released.is_empty() && bench.refused.is_empty());
}

#[test]
fn after_an_outage_asks_go_out_in_slices() {
    let mut bench = Bench::new(PACED);
    for stream in 0..1000 {
        bench.asking(stream);
        bench.reply(stream, &Reply::Nobody);
    }
    bench.tick_after(SECOND);
    assert_eq!(bench.asks.len(), 200);
    for _ in 0..4 {
        bench.tick_after(20_000);
    }
    assert_eq!(bench.asks.len(), 1000);
}

#[test]
fn what_asking_again_cannot_help_becomes_a_local_reply() {
    let problem = br#"{"type":"x","title":"t","status":404,"detail":"there is no policy"}"#;
    for (status, local) in [(400, 500), (404, 500), (429, 429)] {
        let mut bench = Bench::new(PACED);
        bench.asking(1);
        bench.reply(1, &Reply::Sidecar { status, retry_after: Some("7".to_owned()), body: problem });
        assert_eq!(bench.refused[&1], local);
        bench.gone(1);
        bench.tick_after(SECOND);
        assert!(bench.told.is_empty(), "nothing waits anywhere");
    }
}

#[test]
fn answers_of_any_other_kind_are_no_turn() {
    for (status, body) in [(200, &b"nonsense"[..]), (200, b""), (503, b""), (500, b"x"), (410, b""), (202, b"{}")] {
        let mut bench = Bench::new(PACED);
        bench.asking(1);
        bench.reply(1, &Reply::Sidecar { status, retry_after: None, body });
        assert!(bench.released.is_empty() && bench.refused.is_empty(), "{status}");
        bench.tick_after(SECOND);
        assert!(bench.asks.contains_key(&1), "{status}");
    }
}

#[test]
fn a_caller_that_goes_away_is_told_until_it_is_heard() {
    let mut bench = Bench::new(PACED);
    bench.asking(1);
    let (token, asked) = bench.asks[&1].clone();
    bench.gone(1);
    assert!(bench.hurried);
    bench.worker.reply(token, &GRANTED, bench.now);
    bench.settle();
    assert!(bench.released.is_empty(), "a late grant for a stream that is gone");
    for reply in [Reply::Nobody, Reply::Sidecar { status: 503, retry_after: None, body: b"" }, HEARD] {
        bench.tick_after(SECOND);
        let (path, token, body) = bench.told.pop().expect("told again");
        assert_eq!((path, &body[0]["ticket"], &body[0]["unsent"]), ("/v1/leaves", &asked["ticket"], &true.into()));
        bench.worker.reply(token, &reply, bench.now);
    }
    bench.tick_after(SECOND);
    assert!(bench.told.is_empty());
    assert_eq!(bench.count(Metric::Left), 1);
}

#[test]
fn a_leave_that_nobody_hears_is_given_up_after_a_minute() {
    let mut bench = Bench::new(PACED);
    bench.asking(1);
    bench.gone(1);
    let mut tries = 0;
    for _ in 0..100 {
        bench.tick_after(SECOND);
        for (_, token, _) in std::mem::take(&mut bench.told) {
            tries += 1;
            bench.worker.reply(token, &Reply::Nobody, bench.now);
        }
    }
    assert!((50..=61).contains(&tries), "{tries}");
}

#[test]
fn answers_travel_together_on_the_tick_with_their_ages() {
    let mut bench = Bench::new(PACED);
    for stream in [1, 2] {
        bench.asking(stream);
        bench.reply(stream, &GRANTED);
        bench.worker.response(stream, bench.now);
        bench.gone(stream);
        bench.now += 1000;
    }
    bench.tick_after(9_000);
    let (path, _, body) = bench.told.pop().expect("told");
    assert_eq!((path, &body[0]["age_us"], &body[1]["age_us"]), ("/v1/answers", &11_000.into(), &10_000.into()));
    assert!(bench.told.is_empty());
    assert_eq!(bench.count(Metric::Left), 0);
}

#[test]
fn only_an_operator_lets_requests_pass_unpaced() {
    let mut bench = Bench::new(r#"{"fail_open":true,"rules":[{"policy":"raven"}]}"#);
    bench.asking(1);
    bench.reply(1, &Reply::Nobody);
    assert_eq!(bench.released[&1], None);
    assert_eq!(bench.count(Metric::FailedOpen), 1);
}

/// Anything that Envoy may do next, to one of a few streams.
#[derive(Clone, Debug)]
enum Event {
    Body(bool),
    Reply(u8),
    /// From now on Envoy opens no call, or opens calls again.
    Breaker(bool),
    Response,
    Gone,
    Tick(Micros),
    Heard(bool),
}

fn events() -> impl Strategy<Value = Vec<(Stream, Event)>> {
    let event = prop_oneof![
        4 => any::<bool>().prop_map(Event::Body),
        6 => any::<u8>().prop_map(Event::Reply),
        1 => any::<bool>().prop_map(Event::Breaker),
        2 => Just(Event::Response),
        2 => Just(Event::Gone),
        4 => (0..2 * SECOND).prop_map(Event::Tick),
        2 => any::<bool>().prop_map(Event::Heard),
    ];
    prop::collection::vec((0..4u32, event), 0..120)
}

proptest! {
    /// Whatever Envoy does: a paced request goes on only when it was released, and only once; and
    /// when all streams are gone and all was heard, nothing is left behind.
    #[test]
    fn never_unpaced_and_nothing_left_behind(events in events()) {
        let mut bench = Bench::new(PACED);
        let (mut number, mut live) = (0, BTreeMap::<Stream, Stream>::new());
        for (slot, event) in events {
            let Some(stream) = live.get(&slot).copied() else {
                number += 1;
                live.insert(slot, number);
                prop_assert_eq!(bench.head(number, "/paced", &[]), Flow::Hold);
                continue;
            };
            match event {
                Event::Body(ended) if ended && bench.worker.is_reading(stream) => drop(bench.body(stream, "{}")),
                Event::Body(_) => {}
                Event::Reply(kind) if bench.asks.contains_key(&stream) => {
                    let reply = match kind % 5 {
                        0 => GRANTED,
                        1 => WAITING,
                        2 => Reply::Sidecar { status: 404, retry_after: None, body: b"{}" },
                        3 => Reply::Sidecar { status: 503, retry_after: None, body: b"" },
                        _ => Reply::Nobody,
                    };
                    bench.reply(stream, &reply);
                }
                Event::Reply(_) => {}
                Event::Breaker(full) => bench.breaker_full = full,
                Event::Response => drop(bench.worker.response(stream, bench.now)),
                Event::Gone => {
                    bench.gone(stream);
                    bench.asks.remove(&stream);
                    live.remove(&slot);
                    continue;
                }
                Event::Tick(time) => bench.tick_after(time),
                Event::Heard(heard) => {
                    for (_, token, _) in std::mem::take(&mut bench.told) {
                        bench.worker.reply(token, if heard { &HEARD } else { &Reply::Nobody }, bench.now);
                    }
                }
            }
            let may_go = bench.released.contains_key(&stream);
            prop_assert_eq!(bench.worker.flow(stream) == Flow::Continue, may_go);
        }
        bench.breaker_full = false;
        for stream in live.into_values() {
            bench.gone(stream);
        }
        for _ in 0..3 {
            bench.tick_after(SECOND);
            for (_, token, _) in std::mem::take(&mut bench.told) {
                bench.worker.reply(token, &HEARD, bench.now);
            }
        }
        prop_assert!(bench.worker.is_idle());
    }
}
