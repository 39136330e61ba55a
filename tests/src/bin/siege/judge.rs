//! The verdict: raven's own log against the callers' logs.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::time::{Duration, Instant};

use turnstone_tests::raven::Raven;
use turnstone_tests::verdict::Lanes;

use crate::faults::Fault;
use crate::load::{End, Request};

/// After a fault, and before it, a request counts as touched by it.
const TOUCH_BEFORE: Duration = Duration::from_secs(1);
const TOUCH_AFTER: Duration = Duration::from_secs(6);
/// Two requests sent closer than this may have arrived in either order.
const TOGETHER: Duration = Duration::from_millis(40);
const BARS: [(u64, &str); 7] =
    [(2, "2 ms"), (5, "5 ms"), (20, "20 ms"), (100, "100 ms"), (650, "650 ms"), (3000, "3 s"), (u64::MAX, "more")];

/// What was counted.
#[derive(Debug, Default)]
pub struct Verdict {
    sent: usize,
    answered: usize,
    gave_up: usize,
    excused: usize,
    interval: Duration,
    gaps: Vec<Duration>,
    lost: Vec<String>,
    duplicated: Vec<String>,
    refused: Vec<String>,
    inversions: Vec<String>,
    touched_inversions: usize,
    untouched: usize,
    longest_silence: Duration,
    reloads: u64,
}

/// One request that raven saw, with what its caller knows.
struct Seen<'a> {
    at: Instant,
    request: &'a Request,
    touched: bool,
}

impl Verdict {
    pub fn of(requests: &[Request], raven: &Raven, faults: &[Fault], reloads: u64, interval: Duration) -> Self {
        let lanes = Lanes::of(&raven.arrivals());
        let mut verdict = Self { sent: requests.len(), interval, reloads, ..Self::default() };
        verdict.count_ends(requests);
        let mut arrivals: HashMap<(&str, u64), Vec<Instant>> = HashMap::new();
        for (client, lane) in &lanes.0 {
            verdict.gaps.extend(lanes.gaps(client));
            for seen in lane {
                arrivals.entry((client, seen.number)).or_default().push(seen.at);
            }
        }
        verdict.count_arrivals(requests, &arrivals);
        let mut by_client: BTreeMap<&str, Vec<Seen<'_>>> = BTreeMap::new();
        for request in requests {
            let Some(at) = arrivals.get(&(request.client.as_str(), request.number)).and_then(|at| at.first()) else {
                continue;
            };
            let touched =
                faults.iter().any(|fault| request.sent < fault.until + TOUCH_AFTER && *at > fault.from - TOUCH_BEFORE);
            by_client.entry(&request.client).or_default().push(Seen { at: *at, request, touched });
        }
        by_client.into_values().for_each(|lane| verdict.judge_order(lane));
        verdict
    }

    pub fn holds(&self) -> bool {
        let early = self.gaps.iter().filter(|gap| **gap < self.interval).count();
        let faults = [&self.lost, &self.duplicated, &self.refused, &self.inversions];
        early == 0 && self.reloads == 0 && self.answered > 0 && faults.iter().all(|list| list.is_empty())
    }

    fn count_ends(&mut self, requests: &[Request]) {
        for request in requests {
            let name = || format!("{} {}: {:?}", request.client, request.number, request.end);
            match &request.end {
                End::Answered(200) => self.answered += 1,
                End::GaveUp => self.gave_up += 1,
                _ if request.excused => self.excused += 1,
                End::Waiting => self.lost.push(name()),
                End::Answered(_) | End::Broken(_) => self.refused.push(name()),
            }
        }
    }

    fn count_arrivals(&mut self, requests: &[Request], arrivals: &HashMap<(&str, u64), Vec<Instant>>) {
        for request in requests {
            let times = arrivals.get(&(request.client.as_str(), request.number)).map_or(0, Vec::len);
            let name = || format!("{} {} arrived {times} times", request.client, request.number);
            if times > 1 {
                self.duplicated.push(name());
            }
            if times == 0 && request.end == End::Answered(200) {
                self.lost.push(name());
            }
        }
    }

    fn judge_order(&mut self, mut lane: Vec<Seen<'_>>) {
        lane.sort_by_key(|seen| seen.at);
        for pair in lane.windows(2) {
            if pair[1].request.sent < pair[0].at {
                self.longest_silence = self.longest_silence.max(pair[1].at - pair[0].at);
            }
        }
        self.untouched += lane.iter().filter(|seen| !seen.touched).count();
        for (index, later) in lane.iter().enumerate() {
            for earlier in &lane[..index] {
                if later.request.sent + TOGETHER < earlier.request.sent {
                    if later.touched || earlier.touched {
                        self.touched_inversions += 1;
                    } else {
                        let (a, b) = (later.request, earlier.request);
                        self.inversions.push(format!("{}: {} after {}", a.client, a.number, b.number));
                    }
                }
            }
        }
    }

    fn histogram(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let over: Vec<u64> = self
            .gaps
            .iter()
            .filter_map(|gap| gap.checked_sub(self.interval))
            .map(|over| over.as_millis() as u64)
            .collect();
        writeln!(f, "  gap minus interval, of those who waited for it or came later:")?;
        let mut least = 0;
        for (most, name) in BARS {
            let count = over.iter().filter(|over| (least..most).contains(*over)).count();
            let bar = "█".repeat(count * 50 / over.len().max(1));
            writeln!(f, "    up to {name:>6} {count:7} {bar}")?;
            least = most;
        }
        Ok(())
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.histogram(f)?;
        let early = self.gaps.iter().filter(|gap| **gap < self.interval).count();
        let smallest = self.gaps.iter().min().copied().unwrap_or_default();
        let line = |f: &mut fmt::Formatter<'_>, held: bool, text: String| {
            writeln!(f, "  {} {text}", if held { "✓" } else { "✗" })
        };
        writeln!(f)?;
        line(
            f,
            early == 0,
            format!("gap: {early} of {} below {:?}, the smallest {smallest:?}", self.gaps.len(), self.interval),
        )?;
        line(f, self.lost.is_empty(), format!("lost: {} of {} sent", self.lost.len(), self.sent))?;
        line(f, self.duplicated.is_empty(), format!("duplicated: {}", self.duplicated.len()))?;
        let errors = format!(
            "errors to callers: {}, besides {} whose Envoy was killed ({} answered, {} gave up)",
            self.refused.len(),
            self.excused,
            self.answered,
            self.gave_up
        );
        line(f, self.refused.is_empty(), errors)?;
        let order = format!(
            "order: {} inversions among {} that no fault touched; {} among the rest",
            self.inversions.len(),
            self.untouched,
            self.touched_inversions
        );
        line(f, self.inversions.is_empty(), order)?;
        line(f, self.reloads == 0, format!("filters that died: {}", self.reloads))?;
        writeln!(f, "    longest silence of a lane in which somebody waited: {:?}", self.longest_silence)?;
        for list in [&self.lost, &self.duplicated, &self.refused, &self.inversions] {
            for name in list.iter().take(20) {
                writeln!(f, "      {name}")?;
            }
        }
        Ok(())
    }
}
