//! A million calls and answers a few mutations away from a committed corpus: decoding never panics, and
//! what it takes it gives back the same.

use std::path::Path;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use serde::Serialize;
use serde::de::DeserializeOwned;
use turnstone_protocol::{Answer, Leave, Problem, TurnReply, TurnRequest};

const CASES: u32 = 1_000_000;

fn round<T: DeserializeOwned + Serialize + PartialEq + std::fmt::Debug>(text: &[u8]) -> bool {
    let Ok(value) = serde_json::from_slice::<T>(text) else { return false };
    let written = serde_json::to_vec(&value).expect("it can be written");
    assert_eq!(serde_json::from_slice::<T>(&written).expect("it can be read"), value);
    true
}

#[test]
fn a_million_mutated_messages() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let files = std::fs::read_dir(folder).expect("the corpus").map(|file| file.expect("a file").path());
    let seeds: Vec<Vec<u8>> = files.map(|file| std::fs::read(file).expect("a seed")).collect();
    let mut dice = StdRng::seed_from_u64(rand::random());
    let mut taken = [0u32; 5];
    for _ in 0..CASES {
        let mut text = seeds.choose(&mut dice).expect("seeds").clone();
        for _ in 0..dice.random_range(0..4) {
            let place = dice.random_range(0..=text.len());
            match dice.random_range(0..4) {
                0 if place < text.len() => text[place] = dice.random_range(b' '..b'~'),
                1 if place < text.len() => drop(text.remove(place)),
                2 => text.insert(place, dice.random()),
                _ => {
                    let other = seeds.choose(&mut dice).expect("seeds");
                    let from = dice.random_range(0..=other.len());
                    drop(text.splice(place..place, other[from..].iter().copied()));
                }
            }
        }
        taken[0] += u32::from(round::<TurnRequest>(&text));
        taken[1] += u32::from(round::<TurnReply>(&text));
        taken[2] += u32::from(round::<Vec<Answer>>(&text));
        taken[3] += u32::from(round::<Vec<Leave>>(&text));
        taken[4] += u32::from(round::<Problem>(&text));
    }
    assert!(taken.iter().all(|taken| *taken > CASES / 100), "each kind was read often: {taken:?}");
}
