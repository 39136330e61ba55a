//! A sidecar process on a Unix socket; it can be killed and started again in its place.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::process::Process;
use crate::{parts, until};

/// What a sidecar is started with.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    pub store: String,
    /// More lines for the top of its file.
    pub top: String,
    /// The `[policies.*]` part of its file.
    pub policies: String,
    pub environment: Vec<(String, String)>,
}

impl Settings {
    pub fn new(store: &str, policies: &str) -> Self {
        Self { store: store.to_owned(), policies: policies.to_owned(), ..Self::default() }
    }
}

/// A running sidecar.
#[derive(Debug)]
pub struct Sidecar {
    pub process: Process,
    settings: Settings,
    dir: TempDir,
    admin: String,
}

impl Sidecar {
    pub async fn start(settings: Settings) -> Self {
        let dir = tempfile::tempdir().expect("a temporary folder");
        write_config(dir.path(), &settings);
        let (process, admin) = launch(dir.path(), &settings.environment).await;
        Self { process, settings, dir, admin }
    }

    /// Its Unix socket: the same after a restart.
    pub fn socket(&self) -> PathBuf {
        socket(self.dir.path())
    }

    /// Its TCP port: another one after a restart.
    pub fn port(&self) -> u16 {
        let listen = started(&self.process.output()).map(|(listen, _)| listen).unwrap_or_default();
        listen.rsplit(':').next().and_then(|port| port.parse().ok()).expect("the second address is TCP")
    }

    /// Its configuration file.
    pub fn file(&self) -> PathBuf {
        self.dir.path().join("turnstone.toml")
    }

    /// Starts it anew, with the same file and the same socket.
    pub async fn restart(&mut self) {
        self.process.kill();
        let (process, admin) = launch(self.dir.path(), &self.settings.environment).await;
        (self.process, self.admin) = (process, admin);
    }

    /// SIGTERM; how long it took to go.
    pub async fn stop(&mut self) -> Duration {
        let begun = std::time::Instant::now();
        self.process.signal(Signal::SIGTERM);
        while self.process.ended().is_none() {
            assert!(begun.elapsed() < Duration::from_secs(20), "did not stop:\n{}", self.process.output());
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        begun.elapsed()
    }

    /// Replaces the policies and says so by SIGHUP; returns when they govern.
    pub async fn reload(&mut self, policies: &str) {
        let before = self.process.output().matches("policies reloaded").count();
        policies.clone_into(&mut self.settings.policies);
        write_config(self.dir.path(), &self.settings);
        self.process.signal(Signal::SIGHUP);
        let reloaded = async || self.process.output().matches("policies reloaded").count() > before;
        until("policies reloaded", Duration::from_secs(5), reloaded).await;
    }

    /// Calls that it holds now.
    pub async fn held(&self) -> u64 {
        let health: Value = serde_json::from_str(&self.get("/healthz").await).expect("JSON");
        health["held"].as_u64().expect("a number")
    }

    /// One of its counters, over all labels.
    pub async fn counter(&self, name: &str) -> u64 {
        sum(&self.get("/metrics").await, name)
    }

    /// Tells it that its Redis has lost nothing: a new one has nothing to lose.
    pub async fn vouch(&self) {
        let answer = reqwest::Client::new().post(format!("http://{}/store/vouch", self.admin)).send().await;
        assert_eq!(answer.expect("the sidecar answers").status(), 204);
    }

    /// A page of its admin address.
    pub async fn get(&self, path: &str) -> String {
        let answer = reqwest::get(format!("http://{}{path}", self.admin)).await.expect("the sidecar answers");
        answer.text().await.expect("text")
    }
}

/// The sum of one metric over its labels, in the Prometheus text format.
pub fn sum(metrics: &str, name: &str) -> u64 {
    let value = |line: &str| {
        let rest = line.strip_prefix(name)?;
        let value = rest.strip_prefix('{').map_or(rest, |labels| labels.split_once('}').map_or("", |(_, value)| value));
        value.trim().parse::<u64>().ok()
    };
    metrics.lines().filter_map(value).sum()
}

async fn launch(dir: &Path, environment: &[(String, String)]) -> (Process, String) {
    let mut command = Command::new(parts::sidecar());
    command.envs(environment.iter().cloned());
    command.arg("--config").arg(dir.join("turnstone.toml"));
    let mut process = Process::start(&mut command, &dir.join("turnstone.log"));
    let begun = std::time::Instant::now();
    loop {
        process.assert_alive();
        if let Some((_, admin)) = started(&process.output()) {
            return (process, admin);
        }
        assert!(begun.elapsed() < Duration::from_secs(10), "did not start:\n{}", process.output());
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Where it says that it listens, for filters and for operators.
fn started(log: &str) -> Option<(String, String)> {
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let line = lines.into_iter().find(|line| line["fields"]["message"] == "pacing")?;
    let text = |name: &str| line["fields"][name].as_str().map(str::to_owned);
    Some((text("listen")?, text("admin")?))
}

fn write_config(dir: &Path, settings: &Settings) {
    let Settings { store, top, policies, .. } = settings;
    let socket = socket(dir);
    let text = format!(
        "listen = ['unix:{}', '127.0.0.1:0']\nadmin = '127.0.0.1:0'\nstore = '{store}'\nlog = 'json'\n{top}\n{policies}",
        socket.display()
    );
    std::fs::write(dir.join("turnstone.toml"), text).expect("a writable folder");
}

fn socket(dir: &Path) -> PathBuf {
    dir.join("turnstone.sock")
}
