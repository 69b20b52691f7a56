//! Fuzzing without a special build: valid inputs, changed in ways that break decoders.

use std::time::{Duration, Instant};

/// A small generator of pseudo-random numbers; the seed makes a failure repeatable.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// A seed that differs from run to run, unless `AVFS_FUZZ_SEED` sets it.
    pub fn fresh_seed() -> u64 {
        let chosen = std::env::var("AVFS_FUZZ_SEED")
            .ok()
            .and_then(|seed| seed.parse().ok());
        let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        chosen.unwrap_or_else(|| clock.map_or(1, |since| since.as_nanos() as u64))
    }

    pub fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Below `limit`, which is at least 1.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.roll() % limit.max(1) as u64) as usize
    }
}

/// For how long one decoder is fuzzed. A soak run sets `AVFS_FUZZ_SECONDS`.
pub fn budget() -> Duration {
    let seconds = std::env::var("AVFS_FUZZ_SECONDS")
        .ok()
        .and_then(|seconds| seconds.parse().ok());
    Duration::from_secs(seconds.unwrap_or(5))
}

/// Calls `check` with mutated seeds until the budget is used up; `check` panics on an error. Returns how many
/// inputs were tried.
pub fn fuzz(seeds: &[Vec<u8>], mut check: impl FnMut(&[u8])) -> u64 {
    let seed = Dice::fresh_seed();
    println!("AVFS_FUZZ_SEED={seed}");
    let mut dice = Dice::new(seed);
    let start = Instant::now();
    let mut tried = 0;
    seeds.iter().for_each(|input| check(input));
    while start.elapsed() < budget() {
        for _ in 0..64 {
            check(&mutate(seeds, &mut dice));
            tried += 1;
        }
    }
    tried
}

fn mutate(seeds: &[Vec<u8>], dice: &mut Dice) -> Vec<u8> {
    let mut input = seeds[dice.below(seeds.len())].clone();
    for _ in 0..1 + dice.below(4) {
        let at = dice.below(input.len() + 1);
        match dice.below(7) {
            0 if at < input.len() => input[at] ^= 1 << dice.below(8),
            1 if at < input.len() => input[at] = [0, 1, 0x7f, 0x80, 0xff][dice.below(5)],
            2 => input.truncate(at),
            3 => input.insert(at, dice.roll() as u8),
            4 if at < input.len() => {
                input.remove(at);
            }
            5 => {
                let other = &seeds[dice.below(seeds.len())];
                let from = dice.below(other.len() + 1);
                let len = dice.below(other.len() - from + 1).min(64);
                input.splice(at..at, other[from..from + len].iter().copied());
            }
            _ => {
                let end = (at + 1 + dice.below(9)).min(input.len());
                let start = at.min(end);
                input[start..end].fill(dice.roll() as u8);
            }
        }
    }
    input
}
