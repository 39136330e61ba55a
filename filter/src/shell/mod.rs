//! The thin shell: Envoy's callbacks become events of the worker, its actions become host calls.
//!
//! The SDK panics when a host call is made at the wrong moment. So the rules are: request headers
//! are touched only while the request is held here; a reply's headers only where it has any.

mod act;
mod host;
mod root;
mod stream;

use std::cell::RefCell;
use std::rc::Rc;

use proxy_wasm::types::LogLevel;

use crate::worker::Worker;

use self::host::Metrics;
use self::root::Root;

#[allow(unsafe_code)]
mod entry {
    proxy_wasm::main! {{ super::start(); }}
}

fn start() {
    proxy_wasm::set_log_level(LogLevel::Info);
    proxy_wasm::set_root_context(|id| Box::new(Root::new(id)));
}

/// What root and streams of one plugin in one worker share; empty until configured.
type Shared = Rc<RefCell<Option<Plugin>>>;

struct Plugin {
    worker: Worker,
    cluster: String,
    metrics: Metrics,
}
