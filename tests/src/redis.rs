//! A Redis of one's own, on a Unix socket in a folder of its own.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use tempfile::TempDir;

use crate::clock::FakeClock;
use crate::process::Process;
use crate::{parts, until};

/// A running Redis.
#[derive(Debug)]
pub struct Redis {
    pub process: Process,
    port: u16,
    options: Vec<String>,
    environment: Vec<(String, String)>,
    dir: TempDir,
}

impl Redis {
    /// One that keeps nothing when it ends.
    pub async fn start() -> Self {
        Self::with(&["--save", "", "--appendonly", "no"]).await
    }

    pub async fn with(options: &[&str]) -> Self {
        Self::launch(options, Vec::new()).await
    }

    /// One whose clock can be put back and forth.
    pub async fn with_clock(clock: &FakeClock) -> Self {
        Self::launch(&["--save", "", "--appendonly", "no"], clock.environment()).await
    }

    async fn launch(options: &[&str], environment: Vec<(String, String)>) -> Self {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let options: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
        let port = free_port();
        let process = launch(dir.path(), port, &options, &environment);
        let redis = Self { process, port, options, environment, dir };
        redis.until_it_answers().await;
        redis
    }

    /// `kill -9`, and starts it anew in the same place.
    pub async fn restart(&mut self) {
        self.process.kill();
        self.process = launch(self.dir.path(), self.port, &self.options, &self.environment);
        self.until_it_answers().await;
    }

    async fn until_it_answers(&self) {
        until("Redis answers", Duration::from_secs(10), async || self.connect().await.is_ok()).await;
    }

    pub fn url(&self) -> String {
        format!("redis+unix://{}", self.dir.path().join("redis.sock").display())
    }

    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Follows another as its replica, or, told so by nobody, becomes a master again; returns when it has.
    pub async fn follow(&self, master: Option<&Self>) {
        let Some(master) = master else {
            let _: () = self.run(&["REPLICAOF", "NO", "ONE"]).await;
            return;
        };
        let _: () = self.run(&["REPLICAOF", "127.0.0.1", &master.port.to_string()]).await;
        let up = async || self.says("master_link_status", "up").await;
        until("the replica follows", Duration::from_secs(20), up).await;
    }

    /// What it says of its replication.
    pub async fn says(&self, name: &str, value: &str) -> bool {
        self.info("replication", name).await.as_deref() == Some(value)
    }

    /// Puts back what DUMP said of a key.
    pub async fn restore(&self, key: &str, dump: &[u8]) {
        let mut connection = self.connect().await.expect("Redis answers");
        let mut command = ::redis::cmd("RESTORE");
        command.arg(key).arg(0).arg(dump).arg("REPLACE");
        command.query_async::<()>(&mut connection).await.expect("restored");
    }

    /// One line of INFO; `None` where the node is away, as Sentinels cut connections when a role changes.
    pub async fn info(&self, section: &str, name: &str) -> Option<String> {
        let info: String = self.try_run(&["INFO", section]).await.ok()?;
        let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.map(|value| value.trim().to_owned())
    }

    /// One command on a connection of its own.
    pub async fn run<T: ::redis::FromRedisValue>(&self, words: &[&str]) -> T {
        self.try_run(words).await.unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    /// As [`Redis::run`], where Redis may be away.
    pub async fn try_run<T: ::redis::FromRedisValue>(&self, words: &[&str]) -> ::redis::RedisResult<T> {
        let mut command = ::redis::cmd(words[0]);
        command.arg(&words[1..]);
        command.query_async(&mut self.connect().await?).await
    }

    /// What Redis itself says that a command took on average, since its statistics began.
    pub async fn microseconds_per_call(&self, command: &str) -> u64 {
        let info: String = self.run(&["INFO", "commandstats"]).await;
        let prefix = format!("cmdstat_{command}:");
        let line = info.lines().find_map(|line| line.strip_prefix(&prefix)).expect("it was called");
        let field = line.split(',').find_map(|field| field.strip_prefix("usec_per_call=")).expect("Redis says so");
        field.parse::<f64>().expect("a number") as u64
    }

    /// Calls of a command since it started, from `INFO commandstats`.
    pub async fn calls(&self, command: &str) -> u64 {
        let info: String = self.run(&["INFO", "commandstats"]).await;
        let prefix = format!("cmdstat_{command}:calls=");
        let line = info.lines().find_map(|line| line.strip_prefix(&prefix)).unwrap_or("0");
        line.split(',').next().and_then(|count| count.parse().ok()).unwrap_or(0)
    }

    async fn connect(&self) -> ::redis::RedisResult<::redis::aio::MultiplexedConnection> {
        ::redis::Client::open(self.url())?.get_multiplexed_async_connection().await
    }
}

fn launch(dir: &Path, port: u16, options: &[String], environment: &[(String, String)]) -> Process {
    let mut command = Command::new(parts::redis_server());
    command.args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--repl-diskless-sync-delay", "0"]);
    command
        .envs(environment.iter().cloned())
        .arg("--unixsocket")
        .arg(dir.join("redis.sock"))
        .arg("--dir")
        .arg(dir)
        .args(options);
    Process::start(&mut command, &dir.join("redis.log"))
}

/// A port that nobody listens on: below those that the system gives to outgoing connections, so that
/// it is still free when the process that it is for comes up.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = std::process::id() as u16;
    loop {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = 12_000 + first.wrapping_mul(37).wrapping_add(step) % 20_000;
        if std::net::TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
