//! Callers: bursts, pauses, some that give up, through whichever penguin is up.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::sync::watch;
use tokio::task::JoinSet;
use turnstone_tests::raven::Raven;
use turnstone_tests::world::World;

/// Between two requests of one client: order of sending is order of arrival.
const APART: Duration = Duration::from_millis(60);

/// The way into one penguin, as callers know it.
#[derive(Debug)]
pub struct Gate(Mutex<State>);

#[derive(Clone, Debug)]
struct State {
    url: String,
    client: reqwest::Client,
    /// Rises with each new Envoy in this place.
    generation: u32,
    open: bool,
    /// When the Envoy of each generation was killed.
    killed: Vec<Option<Instant>>,
}

impl Gate {
    pub fn of(world: &World) -> Arc<Vec<Self>> {
        let gate = |url: String| {
            let client = reqwest::Client::new();
            Self(Mutex::new(State { url, client, generation: 0, open: true, killed: vec![None] }))
        };
        Arc::new(world.penguins.iter().map(|penguin| gate(penguin.url())).collect())
    }

    /// The Envoy behind it is about to be killed: its callers will lose their calls.
    pub fn close(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.open = false;
        let generation = state.generation as usize;
        state.killed[generation] = Some(Instant::now());
    }

    /// Another Envoy stands there.
    pub fn open(&self, url: String) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.generation += 1;
        state.killed.push(None);
        (state.url, state.client, state.open) = (url, reqwest::Client::new(), true);
    }

    fn look(&self) -> State {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn was_killed(&self, generation: u32) -> bool {
        self.look().killed[generation as usize].is_some()
    }
}

/// How a request ended for its caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    Answered(u16),
    GaveUp,
    Broken(String),
    /// It still waits when the siege is over.
    Waiting,
}

/// One request, as its caller knows it.
#[derive(Clone, Debug)]
pub struct Request {
    pub client: String,
    pub number: u64,
    pub sent: Instant,
    pub ended: Option<Instant>,
    pub end: End,
    /// Its Envoy was killed while it waited: its caller cannot know.
    pub excused: bool,
}

/// Everyone who calls.
#[derive(Debug)]
pub struct Callers {
    tasks: JoinSet<()>,
    log: Arc<Mutex<Vec<Request>>>,
    stop: watch::Sender<bool>,
}

impl Callers {
    pub fn start(clients: usize, seed: u64, gates: Arc<Vec<Gate>>, raven: Raven) -> Self {
        let (stop, stopped) = watch::channel(false);
        let log: Arc<Mutex<Vec<Request>>> = Arc::default();
        let mut tasks = JoinSet::new();
        for client in 0..clients {
            let dice = StdRng::seed_from_u64(seed ^ (client as u64 + 1));
            let caller = Client { name: format!("client-{client}"), gates: Arc::clone(&gates), log: Arc::clone(&log) };
            tasks.spawn(caller.run(dice, stopped.clone()));
        }
        tasks.spawn(moods(raven, StdRng::seed_from_u64(seed), stopped));
        Self { tasks, log, stop }
    }

    /// Nobody calls any more; returns the log once every call has ended, or patience has.
    pub async fn finish(mut self, patience: Duration) -> Vec<Request> {
        self.stop.send_replace(true);
        let _ = tokio::time::timeout(patience, async { while self.tasks.join_next().await.is_some() {} }).await;
        std::mem::take(&mut self.log.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Raven is sometimes quick and sometimes slow.
async fn moods(raven: Raven, mut dice: StdRng, mut stopped: watch::Receiver<bool>) {
    while !*stopped.borrow() {
        let slow = if dice.random_bool(0.3) { dice.random_range(1..900) } else { 0 };
        raven.answer_after(Duration::from_millis(slow));
        let _ = tokio::time::timeout(Duration::from_secs(4), stopped.changed()).await;
    }
    raven.answer_after(Duration::ZERO);
}

struct Client {
    name: String,
    gates: Arc<Vec<Gate>>,
    log: Arc<Mutex<Vec<Request>>>,
}

impl Client {
    async fn run(self, mut dice: StdRng, mut stopped: watch::Receiver<bool>) {
        let (mut calls, mut number) = (JoinSet::new(), 0);
        let this = Arc::new(self);
        while !*stopped.borrow() {
            for _ in 0..dice.random_range(1..=6) {
                let gives_up = dice.random_bool(0.08).then(|| Duration::from_millis(dice.random_range(0..3000)));
                let gate = dice.random_range(0..this.gates.len());
                calls.spawn(Arc::clone(&this).call(number, gate, gives_up));
                number += 1;
                tokio::time::sleep(APART).await;
            }
            let pause = Duration::from_millis(dice.random_range(500..9000));
            let _ = tokio::time::timeout(pause, stopped.changed()).await;
        }
        while calls.join_next().await.is_some() {}
    }

    async fn call(self: Arc<Self>, number: u64, gate: usize, gives_up: Option<Duration>) {
        let count = self.gates.len();
        let Some((gate, state)) = (0..count)
            .map(|turn| &self.gates[(gate + turn) % count])
            .find_map(|gate| Some((gate, gate.look())).filter(|(_, state)| state.open))
        else {
            return;
        };
        let body = serde_json::json!({ "clientId": self.name, "n": number }).to_string();
        let sent = Instant::now();
        let index = self.note(Request {
            client: self.name.clone(),
            number,
            sent,
            ended: None,
            end: End::Waiting,
            excused: false,
        });
        let answer = async { state.client.post(&state.url).body(body).send().await };
        let end = match tokio::time::timeout(gives_up.unwrap_or(Duration::MAX), answer).await {
            Ok(Ok(answer)) => End::Answered(answer.status().as_u16()),
            Ok(Err(error)) => End::Broken(format!("{error:?}")),
            Err(_) => End::GaveUp,
        };
        let excused = !matches!(end, End::Answered(200) | End::GaveUp) && gate.was_killed(state.generation);
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(request) = log.get_mut(index) {
            (request.ended, request.end, request.excused) = (Some(Instant::now()), end, excused);
        }
    }

    fn note(&self, request: Request) -> usize {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.push(request);
        log.len() - 1
    }
}
