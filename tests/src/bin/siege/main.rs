//! A siege: penguins, Sentinels over two Redis, raven, random load, and a random schedule of faults.
//! Then raven's own log and the callers' logs say whether the promises held.

mod faults;
mod judge;
mod load;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Parser;
use rand::SeedableRng;
use rand::rngs::StdRng;
use turnstone_tests::sentinels::Sentinels;
use turnstone_tests::world::Plan;

use crate::faults::Siege;
use crate::judge::Verdict;
use crate::load::{Callers, Gate};

/// Breaks everything that may break, and judges by what raven saw
#[derive(Debug, Parser)]
#[command(name = "cargo xtask siege")]
struct Arguments {
    /// How long faults go on, in minutes
    #[arg(long, default_value_t = 2.0)]
    minutes: f64,
    /// Replays the faults and the load of a former run
    #[arg(long)]
    seed: Option<u64>,
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=9))]
    penguins: u8,
    #[arg(long, default_value_t = 24)]
    clients: usize,
}

const INTERVAL: Duration = Duration::from_millis(1000);
/// A machine under siege is busy: what is let go may take a while to raven.
const SETTLE: Duration = Duration::from_millis(600);
/// After the last fault, all who wait must have gone by then.
const PATIENCE: Duration = Duration::from_secs(90);

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let seed = arguments.seed.unwrap_or_else(rand::random);
    println!(
        "\n  siege of {} min, {} penguins, {} clients; replay it by --seed {seed}\n",
        arguments.minutes, arguments.penguins, arguments.clients
    );
    let sentinels = Sentinels::start().await;
    sentinels.demand_a_replica().await;
    let plan = Plan::every(INTERVAL).settle(SETTLE).penguins(arguments.penguins.into()).store(sentinels.url());
    let world = plan.start().await;
    let raven = world.raven.clone();
    let gates = Gate::of(&world);
    let begun = Instant::now();
    let callers = Callers::start(arguments.clients, seed, Arc::clone(&gates), raven.clone());
    let mut siege = Siege::new(world, sentinels, gates, begun);
    let until = begun + Duration::from_secs_f64(arguments.minutes * 60.0);
    let mut dice = StdRng::seed_from_u64(seed);
    while Instant::now() < until {
        siege.pause(&mut dice).await;
        siege.strike(&mut dice).await;
    }
    println!("  the last fault is over; all who wait must go now");
    let requests = callers.finish(PATIENCE).await;
    let reloads = siege.end().await;
    report(&siege, &Verdict::of(&requests, &raven, siege.faults(), reloads, INTERVAL), seed)
}

fn report(siege: &Siege, verdict: &Verdict, seed: u64) -> ExitCode {
    println!("\n  {} faults: {}\n", siege.faults().len(), siege.kinds());
    println!("{verdict}");
    if verdict.holds() {
        println!("\n  every promise held\n");
        return ExitCode::SUCCESS;
    }
    println!("\n  BROKEN; replay it by: cargo xtask siege --seed {seed}\n");
    ExitCode::FAILURE
}

/// Seconds since the siege began, for people.
fn clock(begun: Instant, at: Instant) -> String {
    format!("{:7.1} s", at.saturating_duration_since(begun).as_secs_f64())
}
