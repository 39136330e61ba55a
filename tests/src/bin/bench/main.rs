//! What a paced request costs, beside plain Envoy and beside a filter that calls out and does nothing.
//! All run side by side, in turns, so that a noisy machine is noisy for all.

mod load;
mod memory;

use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use hdrhistogram::Histogram;
use turnstone_tests::envoy::{Changes, Endpoint, Envoy, Module};
use turnstone_tests::parts;
use turnstone_tests::process::Process;
use turnstone_tests::raven::Raven;
use turnstone_tests::redis::Redis;
use turnstone_tests::sidecar::{Settings, Sidecar};

/// What the design allows.
const MOST_ADDED: f64 = 1.8;
const MOST_BYTES: u64 = 5_000;

/// Latency added by pacing, and memory per held request
#[derive(Debug, Parser)]
#[command(name = "cargo xtask bench")]
struct Arguments {
    /// Requests per second
    #[arg(long, default_value_t = 500)]
    rate: u32,
    /// Rounds; in each, all are measured; 0: measure memory only
    #[arg(long, default_value_t = 6)]
    rounds: u32,
    /// Seconds per measurement
    #[arg(long, default_value_t = 4)]
    seconds: u32,
    /// Requests held at once when memory is measured
    #[arg(long, default_value_t = 5000)]
    held: u64,
}

#[tokio::main]
async fn main() {
    let arguments = Arguments::parse();
    if arguments.rounds > 0 {
        latency(&arguments).await;
    }
    memory::measure(arguments.held).await;
}

async fn latency(arguments: &Arguments) {
    let raven = Raven::start().await;
    let redis = Redis::start().await;
    let sidecar = Sidecar::start(Settings::new(&redis.url(), "[policies.raven]\ninterval = '5s'")).await;
    sidecar.vouch().await;
    let embedded =
        Sidecar::start(Settings::new("memory", "[policies.raven]\ninterval = '100ms'\nsettle = '20ms'")).await;
    let idle = Sidecar::start(Settings::new("memory", "[policies.raven]\ninterval = '5s'")).await;
    let nobody = Endpoint::Unix(idle.socket());
    let ours = Endpoint::Unix(sidecar.socket());
    let start = async |sidecar: &Endpoint, module| {
        let changes = Changes { sidecar, rules: None, replace: &[], workers: 1, module, ecds: false };
        Envoy::start(raven.address(), &changes).await
    };
    let envoys = [
        ("plain Envoy", start(&nobody, Module::None).await),
        ("a callout that does nothing", start(&nobody, Module::Other(parts::callout())).await),
        ("Turnstone on Redis", start(&ours, Module::Ours).await),
        ("Turnstone, embedded store", start(&Endpoint::Unix(embedded.socket()), Module::Ours).await),
    ];
    println!(
        "\n  {} requests/s, each of a client of its own; {} rounds of {} s each\n",
        arguments.rate, arguments.rounds, arguments.seconds
    );
    let mut times: [Histogram<u64>; 4] = std::array::from_fn(|_| Histogram::new(3).expect("three digits"));
    let client = Arc::new(reqwest::Client::new());
    // The first round warms connections and caches, and does not count.
    let processes = [&[][..], &[&idle.process], &[&sidecar.process, &redis.process], &[&embedded.process]];
    let mut costs = [Cost::default(); 4];
    for round in 0..=arguments.rounds {
        for (index, (_, envoy)) in envoys.iter().enumerate() {
            let time = Duration::from_secs(arguments.seconds.into());
            let spent = || Cost::now(envoy, processes[index]);
            let before = spent();
            let measured = load::run(&client, envoy.address(), arguments.rate, time).await;
            if round > 0 {
                times[index].add(measured).expect("the same digits");
                costs[index].add(&before, &spent());
            }
        }
    }
    report(&envoys.each_ref().map(|(name, _)| *name), &times, &costs);
}

/// Processor time of Envoy, and of what stands behind it.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    envoy: Duration,
    others: Duration,
}

impl Cost {
    fn now(envoy: &Envoy, others: &[&Process]) -> Self {
        Self {
            envoy: envoy.process.processor_time(),
            others: others.iter().map(|process| process.processor_time()).sum(),
        }
    }

    fn add(&mut self, before: &Self, after: &Self) {
        self.envoy += after.envoy - before.envoy;
        self.others += after.others - before.others;
    }
}

fn report(names: &[&str; 4], times: &[Histogram<u64>; 4], costs: &[Cost; 4]) {
    println!(
        "  {:<28} {:>9} {:>9} {:>9} {:>11}   processor: {:>6} {:>15}",
        "µs", "p50", "p90", "p99", "added p50", "Envoy", "sidecar + Redis"
    );
    let p50 = |index: usize| times[index].value_at_quantile(0.5) as f64;
    for (index, name) in names.iter().enumerate() {
        let at = |quantile| times[index].value_at_quantile(quantile);
        let each = |time: Duration| time.as_micros() / u128::from(times[index].len());
        let (envoy, others) = (each(costs[index].envoy), each(costs[index].others));
        println!(
            "  {name:<28} {:>9} {:>9} {:>9} {:>11}              {envoy:>6} {others:>15}",
            at(0.5),
            at(0.9),
            at(0.99),
            p50(index) - p50(0)
        );
    }
    let ratio = (p50(2) - p50(0)) / (p50(1) - p50(0));
    let verdict = if ratio <= MOST_ADDED { "within" } else { "OVER" };
    println!("\n  Turnstone adds {ratio:.2} times what the callout alone adds: {verdict} the bound of {MOST_ADDED}");
}
