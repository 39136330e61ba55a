//! The harness: real Envoys, sidecars and Redis on this machine, raven as a bare TCP server that
//! stamps what arrives, and callers. Everything stops when it is dropped.

pub mod cable;
pub mod clock;
pub mod envoy;
pub mod parts;
pub mod process;
pub mod raven;
pub mod redis;
pub mod sentinels;
pub mod sidecar;
pub mod stamp;
pub mod verdict;
pub mod world;

use std::future::Future;
use std::time::{Duration, Instant};

/// Waits until a condition holds; panics with `what` when it does not within `limit`.
pub async fn until<F: Future<Output = bool>>(what: &str, limit: Duration, mut holds: impl FnMut() -> F) {
    let begun = Instant::now();
    while !holds().await {
        assert!(begun.elapsed() < limit, "waited {limit:?} in vain: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
