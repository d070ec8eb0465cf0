//! Offline training: the steps of a run over a data set that does not change.

use std::time::Instant;

use spag_chat::PromptEncoder;
use spag_io::{Nested, Progress};
use spag_model::{Model, Tokenizer};
use spag_rewards::Sample;

use crate::batch_sampler::BatchSampler;
use crate::config::{IntervalStrategy, TrainConfig};
use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::evaluate::evaluate;
use crate::game_groups::game_groups;
use crate::learner::{Learner, StepRecord};
use crate::loss;
use crate::metrics::{EvalRecord, Record, peak_memory_of};
use crate::position::StepLoss;
use crate::reference::reference_log_probs;
use crate::step_samples::StepSamples;
use crate::summary::TrainSummary;

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

    /// A step has been taken. Checkpoints that are written in the background may be complete.
    ///
    /// # Errors
    /// A checkpoint that could not be written; the run stops.
    fn stepped(&mut self, _learner: &Learner) -> Result<()> {
        Ok(())
    }

    /// A checkpoint is due.
    ///
    /// # Errors
    /// It could not be written; the run stops.
    fn save(&mut self, _learner: &Learner) -> Result<()> {
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

/// The data of a run and the order in which steps read them.
pub(crate) struct OfflineRun<'a> {
    data: &'a Dataset,
    config: &'a TrainConfig,
    pub(crate) sampler: BatchSampler,
}

/// Time and tokens since the last line of metrics, without saving and evaluation.
#[derive(Default)]
struct Clock {
    seconds: f64,
    tokens: u64,
}

impl<'a> OfflineRun<'a> {
    /// A run over `data` of `ranks` processes.
    ///
    /// # Errors
    /// [`Error::NoReference`] if the loss reads ℓ_ref and the data have none.
    pub(crate) fn new(data: &'a Dataset, config: &'a TrainConfig, ranks: usize) -> Result<Self> {
        if loss::build(config).needs_reference() && !data.has_reference() {
            return Err(Error::NoReference);
        }
        let sampler = BatchSampler::new(config, data.samples().len(), ranks);
        let sampler = if config.group_by_game { sampler.with_games(game_groups(data.samples())) } else { sampler };
        Ok(Self { data, config, sampler })
    }

    /// Takes the remaining steps.
    ///
    /// # Errors
    /// [`Error::NoReference`] if only `eval` lacks ℓ_ref, sequences that the model cannot read, a loss that stays NaN or
    /// infinite, weights that are not finite when they would be saved, or what `observer` reports.
    pub(crate) fn run(
        &self,
        learner: &mut Learner,
        eval: Option<&Dataset>,
        observer: &mut dyn Observer,
        progress: &mut dyn Progress,
    ) -> Result<()> {
        let (config, total, first) = (self.config, self.sampler.steps, learner.position().step);
        progress.resume("training", total as u64, first as u64);
        let mut clock = Clock::default();
        for micro_batches in self.sampler.iter_from(first) {
            let started = Instant::now();
            let done = self.step(learner, &micro_batches)?;
            clock.seconds += started.elapsed().as_secs_f64();
            clock.tokens += done.tokens;
            observer.stepped(learner)?;
            let step = done.step;
            let epoch_ends = step.is_multiple_of(self.sampler.steps_per_epoch);
            if step.is_multiple_of(config.logging_steps) || step == total {
                observer.record(&self.record(learner, &done, std::mem::take(&mut clock)))?;
            }
            let last_loss = learner.position().last_loss.map(|l| format!("loss {l:.4}"));
            progress.advance(step as u64, &last_loss.unwrap_or_default());
            let due = |strategy, every: usize, at_end: bool| match strategy {
                IntervalStrategy::No => false,
                IntervalStrategy::Steps => step.is_multiple_of(every),
                IntervalStrategy::Epoch => epoch_ends || at_end,
            };
            let every = config.eval_steps.unwrap_or(config.logging_steps);
            if let (Some(eval), true) = (eval, due(config.evaluation_strategy, every, step == total)) {
                let evaluated = self.evaluate(learner, eval, &mut Nested::new(progress, step as u64))?;
                observer.evaluated(&evaluated)?;
            }
            if due(config.save_strategy, config.save_steps, false) {
                check_finite(learner)?;
                observer.save(learner)?;
            }
        }
        progress.end();
        self.check_trained(learner)?;
        check_finite(learner)
    }

    /// Takes up to `count` further steps; returns the seconds that each took.
    pub(crate) fn timed_steps(&self, learner: &mut Learner, count: usize) -> Result<Vec<f64>> {
        let first = learner.position().step;
        let timed = |micro_batches: Vec<Vec<usize>>| {
            let started = Instant::now();
            self.step(learner, &micro_batches)?;
            Ok(started.elapsed().as_secs_f64())
        };
        self.sampler.iter_from(first).take(count).map(timed).collect()
    }

    /// One step on the samples of all ranks' micro-batches.
    fn step(&self, learner: &mut Learner, micro_batches: &[Vec<usize>]) -> Result<StepRecord> {
        learner.step_on(&self.samples(micro_batches)).map_err(|error| self.data.origins.name_in(error))
    }

    /// The samples of a step.
    pub(crate) fn samples(&self, micro_batches: &[Vec<usize>]) -> StepSamples<'a> {
        let mut samples = StepSamples::default();
        for micro_batch in micro_batches {
            let trajectories = micro_batch.iter().filter_map(|index| self.data.samples().get(*index));
            samples.push(trajectories, 1.0 / micro_batches.len() as f64);
        }
        samples
    }

    /// Refuses a run that has skipped every step.
    fn check_trained(&self, learner: &Learner) -> Result<()> {
        if learner.optimizer().updates() > 0 {
            return Ok(());
        }
        let step = learner.position().step;
        let last = self.sampler.iter_from(step.saturating_sub(1)).next().unwrap_or_default();
        let samples = last.iter().flatten().filter_map(|index| self.data.samples().get(*index));
        let error = learner.not_finite("loss or gradient norm", samples.map(|sample| sample.row).collect());
        Err(self.data.origins.name_in(error))
    }

    fn record(&self, learner: &mut Learner, done: &StepRecord, clock: Clock) -> Record {
        let StepLoss { loss, metrics } = learner.close_window();
        let tokens_per_second = clock.tokens as f64 / clock.seconds.max(1e-9);
        Record {
            step: done.step,
            epoch: self.sampler.epochs_after(done.step),
            loss,
            learning_rate: learner.learning_rate(),
            grad_norm: done.grad_norm,
            metrics,
            tokens_per_second,
            computed_share: (done.computed_tokens < done.tokens)
                .then(|| done.computed_tokens as f64 / done.tokens as f64),
            rank_load: (learner.group().size() > 1).then_some(done.rank_load),
            model_tflops: 6.0 * learner.network().layout().len() as f64 * tokens_per_second / 1e12,
            peak_memory_gib: peak_memory_of(learner.weights().device()).map(spag_io::gib),
            skipped_steps: learner.position().skipped_steps,
        }
    }

    fn evaluate(&self, learner: &Learner, eval: &Dataset, progress: &mut dyn Progress) -> Result<EvalRecord> {
        let started = Instant::now();
        let eval_loss = evaluate(learner, eval, self.config.per_device_eval_batch_size, progress)?;
        let step = learner.position().step;
        Ok(EvalRecord {
            step,
            epoch: self.sampler.epochs_after(step),
            eval_loss,
            eval_samples: eval.samples().len(),
            eval_runtime: started.elapsed().as_secs_f64(),
        })
    }
}

fn check_finite(learner: &Learner) -> Result<()> {
    match learner.is_finite()? {
        true => Ok(()),
        false => Err(Error::NotFiniteState { step: learner.position().step }),
    }
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
    let mut dataset = Dataset::new(samples, &PromptEncoder::new(tokenizer.clone()), config.max_length)?;
    if loss::build(config).needs_reference() {
        let log_probs = reference_log_probs(reference.unwrap_or(model), dataset.samples(), progress)?;
        dataset = dataset.with_reference(log_probs)?;
    }
    let run = OfflineRun::new(&dataset, config, 1)?;
    let mut learner = Learner::new(model, config, run.sampler.steps)?;
    run.run(&mut learner, None, observer, progress)?;
    Ok(TrainSummary::new(learner.position(), dataset.dropped(), started.elapsed()))
}
