//! A Redis of one's own, on a Unix socket in a folder of its own.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use crate::process::Process;
use crate::{parts, until};

/// A running Redis.
#[derive(Debug)]
pub struct Redis {
    pub process: Process,
    socket: PathBuf,
    _dir: TempDir,
}

impl Redis {
    pub async fn start() -> Self {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let socket = dir.path().join("redis.sock");
        let mut command = Command::new(parts::redis_server());
        command.args(["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"]).arg(&socket);
        command.arg("--dir").arg(dir.path());
        let process = Process::start(&mut command, &dir.path().join("redis.log"));
        let redis = Self { process, socket, _dir: dir };
        until("Redis answers", Duration::from_secs(10), async || redis.connect().await.is_ok()).await;
        redis
    }

    pub fn url(&self) -> String {
        format!("redis+unix://{}", self.socket.display())
    }

    /// One command on a connection of its own.
    pub async fn run<T: ::redis::FromRedisValue>(&self, words: &[&str]) -> T {
        let mut connection = self.connect().await.expect("Redis answers");
        let mut command = ::redis::cmd(words[0]);
        command.arg(&words[1..]);
        command.query_async(&mut connection).await.unwrap_or_else(|error| panic!("{words:?}: {error}"))
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
