//! What the SDK does not wrap, or wraps with a panic: clock, random numbers, metrics.

use proxy_wasm::hostcalls;
use proxy_wasm::types::MetricType;

use crate::Micros;
use crate::action::Metric;

#[allow(unsafe_code)]
mod wasi {
    const MONOTONIC: u32 = 1;

    #[link(wasm_import_module = "wasi_snapshot_preview1")]
    unsafe extern "C" {
        fn clock_time_get(clock: u32, precision: u64, nanos: *mut u64) -> u16;
        fn random_get(buffer: *mut u8, length: usize) -> u16;
    }

    pub fn monotonic_nanos() -> u64 {
        let mut nanos = 0;
        // SAFETY: the host writes eight bytes to a place that has eight.
        unsafe { clock_time_get(MONOTONIC, 0, &raw mut nanos) };
        nanos
    }

    pub fn random() -> u64 {
        let mut bytes = [0; 8];
        // SAFETY: the host writes as many bytes as the place has.
        unsafe { random_get(bytes.as_mut_ptr(), bytes.len()) };
        u64::from_le_bytes(bytes)
    }
}

pub fn now() -> Micros {
    wasi::monotonic_nanos() / 1000
}

/// Differs between workers, restarts and machines.
pub fn seed() -> u64 {
    wasi::random() ^ wasi::monotonic_nanos().rotate_left(32)
}

/// Envoy's numbers of our counters.
pub struct Metrics([Option<u32>; Metric::ALL.len()]);

impl Metrics {
    pub fn define() -> Self {
        Self(Metric::ALL.map(|metric| hostcalls::define_metric(MetricType::Counter, metric.name()).ok()))
    }

    pub fn count(&self, metric: Metric) {
        if let Some(Some(number)) = self.0.get(metric as usize) {
            let _ = hostcalls::increment_metric(*number, 1);
        }
    }
}
