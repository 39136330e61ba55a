use std::time::Duration;

use turnstone_lane::Bounds;
use turnstone_protocol::ClientId;

use super::*;

fn read(text: &str) -> Result<Config, Vec<String>> {
    let table = text.parse().expect("TOML");
    let faults = |faults: Vec<Fault>| faults.iter().map(Fault::to_string).collect();
    Sources::default().read(table).map_err(faults)
}

#[test]
fn the_smallest_file_is_one_policy() {
    let config = read("[policies.raven]\ninterval = '5s'").unwrap();
    let raven = &config.policies["raven"];
    assert_eq!((raven.interval, raven.settle), (Duration::from_secs(5), Duration::from_millis(250)));
    assert_eq!(config.listen, [Listen::Tcp(DEFAULT_LISTEN.to_owned())]);
    assert_eq!(config.store, StoreUrl::Memory);
}

#[test]
fn everything_can_be_set() {
    let config = read(
        "listen = ['127.0.0.1:1', 'unix:/run/t.sock']\nadmin = 'localhost:2'\nstore = 'redis://u:secret@r:1/0'\n\
         log = 'json'\nramp = 50\n[policies.raven]\nmax_wait = '12s'\nmax_line = 9\ninterval = '2s'\nsettle = '1s'\nidle_ttl = '2h'\n\
         [policies.raven.clients]\ngold = '100ms'\n'a b' = '1m'\nbig = {max_line = 3}",
    )
    .unwrap();
    let raven = &config.policies["raven"];
    assert_eq!(raven.clients[&ClientId::new("a b").unwrap()].interval, Some(Duration::from_secs(60)));
    let rules = raven.rules(&ClientId::new("big").unwrap());
    assert_eq!(rules.pace.interval, 2_000_000);
    assert_eq!(rules.bounds, Bounds { max_wait: Some(12_000_000), max_line: Some(3) });
    assert_eq!(config.ramp.get(), 50);
    assert_eq!(config.listen[1], Listen::Unix("/run/t.sock".into()));
    assert_eq!(config.log, Log::Json);
    assert_eq!(format!("{:?}", config.store), "redis://r:1/0", "no password in any log");
}

#[test]
fn every_fault_is_named_with_its_place() {
    let faults = read(
        "listen = 'nowhere'\nramp = 0\nadmin = 7\nstore = 'postgres://x'\nlog = 'loud'\ntypo = 1\n\
         [policies.raven]\ninterval = 5\nsettle = '5ms'\nidle = '1h'\nmax_line = -1\n\
         [policies.raven.clients]\n'a b' = 'soon'\n[policies.crow]\n[policies.'a b']\ninterval = '1ms'",
    )
    .unwrap_err();
    for place in [
        "listen: ",
        "admin: ",
        "store: ",
        "log: ",
        "ramp: ",
        "policies.raven.max_line: ",
        "typo: ",
        "policies.raven.interval: ",
        "policies.raven.settle: ",
        "policies.raven.idle: ",
        "policies.raven.clients.\"a b\": ",
        "policies.crow.interval: ",
        "policies.\"a b\": ",
        "policies.\"a b\".interval: ",
    ] {
        assert_eq!(faults.iter().filter(|f| f.starts_with(place)).count(), 1, "{place}: {faults:#?}");
    }
    assert_eq!(faults.len(), 14, "{faults:#?}");
}

#[test]
fn no_policy_is_a_fault() {
    assert!(read("").unwrap_err()[0].starts_with("policies: "));
}

#[test]
fn flags_beat_the_file() {
    let sources =
        Sources { listen: vec!["127.0.0.1:9".to_owned()], store: Some("redis://h".to_owned()), ..Sources::default() };
    let config = sources.read("listen = '127.0.0.1:1'\n[policies.r]\ninterval = '1s'".parse().unwrap()).unwrap();
    assert_eq!(config.listen, [Listen::Tcp("127.0.0.1:9".to_owned())]);
    assert_eq!(config.store, StoreUrl::Redis("redis://h".to_owned()));
}
