//! All requests of one Envoy worker: events in, actions out.

use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use turnstone_protocol::{ANSWERS_PATH, ClientId, LEAVES_PATH, OWN_HEADERS};

use crate::Micros;
use crate::action::{Action, Flow, Metric, Stream, Token};
use crate::backoff::Scatter;
use crate::calls::{Call, Calls};
use crate::config::{Config, OnMissing};
use crate::head::Head;
use crate::outbox::Outbox;
use crate::request::{Ask, Next, Reading, Refusal, Reply, Request, Search, trace};

/// With these a caller, or Envoy for it, would send a second request past the pace.
const RETRY_HEADERS: [&str; 3] = ["x-envoy-retry-on", "x-envoy-max-retries", "x-envoy-hedge-on-per-try-timeout"];
/// After an outage thousands are due: this many ask per tick.
const ASKS_PER_TICK: usize = 200;

/// The state of one worker.
#[derive(Debug)]
pub struct Worker {
    config: Rc<Config>,
    seed: u64,
    tickets: u64,
    scatter: Scatter,
    requests: HashMap<Stream, Request>,
    due: BTreeSet<(Micros, Stream)>,
    calls: Calls,
    outbox: Outbox,
    tellings: u32,
    actions: Vec<Action>,
}

impl Worker {
    /// `seed` makes this worker's tickets differ from all others'.
    pub fn new(config: Rc<Config>, seed: u64) -> Self {
        Self {
            config,
            seed,
            tickets: 0,
            scatter: Scatter::new(seed),
            requests: HashMap::new(),
            due: BTreeSet::new(),
            calls: Calls::default(),
            outbox: Outbox::default(),
            tellings: 0,
            actions: Vec::new(),
        }
    }

    /// Nothing waits, no call is open, and nothing is to be told.
    pub fn is_idle(&self) -> bool {
        self.requests.is_empty() && self.due.is_empty() && self.calls.is_empty() && self.outbox.is_empty()
    }

    /// What is to be done since the last call of this.
    pub fn take_actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }

    /// A request begins. `ended`: it has no body.
    pub fn head(&mut self, stream: Stream, head: &Head<'_>, ended: bool, now: Micros) -> Flow {
        let config = Rc::clone(&self.config);
        let Some((index, rule)) = config.rule(head) else { return Flow::Continue };
        self.strip(head);
        let bodiless = ended || head.has_no_body_to_wait_for();
        match Search::begin(index, &rule.client_id, head, bodiless) {
            Search::Found(id) => self.begin(stream, index, Some(id), trace(head), now),
            Search::Missing => self.begin(stream, index, None, trace(head), now),
            Search::Reading(reading) => {
                self.requests.insert(stream, Request::Reading(reading));
                Flow::Hold
            }
        }
    }

    /// More of a request came in; where it should go while its turn has not come.
    pub fn flow(&self, stream: Stream) -> Flow {
        match self.requests.get(&stream) {
            None | Some(Request::Passed { .. }) => Flow::Continue,
            Some(Request::Reading(_) | Request::Asking { .. } | Request::Backoff { .. } | Request::Refused) => {
                Flow::Hold
            }
        }
    }

    pub fn is_reading(&self, stream: Stream) -> bool {
        matches!(self.requests.get(&stream), Some(Request::Reading(_)))
    }

    /// The body is complete.
    pub fn body(&mut self, stream: Stream, body: &[u8], now: Micros) -> Flow {
        match self.requests.remove(&stream) {
            Some(Request::Reading(reading)) => self.read(stream, reading, body, now),
            Some(other) => {
                self.requests.insert(stream, other);
                self.flow(stream)
            }
            None => Flow::Continue,
        }
    }

    /// The shell opened the call it was told to.
    pub fn ask_sent(&mut self, stream: Stream, token: Token) {
        self.calls.open(token, Call::Ask(stream));
    }

    /// The shell could not open the call.
    pub fn ask_failed(&mut self, stream: Stream, now: Micros) {
        self.hear(stream, &Reply::Nobody, now);
    }

    pub fn tell_sent(&mut self, telling: u32, token: Token) {
        self.calls.open(token, Call::Tell(telling));
    }

    pub fn tell_failed(&mut self, telling: u32, now: Micros) {
        self.outbox.unheard(telling, now);
    }

    /// A call ended.
    pub fn reply(&mut self, token: Token, reply: &Reply<'_>, now: Micros) {
        match self.calls.end(token) {
            Some(Call::Ask(stream)) => self.hear(stream, reply, now),
            Some(Call::Tell(telling)) => match reply {
                // 400 and 404: it heard, and saying it again would not help.
                Reply::Sidecar { status: 204 | 400 | 404, .. } => self.outbox.heard(telling),
                Reply::Sidecar { .. } | Reply::Nobody => self.tell_failed(telling, now),
            },
            None => {}
        }
    }

    /// Raven's response headers came; how long the request was held, if the caller may know.
    pub fn response(&mut self, stream: Stream, now: Micros) -> Option<Micros> {
        match self.requests.remove(&stream)? {
            Request::Passed { ask, waited } => {
                self.outbox.answered(ask.answer(now));
                self.config.waited_header.then_some(waited)
            }
            other => {
                self.requests.insert(stream, other);
                None
            }
        }
    }

    /// The stream ended, whichever way.
    pub fn gone(&mut self, stream: Stream, now: Micros) {
        self.calls.forget(stream);
        match self.requests.remove(&stream) {
            Some(Request::Backoff { ask, due }) => {
                self.due.remove(&(due, stream));
                self.left(ask, now);
            }
            Some(Request::Asking { ask, .. }) => self.left(ask, now),
            Some(Request::Reading(_) | Request::Passed { .. } | Request::Refused) | None => {}
        }
    }

    /// Time passes: asks that are due, answers and leaves go out.
    pub fn tick(&mut self, now: Micros) {
        for _ in 0..ASKS_PER_TICK {
            let Some((due, stream)) = self.due.first().copied().filter(|(due, _)| *due <= now) else { break };
            self.due.remove(&(due, stream));
            match self.requests.remove(&stream) {
                Some(Request::Backoff { ask, .. }) => self.ask(stream, ask, now),
                Some(other) => drop(self.requests.insert(stream, other)),
                None => {}
            }
        }
        while let Some(body) = self.outbox.next_answers(now) {
            self.tell(ANSWERS_PATH, body);
        }
        while let Some(body) = self.outbox.next_leaves(self.tellings.wrapping_add(1), now) {
            self.tell(LEAVES_PATH, body);
        }
    }

    fn strip(&mut self, head: &Head<'_>) {
        let ours = |name: &&str| name.starts_with(OWN_HEADERS) || RETRY_HEADERS.contains(name);
        let names: Vec<String> = head.names().filter(ours).map(str::to_owned).collect();
        if !names.is_empty() {
            self.actions.push(Action::Strip(names));
        }
    }

    fn read(&mut self, stream: Stream, reading: Reading, body: &[u8], now: Micros) -> Flow {
        let rule = reading.rule;
        let (id, trace) = reading.end(body);
        self.begin(stream, rule, id, trace, now)
    }

    /// The search for the client is over.
    fn begin(
        &mut self,
        stream: Stream,
        rule: usize,
        id: Option<ClientId>,
        trace: Vec<(&'static str, String)>,
        now: Micros,
    ) -> Flow {
        let config = Rc::clone(&self.config);
        let Some(rule) = config.rules.get(rule) else { return Flow::Continue };
        if id.is_none() {
            self.actions.push(Action::Count(Metric::MissingId));
        }
        let client_id = match (id, rule.on_missing) {
            (Some(id), _) => id,
            (None, OnMissing::Shared) => ClientId::missing(),
            (None, OnMissing::Pass) => return Flow::Continue,
            (None, OnMissing::Reject) => {
                let detail = "the request names no client id where this service looks for one";
                self.refuse(stream, Refusal::new("missing-client-id", "Missing client id", 400, detail));
                return Flow::Hold;
            }
        };
        let ask = Ask::new(rule, client_id, self.next_ticket(), trace, now);
        self.ask(stream, ask, now);
        Flow::Hold
    }

    fn next_ticket(&mut self) -> String {
        self.tickets = self.tickets.wrapping_add(1);
        format!("{:016x}{:016x}", self.seed, self.tickets)
    }

    fn ask(&mut self, stream: Stream, ask: Ask, now: Micros) {
        let metric = if ask.is_first() { Metric::Asked } else { Metric::Reasked };
        self.actions.push(Action::Count(metric));
        self.actions.push(Action::Ask { stream, body: ask.body(now), trace: ask.trace.clone() });
        self.requests.insert(stream, Request::Asking { ask, sent_at: now });
    }

    fn hear(&mut self, stream: Stream, reply: &Reply<'_>, now: Micros) {
        let (mut ask, sent_at) = match self.requests.remove(&stream) {
            Some(Request::Asking { ask, sent_at }) => (ask, sent_at),
            Some(other) => return drop(self.requests.insert(stream, other)),
            None => return,
        };
        match ask.hear(reply, sent_at, now) {
            Next::Release { turn } => {
                self.actions.push(Action::Count(Metric::Granted));
                self.release(stream, ask, Some(turn), now);
            }
            Next::AskAgainNow => self.ask(stream, ask, now),
            Next::Refuse(refusal) => self.refuse(stream, refusal),
            Next::Unreachable if self.config.fail_open => {
                self.actions.push(Action::Count(Metric::FailedOpen));
                self.release(stream, ask, None, now);
            }
            Next::AskAgainLater | Next::Unreachable => {
                let due = now.saturating_add(self.scatter.pause(ask.fail()));
                self.due.insert((due, stream));
                self.requests.insert(stream, Request::Backoff { ask, due });
            }
        }
    }

    fn release(&mut self, stream: Stream, ask: Ask, turn: Option<i64>, now: Micros) {
        let waited = ask.waited(now);
        self.actions.push(Action::Release { stream, turn, waited });
        self.requests.insert(stream, Request::Passed { ask, waited });
    }

    fn refuse(&mut self, stream: Stream, refusal: Refusal) {
        self.actions.push(Action::Count(Metric::Refused));
        self.actions.push(Action::Refuse { stream, refusal });
        self.requests.insert(stream, Request::Refused);
    }

    fn left(&mut self, ask: Ask, now: Micros) {
        self.actions.push(Action::Count(Metric::Left));
        self.actions.push(Action::Hurry);
        self.outbox.leave(ask.leave(true), now);
    }

    fn tell(&mut self, path: &'static str, body: Vec<u8>) {
        self.tellings = self.tellings.wrapping_add(1);
        self.actions.push(Action::Tell { path, body, telling: self.tellings });
    }
}
