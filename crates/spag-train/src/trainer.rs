//! The training loop: samples in, an updated model out.

use std::time::Instant;

use spag_dist::{ProcessGroup, gather_numbers};
use spag_model::{Model, Network, Tokenizer, WeightSource, kernels};
use spag_rewards::Sample;

use crate::batch_sampler::BatchSampler;
use crate::config::{IntervalStrategy, TrainConfig};
use crate::dataset::Dataset;
use crate::deepspeed::Scheduler;
use crate::error::{Error, Result};
use crate::evaluate::{EvalContext, evaluate};
use crate::loss::{self, Loss};
use crate::metrics::{EvalRecord, Record, peak_memory_of};
use crate::optimizer::{OptimizerState, clip_factor};
use crate::position::{Position, StepLoss};
use crate::reference::reference_log_probs;
use crate::schedule::Schedule;
use crate::step::{MicroBatch, Step, StepMode};
use crate::step_stats::{StepStats, gather_rows};
use crate::summary::TrainSummary;
use crate::zero::ShardedState;
use spag_io::{Nested, Progress};

/// Consecutive steps that may be skipped because loss or gradients are not finite.
const MAX_SKIPPED_IN_A_ROW: usize = 2;

/// Receives the metrics of a run, and its checkpoints when they are due.
pub trait Observer {
    /// A line of metrics.
    ///
    /// # Errors
    /// The line could not be kept; the run stops.
    fn record(&mut self, record: &Record) -> Result<()>;

    /// A line of metrics of an evaluation.
    ///
    /// # Errors
    /// The line could not be kept; the run stops.
    fn evaluated(&mut self, _record: &EvalRecord) -> Result<()> {
        Ok(())
    }

    /// A checkpoint is due.
    ///
    /// # Errors
    /// It could not be written; the run stops.
    fn save(&mut self, _trainer: &Trainer<'_>) -> Result<()> {
        Ok(())
    }
}

/// Keeps the lines of metrics in memory.
impl Observer for Vec<Record> {
    fn record(&mut self, record: &Record) -> Result<()> {
        self.push(record.clone());
        Ok(())
    }
}

/// A run in progress: this rank's share of the model and the optimizer, and the position in the data.
pub struct Trainer<'a> {
    network: &'a Network,
    state: ShardedState,
    data: &'a Dataset,
    config: &'a TrainConfig,
    loss: Box<dyn Loss>,
    schedule: Schedule,
    sampler: BatchSampler,
    position: Position,
}

/// Time and tokens since the last line of metrics, without saving and evaluation.
#[derive(Default)]
struct Clock {
    seconds: f64,
    tokens: u64,
}

impl<'a> Trainer<'a> {
    /// A new run of one process. `model` is trained in place.
    ///
    /// # Errors
    /// An invalid setting, [`Error::NoReference`], or not enough memory for gradients and optimizer state.
    pub fn new(model: &'a Model, data: &'a Dataset, config: &'a TrainConfig) -> Result<Self> {
        let state = ShardedState::single(model.parameters(), config)?;
        Self::with_state(model.network(), state, data, config)
    }

    /// A new run of the ranks that share `state`.
    pub(crate) fn with_state(
        network: &'a Network,
        state: ShardedState,
        data: &'a Dataset,
        config: &'a TrainConfig,
    ) -> Result<Self> {
        config.check()?;
        let loss = loss::build(config);
        if loss.needs_reference() && !data.has_reference() {
            return Err(Error::NoReference);
        }
        let sampler = BatchSampler::new(config, data.samples().len(), state.group().size());
        Ok(Self {
            network,
            state,
            data,
            config,
            loss,
            schedule: Schedule::new(config, sampler.steps),
            sampler,
            position: Position::default(),
        })
    }

    /// The same run with the learning rates of a DeepSpeed file.
    pub(crate) fn with_scheduler(mut self, scheduler: Option<Scheduler>) -> Self {
        if let Some(scheduler) = scheduler {
            self.schedule = self.schedule.of_deepspeed(scheduler);
        }
        self
    }

    /// Resumes at `position`, after `updates` updates of the optimizer, whose state has been restored.
    pub(crate) fn resume_at(&mut self, position: Position, updates: u64) {
        self.position = position;
        self.state.resume_at(updates);
    }

    /// The model's passes.
    pub fn network(&self) -> &Network {
        self.network
    }

    /// The model's parameters. In ZeRO stage 3 all ranks have to read the same layers in the same order.
    pub fn weights(&self) -> &dyn WeightSource {
        self.state.weights()
    }

    /// The optimizer.
    pub fn optimizer(&self) -> &OptimizerState {
        self.state.optimizer()
    }

    /// This rank's parameters, gradients and optimizer state.
    pub(crate) fn state(&self) -> &ShardedState {
        &self.state
    }

    /// The ranks that train together.
    pub fn group(&self) -> &dyn ProcessGroup {
        &**self.state.group()
    }

    /// The progress of the run.
    pub fn position(&self) -> &Position {
        &self.position
    }

    /// The samples of each step.
    pub(crate) fn sampler(&self) -> &BatchSampler {
        &self.sampler
    }

    /// Takes the remaining steps.
    ///
    /// # Errors
    /// [`Error::NoReference`] if only `eval` lacks ℓ_ref, sequences that the model cannot read, a loss that stays NaN or
    /// infinite, weights that are not finite when they would be saved, or what `observer` reports.
    pub fn run(
        &mut self,
        eval: Option<&Dataset>,
        observer: &mut dyn Observer,
        progress: &mut dyn Progress,
    ) -> Result<()> {
        let total = self.sampler.steps;
        progress.resume("training", total as u64, self.position.step as u64);
        let mut clock = Clock::default();
        for micro_batches in self.sampler.iter_from(self.position.step) {
            let started = Instant::now();
            let grad_norm = self.step(&micro_batches, &mut clock)?;
            clock.seconds += started.elapsed().as_secs_f64();
            let step = self.position.step;
            let epoch_ends = step.is_multiple_of(self.sampler.steps_per_epoch);
            if step.is_multiple_of(self.config.logging_steps) || step == total {
                observer.record(&self.record(grad_norm, std::mem::take(&mut clock)))?;
            }
            progress.advance(step as u64, &self.position.last_loss.map(|l| format!("loss {l:.4}")).unwrap_or_default());
            let every = self.config.eval_steps.unwrap_or(self.config.logging_steps);
            let eval_due = match self.config.evaluation_strategy {
                IntervalStrategy::No => false,
                IntervalStrategy::Steps => step.is_multiple_of(every),
                IntervalStrategy::Epoch => epoch_ends || step == total,
            };
            if let (Some(eval), true) = (eval, eval_due) {
                observer.evaluated(&self.evaluate(eval, &mut Nested::new(progress, step as u64))?)?;
            }
            let save_due = match self.config.save_strategy {
                IntervalStrategy::No => false,
                IntervalStrategy::Steps => step.is_multiple_of(self.config.save_steps),
                IntervalStrategy::Epoch => epoch_ends,
            };
            if save_due {
                self.check_finite()?;
                observer.save(self)?;
            }
        }
        progress.end();
        self.check_trained()?;
        self.check_finite()
    }

    /// Whether the weights and the optimizer's state are finite on all ranks. All ranks have to call it.
    pub(crate) fn is_finite(&self) -> Result<bool> {
        let squares = gather_numbers(self.group(), &[self.state.squared_state()?])?;
        Ok(squares.iter().flatten().all(|square| square.is_finite()))
    }

    fn check_finite(&self) -> Result<()> {
        match self.is_finite()? {
            true => Ok(()),
            false => Err(Error::NotFiniteState { step: self.position.step }),
        }
    }

    /// Refuses a run that has skipped every step.
    fn check_trained(&self) -> Result<()> {
        if self.optimizer().updates() > 0 {
            return Ok(());
        }
        let step = self.position.step;
        let last = self.sampler.iter_from(step.saturating_sub(1)).next().unwrap_or_default();
        Err(self.not_finite("loss or gradient norm", self.rows(&last)))
    }

    /// The rows of micro-batches.
    fn rows(&self, micro_batches: &[Vec<usize>]) -> Vec<usize> {
        let samples = micro_batches.iter().flatten().filter_map(|index| self.data.samples().get(*index));
        samples.map(|sample| sample.row).collect()
    }

    /// The error about the last steps, which were skipped.
    fn not_finite(&self, what: &'static str, samples: Vec<usize>) -> Error {
        let (count, step) = (self.position.skipped_in_a_row, self.position.step);
        Error::NotFinite { what, count, step, places: self.data.places.names(&samples), samples }
    }

    /// Takes up to `count` further steps; returns the seconds that each took.
    pub(crate) fn timed_steps(&mut self, count: usize) -> Result<Vec<f64>> {
        let steps = self.sampler.iter_from(self.position.step).take(count);
        steps
            .map(|micro_batches| {
                let started = Instant::now();
                self.step(&micro_batches, &mut Clock::default())?;
                Ok(started.elapsed().as_secs_f64())
            })
            .collect()
    }

    /// One step; returns the norm of its gradients.
    fn step(&mut self, micro_batches: &[Vec<usize>], clock: &mut Clock) -> Result<f64> {
        let group = self.state.group().clone();
        self.state.zero_gradients()?;
        let reads_at_once = group.size() == 1 && kernels::of(self.state.weights().device())?.is_none();
        let mode = if reads_at_once { StepMode::StopEarly } else { StepMode::RunAll };
        let step = Step {
            network: self.network,
            weights: self.state.weights(),
            gradients: self.state.gradients(),
            data: self.data,
            loss: &*self.loss,
            activations: self.config.activations(),
            mode,
        };
        let passes = step.passes(&own_micro_batches(micro_batches, &*group))?;
        self.state.finish_gradients()?;
        // If a loss is not finite, the gradients may be incomplete.
        let finite = passes.non_finite_rows.is_empty();
        let squared_norm = if finite { self.state.squared_norm()? } else { f64::NAN };
        let stats = StepStats::gather(&*group, &passes, squared_norm, micro_batches.len(), self.loss.metrics())?;
        clock.tokens += stats.tokens;
        let norm = stats.squared_norm.sqrt();
        if norm.is_finite() && stats.loss.is_finite() {
            let (rate, factor) = (self.schedule.rate(self.position.step), clip_factor(norm, self.config.max_grad_norm));
            self.state.update(rate, factor)?;
            let StepStats { loss, metrics, tokens, .. } = stats;
            self.position.record_update(StepLoss { loss, metrics }, tokens);
            return Ok(norm);
        }
        self.position.record_skip(stats.tokens);
        if self.position.skipped_in_a_row > MAX_SKIPPED_IN_A_ROW {
            let rows = gather_rows(&*group, &passes.non_finite_rows)?;
            return Err(match rows.is_empty() {
                true => self.not_finite("gradient norm", self.rows(micro_batches)),
                false => self.not_finite("loss", rows),
            });
        }
        Ok(norm)
    }

    fn record(&mut self, grad_norm: f64, clock: Clock) -> Record {
        let StepLoss { loss, metrics } = self.position.close_window(self.loss.metrics());
        let tokens_per_second = clock.tokens as f64 / clock.seconds.max(1e-9);
        Record {
            step: self.position.step,
            epoch: self.sampler.epochs_after(self.position.step),
            loss,
            learning_rate: self.schedule.rate(self.position.step),
            grad_norm,
            metrics,
            tokens_per_second,
            model_tflops: 6.0 * self.network.layout().len() as f64 * tokens_per_second / 1e12,
            peak_memory_gib: peak_memory_of(self.state.weights().device()).map(spag_io::gib),
            skipped_steps: self.position.skipped_steps,
        }
    }

    fn evaluate(&self, eval: &Dataset, progress: &mut dyn Progress) -> Result<EvalRecord> {
        let started = Instant::now();
        let batch_size = self.config.per_device_eval_batch_size;
        let context = EvalContext { network: self.network, weights: self.state.weights(), group: self.group() };
        let eval_loss = evaluate(&context, eval, &*self.loss, batch_size, progress)?;
        Ok(EvalRecord {
            step: self.position.step,
            epoch: self.sampler.epochs_after(self.position.step),
            eval_loss,
            eval_samples: eval.samples().len(),
            eval_runtime: started.elapsed().as_secs_f64(),
        })
    }
}

/// This rank's micro-batches of a step. A rank that has one less than others repeats the first one with a share of 0, since
/// all ranks take part in the same collectives.
fn own_micro_batches<'a>(all: &'a [Vec<usize>], group: &dyn ProcessGroup) -> Vec<MicroBatch<'a>> {
    let share = 1.0 / all.len().max(1) as f64;
    let own = |round: usize| match all.get(round * group.size() + group.rank()) {
        Some(samples) => Some(MicroBatch { samples, share }),
        None => all.first().map(|samples| MicroBatch { samples, share: 0.0 }),
    };
    (0..all.len().div_ceil(group.size())).filter_map(own).collect()
}

/// Trains `model` in place on `samples`, in memory. [`crate::run`] trains from files to files.
///
/// ℓ_ref comes from `reference`, or from `model` before the first step.
///
/// # Errors
/// An invalid setting, no usable sample, text or sequences that the model cannot read, or a loss that stays NaN or
/// infinite.
pub fn train_samples(
    model: &Model,
    tokenizer: &Tokenizer,
    samples: &[Sample],
    reference: Option<&Model>,
    config: &TrainConfig,
    observer: &mut dyn Observer,
    progress: &mut dyn Progress,
) -> Result<TrainSummary> {
    config.check()?;
    let started = Instant::now();
    let mut dataset = Dataset::new(samples, tokenizer, config.max_length)?;
    if loss::build(config).needs_reference() {
        let log_probs = reference_log_probs(reference.unwrap_or(model), dataset.samples(), progress)?;
        dataset = dataset.with_reference(log_probs)?;
    }
    let mut trainer = Trainer::new(model, &dataset, config)?;
    trainer.run(None, observer, progress)?;
    Ok(TrainSummary::new(trainer.position(), dataset.dropped(), started.elapsed()))
}
