//! Faults, one after the other, each with its repair.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use rand::Rng;
use rand::rngs::StdRng;
use turnstone_tests::sentinels::Sentinels;
use turnstone_tests::world::World;

use crate::clock;
use crate::load::Gate;

/// What breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    SidecarKilled,
    SidecarRestarted,
    SidecarFrozen,
    AllSidecarsRestarted,
    PenguinKilled,
    EnvoyKilled,
    MasterKilled,
    MasterFrozen,
    Failover,
    ConnectionsCut,
    RedisPaused,
    ScriptsForgotten,
    WakesLost,
    PoliciesReloaded,
}

const KINDS: [Kind; 14] = [
    Kind::SidecarKilled,
    Kind::SidecarRestarted,
    Kind::SidecarFrozen,
    Kind::AllSidecarsRestarted,
    Kind::PenguinKilled,
    Kind::EnvoyKilled,
    Kind::MasterKilled,
    Kind::MasterFrozen,
    Kind::Failover,
    Kind::ConnectionsCut,
    Kind::RedisPaused,
    Kind::ScriptsForgotten,
    Kind::WakesLost,
    Kind::PoliciesReloaded,
];

/// One fault, from its beginning until all was repaired.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    pub kind: Kind,
    pub from: Instant,
    pub until: Instant,
}

/// The besieged.
pub struct Siege {
    world: World,
    sentinels: Sentinels,
    gates: Arc<Vec<Gate>>,
    begun: Instant,
    faults: Vec<Fault>,
    /// Of Envoys that are gone.
    reloads: u64,
}

impl Siege {
    pub fn new(world: World, sentinels: Sentinels, gates: Arc<Vec<Gate>>, begun: Instant) -> Self {
        Self { world, sentinels, gates, begun, faults: Vec::new(), reloads: 0 }
    }

    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }

    /// How often each came.
    pub fn kinds(&self) -> String {
        let mut counts: BTreeMap<Kind, u32> = BTreeMap::new();
        for fault in &self.faults {
            *counts.entry(fault.kind).or_default() += 1;
        }
        counts.iter().map(|(kind, count)| format!("{count} {kind:?}")).collect::<Vec<_>>().join(", ")
    }

    /// A time of peace, so that some requests see no fault.
    pub async fn pause(&self, dice: &mut StdRng) {
        tokio::time::sleep(Duration::from_millis(dice.random_range(3000..12_000))).await;
    }

    pub async fn strike(&mut self, dice: &mut StdRng) {
        let kind = KINDS[dice.random_range(0..KINDS.len())];
        let from = Instant::now();
        println!("  {}  {kind:?} ({} arrived so far)", clock(self.begun, from), self.world.raven.count());
        self.carry_out(kind, dice).await;
        self.faults.push(Fault { kind, from, until: Instant::now() });
    }

    async fn carry_out(&mut self, kind: Kind, dice: &mut StdRng) {
        let one = dice.random_range(0..self.world.penguins.len());
        let moment = Duration::from_millis(dice.random_range(0..2000));
        let freeze = Duration::from_millis(dice.random_range(300..4000));
        match kind {
            Kind::SidecarKilled => {
                self.world.penguins[one].sidecar.process.kill();
                tokio::time::sleep(moment).await;
                self.world.penguins[one].sidecar.restart().await;
            }
            Kind::SidecarRestarted => self.restart_sidecar(one).await,
            Kind::SidecarFrozen => {
                self.world.penguins[one].sidecar.process.signal(Signal::SIGSTOP);
                tokio::time::sleep(freeze).await;
                self.world.penguins[one].sidecar.process.signal(Signal::SIGCONT);
            }
            Kind::AllSidecarsRestarted => {
                for index in 0..self.world.penguins.len() {
                    self.restart_sidecar(index).await;
                }
            }
            Kind::PenguinKilled => self.kill_penguin(one, moment).await,
            Kind::EnvoyKilled => self.kill_envoy(one, moment).await,
            Kind::MasterKilled => self.kill_master(moment).await,
            Kind::MasterFrozen => self.freeze_master(freeze).await,
            Kind::Failover => self.fail_over().await,
            Kind::ConnectionsCut => self.master_does(&["CLIENT", "KILL", "TYPE", "normal"]).await,
            Kind::RedisPaused => self.master_does(&["CLIENT", "PAUSE", "600", "ALL"]).await,
            Kind::ScriptsForgotten => self.master_does(&["SCRIPT", "FLUSH"]).await,
            Kind::WakesLost => {
                self.both_do(&["ACL", "SETUSER", "default", "resetchannels"]).await;
                tokio::time::sleep(freeze).await;
                self.both_do(&["ACL", "SETUSER", "default", "allchannels"]).await;
            }
            Kind::PoliciesReloaded => {
                let policies = self.world.plan.policies();
                for penguin in &mut self.world.penguins {
                    penguin.sidecar.reload(&policies).await;
                }
            }
        }
    }

    async fn restart_sidecar(&mut self, index: usize) {
        self.world.penguins[index].sidecar.stop().await;
        self.world.penguins[index].sidecar.restart().await;
    }

    async fn kill_penguin(&mut self, index: usize, moment: Duration) {
        self.count_reloads(index).await;
        self.gates[index].close();
        self.world.penguins[index].envoy.process.kill();
        self.world.penguins[index].sidecar.process.kill();
        tokio::time::sleep(moment).await;
        self.world.penguins[index] = self.world.penguin().await;
        self.gates[index].open(self.world.penguins[index].url());
    }

    async fn kill_envoy(&mut self, index: usize, moment: Duration) {
        self.count_reloads(index).await;
        self.gates[index].close();
        self.world.penguins[index].envoy.process.kill();
        tokio::time::sleep(moment).await;
        let envoy = self.world.envoy_for(&self.world.penguins[index].sidecar).await;
        self.world.penguins[index].envoy = envoy;
        self.gates[index].open(self.world.penguins[index].url());
    }

    async fn kill_master(&mut self, moment: Duration) {
        let master = self.sentinels.master().await;
        self.sentinels.nodes[master].process.kill();
        self.sentinels.until_master(1 - master).await;
        tokio::time::sleep(moment).await;
        self.sentinels.nodes[master].restart().await;
        self.sentinels.demand_a_replica().await;
        self.sentinels.until_calm().await;
    }

    /// For long enough, and the Sentinels promote the other; the first comes back believing itself master.
    async fn freeze_master(&mut self, freeze: Duration) {
        let master = self.sentinels.master().await;
        self.sentinels.nodes[master].process.signal(Signal::SIGSTOP);
        tokio::time::sleep(freeze).await;
        self.sentinels.nodes[master].process.signal(Signal::SIGCONT);
        self.sentinels.until_calm().await;
    }

    async fn fail_over(&mut self) {
        let master = self.sentinels.master().await;
        if let Err(said) = self.sentinels.fail_over().await {
            return println!("            the Sentinels do not: {said}");
        }
        self.sentinels.until_master(1 - master).await;
        self.sentinels.until_calm().await;
    }

    async fn master_does(&self, words: &[&str]) {
        let master = self.sentinels.master().await;
        // It may kill the very connection that asks for it.
        let _: Result<::redis::Value, _> = self.sentinels.nodes[master].try_run(words).await;
    }

    async fn both_do(&self, words: &[&str]) {
        for node in &self.sentinels.nodes {
            let _: ::redis::Value = node.run(words).await;
        }
    }

    async fn count_reloads(&mut self, index: usize) {
        self.reloads += self.world.penguins[index].envoy.stat("wasm.turnstone.vm_reload").await;
    }

    /// Reloads of every Envoy that ever ran.
    pub async fn end(&mut self) -> u64 {
        for index in 0..self.world.penguins.len() {
            self.count_reloads(index).await;
        }
        self.reloads
    }
}
