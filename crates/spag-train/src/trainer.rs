//! The training loop: samples in, an updated model out.

use std::time::Instant;

use candle_core::Device;
use spag_model::{FlatBuffers, Llama, Tokenizer};
use spag_rewards::Sample;

use crate::batch::Batch;
use crate::config::TrainConfig;
use crate::encode::{Encoded, encode};
use crate::error::{Error, Result};
use crate::loss::{self, Loss, Parts, Scored};
use crate::metrics::{Record, mean_parts};
use crate::optimizer::{AdamW, clip_factor, global_norm};
use crate::order::Plan;
use crate::progress::Progress;
use crate::reference::reference_log_probs;
use crate::schedule::Schedule;

/// Steps in a row that may be skipped because loss or gradients are not finite.
const TOLERATED: usize = 2;

/// What a run did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TrainSummary {
    /// Optimizer steps.
    pub steps: usize,
    /// Tokens read by them.
    pub tokens: u64,
    /// Wall time, without reading and writing files.
    pub seconds: f64,
    /// Loss of the first step.
    pub first_loss: f64,
    /// Loss of the last step.
    pub last_loss: f64,
    /// Rows (0-based) left out because nothing of their target could be predicted within `max_length`.
    pub dropped: Vec<usize>,
    /// Steps skipped because loss or gradients were not finite.
    pub skipped_steps: usize,
}

/// Told about a run while it goes on.
pub trait Observer {
    /// A line of metrics.
    ///
    /// # Errors
    /// The line could not be kept; the run stops.
    fn record(&mut self, record: &Record) -> Result<()>;

    /// An epoch has ended after `step` steps, and it is not the last thing the run does.
    ///
    /// # Errors
    /// A checkpoint could not be written; the run stops.
    fn epoch_end(&mut self, _model: &Llama, _step: usize) -> Result<()> {
        Ok(())
    }
}

/// Keeps the lines in memory.
impl Observer for Vec<Record> {
    fn record(&mut self, record: &Record) -> Result<()> {
        self.push(*record);
        Ok(())
    }
}

/// Trains `model` in place on `samples`.
///
/// ℓ_ref comes from `reference`, or from `model` itself as it is before the first step. It is computed once, so the
/// reference model need not stay in memory.
///
/// # Errors
/// A setting that cannot be trained with, no usable sample, text or sequences that the model cannot read, or a loss
/// that stays NaN or infinite.
pub fn train_samples(
    model: &Llama,
    tokenizer: &Tokenizer,
    samples: &[Sample],
    reference: Option<&Llama>,
    config: &TrainConfig,
    observer: &mut dyn Observer,
    progress: &mut dyn Progress,
) -> Result<TrainSummary> {
    config.check()?;
    let start = Instant::now();
    let (usable, dropped): (Vec<Encoded>, Vec<Encoded>) =
        encode(samples, tokenizer, config.max_length)?.into_iter().partition(|s| s.predicted() > 0);
    if usable.is_empty() {
        return Err(Error::NoSamples(format!("{} rows, none with a target to predict", samples.len())));
    }
    let ref_log_probs = match config.method.needs_reference() {
        true => reference_log_probs(reference.unwrap_or(model), &usable, progress)?,
        false => vec![0.0; usable.len()],
    };
    let plan = Plan::new(config, usable.len());
    let device = Device::Cpu;
    let layout = model.parameters().layout().clone();
    let mut run = Run {
        model,
        samples: &usable,
        ref_log_probs: &ref_log_probs,
        loss: loss::of(config),
        gradients: FlatBuffers::zeros(&layout, &device)?,
        optimizer: AdamW::new(config, &layout, &device)?,
        schedule: Schedule::new(config, plan.steps),
        config,
    };
    let mut summary = TrainSummary { dropped: dropped.iter().map(|s| s.row).collect(), ..TrainSummary::default() };
    progress.begin("training", plan.steps as u64);
    let (mut window, mut window_start, mut window_tokens) = (Vec::new(), Instant::now(), 0u64);
    let mut unsound = 0;
    for (index, step) in plan.iter().enumerate() {
        let done = run.step(index, &step)?;
        summary.tokens += done.tokens;
        window_tokens += done.tokens;
        let finite = done.loss.is_finite() && done.grad_norm.is_finite();
        unsound = if finite { 0 } else { unsound + 1 };
        summary.skipped_steps += usize::from(!finite);
        if unsound > TOLERATED {
            let what = if done.loss.is_finite() { "gradient norm" } else { "loss" };
            let samples = step.iter().flatten().filter_map(|i| usable.get(*i)).map(|s| s.row).collect();
            return Err(Error::NotFinite { what, count: unsound, step: index + 1, samples });
        }
        if index == 0 {
            summary.first_loss = done.loss;
        }
        summary.last_loss = done.loss;
        summary.steps = index + 1;
        window.push(done.loss);
        if (index + 1) % config.logging_steps == 0 || index + 1 == plan.steps {
            observer.record(&Record {
                step: index + 1,
                epoch: (index + 1) as f64 / plan.steps_per_epoch as f64,
                loss: window.iter().sum::<f64>() / window.len() as f64,
                learning_rate: run.schedule.rate(index + 1),
                grad_norm: done.grad_norm,
                parts: done.parts,
                tokens_per_second: window_tokens as f64 / window_start.elapsed().as_secs_f64().max(1e-9),
                skipped_steps: summary.skipped_steps,
            })?;
            (window_start, window_tokens) = (Instant::now(), 0);
            window.clear();
        }
        progress.advance(index as u64 + 1, &format!("loss {:.4}", done.loss));
        if (index + 1) % plan.steps_per_epoch == 0 && index + 1 < plan.steps {
            observer.epoch_end(model, index + 1)?;
        }
    }
    progress.end();
    summary.seconds = start.elapsed().as_secs_f64();
    Ok(summary)
}

/// What every step needs.
struct Run<'a> {
    model: &'a Llama,
    samples: &'a [Encoded],
    ref_log_probs: &'a [f64],
    loss: Box<dyn Loss>,
    gradients: FlatBuffers,
    optimizer: AdamW,
    schedule: Schedule,
    config: &'a TrainConfig,
}

/// What one step did.
struct Done {
    loss: f64,
    grad_norm: f64,
    parts: Parts,
    tokens: u64,
}

impl Run<'_> {
    /// Gradients of all micro-batches, clipping and the update; no update where something is not finite.
    fn step(&mut self, index: usize, micro_batches: &[Vec<usize>]) -> Result<Done> {
        self.gradients.set_zero()?;
        let scale = 1.0 / micro_batches.len().max(1) as f64;
        let (mut loss, mut parts, mut tokens) = (0.0, Vec::new(), 0);
        for micro in micro_batches {
            let samples: Vec<&Encoded> = micro.iter().filter_map(|i| self.samples.get(*i)).collect();
            let batch = Batch::new(samples.iter().copied());
            tokens += batch.packed.len() as u64;
            let forward = self.model.forward(batch.packed.clone(), batch.targets.clone(), self.config.activations())?;
            let means = batch.means(forward.log_probs(), &samples);
            let scored: Vec<Scored> = micro
                .iter()
                .zip(&samples)
                .zip(means)
                .map(|((i, sample), log_prob)| Scored {
                    log_prob,
                    ref_log_prob: self.ref_log_probs[*i],
                    reward: sample.reward,
                    weight: sample.weight,
                    labels: sample.labels(),
                    predicted: sample.predicted(),
                    kind: sample.kind,
                })
                .collect();
            let mut value = self.loss.evaluate(&scored);
            loss += value.loss * scale;
            parts.push(value.parts);
            if !loss.is_finite() {
                return Ok(Done { loss, grad_norm: f64::NAN, parts: mean_parts(&parts), tokens });
            }
            value.gradient.iter_mut().for_each(|g| *g *= scale);
            self.model.backward(forward, &batch.spread(&value.gradient, &samples), &self.gradients)?;
        }
        let grad_norm = global_norm(&self.gradients)?;
        if grad_norm.is_finite() {
            let factor = clip_factor(grad_norm, self.config.max_grad_norm);
            self.optimizer.update(self.model.parameters(), &self.gradients, self.schedule.rate(index), factor)?;
        }
        Ok(Done { loss, grad_norm, parts: mean_parts(&parts), tokens })
    }
}
