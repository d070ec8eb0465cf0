//! Where every random draw of a run comes from.

use sha2::{Digest, Sha256};

/// The seed of one part of a run: a function of the run's seed and the part's name alone.
///
/// Names are paths such as `spag-2/play`. Parts can therefore be run in any order, alone, or again, and draw the same
/// numbers; adding a stage leaves the others as they were. The first 53 bits of SHA-256, so that the number survives
/// JSON readers that hold numbers as doubles.
///
/// ```
/// use spag_pipeline::stage_seed;
/// assert_eq!(stage_seed(0, "im/play"), stage_seed(0, "im/play"));
/// assert_ne!(stage_seed(0, "im/play"), stage_seed(0, "im/train"));
/// assert_ne!(stage_seed(0, "im/play"), stage_seed(1, "im/play"));
/// ```
pub fn stage_seed(run_seed: u64, name: &str) -> u64 {
    let mut hash = Sha256::new();
    hash.update(run_seed.to_le_bytes());
    hash.update(name.as_bytes());
    let digest = hash.finalize();
    let first = digest.iter().take(8).fold(0u64, |seed, byte| (seed << 8) | u64::from(*byte));
    first >> 11
}
