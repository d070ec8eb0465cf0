//! The training loop: samples in, an updated model out.

use std::time::Instant;

use spag_dist::ProcessGroup;
use spag_model::{Llama, Network, Tokenizer, WeightSource};
use spag_rewards::Sample;

use crate::config::{IntervalStrategy, TrainConfig};
use crate::dataset::Dataset;
use crate::deepspeed::Scheduler;
use crate::error::{Error, Result};
use crate::evaluate::{Asked, evaluate};
use crate::loss::{self, Loss};
use crate::metrics::{EvalRecord, Record, gib, peak_memory_of};
use crate::optimizer::{OptimizerState, clip_factor};
use crate::order::Plan;
use crate::position::{Position, StepLoss};
use crate::reference::reference_log_probs;
use crate::schedule::Schedule;
use crate::step::{Company, MicroBatch, Step, TrainData};
use crate::summary::TrainSummary;
use crate::together::{rows_of_all, together};
use crate::zero::ShardedState;
use spag_io::{Nested, Progress};

/// Steps in a row that may be skipped because loss or gradients are not finite.
const TOLERATED: usize = 2;

/// Told about a run while it goes on.
pub trait Observer {
    /// A line of metrics.
    ///
    /// # Errors
    /// The line could not be kept; the run stops.
    fn record(&mut self, record: &Record) -> Result<()>;

    /// The loss on the evaluation data has been measured.
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

/// Keeps the lines in memory.
impl Observer for Vec<Record> {
    fn record(&mut self, record: &Record) -> Result<()> {
        self.push(*record);
        Ok(())
    }
}

/// A run in progress: the model with its optimizer, as far as they are this rank's, and where in the data it is.
pub struct Trainer<'a> {
    network: &'a Network,
    state: ShardedState,
    data: TrainData<'a>,
    config: &'a TrainConfig,
    loss: Box<dyn Loss>,
    schedule: Schedule,
    plan: Plan,
    position: Position,
}

/// Time and tokens since the last line of metrics, saving and evaluating apart.
#[derive(Default)]
struct Clock {
    seconds: f64,
    tokens: u64,
}

impl<'a> Trainer<'a> {
    /// A run of one process that has not begun. `model` is trained in place.
    ///
    /// # Errors
    /// A setting that cannot be trained with, or no memory for gradients and moments.
    pub fn new(model: &'a Llama, data: TrainData<'a>, config: &'a TrainConfig) -> Result<Self> {
        let state = ShardedState::single(model.parameters(), config)?;
        Self::with_state(model.network(), state, data, config)
    }

    /// A run that has not begun, of all ranks that share `state`.
    pub(crate) fn with_state(
        network: &'a Network,
        state: ShardedState,
        data: TrainData<'a>,
        config: &'a TrainConfig,
    ) -> Result<Self> {
        config.check()?;
        let plan = Plan::of_ranks(config, data.dataset.samples.len(), state.group().size());
        Ok(Self {
            network,
            state,
            data,
            config,
            loss: loss::of(config),
            schedule: Schedule::new(config, plan.steps),
            plan,
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

    /// Goes on from `position`, after `updates` updates of the optimizer, whose state is already in place.
    pub(crate) fn resume_at(&mut self, position: Position, updates: u64) {
        self.position = position;
        self.state.resume_at(updates);
    }

    /// The model's passes.
    pub fn network(&self) -> &Network {
        self.network
    }

    /// The model's parameters as they are now. In ZeRO stage 3 all ranks have to read the same layers in the same order.
    pub fn weights(&self) -> &dyn WeightSource {
        self.state.weights()
    }

    /// The optimizer as it is now.
    pub fn optimizer(&self) -> &OptimizerState {
        self.state.optimizer()
    }

    /// What this rank remembers.
    pub(crate) fn state(&self) -> &ShardedState {
        &self.state
    }

    /// The ranks that train together.
    pub fn group(&self) -> &dyn ProcessGroup {
        &**self.state.group()
    }

    /// How far the run is.
    pub fn position(&self) -> &Position {
        &self.position
    }

    /// Which samples come when.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Takes every step that is left.
    ///
    /// # Errors
    /// Sequences that the model cannot read, a loss that stays NaN or infinite, or what `observer` reports.
    pub fn run(
        &mut self,
        eval: Option<TrainData<'_>>,
        observer: &mut dyn Observer,
        progress: &mut dyn Progress,
    ) -> Result<()> {
        let total = self.plan.steps;
        progress.resume("training", total as u64, self.position.step as u64);
        let mut clock = Clock::default();
        for micro_batches in self.plan.iter_from(self.position.step) {
            let started = Instant::now();
            let grad_norm = self.step(&micro_batches, &mut clock)?;
            clock.seconds += started.elapsed().as_secs_f64();
            let step = self.position.step;
            let epoch_ends = step.is_multiple_of(self.plan.steps_per_epoch);
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
                observer.save(self)?;
            }
        }
        progress.end();
        Ok(())
    }

    /// Takes so many further steps, as far as there are any, and tells how many seconds each took.
    pub(crate) fn timed_steps(&mut self, count: usize) -> Result<Vec<f64>> {
        let steps = self.plan.iter_from(self.position.step).take(count);
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
        let step = Step {
            network: self.network,
            weights: self.state.weights(),
            gradients: self.state.gradients(),
            data: self.data,
            loss: &*self.loss,
            keep: self.config.activations(),
            company: if group.size() == 1 { Company::Alone } else { Company::Together },
        };
        let done = step.passes(&own_micro_batches(micro_batches, &*group))?;
        self.state.finish_gradients()?;
        // Where a loss is not finite, the gradients are of no use, and one process has not computed all of them.
        let sound = done.unsound_rows.is_empty();
        let squared_norm = if sound { self.state.squared_norm()? } else { f64::NAN };
        let step = together(&*group, &done, squared_norm, micro_batches.len())?;
        clock.tokens += step.tokens;
        let norm = step.squared_norm.sqrt();
        if norm.is_finite() && step.loss.is_finite() {
            let (rate, factor) = (self.schedule.rate(self.position.step), clip_factor(norm, self.config.max_grad_norm));
            self.state.update(rate, factor)?;
            self.position.take(StepLoss { loss: step.loss, parts: step.parts }, step.tokens);
            return Ok(norm);
        }
        self.position.skip(step.tokens);
        if self.position.unsound_in_a_row > TOLERATED {
            let unsound = rows_of_all(&*group, &done.unsound_rows)?;
            let (what, samples) = match unsound.is_empty() {
                true => {
                    ("gradient norm", micro_batches.iter().flat_map(|m| self.data.select(m)).map(|s| s.row).collect())
                }
                false => ("loss", unsound),
            };
            let (count, step) = (self.position.unsound_in_a_row, self.position.step);
            return Err(Error::NotFinite { what, count, step, samples });
        }
        Ok(norm)
    }

    fn record(&mut self, grad_norm: f64, clock: Clock) -> Record {
        let StepLoss { loss, parts } = self.position.close_window();
        let tokens_per_second = clock.tokens as f64 / clock.seconds.max(1e-9);
        Record {
            step: self.position.step,
            epoch: self.plan.epochs_after(self.position.step),
            loss,
            learning_rate: self.schedule.rate(self.position.step),
            grad_norm,
            parts,
            tokens_per_second,
            model_tflops: 6.0 * self.network.layout().len() as f64 * tokens_per_second / 1e12,
            peak_memory_gib: peak_memory_of(self.state.weights().device()).map(gib),
            skipped_steps: self.position.skipped_steps,
        }
    }

    fn evaluate(&self, eval: TrainData<'_>, progress: &mut dyn Progress) -> Result<EvalRecord> {
        let started = Instant::now();
        let batch_size = self.config.per_device_eval_batch_size;
        let asked = Asked { network: self.network, weights: self.state.weights(), group: self.group() };
        let eval_loss = evaluate(&asked, eval, &*self.loss, batch_size, progress)?;
        Ok(EvalRecord {
            step: self.position.step,
            epoch: self.plan.epochs_after(self.position.step),
            eval_loss,
            eval_samples: eval.dataset.samples.len(),
            eval_runtime: started.elapsed().as_secs_f64(),
        })
    }
}

/// This rank's micro-batches of a step. A rank that has one less than others goes through the first one again, which
/// counts nothing: all ranks take part in the same collectives.
fn own_micro_batches<'a>(all: &'a [Vec<usize>], group: &dyn ProcessGroup) -> Vec<MicroBatch<'a>> {
    let share = 1.0 / all.len().max(1) as f64;
    let own = |round: usize| match all.get(round * group.size() + group.rank()) {
        Some(samples) => Some(MicroBatch { samples, share }),
        None => all.first().map(|samples| MicroBatch { samples, share: 0.0 }),
    };
    (0..all.len().div_ceil(group.size())).filter_map(own).collect()
}

/// Trains `model` in place on `samples`, in memory alone: [`crate::run`] is the same from files to files.
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
    let started = Instant::now();
    let dataset = Dataset::new(samples, tokenizer, config.max_length)?;
    let ref_log_probs = match config.method.needs_reference() {
        true => reference_log_probs(reference.unwrap_or(model), &dataset.samples, progress)?,
        false => Vec::new(),
    };
    let mut trainer = Trainer::new(model, TrainData { dataset: &dataset, ref_log_probs: &ref_log_probs }, config)?;
    trainer.run(None, observer, progress)?;
    Ok(TrainSummary::new(trainer.position(), &dataset.dropped, started.elapsed()))
}
