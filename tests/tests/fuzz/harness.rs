//! Feeds mutations of valid input to a parser until a time is over.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cap::Cap;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestCaseError, TestRunner};
use spag_tests::root;

use crate::mutation::{apply, mutation};

/// Ends the process if a parser allocates without bound. The input is then found in `target/fuzz/NAME/`.
#[global_allocator]
static HELD: Cap<std::alloc::System> = Cap::new(std::alloc::System, 4 << 30);

/// The longest time that one input may take, generous for a busy machine.
const SLOW: Duration = Duration::from_secs(20);

fn setting(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().map_or(default, |text| text.parse().unwrap_or_else(|e| panic!("{variable}: {e}")))
}

/// A parser under test.
pub(crate) struct Target {
    name: &'static str,
    seeds: Vec<Vec<u8>>,
    folder: PathBuf,
}

impl Target {
    /// A parser of files like `seeds`, with an empty folder for its files.
    pub(crate) fn new(name: &'static str, seeds: Vec<Vec<u8>>) -> Self {
        let folder = root().join("target/fuzz").join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        Self { name, seeds, folder }
    }

    /// Where the parser finds its input.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Calls `parse` with mutated seeds for `SPAG_FUZZ_SECONDS` (3 by default), from the seed `SPAG_FUZZ_SEED` on. A panic
    /// fails the test and prints the smallest input found. The last input is `input` in the folder of the target.
    pub(crate) fn run(&self, parse: impl Fn(&[u8])) {
        let end = Instant::now() + Duration::from_secs(setting("SPAG_FUZZ_SECONDS", 3));
        let first = setting("SPAG_FUZZ_SEED", 1);
        self.seeds.iter().for_each(|seed| self.try_one(seed, &parse).unwrap());
        let input = (0..self.seeds.len(), proptest::collection::vec(mutation(), 1..5));
        let (mut seed, mut tried) = (first, 0_u64);
        while Instant::now() < end {
            let config = Config {
                cases: 64,
                rng_seed: RngSeed::Fixed(seed),
                failure_persistence: None,
                max_shrink_time: 30_000,
                ..Config::default()
            };
            let outcome = TestRunner::new(config).run(&input, |(seed, mutations)| {
                // A slow machine ends within a round.
                if Instant::now() < end { self.try_one(&apply(&self.seeds[seed], &mutations), &parse) } else { Ok(()) }
            });
            if let Err(error) = outcome {
                panic!("{} with SPAG_FUZZ_SEED={seed}: {error}\ninput: {}", self.name, self.folder.display());
            }
            (seed, tried) = (seed + 1, tried + 64);
        }
        eprintln!("{}: {tried} inputs, seeds {first} to {}", self.name, seed - 1);
    }

    fn try_one(&self, input: &[u8], parse: impl Fn(&[u8])) -> Result<(), TestCaseError> {
        // Found even if the process aborts.
        fs::write(self.folder.join("input"), input).unwrap();
        let started = Instant::now();
        let ended = catch_unwind(AssertUnwindSafe(|| parse(input)));
        prop_assert!(ended.is_ok(), "it panicked");
        prop_assert!(started.elapsed() < SLOW, "it took {:?}", started.elapsed());
        Ok(())
    }
}
