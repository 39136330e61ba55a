//! A million bodies that nobody would send, each a few mutations away from a committed corpus: the scan
//! never panics, and where the whole document is JSON it finds what a full parse finds.
#![allow(clippy::expect_used, clippy::indexing_slicing)]

use std::borrow::Cow;
use std::path::Path;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use serde_json::Value;
use turnstone_filter::scan::{Pointer, form, json};

const CASES: u32 = 1_000_000;
const POINTERS: [&str; 6] = ["/clientId", "/meta/clientId", "/1/clientId", "", "/meta/list/0/2/clientId", "/"];

fn corpus() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let files = std::fs::read_dir(folder).expect("the corpus").map(|file| file.expect("a file").path());
    let seeds: Vec<_> = files.map(|file| std::fs::read(file).expect("a seed")).collect();
    assert!(seeds.len() > 10, "the corpus is there");
    seeds
}

fn mutate(body: &mut Vec<u8>, seeds: &[Vec<u8>], dice: &mut StdRng) {
    const TOKENS: [&[u8]; 12] =
        [b"{", b"}", b"[", b"]", b"\"", b"\\", b",", b":", b"\"clientId\":", b"\\u00", b"\xff", b"0"];
    let place = dice.random_range(0..=body.len());
    match dice.random_range(0..6) {
        0 if place < body.len() => body[place] = dice.random(),
        1 if place < body.len() => drop(body.remove(place)),
        2 => body.insert(place, dice.random()),
        3 => drop(body.splice(place..place, TOKENS.choose(dice).expect("tokens").iter().copied())),
        4 => {
            let other = seeds.choose(dice).expect("seeds");
            let from = dice.random_range(0..=other.len());
            drop(body.splice(place..place, other[from..].iter().copied()));
        }
        _ => body.truncate(place),
    }
}

/// What a full parse says; `None` where it cannot tell, because it keeps no such number.
fn by_full_parse(body: &[u8], pointer: &str) -> Option<Option<String>> {
    let document: Value = serde_json::from_slice(body).ok()?;
    match document.pointer(pointer) {
        Some(Value::String(text)) => Some(Some(text.clone()).filter(|text| !text.is_empty())),
        Some(Value::Number(number)) if number.is_i64() || number.is_u64() => Some(Some(number.to_string())),
        Some(Value::Number(_)) => None,
        Some(_) | None => Some(None),
    }
}

#[test]
fn a_million_mutated_bodies() {
    let (seeds, seed) = (corpus(), rand::random::<u64>());
    let mut dice = StdRng::seed_from_u64(seed);
    let pointers: Vec<_> = POINTERS.map(|text| (text, Pointer::parse(text).expect("a pointer"))).into();
    let (mut compared, mut found) = (0u32, 0u32);
    for _ in 0..CASES {
        let mut body = seeds.choose(&mut dice).expect("seeds").clone();
        for _ in 0..dice.random_range(0..4) {
            mutate(&mut body, &seeds, &mut dice);
        }
        let (text, pointer) = pointers.choose(&mut dice).expect("pointers");
        let id = json(&body, pointer).map(Cow::into_owned);
        let field = form(&body, "clientId");
        assert!(id.as_deref() != Some("") && field.as_deref() != Some(""), "an empty id is none; seed {seed}");
        found += u32::from(id.is_some());
        if let Some(expected) = by_full_parse(&body, text) {
            compared += 1;
            assert_eq!(id, expected, "seed {seed}, {text} in {:?}", String::from_utf8_lossy(&body));
        }
    }
    assert!(compared > CASES / 20 && found > CASES / 50, "{compared} compared, {found} found");
}
