//! What raven's own log says about the promises.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use crate::raven::Arrival;

/// The requests of each client, as raven saw them; a request's number is `n` in its body.
#[derive(Clone, Debug, Default)]
pub struct Lanes(pub BTreeMap<String, Vec<Seen>>);

/// One request at raven.
#[derive(Clone, Debug)]
pub struct Seen {
    pub at: std::time::Instant,
    pub number: u64,
}

impl Lanes {
    pub fn of(arrivals: &[Arrival]) -> Self {
        let mut lanes = Self::default();
        for arrival in arrivals {
            let body: Value = serde_json::from_slice(&arrival.body).unwrap_or_default();
            let client = body["clientId"].as_str().unwrap_or_default().to_owned();
            let number = body["n"].as_u64().unwrap_or_default();
            lanes.0.entry(client).or_default().push(Seen { at: arrival.at, number });
        }
        lanes
    }

    pub fn lane(&self, client: &str) -> &[Seen] {
        self.0.get(client).map_or(&[], Vec::as_slice)
    }

    /// Numbers in order of arrival.
    pub fn order(&self, client: &str) -> Vec<u64> {
        self.lane(client).iter().map(|seen| seen.number).collect()
    }

    pub fn gaps(&self, client: &str) -> Vec<Duration> {
        self.lane(client).windows(2).map(|pair| pair[1].at - pair[0].at).collect()
    }

    /// The smallest gap of all lanes.
    pub fn smallest_gap(&self) -> Option<Duration> {
        self.0.keys().flat_map(|client| self.gaps(client)).min()
    }

    /// P1: never early by a microsecond.
    pub fn assert_gaps(&self, interval: Duration) {
        for client in self.0.keys() {
            let gaps = self.gaps(client);
            assert!(gaps.iter().all(|gap| *gap >= interval), "{client}: {gaps:?} under {interval:?}");
        }
    }

    /// P1, and no turn more than `late` behind the one before it.
    pub fn assert_paced(&self, interval: Duration, late: Duration) {
        self.assert_gaps(interval);
        for client in self.0.keys() {
            let gaps = self.gaps(client);
            assert!(gaps.iter().all(|gap| *gap <= interval + late), "{client}: {gaps:?} late under {interval:?}");
        }
    }

    /// P3, where requests are numbered by arrival.
    pub fn assert_in_order(&self) {
        for client in self.0.keys() {
            let order = self.order(client);
            assert!(order.is_sorted(), "{client}: {order:?}");
        }
    }
}
