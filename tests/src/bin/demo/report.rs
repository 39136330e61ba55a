//! What happened, as a timeline and a table, and whether every promise held.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use turnstone_tests::raven::Arrival;
use turnstone_tests::verdict::{Lanes, Seen};

use crate::load::{End, Request};

const WIDTH: usize = 72;

/// The whole story of one run.
#[derive(Debug)]
pub struct Report {
    requests: BTreeMap<&'static str, Vec<Request>>,
    lanes: Lanes,
    begun: Instant,
    interval: Duration,
}

impl Report {
    pub fn new(requests: &[Request], arrivals: &[Arrival], begun: Instant, interval: Duration) -> Self {
        let mut by_client: BTreeMap<_, Vec<Request>> = BTreeMap::new();
        for request in requests {
            by_client.entry(request.client).or_default().push(request.clone());
        }
        by_client.values_mut().for_each(|requests| requests.sort_by_key(|request| request.sent));
        Self { requests: by_client, lanes: Lanes::of(arrivals), begun, interval }
    }

    pub fn holds(&self) -> bool {
        self.promises().iter().all(|(_, held)| *held)
    }

    /// Each promise, with what was measured.
    fn promises(&self) -> Vec<(String, bool)> {
        let gap = self.lanes.smallest_gap();
        let shown = gap.map_or_else(|| "none".to_owned(), |gap| format!("{:.1} ms", gap.as_secs_f64() * 1e3));
        let all = || self.requests.values().flatten();
        let stayed = all().filter(|request| !gave_up(request)).count();
        let ok = all().filter(|request| matches!(request.end, Some(End::Answered { status: 200, .. }))).count();
        let at_raven: usize = self.lanes.0.values().map(Vec::len).sum();
        let strays = all().filter(|request| gave_up(request) && self.arrival(request).is_some()).count();
        let in_order = self.requests.keys().all(|client| self.is_in_order(client));
        vec![
            (
                format!("gap: the smallest at raven is {shown}, the interval {:?}", self.interval),
                gap >= Some(self.interval),
            ),
            (
                format!("nobody lost: {ok} of {stayed} callers that stayed have raven's answer"),
                ok == stayed && stayed > 0,
            ),
            (format!("once each: raven received {at_raven} requests"), at_raven == stayed),
            (
                format!("order: {} for every client", if in_order { "first come, first served" } else { "broken" }),
                in_order,
            ),
            (format!("gone is gone: raven saw {strays} of the requests whose caller gave up"), strays == 0),
        ]
    }

    /// Requests that arrived did so in the order in which they were sent.
    fn is_in_order(&self, client: &str) -> bool {
        let sent: Vec<u64> = self.requests[client].iter().map(|request| request.number).collect();
        let arrived = self.lanes.order(client);
        sent.iter().filter(|number| arrived.contains(number)).eq(&arrived)
    }

    fn arrival(&self, request: &Request) -> Option<&Seen> {
        self.lanes.lane(request.client).iter().find(|seen| seen.number == request.number)
    }

    fn since_start(&self, at: Instant) -> Duration {
        at.saturating_duration_since(self.begun)
    }

    fn end(&self) -> Duration {
        let arrivals = self.lanes.0.values().flatten().map(|seen| self.since_start(seen.at));
        let sends = self.requests.values().flatten().map(|request| request.sent);
        arrivals.chain(sends).max().unwrap_or(self.interval).max(Duration::from_millis(1))
    }

    fn timeline(&self, f: &mut fmt::Formatter<'_>, client: &str) -> fmt::Result {
        let column = |at: Duration| {
            let share = at.as_secs_f64() / self.end().as_secs_f64();
            ((share * (WIDTH - 1) as f64) as usize).min(WIDTH - 1)
        };
        let (mut sent, mut arrived) = (vec![' '; WIDTH], vec!['·'; WIDTH]);
        for request in &self.requests[client] {
            put(&mut sent, column(request.sent), '▼');
            if let Some(End::GaveUp { at }) = request.end {
                put(&mut sent, column(at), '✗');
            }
        }
        for seen in self.lanes.lane(client) {
            put(&mut arrived, column(self.since_start(seen.at)), '█');
        }
        let text = |marks: Vec<char>| marks.into_iter().collect::<String>();
        writeln!(f, "  {client:>6} sent   {}", text(sent).trim_end())?;
        writeln!(f, "         raven  {}", text(arrived))
    }

    fn table(&self, f: &mut fmt::Formatter<'_>, client: &str) -> fmt::Result {
        let mut before: Option<Instant> = None;
        for request in &self.requests[client] {
            let sent = request.sent.as_secs_f64();
            match self.arrival(request) {
                Some(seen) => {
                    let at = self.since_start(seen.at);
                    let waited = at.saturating_sub(request.sent).as_secs_f64();
                    let gap = before
                        .map_or_else(|| "-".to_owned(), |before| format!("{:.4}", (seen.at - before).as_secs_f64()));
                    writeln!(
                        f,
                        "  {client:>6} {:>4} {sent:>9.2} {waited:>9.2} {:>10.2} {gap:>10}",
                        request.number,
                        at.as_secs_f64()
                    )?;
                    before = Some(seen.at);
                }
                None => {
                    let why = if gave_up(request) { "gave up" } else { "LOST" };
                    writeln!(f, "  {client:>6} {:>4} {sent:>9.2} {why:>9}", request.number)?;
                }
            }
        }
        Ok(())
    }
}

/// A mark never hides another: two in one place stand side by side.
fn put(marks: &mut [char], column: usize, mark: char) {
    let free = |at: &usize| matches!(marks[*at], ' ' | '·');
    if let Some(at) = (column..marks.len()).find(free).or_else(|| (0..column).rev().find(free)) {
        marks[at] = mark;
    }
}

fn gave_up(request: &Request) -> bool {
    matches!(request.end, Some(End::GaveUp { .. }))
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n  ▼ sent   ✗ gave up   █ arrived at raven      0 to {:.1} s\n", self.end().as_secs_f64())?;
        for client in self.requests.keys() {
            self.timeline(f, client)?;
        }
        writeln!(
            f,
            "\n  {:>6} {:>4} {:>9} {:>9} {:>10} {:>10}",
            "client", "no.", "sent s", "waited s", "at raven s", "gap s"
        )?;
        for client in self.requests.keys() {
            self.table(f, client)?;
        }
        writeln!(f)?;
        for (promise, held) in self.promises() {
            writeln!(f, "  {} {promise}", if held { "✓" } else { "✗" })?;
        }
        let verdict = if self.holds() { "every promise held" } else { "A PROMISE WAS BROKEN" };
        writeln!(f, "\n  {verdict}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(1);

    fn request(number: u64, end: Option<End>) -> Request {
        Request { client: "alice", number, sent: Duration::from_millis(number), end }
    }

    fn report(ends: &[Option<End>], arrivals: &[(u64, u64)]) -> Report {
        let begun = Instant::now();
        let requests: Vec<Request> = (0..).zip(ends).map(|(number, end)| request(number, *end)).collect();
        let arrivals: Vec<Arrival> = arrivals
            .iter()
            .map(|(number, millis)| Arrival {
                at: begun + Duration::from_millis(*millis),
                method: String::new(),
                path: String::new(),
                headers: Default::default(),
                body: format!(r#"{{"clientId":"alice","n":{number}}}"#).into_bytes(),
            })
            .collect();
        Report::new(&requests, &arrivals, begun, INTERVAL)
    }

    #[test]
    fn every_broken_promise_is_seen() {
        let ok = Some(End::Answered { status: 200 });
        let failed = Some(End::Answered { status: 503 });
        let gone = Some(End::GaveUp { at: Duration::from_secs(1) });
        assert!(report(&[ok, gone, ok], &[(0, 0), (2, 1000)]).holds());
        assert!(!report(&[ok, ok], &[(0, 0), (1, 999)]).holds(), "a short gap");
        assert!(!report(&[ok, ok], &[(1, 0), (0, 1000)]).holds(), "out of order");
        assert!(!report(&[ok, failed], &[(0, 0), (1, 1000)]).holds(), "an error to a caller");
        assert!(!report(&[ok, ok], &[(0, 0)]).holds(), "one that never arrived");
        assert!(!report(&[ok, ok], &[(0, 0), (0, 1000), (1, 2000)]).holds(), "one that arrived twice");
        assert!(!report(&[ok, gone], &[(0, 0), (1, 1000)]).holds(), "one that was gone");
        assert!(!report(&[], &[]).holds(), "nothing happened");
    }
}
