//! Three real Sentinels over a master and a replica.

use std::collections::HashMap;
use std::process::Command;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::process::Process;
use crate::redis::{Redis, free_port};
use crate::{parts, until};

const NAME: &str = "main";

/// Who watches, and who is watched.
#[derive(Debug)]
pub struct Sentinels {
    pub nodes: [Redis; 2],
    sentinels: Vec<Sentinel>,
}

#[derive(Debug)]
struct Sentinel {
    _process: Process,
    port: u16,
    _dir: TempDir,
}

impl Sentinels {
    pub async fn start() -> Self {
        let nodes = [Redis::start().await, Redis::start().await];
        nodes[1].follow(Some(&nodes[0])).await;
        let sentinels = (0..3).map(|_| launch(nodes[0].port())).collect();
        let sentinels = Self { nodes, sentinels };
        until("the Sentinels know one another and the replica", Duration::from_secs(30), async || {
            let mut ready = true;
            for sentinel in &sentinels.sentinels {
                ready &= sentinel.knows("num-slaves", "1").await && sentinel.knows("num-other-sentinels", "2").await;
            }
            ready
        })
        .await;
        sentinels
    }

    pub fn url(&self) -> String {
        let hosts: Vec<String> = self.sentinels.iter().map(|sentinel| format!("127.0.0.1:{}", sentinel.port)).collect();
        format!("redis+sentinel://{}/{NAME}", hosts.join(","))
    }

    /// A master without its replica refuses writes at once: it cannot go on beside a promoted one.
    pub async fn demand_a_replica(&self) {
        for node in &self.nodes {
            for (name, value) in [("min-replicas-max-lag", "2"), ("min-replicas-to-write", "1")] {
                let _: () = node.run(&["CONFIG", "SET", name, value]).await;
            }
        }
    }

    /// Returns when all Sentinels agree on a master that is well, on a replica that follows it, and the
    /// two say so themselves. A Sentinel looks closely every ten seconds only.
    pub async fn until_calm(&self) {
        until("one master, one replica, and all agree", Duration::from_secs(90), async || self.is_calm().await).await;
    }

    async fn is_calm(&self) -> bool {
        let node = self.master().await;
        let (master, replica) = (&self.nodes[node], &self.nodes[1 - node]);
        let mut calm = master.says("role", "master").await
            && master.says("connected_slaves", "1").await
            && replica.says("role", "slave").await
            && replica.says("master_link_status", "up").await;
        for sentinel in &self.sentinels {
            calm = calm && sentinel.master().await == Some(master.port()) && sentinel.is_content().await;
        }
        calm
    }

    /// Which node is the master, as most Sentinels say.
    pub async fn master(&self) -> usize {
        let mut says = [0; 2];
        for sentinel in &self.sentinels {
            let port = sentinel.master().await;
            if let Some(node) = self.nodes.iter().position(|node| Some(node.port()) == port) {
                says[node] += 1;
            }
        }
        usize::from(says[1] > says[0])
    }

    /// Returns when this node is the master, and says so itself.
    pub async fn until_master(&self, node: usize) {
        until("the other node is promoted", Duration::from_secs(40), async || {
            self.master().await == node && self.nodes[node].says("role", "master").await
        })
        .await;
    }

    /// Asks for a failover while all is well.
    ///
    /// # Errors
    /// No Sentinel is ready for one in half a minute; what the last one said.
    pub async fn fail_over(&self) -> Result<(), String> {
        let begun = Instant::now();
        loop {
            for sentinel in &self.sentinels {
                match sentinel.ask::<String>(&["SENTINEL", "FAILOVER", NAME]).await {
                    Ok(_) => return Ok(()),
                    Err(error) if begun.elapsed() > Duration::from_secs(30) => return Err(error.to_string()),
                    Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
                }
            }
        }
    }
}

impl Sentinel {
    async fn ask<T: ::redis::FromRedisValue>(&self, words: &[&str]) -> ::redis::RedisResult<T> {
        let client = ::redis::Client::open(format!("redis://127.0.0.1:{}", self.port))?;
        let mut connection = client.get_multiplexed_async_connection().await?;
        ::redis::cmd(words[0]).arg(&words[1..]).query_async(&mut connection).await
    }

    async fn master(&self) -> Option<u16> {
        let (_, port): (String, String) = self.ask(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME]).await.ok()?;
        port.parse().ok()
    }

    /// It sees nothing wrong, and knows a replica that it could promote.
    async fn is_content(&self) -> bool {
        let replicas: Vec<HashMap<String, String>> =
            self.ask(&["SENTINEL", "REPLICAS", NAME]).await.unwrap_or_default();
        let is =
            |name: &str, value: &str| replicas.iter().all(|replica| replica.get(name).is_some_and(|is| is == value));
        self.knows("flags", "master").await
            && replicas.len() == 1
            && is("flags", "slave")
            && is("role-reported", "slave")
            && is("master-link-status", "ok")
    }

    async fn knows(&self, field: &str, value: &str) -> bool {
        let fields: HashMap<String, String> = self.ask(&["SENTINEL", "MASTER", NAME]).await.unwrap_or_default();
        fields.get(field).is_some_and(|found| found == value)
    }
}

fn launch(master: u16) -> Sentinel {
    let (dir, port) = (tempfile::tempdir().expect("a temporary folder"), free_port());
    let config = format!(
        "port {port}\nbind 127.0.0.1\ndir {}\nsentinel monitor {NAME} 127.0.0.1 {master} 2\n\
         sentinel down-after-milliseconds {NAME} 1000\nsentinel failover-timeout {NAME} 4000\n",
        dir.path().display()
    );
    let file = dir.path().join("sentinel.conf");
    std::fs::write(&file, config).expect("a writable folder");
    let mut command = Command::new(parts::redis_server());
    let process = Process::start(command.arg(&file).arg("--sentinel"), &dir.path().join("sentinel.log"));
    Sentinel { _process: process, port, _dir: dir }
}
