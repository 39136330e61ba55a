//! The commands of this repository: `cargo xtask demo | test | ci | wasm | siege | bench`.

mod parts;
mod shell;
mod tidy;
mod wasm;

use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::shell::{Beside, cargo, run, say};

/// What can be done here
#[derive(Debug, Parser)]
#[command(name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Get Envoy, build everything, and pace a believable load before your eyes
    Demo {
        /// For the demo itself: --redis, --penguins 3, --interval 1s
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Get what is missing, and run every test, on real Envoy and real Redis too
    Test {
        /// For the test programs: a part of a test's name
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// What a change must pass: format, lints, tests
    Ci,
    /// Build the module for Envoy: target/turnstone.wasm
    Wasm,
    /// Break everything that may break, from a random seed, and judge by what raven saw
    Siege {
        /// For the siege itself: --minutes 30, --seed 7, --penguins 3
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Measure what a paced request costs, beside plain Envoy and a callout that does nothing
    Bench {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
}

fn main() -> ExitCode {
    let begun = Instant::now();
    let task = Cli::parse().task;
    let result = match &task {
        Task::Demo { arguments } => demo(arguments),
        Task::Test { arguments } => test(arguments),
        Task::Ci => ci(),
        Task::Wasm => wasm::build().map(drop),
        Task::Siege { arguments } => {
            program("siege", Profile::Dev, true).and_then(|mut siege| run(siege.args(arguments)))
        }
        Task::Bench { arguments } => bench(arguments),
    };
    match result {
        Ok(()) => {
            say(&format!("done in {} s", begun.elapsed().as_secs()));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("\n✗ {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn demo(arguments: &[String]) -> Result<()> {
    let mut command = program(
        "demo",
        Profile::Dev,
        arguments.iter().any(|argument| argument == "--redis" || argument.starts_with("--penguins")),
    )?;
    run(command.args(arguments))
}

fn bench(arguments: &[String]) -> Result<()> {
    let mut command = program("bench", Profile::Release, true)?;
    command.env("TURNSTONE_CALLOUT", wasm::build_callout()?);
    run(command.args(arguments))
}

fn test(arguments: &[String]) -> Result<()> {
    tidy::check()?;
    let mut parts = parts::all(Profile::Dev, true)?;
    parts.push(("TURNSTONE_CLOCK_LIBRARY", parts::clock()?));
    let mut command = cargo(&["test", "--workspace"]);
    command.envs(parts.clone());
    if !arguments.is_empty() {
        command.arg("--").args(arguments);
        return run(&mut command);
    }
    run(cargo(&["test", "--workspace", "--no-run"]).envs(parts.clone()))?;
    say("testing: pure parts first, then scenarios on real processes; beside them a line of 65 waits its 320 s");
    let patience = Beside::start(cargo(&["test", "--package", "turnstone-tests", "--test", "patience"]).envs(parts))?;
    run(&mut command)?;
    patience.end()?;
    say("every test passed");
    Ok(())
}

fn ci() -> Result<()> {
    run(&mut cargo(&["fmt", "--all", "--check"]))?;
    run(&mut cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
    test(&[])
}

/// How the sidecar and a program of `tests/` are built.
#[derive(Clone, Copy, Debug)]
pub enum Profile {
    Dev,
    Release,
}

impl Profile {
    fn flags(self) -> &'static [&'static str] {
        match self {
            Self::Dev => &[],
            Self::Release => &["--release"],
        }
    }

    fn folder(self) -> &'static str {
        match self {
            Self::Dev => "debug",
            Self::Release => "release",
        }
    }
}

/// A program of `tests/`, built, with every part it needs.
fn program(name: &str, profile: Profile, redis: bool) -> Result<Command> {
    let parts = parts::all(profile, redis)?;
    run(cargo(&["build", "--package", "turnstone-tests", "--bin", name]).args(profile.flags()))?;
    let mut command = Command::new(shell::root().join("target").join(profile.folder()).join(name));
    command.envs(parts);
    Ok(command)
}
