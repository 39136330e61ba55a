//! One stream: its callbacks are events of the worker.

use proxy_wasm::hostcalls;
use proxy_wasm::traits::{Context, HttpContext};
use proxy_wasm::types::{Action as Then, BufferType, MapType};
use turnstone_protocol::WAITED_HEADER;

use crate::action::Flow;
use crate::head::Head;

use super::{Shared, act};

pub struct Stream {
    id: u32,
    shared: Shared,
}

impl Stream {
    pub fn new(id: u32, shared: Shared) -> Self {
        Self { id, shared }
    }

    fn body_is_complete(&self) -> Then {
        let reading = act::event(&self.shared, self.id, false, |worker, _| worker.is_reading(self.id));
        let body = if reading {
            hostcalls::get_buffer(BufferType::HttpRequestBody, 0, usize::MAX).ok().flatten().unwrap_or_default()
        } else {
            Vec::new()
        };
        then(act::event(&self.shared, self.id, Flow::Hold, |worker, now| worker.body(self.id, &body, now)))
    }
}

impl Context for Stream {
    fn on_http_call_response(&mut self, token: u32, headers: usize, body: usize, _trailers: usize) {
        act::reply(&self.shared, self.id, token, headers, body);
    }
}

impl HttpContext for Stream {
    fn on_http_request_headers(&mut self, _count: usize, ended: bool) -> Then {
        let headers = hostcalls::get_map_bytes(MapType::HttpRequestHeaders).unwrap_or_default();
        let head = Head::new(&headers);
        then(act::event(&self.shared, self.id, Flow::Hold, |worker, now| worker.head(self.id, &head, ended, now)))
    }

    fn on_http_request_body(&mut self, _size: usize, ended: bool) -> Then {
        if ended {
            return self.body_is_complete();
        }
        then(act::event(&self.shared, self.id, Flow::Hold, |worker, _| worker.flow(self.id)))
    }

    fn on_http_request_trailers(&mut self, _count: usize) -> Then {
        self.body_is_complete()
    }

    fn on_http_response_headers(&mut self, _count: usize, _ended: bool) -> Then {
        let waited = act::event(&self.shared, self.id, None, |worker, now| worker.response(self.id, now));
        if let Some(waited) = waited {
            let millis = (waited / 1000).to_string();
            let _ = hostcalls::set_map_value(MapType::HttpResponseHeaders, WAITED_HEADER, Some(&millis));
        }
        Then::Continue
    }

    fn on_log(&mut self) {
        act::event(&self.shared, self.id, (), |worker, now| worker.gone(self.id, now));
    }
}

fn then(flow: Flow) -> Then {
    match flow {
        Flow::Continue => Then::Continue,
        Flow::Hold => Then::Pause,
    }
}
