//! The valid ranges of the numbers in a [`TrainConfig`](super::TrainConfig), for flags and configuration files alike.
//!
//! They hold every setting that trains, and end far before numbers overflow in 32-bit floats or counts in 64 bits.

use std::ops::RangeInclusive;

use spag_io::Range;

/// The most steps.
const MOST_STEPS: usize = 1_000_000_000_000;

spag_io::ranges! {
    /// Samples of a micro-batch.
    Batch: usize = 1..=65_536;
    /// Micro-batches of a step.
    Accumulation: usize = 1..=1 << 20;
    /// Tokens of a sample.
    Length: usize = 2..=1 << 20;
    /// Epochs.
    Epochs: f64 = 0.000_001..=1e6;
    /// Steps of a run, or between events of a run.
    Steps: usize = 1..=MOST_STEPS;
    /// Steps of warm-up.
    WarmupSteps: usize = 0..=MOST_STEPS;
    /// Share of the steps for warm-up.
    WarmupRatio: f64 = 0.0..=1.0;
    /// Learning rates.
    LearningRate: f64 = 0.0..=100.0;
    /// AdamW's weight decay.
    WeightDecay: f64 = 0.0..=100.0;
    /// AdamW's ε.
    Epsilon: f64 = 1e-20..=1000.0;
    /// Largest norm of the gradients; 0 does not clip.
    GradNorm: f64 = 0.0..=1e30;
    /// Coefficients of a loss.
    Coefficient: f64 = 0.0..=1e6;
}

/// The decay of a moving average: below 1.
#[derive(Clone, Copy, Debug)]
pub enum Decay {}

impl Range for Decay {
    type Number = f64;
    const RANGE: RangeInclusive<f64> = 0.0..=1.0;

    fn check(value: f64) -> Result<f64, String> {
        if (0.0..1.0).contains(&value) { Ok(value) } else { Err("expected a number from 0 to below 1".to_owned()) }
    }
}

/// Parses `--max_steps`: 0 and -1 leave the number of steps to the epochs.
pub(super) fn max_steps(text: &str) -> Result<Option<usize>, String> {
    match text {
        "-1" | "0" => Ok(None),
        _ => Steps::parse(text).map(Some).map_err(|expected| format!("{expected}, or -1")),
    }
}

/// Parses `--warmup_steps`: 0 leaves them to the ratio.
pub(super) fn warmup_steps(text: &str) -> Result<Option<usize>, String> {
    Ok(Some(WarmupSteps::parse(text)?).filter(|steps| *steps > 0))
}
