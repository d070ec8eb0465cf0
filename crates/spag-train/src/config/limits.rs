//! The valid ranges of the numbers in a [`TrainConfig`](super::TrainConfig), for flags and configuration files alike.
//!
//! They hold every setting that trains, and end far before numbers overflow in 32-bit floats or counts in 64 bits.

use std::ops::{Range, RangeInclusive};

use spag_io::parser;
use spag_model::adapter::LoraConfig;

/// Samples of a micro-batch.
pub const BATCH: RangeInclusive<usize> = 1..=65_536;
/// Micro-batches of a step.
pub const ACCUMULATION: RangeInclusive<usize> = 1..=1 << 20;
/// Tokens of a pass; 0 for micro-batches.
pub const PASS: RangeInclusive<usize> = 0..=*BATCH.end() * *LENGTH.end();
/// Tokens of a sample.
pub const LENGTH: RangeInclusive<usize> = 2..=1 << 20;
/// Epochs.
pub const EPOCHS: RangeInclusive<f64> = 0.000_001..=1e6;
/// Steps of a run, or between events of a run.
pub const STEPS: RangeInclusive<usize> = 1..=1_000_000_000_000;
/// Steps of warm-up.
pub const WARMUP_STEPS: RangeInclusive<usize> = 0..=*STEPS.end();
/// Learning rates.
pub const LEARNING_RATE: RangeInclusive<f64> = 0.0..=100.0;
/// AdamW's weight decay.
pub const WEIGHT_DECAY: RangeInclusive<f64> = 0.0..=100.0;
/// AdamW's ε.
pub const EPSILON: RangeInclusive<f64> = 1e-20..=1000.0;
/// Largest norm of the gradients; 0 does not clip.
pub const GRAD_NORM: RangeInclusive<f64> = 0.0..=1e30;
/// Coefficients of a loss.
pub const COEFFICIENT: RangeInclusive<f64> = 0.0..=1e6;

/// Share of the steps that are warm-up.
pub const WARMUP_RATIO: RangeInclusive<f64> = 0.0..=1.0;
/// Decay of a moving average.
pub const DECAY: Range<f64> = 0.0..1.0;

/// Rank of an adapter.
pub const LORA_R: RangeInclusive<usize> = 1..=LoraConfig::MAX_RANK;
/// The scale of an adapter times its rank.
pub const LORA_ALPHA: RangeInclusive<f64> = 1e-6..=1e6;
/// Dropout of an adapter's input: none.
pub const LORA_DROPOUT: RangeInclusive<f64> = 0.0..=0.0;

/// Parses `--max_steps`: 0 and -1 leave the number of steps to the epochs.
pub(super) fn max_steps(text: &str) -> Result<Option<usize>, String> {
    match text {
        "-1" | "0" => Ok(None),
        _ => parser(STEPS)(text).map(Some).map_err(|expected| format!("{expected}, or -1")),
    }
}

/// Parses `--warmup_steps`: 0 leaves them to the ratio.
pub(super) fn warmup_steps(text: &str) -> Result<Option<usize>, String> {
    Ok(Some(parser(WARMUP_STEPS)(text)?).filter(|steps| *steps > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decay_is_below_one() {
        let decay = parser(DECAY);
        assert!(["1", "-0.1", "nan", "x"].iter().all(|text| decay(text).is_err()) && decay("0.999") == Ok(0.999));
    }

    #[test]
    fn no_steps_leave_them_to_epochs_and_ratio() {
        assert_eq!((max_steps("-1"), max_steps("0"), max_steps("7")), (Ok(None), Ok(None), Ok(Some(7))));
        assert_eq!((warmup_steps("0"), warmup_steps("7")), (Ok(None), Ok(Some(7))));
        assert!(max_steps("-2").unwrap_err().contains("or -1") && warmup_steps("-1").is_err());
    }
}
