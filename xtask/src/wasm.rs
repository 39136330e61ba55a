//! Builds the module for Envoy, whichever way this machine can.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::shell::{apt_install, cargo, output, root, run, say, succeeds, which};

const TARGET: &str = "wasm32-unknown-unknown";
/// It travels to every Envoy worker.
const MAX_BYTES: u64 = 500_000;

/// How the target's standard library is had.
#[derive(Debug)]
enum Way {
    /// The toolchain has the target.
    Installed,
    /// A compiler with its library's sources builds the library too.
    FromSource { rustc: PathBuf, linker: PathBuf },
}

/// Builds `target/turnstone.wasm`.
pub fn build() -> Result<PathBuf> {
    module("turnstone-filter", "turnstone.wasm")
}

/// Builds the benchmark's yardstick.
pub fn build_callout() -> Result<PathBuf> {
    module("turnstone-callout", "callout.wasm")
}

fn module(package: &str, name: &str) -> Result<PathBuf> {
    let way = way()?;
    let folder = root().join("target/module");
    let mut command = cargo(&["build", "--package", package, "--lib", "--profile", "wasm"]);
    command.args(["--target", TARGET, "--target-dir"]).arg(&folder);
    match &way {
        Way::Installed => say("building the module, with the toolchain's own wasm target"),
        Way::FromSource { rustc, linker } => {
            say(&format!("building the module and its standard library, with {}", rustc.display()));
            command.arg("-Zbuild-std=std,panic_abort").env("RUSTC", rustc).env("RUSTC_BOOTSTRAP", "1");
            command.env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", linker);
        }
    }
    run(&mut command)?;
    publish(&folder.join(TARGET).join("wasm").join(package.replace('-', "_")).with_extension("wasm"), name)
}

fn publish(built: &Path, name: &str) -> Result<PathBuf> {
    let module = root().join("target").join(name);
    let bytes = std::fs::copy(built, &module).with_context(|| format!("{}", built.display()))?;
    ensure!(bytes < MAX_BYTES, "the module has {bytes} bytes, must be under {MAX_BYTES}");
    say(&format!("{} has {} KB", module.display(), bytes / 1000));
    Ok(module)
}

fn way() -> Result<Way> {
    let sysroot = PathBuf::from(output(Command::new("rustc").args(["--print", "sysroot"]).current_dir(root()))?);
    let installed = || sysroot.join("lib/rustlib").join(TARGET).join("lib").is_dir();
    if installed() {
        return Ok(Way::Installed);
    }
    if which("rustup").is_some() {
        say("adding the wasm target by rustup");
        if succeeds(Command::new("rustup").args(["target", "add", TARGET]).current_dir(root())) && installed() {
            return Ok(Way::Installed);
        }
    }
    from_source(&sysroot)
}

/// Debian's `rustc-web` brings the sources of its standard library, and rustup's toolchain a linker for wasm.
fn from_source(sysroot: &Path) -> Result<Way> {
    let rustc = PathBuf::from("/usr/bin/rustc");
    let has_sources = || {
        let sysroot = output(Command::new(&rustc).args(["--print", "sysroot"])).unwrap_or_default();
        Path::new(&sysroot).join("lib/rustlib/src/rust/library/std/src/lib.rs").is_file()
    };
    if !has_sources() {
        say("rustup cannot get the wasm target; installing rustc-web and rust-web-src in its place");
        if !apt_install(&["rustc-web", "rust-web-src"]) || !has_sources() {
            bail!(
                "no way to build for {TARGET}: run `rustup target add {TARGET}`, or on Debian `apt-get install rustc-web rust-web-src`"
            );
        }
    }
    let linker = sysroot.join("lib/rustlib/x86_64-unknown-linux-gnu/bin/rust-lld");
    ensure!(linker.is_file(), "no linker for wasm at {}", linker.display());
    Ok(Way::FromSource { rustc, linker })
}
