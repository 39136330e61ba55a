//! The yardstick of the benchmark: hold the headers, call a sidecar that has nothing to do (an empty
//! batch of answers), let go. No body, no state, no decision.

#![cfg(any(target_arch = "wasm32", clippy))]

use std::time::Duration;

use proxy_wasm::traits::{Context, HttpContext, RootContext};
use proxy_wasm::types::{Action, ContextType};

#[allow(unsafe_code)]
mod entry {
    proxy_wasm::main! {{ proxy_wasm::set_root_context(|_| Box::new(super::Root)); }}
}

struct Root;
struct Stream;

impl Context for Root {}

impl RootContext for Root {
    fn get_type(&self) -> Option<ContextType> {
        Some(ContextType::HttpContext)
    }

    fn create_http_context(&self, _id: u32) -> Option<Box<dyn HttpContext>> {
        Some(Box::new(Stream))
    }
}

impl Context for Stream {
    fn on_http_call_response(&mut self, _token: u32, _headers: usize, _body: usize, _trailers: usize) {
        self.resume_http_request();
    }
}

impl HttpContext for Stream {
    fn on_http_request_headers(&mut self, _count: usize, _ended: bool) -> Action {
        let headers = vec![(":method", "POST"), (":path", "/v1/answers"), (":authority", "nobody")];
        match self.dispatch_http_call("turnstone", headers, Some(b"[]"), Vec::new(), Duration::from_secs(5)) {
            Ok(_) => Action::Pause,
            Err(_) => Action::Continue,
        }
    }
}
