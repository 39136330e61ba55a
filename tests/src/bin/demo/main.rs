//! The main job before your eyes: three clients send bursts through Envoy, one caller gives up,
//! and raven's own log says whether every promise held.

mod live;
mod load;
mod report;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use turnstone_tests::world::Plan;

use crate::load::Load;

/// Paces a believable load, live
#[derive(Debug, Parser)]
#[command(name = "cargo xtask demo")]
struct Arguments {
    /// Least time between two requests of one client at raven, in seconds: `5s`, `1s`, `0.5s`
    #[arg(long, default_value = "5s", value_parser = seconds)]
    interval: Duration,
    /// Keep the schedule in a Redis of the demo's own
    #[arg(long)]
    redis: bool,
    /// Instances of penguin, each with an Envoy and a sidecar; more than one share a Redis
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=9))]
    penguins: u8,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let number = text.strip_suffix('s').unwrap_or(text).parse::<f64>();
    match number {
        Ok(seconds) if (0.1..=60.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        Ok(_) | Err(_) => Err("must be from 0.1s to 60s".to_owned()),
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let redis = arguments.redis || arguments.penguins > 1;
    let store = if redis { "one Redis" } else { "the embedded store" };
    println!("\n  {} penguin(s) → Envoy + Turnstone → raven, schedule in {store}", arguments.penguins);
    println!("  raven must see two requests of one client at least {:?} apart\n", arguments.interval);
    let mut plan = Plan::every(arguments.interval).penguins(arguments.penguins.into());
    plan.redis = redis;
    let world = plan.start().await;
    if !redis {
        println!("  A fresh embedded store knows no history: it holds every client for one interval and settle.\n");
    }
    let begun = Instant::now();
    let load = Load::start(&world, begun, arguments.interval);
    live::watch(&world, &load, begun).await;
    let report = report::Report::new(&load.requests(), &world.raven.arrivals(), begun, arguments.interval);
    println!("{report}");
    if report.holds() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
