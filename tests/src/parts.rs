//! Where the real parts are. `cargo xtask test` builds them and says so in the environment, so
//! that no test ever runs on a stale build.

use std::path::PathBuf;

/// The Envoy binary.
pub fn envoy() -> PathBuf {
    part("ENVOY_PATH")
}

/// The wasm module.
pub fn module() -> PathBuf {
    part("TURNSTONE_MODULE")
}

/// The module of the do-nothing callout.
pub fn callout() -> PathBuf {
    part("TURNSTONE_CALLOUT")
}

/// The `turnstone` binary.
pub fn sidecar() -> PathBuf {
    part("TURNSTONE_SIDECAR")
}

/// The `redis-server` binary.
pub fn redis_server() -> PathBuf {
    part("REDIS_SERVER")
}

/// The library that gives a process a clock of its own.
pub fn clock() -> PathBuf {
    part("TURNSTONE_CLOCK_LIBRARY")
}

/// The configuration that we ship; scenarios change only its addresses.
pub fn envoy_yaml() -> &'static str {
    include_str!("../../envoy/envoy.yaml")
}

fn part(variable: &str) -> PathBuf {
    match std::env::var_os(variable) {
        Some(path) => PathBuf::from(path),
        None => panic!("{variable} is not set: run this by `cargo xtask`, which builds or finds every part"),
    }
}
