//! Penguins (an Envoy with its sidecar), one raven, and a schedule that they share.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

use crate::cable::Cable;
use crate::envoy::{Changes, Endpoint, Envoy, Module};
use crate::raven::Raven;
use crate::redis::Redis;
use crate::sidecar::{Settings, Sidecar};
use crate::until;
use crate::verdict::Lanes;

/// How a world is made.
#[derive(Clone, Debug)]
pub struct Plan {
    pub interval: Duration,
    pub settle: Duration,
    pub penguins: usize,
    pub redis: bool,
    /// Filter and sidecar talk over TCP, not over a Unix socket.
    pub tcp: bool,
    /// Plugin rules as JSON; `None`: as shipped.
    pub rules: Option<String>,
    /// Replacements in the shipped envoy.yaml.
    pub replace: Vec<(&'static str, &'static str)>,
    /// More lines for `[policies.raven]`.
    pub more: String,
    /// More lines for the top of the sidecar's file.
    pub top: String,
    /// The sidecars' store; `None`: a Redis of this world's own, or `memory`.
    pub store: Option<String>,
    /// Requests reach raven by a cable that can be slow.
    pub cable: bool,
    /// The filter's configuration is discovered and may change.
    pub ecds: bool,
    pub workers: u32,
}

impl Plan {
    pub fn every(interval: Duration) -> Self {
        Self {
            interval,
            settle: Duration::from_millis(250),
            penguins: 1,
            redis: true,
            tcp: false,
            rules: None,
            replace: Vec::new(),
            more: String::new(),
            top: String::new(),
            store: None,
            cable: false,
            ecds: false,
            workers: 2,
        }
    }

    pub fn penguins(self, penguins: usize) -> Self {
        Self { penguins, ..self }
    }

    /// The embedded store instead of Redis.
    pub fn memory(self) -> Self {
        Self { redis: false, ..self }
    }

    pub fn settle(self, settle: Duration) -> Self {
        Self { settle, ..self }
    }

    pub fn tcp(self) -> Self {
        Self { tcp: true, ..self }
    }

    /// A change in the shipped envoy.yaml.
    pub fn replace(mut self, from: &'static str, to: &'static str) -> Self {
        self.replace.push((from, to));
        self
    }

    /// Another store than a Redis of this world's own.
    pub fn store(self, url: String) -> Self {
        Self { redis: false, store: Some(url), ..self }
    }

    /// A line for `[policies.raven]`.
    pub fn more(self, line: &str) -> Self {
        Self { more: format!("{}{line}\n", self.more), ..self }
    }

    pub fn ecds(self) -> Self {
        Self { ecds: true, ..self }
    }

    pub fn cable(self) -> Self {
        Self { cable: true, ..self }
    }

    pub fn rules(self, rules: &str) -> Self {
        Self { rules: Some(rules.to_owned()), ..self }
    }

    pub fn policies(&self) -> String {
        let (interval, settle) = (self.interval.as_millis(), self.settle.as_millis());
        format!("[policies.raven]\ninterval = '{interval}ms'\nsettle = '{settle}ms'\n{}", self.more)
    }

    pub async fn start(self) -> World {
        let raven = Raven::start().await;
        let redis = if self.redis { Some(Redis::start().await) } else { None };
        let own = redis.as_ref().map_or_else(|| "memory".to_owned(), Redis::url);
        let store = self.store.clone().unwrap_or(own);
        let cable = if self.cable { Some(Cable::to(raven.address()).await) } else { None };
        let mut world = World { penguins: Vec::new(), raven, cable, redis, store, plan: self };
        for _ in 0..world.plan.penguins {
            let penguin = world.penguin().await;
            world.penguins.push(penguin);
        }
        if world.store != "memory" {
            world.penguins[0].sidecar.vouch().await;
        }
        world
    }
}

/// One instance of the service: its Envoy and its sidecar.
#[derive(Debug)]
pub struct Penguin {
    pub envoy: Envoy,
    pub sidecar: Sidecar,
    pub client: reqwest::Client,
}

/// All that runs for one scenario.
#[derive(Debug)]
pub struct World {
    pub penguins: Vec<Penguin>,
    pub raven: Raven,
    /// Between the Envoys and raven.
    pub cable: Option<Cable>,
    pub redis: Option<Redis>,
    pub store: String,
    pub plan: Plan,
}

/// What a caller got.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub waited_ms: Option<u64>,
    pub kind: String,
    pub retry_after: Option<String>,
    pub body: String,
    pub took: Duration,
}

impl World {
    /// One more penguin; it belongs to this world only once it is pushed.
    pub async fn penguin(&self) -> Penguin {
        self.penguin_with(&[]).await
    }

    /// One whose sidecar runs in another environment.
    pub async fn penguin_with(&self, environment: &[(String, String)]) -> Penguin {
        let (top, environment) = (self.plan.top.clone(), environment.to_vec());
        let settings = Settings { top, environment, ..Settings::new(&self.store, &self.plan.policies()) };
        let sidecar = Sidecar::start(settings).await;
        let envoy = self.envoy_for(&sidecar).await;
        Penguin { envoy, sidecar, client: client() }
    }

    /// An Envoy that asks this sidecar.
    pub async fn envoy_for(&self, sidecar: &Sidecar) -> Envoy {
        let endpoint = if self.plan.tcp { Endpoint::Tcp(sidecar.port()) } else { Endpoint::Unix(sidecar.socket()) };
        Envoy::start(self.far(), &self.changes(&endpoint)).await
    }

    /// Where Envoys find raven.
    pub fn far(&self) -> SocketAddr {
        self.cable.as_ref().map_or(self.raven.address(), Cable::address)
    }

    /// What this world changes in the shipped configuration.
    pub fn changes<'a>(&'a self, sidecar: &'a Endpoint) -> Changes<'a> {
        let Plan { rules, replace, workers, .. } = &self.plan;
        Changes {
            sidecar,
            rules: rules.as_deref(),
            replace,
            workers: *workers,
            module: Module::Ours,
            ecds: self.plan.ecds,
        }
    }

    /// Sends request `n` of a client through one penguin.
    pub fn send(&self, penguin: usize, client: &str, n: u64) -> JoinHandle<Reply> {
        self.penguins[penguin].send(client, n)
    }

    /// Sends requests one after the other, each once the one before stands in the line; penguins take turns.
    pub async fn send_in_order(&self, client: &str, numbers: std::ops::Range<u64>) -> Vec<JoinHandle<Reply>> {
        let mut calls = Vec::new();
        for n in numbers {
            let penguin = usize::try_from(n).expect("small") % self.penguins.len();
            calls.push(self.send_and_stand(penguin, client, n).await);
        }
        calls
    }

    /// Sends through one penguin, and returns once the store knows of the request.
    pub async fn send_and_stand(&self, penguin: usize, client: &str, n: u64) -> JoinHandle<Reply> {
        let before = self.in_the_line().await;
        let call = self.send(penguin, client, n);
        let stands = async || self.in_the_line().await > before;
        until("the request stands in the line", Duration::from_secs(10), stands).await;
        call
    }

    /// Requests that reached a sidecar or went through so far.
    async fn in_the_line(&self) -> u64 {
        let mut sum = 0;
        for penguin in &self.penguins {
            sum += penguin.sidecar.counter("turnstone_asked_total").await;
        }
        sum
    }

    pub async fn held(&self) -> u64 {
        let mut sum = 0;
        for penguin in &self.penguins {
            sum += penguin.sidecar.held().await;
        }
        sum
    }

    pub async fn until_held(&self, count: u64) {
        until(&format!("{count} are held"), Duration::from_secs(30), async || self.held().await == count).await;
    }

    pub async fn until_arrived(&self, count: usize, limit: Duration) {
        until(&format!("{count} arrived"), limit, async || self.raven.count() >= count).await;
    }

    /// When the first request of a client reached raven.
    pub async fn first_arrival(&self, client: &str) -> Instant {
        let arrived = async || !self.lanes().lane(client).is_empty();
        until("the first request arrived", Duration::from_secs(20), arrived).await;
        self.lanes().lane(client)[0].at
    }

    pub fn lanes(&self) -> Lanes {
        Lanes::of(&self.raven.arrivals())
    }

    /// No filter died.
    pub async fn assert_no_trap(&self) {
        for penguin in &self.penguins {
            assert_eq!(penguin.envoy.stat("wasm.turnstone.vm_reload").await, 0);
            let log = penguin.envoy.process.output();
            assert!(!log.contains("panicked") && !log.contains("wasm trap"), "{log}");
        }
    }

    pub fn redis(&self) -> &Redis {
        self.redis.as_ref().expect("this world has a Redis")
    }
}

impl Penguin {
    pub fn url(&self) -> String {
        format!("http://{}/v1/fly", self.envoy.address())
    }

    pub fn send(&self, client: &str, n: u64) -> JoinHandle<Reply> {
        let body = serde_json::json!({ "clientId": client, "n": n });
        self.send_raw(self.client.post(self.url()).body(body.to_string()))
    }

    pub fn send_raw(&self, request: reqwest::RequestBuilder) -> JoinHandle<Reply> {
        let begun = Instant::now();
        tokio::spawn(async move {
            let answer = request.send().await.expect("Envoy answers");
            let header =
                |name: &str| answer.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
            let waited_ms = header(turnstone_protocol::WAITED_HEADER).and_then(|value| value.parse().ok());
            let kind = header("content-type").unwrap_or_default();
            let retry_after = header("retry-after");
            let status = answer.status().as_u16();
            let body = answer.text().await.expect("a whole answer");
            Reply { status, waited_ms, kind, retry_after, body, took: begun.elapsed() }
        })
    }
}

fn client() -> reqwest::Client {
    reqwest::Client::builder().build().expect("a client")
}

/// Every caller got raven's 200.
pub async fn assert_all_ok(calls: Vec<JoinHandle<Reply>>) -> Vec<Reply> {
    let mut replies = Vec::new();
    for call in calls {
        let reply = call.await.expect("the caller lives");
        assert_eq!(reply.status, 200, "{reply:?}");
        replies.push(reply);
    }
    replies
}
