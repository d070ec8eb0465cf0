//! Seeds of the parts of a run.

use sha2::{Digest, Sha256};

/// The seed of one part of a run, such as `spag-2/play`. It depends only on the run's seed and the name of the part.
///
/// So parts can be run in any order, and a new stage does not change the others. The seed is the first 53 bits of a
/// SHA-256, which survive JSON readers that store numbers as doubles.
pub(crate) fn stage_seed(run_seed: u64, name: &str) -> u64 {
    let mut hash = Sha256::new();
    hash.update(run_seed.to_le_bytes());
    hash.update(name.as_bytes());
    let digest = hash.finalize();
    let first = digest.iter().take(8).fold(0u64, |seed, byte| (seed << 8) | u64::from(*byte));
    first >> 11
}

#[cfg(test)]
mod tests {
    use super::stage_seed;

    #[test]
    fn seeds_depend_on_run_and_part_alone() {
        assert_eq!(stage_seed(0, "im/play"), stage_seed(0, "im/play"));
        assert_ne!(stage_seed(0, "im/play"), stage_seed(0, "im/train"));
        assert_ne!(stage_seed(0, "im/play"), stage_seed(1, "im/play"));
    }
}
