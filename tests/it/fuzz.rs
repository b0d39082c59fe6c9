//! A moment of each fuzz target (`tests/fuzz`), so that none of them rots: blind mutation of its seeds, the same
//! each time. `tests/run --fuzz` runs them for long and guided by coverage.

use std::fs;
use std::path::Path;

#[path = "../fuzz/targets/mod.rs"]
#[expect(unreachable_pub, reason = "the fuzz binaries use it, too")]
mod targets;

/// Inputs a target.
const INPUTS: u64 = 300;
/// Longest input, bytes.
const LONGEST: usize = 4096;

/// What readers take for more than bytes.
const WORDS: &[&[u8]] = &[
    b"\n",
    b"\r\n",
    b"\"",
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b":",
    b",",
    b"null",
    b"1e999",
    b"-0",
    b"\0",
    b"\xff",
    b"\xc3",
    b"- [ ] ",
    b"- [x] ",
    b"## ",
    b"```\n",
    b"<!--",
    b"---\n",
    b" = ",
    b"resets ",
    b"3am",
    b"\"type\":",
];

/// A generator of numbers without a state of its own (splitmix64).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % u64::try_from(end.max(1)).unwrap()).unwrap()
    }
}

fn seeds(name: &str) -> Vec<Vec<u8>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (_, more) = targets::SEEDS.iter().find(|(target, _)| *target == name).unwrap();
    let mut seeds = Vec::new();
    for folder in
        std::iter::once(format!("tests/fuzz/seeds/{name}")).chain(more.iter().map(|f| (*f).to_owned()))
    {
        for entry in fs::read_dir(root.join(&folder)).unwrap_or_else(|e| panic!("{folder}: {e}")) {
            let path = entry.unwrap().path();
            if path.is_file() {
                seeds.push(fs::read(path).unwrap());
            }
        }
    }
    seeds.sort();
    seeds
}

fn mutate(numbers: &mut Numbers, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut input = seeds[numbers.below(seeds.len())].clone();
    input.truncate(LONGEST);
    for _ in 0..numbers.below(8) {
        let at = numbers.below(input.len() + 1);
        match numbers.below(5) {
            0 if at < input.len() => input[at] = u8::try_from(numbers.below(256)).unwrap(),
            1 => drop(input.splice(at..at, WORDS[numbers.below(WORDS.len())].iter().copied())),
            2 => drop(input.drain(at..(at + numbers.below(40)).min(input.len()))),
            3 => {
                let other = &seeds[numbers.below(seeds.len())];
                let from = numbers.below(other.len());
                let piece = other[from..(from + numbers.below(200)).min(other.len())].to_vec();
                drop(input.splice(at..at, piece));
            }
            _ => input.truncate(at),
        }
    }
    input.truncate(LONGEST);
    input
}

#[track_caller]
fn check(name: &str) {
    let (_, run) = targets::ALL.iter().find(|(target, _)| *target == name).unwrap();
    let seeds = seeds(name);
    for seed in &seeds {
        run(seed);
    }
    let mut numbers = Numbers(7);
    for _ in 0..INPUTS {
        let input = mutate(&mut numbers, &seeds);
        let panic = std::panic::catch_unwind(|| run(&input));
        assert!(panic.is_ok(), "{name} on {:?}", String::from_utf8_lossy(&input));
    }
}

#[test]
fn framer() {
    check("framer");
}

#[test]
fn stream() {
    check("stream");
}

#[test]
fn transcript() {
    check("transcript");
}

#[test]
fn reset_time() {
    check("reset_time");
}

#[test]
fn plan() {
    check("plan");
}

#[test]
fn configuration() {
    check("configuration");
}

#[test]
fn records() {
    check("records");
}

#[test]
fn gate() {
    check("gate");
}

/// Whatever is done to the spelling of a dangerous command, and whatever it is wrapped in.
#[test]
fn a_dangerous_command_in_ten_thousand_other_words() {
    let lines = targets::gate::dangerous();
    let mut numbers = Numbers(11);
    let mut missed = Vec::new();
    for round in 0..10_000 {
        let line = &lines[round % lines.len()];
        let other = targets::gate::mutated(line, &mut |end| numbers.below(end));
        if targets::gate::judged(&other).decision != autopilot::core::gate::Decision::Deny {
            missed.push(format!("{line:?} as {other:?}"));
        }
    }
    println!("10,000 mutations of {} dangerous commands, {} missed", lines.len(), missed.len());
    assert!(missed.is_empty(), "{} missed:\n{}", missed.len(), missed[..missed.len().min(40)].join("\n"));
}
