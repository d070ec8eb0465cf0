//! The time of a training step: the same code path as a run, on random tokens.

use std::time::Instant;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use spag_dist::Traffic;
use spag_model::Model;
use spag_model::dtype::WeightDtype;
use spag_model::model::Activations;
use spag_ops::kernels::{self, Launched};

use crate::config::{IntervalStrategy, SchedulerType, TrainConfig, TrainMethod};
use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::learner::{Learner, ModelShard};
use crate::offline::OfflineRun;
use crate::reference::reference_log_probs;
use crate::trajectory::{Span, Trajectory};
use spag_io::Silent;

/// The steps that are timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimingConfig {
    /// Sequences of a micro-batch.
    pub batch: usize,
    /// Tokens of a sequence; all but the first are predicted.
    pub seq: usize,
    /// Steps that are timed.
    pub steps: usize,
    /// Steps before them.
    pub warmup: usize,
    /// The model's vocabulary size, from which tokens are drawn.
    pub vocab_size: usize,
    /// Seed of the tokens.
    pub seed: u64,
    /// Activations saved for the backward pass.
    pub activations: Activations,
    /// Micro-batches of a step, each of `batch` sequences.
    pub accumulation: usize,
    /// Number format in which the optimizer gets gradients.
    pub optim_grad_dtype: WeightDtype,
}

/// The measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepTiming {
    /// Parameters of the model.
    pub parameters: usize,
    /// Median wall time of a step in seconds, with its share of the reference pass.
    pub seconds: f64,
    /// The share of the reference pass in it.
    pub reference_seconds: f64,
    /// Loss of the last step.
    pub loss: f64,
    /// Bytes that this rank has sent and received per timed step, including the exchange of losses.
    pub traffic: Traffic,
    /// What ops launched on the device per timed step; nothing on a CPU.
    pub launched: Launched,
}

/// Times training steps of the model that `load` gives on random tokens: forward, backward, clipping, AdamW.
///
/// With `reference`, the loss is SFTwithKL and ℓ_ref is computed first, as in a run; that time is divided over the steps.
/// `reference` is dropped before the trained model is loaded.
///
/// # Errors
/// Sequences that the model cannot read, or what `load` reports.
pub fn time_steps<E: From<Error>>(
    load: impl FnOnce() -> Result<Model, E>,
    reference: Option<Model>,
    timing: &TimingConfig,
) -> Result<StepTiming, E> {
    timed(reference, timing, 1, |config, steps| Ok(Learner::new(&load()?, config, steps)?))
}

/// As [`time_steps`] for several ranks, each of which takes `timing`'s micro-batches.
///
/// # Errors
/// As [`time_steps`], a model that cannot be read, or a lost rank.
pub fn time_steps_of_rank(
    shard: ModelShard<'_>,
    reference: Option<Model>,
    timing: &TimingConfig,
) -> Result<StepTiming> {
    timed(reference, timing, shard.group.size(), |config, steps| Learner::load(shard, config, steps))
}

fn timed<E: From<Error>>(
    reference: Option<Model>,
    timing: &TimingConfig,
    ranks: usize,
    load: impl FnOnce(&TrainConfig, usize) -> Result<Learner, E>,
) -> Result<StepTiming, E> {
    if timing.batch * timing.accumulation * timing.steps * timing.vocab_size == 0 || timing.seq < 2 {
        let reason = "a step needs a sequence of at least two tokens of a vocabulary, and a timing a step".into();
        return Err(Error::Setting { name: "batch", reason }.into());
    }
    let with_reference = reference.is_some();
    let config = config(with_reference, timing);
    let dataset = dataset(timing, ranks);
    let started = Instant::now();
    let dataset = match &reference {
        Some(reference) => {
            let log_probs = reference_log_probs(reference, dataset.samples(), &mut Silent)?;
            dataset.with_reference(log_probs)?
        }
        None => dataset,
    };
    let reference_seconds = started.elapsed().as_secs_f64() / (timing.warmup + timing.steps) as f64;
    drop(reference);
    let run = OfflineRun::new(&dataset, &config, ranks)?;
    let mut learner = load(&config, run.sampler.steps)?;
    run.timed_steps(&mut learner, timing.warmup)?;
    let kernels = kernels::of(learner.trained().device()).map_err(Error::from)?;
    let launched = || kernels.as_ref().map(|kernels| kernels.launched()).unwrap_or_default();
    let before = (learner.group().traffic(), launched());
    let seconds = run.timed_steps(&mut learner, timing.steps)?;
    let after = (learner.group().traffic(), launched());
    let steps = timing.steps as u64;
    Ok(StepTiming {
        parameters: learner.network().layout().len(),
        seconds: median(seconds).unwrap_or(f64::NAN) + if with_reference { reference_seconds } else { 0.0 },
        reference_seconds,
        loss: learner.position().last_loss.unwrap_or(f64::NAN),
        traffic: after.0.since(before.0).mean_of(steps),
        launched: Launched {
            kernels: (after.1.kernels - before.1.kernels) / steps,
            products: (after.1.products - before.1.products) / steps,
        },
    })
}

fn config(with_reference: bool, timing: &TimingConfig) -> TrainConfig {
    TrainConfig {
        method: if with_reference { TrainMethod::SftWithKl } else { TrainMethod::Sft },
        lm_kl_coeff: 0.1,
        per_device_train_batch_size: timing.batch,
        gradient_accumulation_steps: timing.accumulation,
        max_length: timing.seq,
        max_steps: Some(timing.warmup + timing.steps),
        learning_rate: 1e-6,
        lr_scheduler_type: SchedulerType::Constant,
        save_strategy: IntervalStrategy::No,
        optim_grad_dtype: timing.optim_grad_dtype,
        ..TrainConfig::default()
    }
    .with_activations(timing.activations)
}

/// Sequences of random tokens, new ones for every step.
fn dataset(timing: &TimingConfig, ranks: usize) -> Dataset {
    let mut rng = ChaCha8Rng::seed_from_u64(timing.seed);
    let mut sample = |row| Trajectory {
        row,
        ids: (0..timing.seq).map(|_| rng.random_range(0..timing.vocab_size as u32)).collect(),
        spans: vec![Span::new(1..timing.seq, 1.0)],
    };
    let count = timing.batch * timing.accumulation * ranks * (timing.warmup + timing.steps);
    let samples = (0..count).map(&mut sample).collect();
    Dataset { samples, ..Dataset::default() }
}

/// The median of some numbers, of an even count the mean of the middle two; `None` without numbers.
pub fn median(mut numbers: Vec<f64>) -> Option<f64> {
    numbers.sort_by(f64::total_cmp);
    let upper = *numbers.get(numbers.len() / 2)?;
    Some(if numbers.len().is_multiple_of(2) { (numbers[numbers.len() / 2 - 1] + upper) / 2.0 } else { upper })
}
