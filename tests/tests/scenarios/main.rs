//! The promises on real parts: Envoy with the module, sidecars, Redis, sockets, and raven's own stamps.

mod bodies;
mod bounds;
mod change;
mod clocks;
mod crash;
mod envoys;
mod frozen;
mod leave;
mod pace;
mod redis;
mod refuse;
mod settle;
mod transport;

use std::time::Duration;

/// How late a turn may be on a machine that is not busy.
const LATE: Duration = Duration::from_millis(250);

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}
