//! Who sends what, and when.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use turnstone_tests::world::World;

/// Requests of a burst follow one another by this much, so that their order is certain.
const BURST: Duration = Duration::from_millis(30);

/// When a client sends, in intervals after the start, and when it gives up.
struct Planned {
    client: &'static str,
    at: f64,
    gives_up_after: Option<f64>,
}

const fn sends(client: &'static str, at: f64) -> Planned {
    Planned { client, at, gives_up_after: None }
}

const PLAN: [Planned; 12] = [
    sends("alice", 0.0),
    sends("alice", 0.0),
    sends("alice", 0.0),
    sends("alice", 0.0),
    sends("bob", 0.2),
    sends("bob", 0.2),
    sends("carol", 0.4),
    sends("carol", 0.4),
    Planned { client: "carol", at: 0.4, gives_up_after: Some(1.0) },
    sends("carol", 0.4),
    sends("bob", 2.6),
    sends("alice", 3.0),
];

/// One request and what became of it; times count from the start.
#[derive(Clone, Debug)]
pub struct Request {
    pub client: &'static str,
    pub number: u64,
    pub sent: Duration,
    pub end: Option<End>,
}

#[derive(Clone, Copy, Debug)]
pub enum End {
    Answered { status: u16 },
    GaveUp { at: Duration },
}

/// All requests of the demo, filled in as they happen.
#[derive(Clone, Debug)]
pub struct Load(Arc<Mutex<Vec<Request>>>);

impl Load {
    pub fn start(world: &World, begun: Instant, interval: Duration) -> Self {
        let load = Self(Arc::default());
        for (number, planned) in PLAN.iter().enumerate() {
            let earlier =
                PLAN[..number].iter().filter(|other| other.client == planned.client && other.at == planned.at);
            let at = interval.mul_f64(planned.at) + BURST * u32::try_from(earlier.count()).unwrap_or(0);
            let penguin = &world.penguins[number % world.penguins.len()];
            let (url, client, load) = (penguin.url(), penguin.client.clone(), load.clone());
            let patience = planned.gives_up_after.map(|intervals| interval.mul_f64(intervals));
            let (name, number) = (planned.client, number as u64);
            tokio::spawn(async move {
                tokio::time::sleep_until((begun + at).into()).await;
                let index = load.sent(name, number, begun.elapsed());
                let body = serde_json::json!({ "clientId": name, "n": number }).to_string();
                let call = client.post(url).body(body).send();
                let patience = patience.unwrap_or(Duration::from_secs(3600));
                let end = match tokio::time::timeout(patience, call).await {
                    Ok(Ok(answer)) => End::Answered { status: answer.status().as_u16() },
                    Ok(Err(_)) => End::Answered { status: 0 },
                    Err(_) => End::GaveUp { at: begun.elapsed() },
                };
                load.ended(index, end);
            });
        }
        load
    }

    pub fn requests(&self) -> Vec<Request> {
        self.0.lock().expect("no panic while locked").clone()
    }

    pub fn is_over(&self) -> bool {
        let requests = self.requests();
        requests.len() == PLAN.len() && requests.iter().all(|request| request.end.is_some())
    }

    fn sent(&self, client: &'static str, number: u64, sent: Duration) -> usize {
        let mut requests = self.0.lock().expect("no panic while locked");
        requests.push(Request { client, number, sent, end: None });
        requests.len() - 1
    }

    fn ended(&self, index: usize, end: End) {
        self.0.lock().expect("no panic while locked")[index].end = Some(end);
    }
}
