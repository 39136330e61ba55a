//! An open loop: requests go out on schedule, whether or not earlier ones are back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

/// Clients that were never seen before: no request waits for another.
static NEXT_CLIENT: AtomicU64 = AtomicU64::new(0);

/// Times in microseconds.
pub async fn run(client: &Arc<reqwest::Client>, envoy: &str, rate: u32, time: Duration) -> Histogram<u64> {
    let url: Arc<str> = format!("http://{envoy}/bench").into();
    let count = rate * u32::try_from(time.as_secs()).expect("seconds");
    let begun = Instant::now();
    let mut calls = Vec::new();
    for number in 0..count {
        async_io::Timer::at(begun + Duration::from_secs(1) * number / rate).await;
        let (client, url) = (Arc::clone(client), Arc::clone(&url));
        calls.push(tokio::spawn(async move { once(&client, &url).await }));
    }
    let mut times = Histogram::new(3).expect("three digits");
    for call in calls {
        let time = call.await.expect("the caller lives");
        times.record(u64::try_from(time.as_micros()).expect("small")).expect("in range");
    }
    times
}

async fn once(client: &reqwest::Client, url: &str) -> Duration {
    let body = format!(r#"{{"clientId":"client-{}"}}"#, NEXT_CLIENT.fetch_add(1, Ordering::Relaxed));
    let sent = Instant::now();
    let answer = client.post(url).body(body).send().await.expect("Envoy answers");
    let took = sent.elapsed();
    assert_eq!(answer.status(), 200, "{answer:?}");
    took
}
