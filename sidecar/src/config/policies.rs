//! The `[policies.*]` tables.

use std::collections::HashMap;
use std::time::Duration;

use toml::Value;
use turnstone_lane::Bounds;
use turnstone_protocol::ClientId;

use super::reader::{self, Faults, Section};
use crate::policy::{Client, DEFAULT_IDLE_TTL, DEFAULT_SETTLE, MIN_INTERVAL, MIN_SETTLE, Policies, Policy, micros};

/// Policy names stand in Redis keys and metric labels.
const MAX_NAME: usize = 64;

pub(super) fn read(root: &mut Section<'_>, faults: &Faults) -> Policies {
    let entries = root.entries("policies");
    if entries.is_empty() {
        faults.add("policies", "there is none; write at least [policies.NAME] with interval = \"5s\"");
    }
    let mut policies = Policies::new();
    for (name, value) in entries {
        let Some(mut section) = root.below("policies", &name, value) else { continue };
        if !is_name(&name) {
            faults.add(section.path(), "a policy name is 1 to 64 of the letters a-z A-Z 0-9 _ - .");
        }
        if let Some(policy) = policy(&mut section, faults) {
            policies.insert(name.into(), policy);
        }
        section.finish();
    }
    policies
}

fn policy(section: &mut Section<'_>, faults: &Faults) -> Option<Policy> {
    let written = section.has("interval");
    let interval = section.span("interval", MIN_INTERVAL);
    if !written {
        faults.add(section.path_of("interval"), "is missing; write interval = \"5s\"");
    }
    let settle = section.span("settle", MIN_SETTLE).unwrap_or(DEFAULT_SETTLE);
    let idle_ttl = section.span("idle_ttl", Duration::from_secs(1)).unwrap_or(DEFAULT_IDLE_TTL);
    let bounds = bounds(section);
    let clients = clients(section, faults);
    Some(Policy { interval: interval?, settle, idle_ttl, bounds, clients })
}

fn bounds(section: &mut Section<'_>) -> Bounds {
    let max_wait = section.span("max_wait", Duration::ZERO).map(micros);
    Bounds { max_wait, max_line: section.count("max_line") }
}

fn clients(section: &mut Section<'_>, faults: &Faults) -> HashMap<ClientId, Client> {
    let mut clients = HashMap::new();
    for (id, value) in section.entries("clients") {
        let path = reader::join(&section.path_of("clients"), &id);
        let client = client(section, &path, &id, value, faults);
        match ClientId::new(&id) {
            Some(id) => drop(clients.insert(id, client)),
            None => faults.add(path, "a client id is not empty"),
        }
    }
    clients
}

/// `"5s"`, or a table of what differs.
fn client(section: &Section<'_>, path: &str, id: &str, value: Value, faults: &Faults) -> Client {
    let Value::Table(_) = value else {
        let interval = reader::span(path, &value, MIN_INTERVAL, faults);
        return Client { interval, ..Client::default() };
    };
    let Some(mut own) = section.below("clients", id, value) else { return Client::default() };
    let client = Client { interval: own.span("interval", MIN_INTERVAL), bounds: bounds(&mut own) };
    own.finish();
    client
}

fn is_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(plain)
}
