//! Hands events to the worker and carries out what it says.

use std::time::Duration;

use proxy_wasm::hostcalls;
use proxy_wasm::types::{BufferType, MapType};
use turnstone_protocol::{DEFAULT_WAIT_MS, PROBLEM_JSON, SIDECAR_MARK, TURN_HEADER, TURNS_PATH};

use crate::Micros;
use crate::action::Action;
use crate::request::{Refusal, Reply};
use crate::worker::Worker;

use super::{Plugin, Shared, host};

/// The sidecar answers within its own wait; whoever does not is gone.
const ASK_TIMEOUT: Duration = Duration::from_millis(DEFAULT_WAIT_MS + 5_000);
const TELL_TIMEOUT: Duration = Duration::from_secs(2);
/// The shortest timer that Envoy has.
const AT_ONCE: Duration = Duration::from_millis(1);
/// For access logs: `%FILTER_STATE(wasm.turnstone_waited_ms:PLAIN)%`.
const WAITED_PROPERTY: &str = "turnstone_waited_ms";

/// One event; `otherwise` is the answer of a plugin that has no configuration.
pub fn event<T>(shared: &Shared, context: u32, otherwise: T, event: impl FnOnce(&mut Worker, Micros) -> T) -> T {
    let Ok(mut shared) = shared.try_borrow_mut() else { return otherwise };
    let Some(plugin) = shared.as_mut() else { return otherwise };
    let now = host::now();
    let answer = event(&mut plugin.worker, now);
    plugin.carry_out(context, now);
    answer
}

/// A call ended. Without headers it was Envoy that ended it, and there are none to read.
pub fn reply(shared: &Shared, context: u32, token: u32, headers: usize, body: usize) {
    let headers = if headers == 0 { Vec::new() } else { map(MapType::HttpCallResponseHeaders) };
    let get = |name: &str| {
        let (_, value) = headers.iter().find(|(known, _)| known == name)?;
        str::from_utf8(value).ok()
    };
    let body = if body == 0 {
        Vec::new()
    } else {
        hostcalls::get_buffer(BufferType::HttpCallResponseBody, 0, body).ok().flatten().unwrap_or_default()
    };
    let status = get(":status").and_then(|status| status.parse().ok());
    let reply = match (get(SIDECAR_MARK), status) {
        (Some(_), Some(status)) => {
            Reply::Sidecar { status, retry_after: get("retry-after").map(str::to_owned), body: &body }
        }
        (_, _) => Reply::Nobody,
    };
    event(shared, context, (), |worker, now| worker.reply(token, &reply, now));
}

fn map(kind: MapType) -> Vec<(String, Vec<u8>)> {
    hostcalls::get_map_bytes(kind).unwrap_or_default()
}

impl Plugin {
    /// Until the worker has nothing more to say: a call that could not be opened is an event too.
    fn carry_out(&mut self, context: u32, now: Micros) {
        loop {
            let actions = self.worker.take_actions();
            if actions.is_empty() {
                return;
            }
            for action in actions {
                self.act(action, context, now);
            }
        }
    }

    fn act(&mut self, action: Action, context: u32, now: Micros) {
        match action {
            Action::Strip(names) => {
                for name in names {
                    let _ = hostcalls::set_map_value(MapType::HttpRequestHeaders, &name, None);
                }
            }
            Action::Ask { stream, body, trace } => match self.call(TURNS_PATH, &body, &trace, ASK_TIMEOUT) {
                Some(token) => self.worker.ask_sent(stream, token),
                None => self.worker.ask_failed(stream, now),
            },
            Action::Tell { path, body, telling } => match self.call(path, &body, &[], TELL_TIMEOUT) {
                Some(token) => self.worker.tell_sent(telling, token),
                None => self.worker.tell_failed(telling, now),
            },
            Action::Release { stream, turn, waited } => within(stream, context, || release(turn, waited)),
            Action::Refuse { stream, refusal } => within(stream, context, || refuse(&refusal)),
            Action::Hurry => drop(hostcalls::set_tick_period(AT_ONCE)),
            Action::Count(metric) => self.metrics.count(metric),
        }
    }

    fn call(&self, path: &str, body: &[u8], trace: &[(&'static str, String)], timeout: Duration) -> Option<u32> {
        let mut headers = Vec::with_capacity(4 + trace.len());
        headers.extend([
            (":method", "POST"),
            (":path", path),
            (":authority", self.cluster.as_str()),
            ("content-type", "application/json"),
        ]);
        headers.extend(trace.iter().map(|(name, value)| (*name, value.as_str())));
        hostcalls::dispatch_http_call(&self.cluster, headers, Some(body), Vec::new(), timeout).ok()
    }
}

/// Acts on a stream from wherever we are; one that is gone is left alone.
fn within(stream: u32, context: u32, act: impl FnOnce()) {
    if hostcalls::set_effective_context(stream).is_ok() {
        act();
        let _ = hostcalls::set_effective_context(context);
    }
}

fn release(turn: Option<i64>, waited: Micros) {
    if let Some(turn) = turn {
        let _ = hostcalls::set_map_value(MapType::HttpRequestHeaders, TURN_HEADER, Some(&turn.to_string()));
    }
    let millis = (waited / 1000).to_string();
    let _ = hostcalls::set_property(vec![WAITED_PROPERTY], Some(millis.as_bytes()));
    let _ = hostcalls::resume_http_request();
}

fn refuse(refusal: &Refusal) {
    let mut headers = vec![("content-type", PROBLEM_JSON)];
    if let Some(retry_after) = &refusal.retry_after {
        headers.push(("retry-after", retry_after));
    }
    let _ = hostcalls::send_http_response(refusal.status.into(), headers, Some(&refusal.body));
}
