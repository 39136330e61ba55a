//! What the sidecar counts, in the Prometheus text format.

use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::policy::LaneKey;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PolicyLabel {
    policy: String,
}

/// Why a call was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
pub(crate) enum Refusal {
    Malformed,
    UnknownPolicy,
    /// A bound that the operator set.
    Bound,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RefusalLabel {
    reason: Refusal,
}

type PerPolicy = Family<PolicyLabel, Counter>;
type Waits = Family<PolicyLabel, Histogram, fn() -> Histogram>;

/// Every counter of this process.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    asked: PerPolicy,
    granted: PerPolicy,
    left: PerPolicy,
    renewed: PerPolicy,
    evicted: PerPolicy,
    ghosts: PerPolicy,
    detached: PerPolicy,
    repaired: PerPolicy,
    floored: PerPolicy,
    ramped: Counter,
    waited: Waits,
    store_seconds: Histogram,
    store_errors: Counter,
    wakes_sent: Counter,
    wakes_received: Counter,
    held: Gauge,
    holding: Gauge,
    history_unknown: Gauge,
    refused: Family<RefusalLabel, Counter>,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("turnstone"),
            asked: PerPolicy::default(),
            granted: PerPolicy::default(),
            left: PerPolicy::default(),
            renewed: PerPolicy::default(),
            evicted: PerPolicy::default(),
            ghosts: PerPolicy::default(),
            detached: PerPolicy::default(),
            repaired: PerPolicy::default(),
            floored: PerPolicy::default(),
            ramped: Counter::default(),
            waited: Waits::new_with_constructor(|| Histogram::new(exponential_buckets(0.001, 2.0, 20))),
            store_seconds: Histogram::new(exponential_buckets(0.000_05, 2.0, 16)),
            store_errors: Counter::default(),
            wakes_sent: Counter::default(),
            wakes_received: Counter::default(),
            held: Gauge::default(),
            holding: Gauge::default(),
            history_unknown: Gauge::default(),
            refused: Family::default(),
        };
        metrics.register();
        metrics
    }

    fn register(&mut self) {
        let registry = &mut self.registry;
        registry.register("asked", "Calls for a turn that the store answered", self.asked.clone());
        registry.register("granted", "Turns given", self.granted.clone());
        registry.register("left", "Requests that went away before or after their turn", self.left.clone());
        registry.register("renewed", "Grants that came too late to be used and were taken again", self.renewed.clone());
        registry.register("evicted", "Times the waiters of an absent sidecar were skipped", self.evicted.clone());
        registry.register("ghosts", "Heads of this sidecar that nobody asked for, removed", self.ghosts.clone());
        registry.register("detached", "Tickets dropped because nobody asked for them again", self.detached.clone());
        registry.register("repaired", "Lanes with something else in their keys, taken away", self.repaired.clone());
        registry.register("floored", "Turns that the store gave too early and this sidecar held", self.floored.clone());
        registry.register("ramped", "Turns held back because too many were due at once", self.ramped.clone());
        registry.register("waited_seconds", "Time from the first ask to the turn", self.waited.clone());
        registry.register("store_seconds", "Time of one store operation", self.store_seconds.clone());
        registry.register("store_errors", "Store operations that failed", self.store_errors.clone());
        registry.register("wakes_sent", "Hints to other sidecars", self.wakes_sent.clone());
        registry.register("wakes_received", "Hints from other sidecars", self.wakes_received.clone());
        registry.register("held", "Calls held now", self.held.clone());
        registry.register("holding", "1 while the store does not answer", self.holding.clone());
        registry.register(
            "history_unknown",
            "1 while lanes hold because the store may have lost their last turns",
            self.history_unknown.clone(),
        );
        registry.register(
            "refused",
            "Calls that got no turn because asking again would not help",
            self.refused.clone(),
        );
    }

    /// The Prometheus text exposition.
    pub fn render(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = prometheus_client::encoding::text::encode(&mut text, &self.registry);
        text
    }

    pub(crate) fn asked(&self, lane: &LaneKey) {
        self.asked.get_or_create(&label(lane)).inc();
    }

    pub(crate) fn granted(&self, lane: &LaneKey, waited: Duration) {
        self.granted.get_or_create(&label(lane)).inc();
        self.waited.get_or_create(&label(lane)).observe(waited.as_secs_f64());
    }

    pub(crate) fn left(&self, lane: &LaneKey) {
        self.left.get_or_create(&label(lane)).inc();
    }

    pub(crate) fn renewed(&self, lane: &LaneKey) {
        self.renewed.get_or_create(&label(lane)).inc();
    }

    pub(crate) fn evicted(&self, lane: &LaneKey) {
        self.evicted.get_or_create(&label(lane)).inc();
    }

    pub(crate) fn ghost(&self, lane: &LaneKey) {
        self.ghosts.get_or_create(&label(lane)).inc();
    }

    pub(crate) fn detached(&self, lane: &LaneKey) {
        self.detached.get_or_create(&label(lane)).inc();
    }

    pub(crate) fn repaired(&self, lane: &LaneKey) {
        self.repaired.get_or_create(&label(lane)).inc();
    }

    pub(crate) fn floored(&self, lane: &LaneKey) {
        self.floored.get_or_create(&label(lane)).inc();
    }

    pub(crate) fn ramped(&self) {
        self.ramped.inc();
    }

    pub(crate) fn store_call(&self, time: Duration, answered: bool) {
        self.store_seconds.observe(time.as_secs_f64());
        if !answered {
            self.store_errors.inc();
        }
    }

    pub(crate) fn wake_sent(&self) {
        self.wakes_sent.inc();
    }

    pub(crate) fn wake_received(&self) {
        self.wakes_received.inc();
    }

    pub(crate) fn held(&self, calls: usize) {
        self.held.set(i64::try_from(calls).unwrap_or(i64::MAX));
    }

    pub(crate) fn holding(&self, holding: bool) {
        self.holding.set(holding.into());
    }

    pub(crate) fn history_unknown(&self, unknown: bool) {
        self.history_unknown.set(unknown.into());
    }

    pub(crate) fn refused(&self, reason: Refusal) {
        self.refused.get_or_create(&RefusalLabel { reason }).inc();
    }
}

fn label(lane: &LaneKey) -> PolicyLabel {
    PolicyLabel { policy: lane.policy.to_string() }
}
