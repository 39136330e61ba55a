//! The root of one plugin in one worker: configuration, ticks, and replies to what it asked.

use std::rc::Rc;
use std::time::Duration;

use proxy_wasm::traits::{Context, HttpContext, RootContext};
use proxy_wasm::types::ContextType;

use crate::config::Config;
use crate::worker::Worker;

use super::host::{self, Metrics};
use super::stream::Stream;
use super::{Plugin, Shared, act};

/// Answers wait for the next tick; so does an ask after its backoff.
pub const TICK: Duration = Duration::from_millis(20);

pub struct Root {
    id: u32,
    shared: Shared,
}

impl Root {
    pub fn new(id: u32) -> Self {
        Self { id, shared: Shared::default() }
    }
}

impl Context for Root {
    fn on_http_call_response(&mut self, token: u32, headers: usize, body: usize, _trailers: usize) {
        act::reply(&self.shared, self.id, token, headers, body);
    }
}

impl RootContext for Root {
    fn on_configure(&mut self, _size: usize) -> bool {
        let text = self.get_plugin_configuration().unwrap_or_default();
        match Config::parse(&text) {
            Ok(config) => {
                let cluster = config.cluster.clone();
                let worker = Worker::new(Rc::new(config), host::seed());
                self.shared.replace(Some(Plugin { worker, cluster, metrics: Metrics::define() }));
                self.set_tick_period(TICK);
                true
            }
            Err(faults) => {
                log::error!("turnstone: {faults}");
                false
            }
        }
    }

    fn on_tick(&mut self) {
        self.set_tick_period(TICK);
        act::event(&self.shared, self.id, (), |worker, now| worker.tick(now));
    }

    fn get_type(&self) -> Option<ContextType> {
        Some(ContextType::HttpContext)
    }

    fn create_http_context(&self, id: u32) -> Option<Box<dyn HttpContext>> {
        Some(Box::new(Stream::new(id, Rc::clone(&self.shared))))
    }
}
