//! A real Envoy with the configuration that we ship; only addresses and plugin rules differ.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::process::Process;
use crate::sidecar::sum;
use crate::{parts, until};

/// The rules in the shipped file.
const SHIPPED_RULES: &str = r#"[
                        { "policy": "raven", "client_id": [{ "json": "/clientId" }], "on_missing": "shared" }
                      ]"#;

/// A running Envoy.
#[derive(Debug)]
pub struct Envoy {
    pub process: Process,
    dir: TempDir,
    admin: String,
    listener: String,
}

/// Where a sidecar listens.
#[derive(Clone, Debug)]
pub enum Endpoint {
    Unix(PathBuf),
    Tcp(u16),
}

impl Endpoint {
    fn yaml(&self) -> String {
        match self {
            Self::Unix(path) => format!("{{ pipe: {{ path: {} }} }}", path.display()),
            Self::Tcp(port) => format!("{{ socket_address: {{ address: 127.0.0.1, port_value: {port} }} }}"),
        }
    }
}

/// What a scenario changes in the shipped file.
#[derive(Clone, Debug)]
pub struct Changes<'a> {
    /// Where the sidecar listens.
    pub sidecar: &'a Endpoint,
    /// The plugin's rules as JSON; `None`: as shipped.
    pub rules: Option<&'a str>,
    /// Further replacements, each of which must be found.
    pub replace: &'a [(&'a str, &'a str)],
    pub workers: u32,
    pub module: Module,
    /// The filter's configuration stands in a file of its own and may change.
    pub ecds: bool,
}

/// Which filter runs.
#[derive(Clone, Debug, Default)]
pub enum Module {
    #[default]
    Ours,
    /// Another module in its place.
    Other(PathBuf),
    /// No filter at all.
    None,
}

impl Envoy {
    pub async fn start(raven: SocketAddr, changes: &Changes<'_>) -> Self {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let mut config = config(raven, changes);
        if changes.ecds {
            config = discovered(&config, dir.path());
        }
        let mut process = launch(dir.path(), &config, changes.workers);
        let begun = Instant::now();
        loop {
            process.assert_alive();
            if let Some((admin, listener)) = addresses(dir.path()).await {
                let envoy = Self { process, dir, admin, listener };
                until("Envoy is ready", Duration::from_secs(20), async || envoy.is_ready().await).await;
                return envoy;
            }
            assert!(begun.elapsed() < Duration::from_secs(30), "did not start:\n{}", process.output());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Starts it where it is expected to refuse; what it said.
    pub async fn refuse(raven: SocketAddr, changes: &Changes<'_>) -> String {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let mut process = launch(dir.path(), &config(raven, changes), changes.workers);
        let begun = Instant::now();
        while process.ended().is_none() {
            assert!(begun.elapsed() < Duration::from_secs(30), "it started:\n{}", process.output());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        process.output()
    }

    /// `host:port` where penguin calls.
    pub fn address(&self) -> &str {
        &self.listener
    }

    /// A metric by its Prometheus name, over all labels.
    pub async fn counter(&self, name: &str) -> u64 {
        sum(&get(&self.admin, "/stats/prometheus").await.unwrap_or_default(), name)
    }

    /// A statistic by its Envoy name.
    pub async fn stat(&self, name: &str) -> u64 {
        let stats = get(&self.admin, &format!("/stats?filter=^{name}$")).await.expect("Envoy answers");
        stats
            .trim()
            .rsplit(": ")
            .next()
            .and_then(|value| value.parse().ok())
            .unwrap_or_else(|| panic!("no {name}: {stats}"))
    }

    /// Puts more settings into the filter's file; returns when Envoy has taken them.
    pub async fn update_filter(&self, settings: &str) {
        let file = self.dir.path().join("filter.yaml");
        let before = self.stat("extension_config_discovery.http_filter.turnstone.config_reload").await;
        let text = std::fs::read_to_string(&file).expect("the filter's file");
        let (first, rest) = text.split_once("\"cluster\":").expect("the filter's settings");
        std::fs::write(file.with_extension("new"), format!("{first}{settings}\"cluster\":{rest}"))
            .expect("a writable folder");
        std::fs::rename(file.with_extension("new"), &file).expect("a writable folder");
        let taken = async || self.stat("extension_config_discovery.http_filter.turnstone.config_reload").await > before;
        until("Envoy takes the new settings", Duration::from_secs(10), taken).await;
    }

    /// Tells it to take no more connections.
    pub async fn drain(&self) {
        let url = format!("http://{}/drain_listeners?graceful", self.admin);
        let answer = reqwest::Client::new().post(url).send().await.expect("Envoy answers");
        assert!(answer.status().is_success());
    }

    async fn is_ready(&self) -> bool {
        get(&self.admin, "/ready").await.is_some_and(|answer| answer.starts_with("LIVE"))
    }
}

fn launch(dir: &Path, config: &str, workers: u32) -> Process {
    let file = dir.join("envoy.yaml");
    std::fs::write(&file, config).expect("a writable folder");
    let mut command = Command::new(parts::envoy());
    command.args([
        "--disable-hot-restart",
        "--service-node",
        "penguin",
        "--service-cluster",
        "penguin",
        "--log-level",
        "warning",
        "--file-flush-interval-msec",
        "50",
        "--concurrency",
        &workers.to_string(),
        "-c",
    ]);
    command.arg(&file).arg("--admin-address-path").arg(dir.join("admin"));
    Process::start(&mut command, &dir.join("envoy.log"))
}

fn config(raven: SocketAddr, changes: &Changes<'_>) -> String {
    let mut text = parts::envoy_yaml().to_owned();
    let mut put = |from: &str, to: &str| {
        assert!(text.contains(from), "the shipped envoy.yaml has no {from:?}");
        text = text.replace(from, to);
    };
    put("port_value: 9901", "port_value: 0");
    put("port_value: 10000", "port_value: 0");
    put("port_value: 8080", &format!("port_value: {}", raven.port()));
    let module = match &changes.module {
        Module::Ours | Module::None => parts::module(),
        Module::Other(path) => path.clone(),
    };
    put("target/turnstone.wasm", &module.display().to_string());
    put("{ socket_address: { address: 127.0.0.1, port_value: 7070 } }", &changes.sidecar.yaml());
    if let Some(rules) = changes.rules {
        put(SHIPPED_RULES, &rules.replace('\n', " "));
    }
    for (from, to) in changes.replace {
        put(from, to);
    }
    if matches!(changes.module, Module::None) { without_filter(&text) } else { text }
}

/// The same configuration, but with the filter's own part discovered in a file (ECDS).
fn discovered(text: &str, dir: &Path) -> String {
    let (before, rest) = text.split_once("          - name: turnstone\n").expect("our filter");
    let (filter, after) = rest.split_once("          - name: envoy.filters.http.router").expect("the router behind it");
    let own: String = filter.lines().map(|line| format!("{}\n", line.get(10..).unwrap_or_default())).collect();
    let resource = format!(
        "resources:\n- \"@type\": type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig\n  name: turnstone\n{own}"
    );
    let file = dir.join("filter.yaml");
    std::fs::write(&file, resource).expect("a writable folder");
    format!(
        "{before}          - name: turnstone\n            config_discovery:\n              config_source: {{ path_config_source: {{ path: {} }} }}\n              type_urls: [type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm]\n          - name: envoy.filters.http.router{after}",
        file.display()
    )
}

fn without_filter(text: &str) -> String {
    let (before, rest) = text.split_once("          - name: turnstone\n").expect("our filter");
    let (_, after) = rest.split_once("          - name: envoy.filters.http.router").expect("the router behind it");
    format!("{before}          - name: envoy.filters.http.router{after}")
}

/// Envoy chose its ports: the admin's stands in a file, the listener's on a page.
async fn addresses(dir: &Path) -> Option<(String, String)> {
    let admin = std::fs::read_to_string(dir.join("admin")).ok().filter(|admin| !admin.is_empty())?;
    let listeners: Value = serde_json::from_str(&get(&admin, "/listeners?format=json").await?).ok()?;
    let socket = &listeners["listener_statuses"][0]["local_address"]["socket_address"];
    let port = socket["port_value"].as_u64()?;
    Some((admin, format!("127.0.0.1:{port}")))
}

async fn get(admin: &str, path: &str) -> Option<String> {
    reqwest::get(format!("http://{admin}{path}")).await.ok()?.text().await.ok()
}
