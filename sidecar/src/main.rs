//! `turnstone`: the sidecar process.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use clap::{Parser, Subcommand};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tracing_subscriber::EnvFilter;
use turnstone::config::{Config, Log, Sources, StoreUrl};
use turnstone::http;
use turnstone::pacer::Pacer;
use turnstone::serve::Socket;
use turnstone::store::{MemoryStore, RedisStore};
use turnstone_lane::Owner;

/// Paces requests to a fragile upstream: holds each call of an Envoy until its turn
#[derive(Debug, Parser)]
#[command(name = "turnstone", version)]
struct Cli {
    #[command(flatten)]
    sources: Sources,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Clone, Copy, Debug, Subcommand)]
enum Command {
    /// Serve filters (the default)
    Serve,
    /// Say whether the configuration is right, and everything that is wrong with it
    Check,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("turnstone: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> anyhow::Result<()> {
    let config = cli.sources.load()?;
    match cli.command.unwrap_or(Command::Serve) {
        Command::Check => {
            println!(
                "{} is right: {} policies, store {}",
                cli.sources.config.display(),
                config.policies.len(),
                config.store
            );
            Ok(())
        }
        Command::Serve => {
            log_as(config.log);
            tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(serve(&cli.sources, config))
        }
    }
}

fn log_as(log: Log) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match log {
        Log::Human => lines.init(),
        Log::Json => lines.json().init(),
    }
}

async fn serve(sources: &Sources, config: Config) -> anyhow::Result<()> {
    let mut signals = Signals::new()?;
    let mut sockets = Vec::new();
    for listen in &config.listen {
        sockets.push(Socket::open(listen).await?);
    }
    let admin = Socket::open(&config.admin).await?;
    let pacer = start_pacer(&config)?;

    let listen = sockets.iter().map(Socket::address).collect::<Vec<_>>().join(" ");
    let admin_address = admin.address();
    let (stop, stopped) = watch::channel(false);
    let mut servers = tokio::task::JoinSet::new();
    for socket in sockets {
        servers.spawn(socket.serve(http::calls(Arc::clone(&pacer)), told(stopped.clone())));
    }
    servers.spawn(admin.serve(http::admin(Arc::clone(&pacer)), told(stopped)));
    tracing::info!(%listen, admin = admin_address, store = %config.store, "pacing");

    signals.until_stop(|| reload(sources, &pacer)).await;
    let held = pacer.drain();
    tracing::info!(held, "stopping: held calls are told to ask again");
    stop.send_replace(true);
    servers.join_all().await;
    Ok(())
}

fn start_pacer(config: &Config) -> anyhow::Result<Arc<Pacer>> {
    let me = Owner(rand::random());
    let policies = config.policies.clone();
    let pacer = match &config.store {
        StoreUrl::Memory => {
            let pacer = Pacer::new(me, Arc::new(MemoryStore::start()), policies, config.ramp);
            pacer.run(None);
            pacer
        }
        StoreUrl::Redis(url) => {
            let (store, hints) = RedisStore::open(url, me).context("store")?;
            let pacer = Pacer::new(me, Arc::new(store), policies, config.ramp);
            pacer.run(Some(hints));
            pacer
        }
    };
    Ok(pacer)
}

async fn told(mut stopped: watch::Receiver<bool>) {
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

/// New policies govern the next grant of every lane; a file with faults changes nothing.
fn reload(sources: &Sources, pacer: &Arc<Pacer>) {
    match sources.load() {
        Ok(config) => {
            pacer.reload(config.policies);
            tracing::info!("policies reloaded; the other settings need a restart");
        }
        Err(refused) => tracing::error!("kept the old configuration: {refused}"),
    }
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    async fn until_stop(&mut self, reload: impl Fn()) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return,
                _ = self.interrupt.recv() => return,
                _ = self.hang_up.recv() => reload(),
            }
        }
    }
}
