//! The learner: weights, optimizer and progress, updated one step at a time with the trajectories of the caller.

use std::path::Path;
use std::sync::Arc;

use spag_dist::{ProcessGroup, gather_numbers};
use spag_model::Model;
use spag_model::adapter::{Adapter, BaseDigest};
use spag_model::checkpoint::{LoadOptions, load_config, load_model_with, load_quantised_layers};
use spag_model::dtype::WeightDtype;
use spag_model::model::{Activations, Arithmetic, Network};
use spag_model::params::{FlatBuffers, WeightSource};
use spag_ops::kernels;

use crate::adapted::{AdaptedBase, Frozen, LearnedWeights};
use crate::config::{ShardingPlan, TrainConfig};
use crate::deepspeed::Scheduler;
use crate::error::{Error, Result};
use crate::log_prob_gap::LogProbGap;
use crate::loss::{self, Loss};
use crate::metrics::MetricValues;
use crate::optimizer::{OptimizerState, clip_factor, stays_finite};
use crate::packing::Packing;
use crate::position::{Position, StepLoss};
use crate::row_origins::RowOrigins;
use crate::schedule::Schedule;
use crate::step::{Step, StepMode};
use crate::step_samples::{self, PassLayout, StepSamples};
use crate::step_stats::{StepStats, gather_rows};
use crate::trajectory::Trajectory;
use crate::zero::ShardedState;

/// Consecutive steps that may be skipped because loss or gradients are not finite.
const MAX_SKIPPED_IN_A_ROW: usize = 2;

/// This rank's share of a model and its optimizer, and the progress of their training. It keeps no data: each step learns
/// from the trajectories that it is given.
///
/// ```
/// use spag_model::{Model, ModelConfig};
/// use spag_train::{Learner, Span, TrainConfig, Trajectory};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let config: ModelConfig = serde_json::from_str(
///     r#"{"hidden_size": 8, "intermediate_size": 8, "vocab_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}"#,
/// )?;
/// let mut learner = Learner::new(&Model::init(&config, 1)?, &TrainConfig::default(), 10)?;
/// let says_7 = Trajectory { row: 0, ids: vec![1, 2, 7], spans: vec![Span::new(2..3, 1.0)] };
/// let first = learner.step(&[says_7.clone()])?;
/// let second = learner.step(&[says_7])?;
/// assert!(second.loss < first.loss);
/// # Ok(())
/// # }
/// ```
pub struct Learner {
    network: Network,
    /// The frozen weights under the adapter that is trained, if one is.
    base: Option<AdaptedBase>,
    state: ShardedState,
    loss: Box<dyn Loss>,
    schedule: Schedule,
    activations: Activations,
    layout: PassLayout,
    /// Trajectories of a micro-batch.
    micro_batch: usize,
    max_grad_norm: f64,
    optim_grad_dtype: WeightDtype,
    position: Position,
}

/// Where a rank's share of a model comes from.
#[derive(Clone)]
pub struct ModelShard<'a> {
    /// Folder of the model.
    pub dir: &'a Path,
    /// Folder of the adapter that training goes on with, if the settings train one; a new one if `None`.
    pub adapter: Option<&'a Path>,
    /// Device and number format of its weights.
    pub options: &'a LoadOptions,
    /// What is sharded.
    pub plan: ShardingPlan,
    /// The ranks.
    pub group: Arc<dyn ProcessGroup>,
}

/// What a step did. Made by the learner; read by the loops that own it.
#[derive(Clone, Debug, PartialEq)]
pub struct StepRecord {
    /// Steps taken, this one included.
    pub step: usize,
    /// The step's loss.
    pub loss: f64,
    /// The loss's metrics.
    pub metrics: MetricValues,
    /// Global norm of the gradients before clipping.
    pub grad_norm: f64,
    /// Learning rate of the step.
    pub learning_rate: f64,
    /// Tokens of the trajectories, on all ranks.
    pub tokens: u64,
    /// Tokens computed, on all ranks: fewer, if trajectories are packed as trees.
    pub computed_tokens: u64,
    /// The computed tokens of the busiest rank over the mean rank's, of each round of passes, weighted by its tokens. 1 is even.
    pub rank_load: f64,
    /// Whether the weights are as before, because loss or gradients are not finite.
    pub skipped: bool,
    /// The difference from the log-probabilities at sampling, on all ranks; without tokens if no trajectory has any.
    pub log_prob_gap: LogProbGap,
}

impl Learner {
    /// A learner of one process, whose schedule has `steps` steps. `model` is trained in place.
    ///
    /// # Errors
    /// An invalid setting, or not enough memory for gradients and optimizer state.
    pub fn new(model: &Model, config: &TrainConfig, steps: usize) -> Result<Self> {
        let network = model.network().clone();
        let Some(adapter) = new_adapter(config, &network, None)? else {
            let state = ShardedState::single(model.parameters(), config)?;
            return Self::with_state((network, None), state, config, Schedule::new(config, steps));
        };
        if config.quantize.is_some() {
            let reason = "weights are quantised as a folder is read; load the learner from one".to_owned();
            return Err(Error::Setting { name: "quantize", reason });
        }
        let base = model.parameters().clone();
        let matrices = adapter.weights().to_dtype(base.dtype())?.to_device(base.device())?;
        let base = Frozen::Plain(base);
        let state = ShardedState::single(&matrices, config)?;
        Self::with_state((network, Some(AdaptedBase { base, adapter })), state, config, Schedule::new(config, steps))
    }

    /// A learner of several ranks, with the weights of a checkpoint.
    ///
    /// # Errors
    /// As [`Learner::new`], a model that cannot be read, or a lost rank.
    pub fn load(shard: ModelShard<'_>, config: &TrainConfig, steps: usize) -> Result<Self> {
        Self::load_over(None, shard, config, steps)
    }

    /// As [`Learner::load`]. An adapter is trained over `frozen`, which are the weights of the shard's folder and are not read again.
    pub(crate) fn load_over(
        frozen: Option<&Frozen>,
        shard: ModelShard<'_>,
        config: &TrainConfig,
        steps: usize,
    ) -> Result<Self> {
        let ModelShard { dir, adapter, options, plan, group } = shard;
        let network = Network::new(&load_config(dir)?)?;
        let adapter = match adapter {
            Some(saved) => Some(Adapter::load_for(saved, dir)?),
            None => new_adapter(config, &network, Some(dir))?,
        };
        let Some(adapter) = adapter else {
            let state = ShardedState::load(dir, network.layout(), options, config, plan, group)?;
            return Self::with_state((network, None), state, config, Schedule::new(config, steps));
        };
        let adapter = adapter.with_base(BaseDigest::of(dir)?);
        let base = match (frozen, config.quantize) {
            (Some(frozen), _) => frozen.clone(),
            (None, None) => Frozen::Plain(load_model_with(dir, options)?.parameters().clone()),
            (None, Some(format)) => Frozen::Quantised(Arc::new(load_quantised_layers(dir, options.dtype, format)?)),
        };
        let state = ShardedState::of(adapter.weights(), options, config, plan, group)?;
        Self::with_state((network, Some(AdaptedBase { base, adapter })), state, config, Schedule::new(config, steps))
    }

    fn with_state(
        (network, base): (Network, Option<AdaptedBase>),
        state: ShardedState,
        config: &TrainConfig,
        schedule: Schedule,
    ) -> Result<Self> {
        config.check()?;
        let layout = PassLayout::of(config);
        let layout = PassLayout { packing: layout.packing.of_model(&network.config().architecture), ..layout };
        Ok(Self {
            network,
            base,
            state,
            loss: loss::build(config),
            schedule,
            activations: config.activations(),
            layout,
            micro_batch: config.per_device_train_batch_size,
            max_grad_norm: config.max_grad_norm,
            optim_grad_dtype: config.optim_grad_dtype,
            position: Position::default(),
        })
    }

    /// The same learner with another loss than its configuration's.
    pub fn with_loss(self, loss: Box<dyn Loss>) -> Self {
        Self { loss, ..self }
    }

    /// The same learner, whose log-probabilities on a CPU have the bits of generation also in bf16
    /// ([`Network::with_attention`]). Plans of memory know it as [`RankMemory::on_cpu_exact`](crate::RankMemory::on_cpu_exact).
    pub fn with_exact_attention(self) -> Self {
        Self { network: self.network.with_attention(Arithmetic::F32), ..self }
    }

    /// The same learner with the learning rates of a DeepSpeed file.
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
        &self.network
    }

    /// The model's parameters, with the adapter if one is trained. In ZeRO stage 3 all ranks have to read the same layers in the same
    /// order.
    pub fn weights(&self) -> LearnedWeights<'_> {
        LearnedWeights::new(self.trained(), self.base.as_ref())
    }

    /// What is trained: the model's parameters, or the adapter's.
    pub(crate) fn trained(&self) -> &dyn WeightSource {
        self.state.weights()
    }

    /// The adapter that is trained, as it was at the beginning; `None` if all weights are.
    pub fn adapter(&self) -> Option<&Adapter> {
        self.base.as_ref().map(|base| &base.adapter)
    }

    /// The frozen weights under the adapter that is trained, whole on every rank; `None` if all weights are trained.
    pub fn frozen(&self) -> Option<&dyn WeightSource> {
        self.base.as_ref().map(|base| &*base.base)
    }

    /// The same weights for another learner, which shares them.
    pub(crate) fn shared_base(&self) -> Option<&Frozen> {
        self.base.as_ref().map(|base| &base.base)
    }

    /// The adapter that is trained, as it is now, on the host; `None` if all weights are trained. All ranks have to call it.
    ///
    /// # Errors
    /// Too little memory, or a lost rank.
    pub fn trained_adapter(&self) -> Result<Option<Adapter>> {
        let Some(AdaptedBase { adapter, .. }) = &self.base else { return Ok(None) };
        Ok(Some(adapter.with_weights(&FlatBuffers::gathered(self.trained())?)?))
    }

    /// The loss.
    pub fn loss(&self) -> &dyn Loss {
        &*self.loss
    }

    /// The optimizer.
    pub fn optimizer(&self) -> &OptimizerState {
        self.state.optimizer()
    }

    /// This rank's parameters, gradients and optimizer state.
    pub(crate) fn state(&self) -> &ShardedState {
        &self.state
    }

    /// How trajectories are packed.
    pub(crate) fn packing(&self) -> Packing {
        self.layout.packing
    }

    /// The ranks that train together.
    pub fn group(&self) -> &dyn ProcessGroup {
        &**self.state.group()
    }

    /// The progress.
    pub fn position(&self) -> &Position {
        &self.position
    }

    /// Learning rate of the next step.
    pub fn learning_rate(&self) -> f64 {
        self.schedule.rate(self.position.step)
    }

    /// Mean loss and metrics of the steps since the last call, skipped ones left out.
    pub fn close_window(&mut self) -> StepLoss {
        self.position.close_window(self.loss.metrics())
    }

    /// Whether the weights and the optimizer's state are finite on all ranks. All ranks have to call it.
    ///
    /// # Errors
    /// A failure of the device, or a lost rank.
    pub fn is_finite(&self) -> Result<bool> {
        let squares = gather_numbers(self.group(), &[self.state.squared_state()?])?;
        Ok(squares.iter().flatten().all(|square| square.is_finite()))
    }

    /// One optimizer step on trajectories: this rank's, if there are several, whose numbers may differ. All ranks get those of all, and
    /// compute equal parts. The step's loss is the mean over their spans. A loss that is no sum of the samples' own losses is averaged over
    /// micro-batches of `per_device_train_batch_size` instead, by their spans. Trajectories without spans are left out.
    ///
    /// A step whose loss or gradients are not finite is skipped.
    ///
    /// # Errors
    /// A trajectory that does not fit its spans or the model, no trajectory on any rank, a third skipped step in a row, or a
    /// lost rank.
    pub fn step(&mut self, trajectories: &[Trajectory]) -> Result<StepRecord> {
        let nothing = || Error::NoSamples("a step without trajectories that have spans".into());
        self.step_if_any(&[trajectories])?.ok_or_else(nothing)
    }

    /// As [`Learner::step`] on several sets of trajectories, whose mean losses are added: games, and general texts beside them. `None` if no rank has a trajectory with a span.
    ///
    /// # Errors
    /// As [`Learner::step`].
    pub fn step_if_any(&mut self, sets: &[&[Trajectory]]) -> Result<Option<StepRecord>> {
        let group = self.state.group().clone();
        sets.iter().copied().flatten().try_for_each(Trajectory::check)?;
        let sets: Vec<_> = sets.iter().map(|set| step_samples::of_all_ranks(&*group, set)).collect::<Result<_>>()?;
        let mut samples = StepSamples::default();
        for set in &sets {
            let learned: Vec<&Trajectory> = set.iter().filter(|one| !one.spans.is_empty()).collect();
            let spans = |trajectories: &[&Trajectory]| trajectories.iter().map(|one| one.spans.len()).sum::<usize>();
            for micro_batch in learned.chunks(self.micro_batch) {
                samples.push(micro_batch.iter().copied(), spans(micro_batch) as f64 / spans(&learned) as f64);
            }
        }
        if samples.is_empty() { Ok(None) } else { self.step_on(&samples).map(Some) }
    }

    /// As [`Learner::step`] on the samples of all ranks.
    pub(crate) fn step_on(&mut self, samples: &StepSamples<'_>) -> Result<StepRecord> {
        let group = self.state.group().clone();
        let own = samples.passes(&*self.loss, self.layout, (group.rank(), group.size()));
        self.state.begin_gradients();
        let reads_at_once = group.size() == 1 && kernels::of(self.state.weights().device())?.is_none();
        let mode = if reads_at_once { StepMode::StopEarly } else { StepMode::RunAll };
        let weights = LearnedWeights::new(self.state.weights(), self.base.as_ref());
        let step = Step {
            network: &self.network,
            weights: &*weights,
            gradients: self.state.gradients(),
            last_gradients: &self.state.last_gradients(),
            loss: &*self.loss,
            activations: self.activations,
            packing: self.layout.packing,
            mode,
        };
        let passes = step.passes(&own)?;
        self.state.finish_gradients()?;
        // If a loss is not finite, the gradients may be incomplete.
        let finite = passes.non_finite_rows.is_empty();
        let squared_norm = if finite { self.state.squared_norm()? } else { f64::NAN };
        let stats = StepStats::gather(&*group, &passes, squared_norm, own.len(), self.loss.metrics())?;
        let StepStats { loss, metrics, tokens, computed_tokens, rank_load, squared_norm, gap } = stats;
        let (grad_norm, learning_rate) = (squared_norm.sqrt(), self.learning_rate());
        let skipped = !(stays_finite(grad_norm, self.optim_grad_dtype) && loss.is_finite());
        if skipped {
            self.position.record_skip(tokens);
            if self.position.skipped_in_a_row > MAX_SKIPPED_IN_A_ROW {
                let rows = gather_rows(&*group, &passes.non_finite_rows)?;
                return Err(match rows.is_empty() {
                    true => self.not_finite("gradient norm", samples.rows()),
                    false => self.not_finite("loss", rows),
                });
            }
        } else {
            self.state.update(learning_rate, clip_factor(grad_norm, self.max_grad_norm))?;
            self.position.record_update(StepLoss { loss, metrics: metrics.clone() }, tokens);
        }
        let step = self.position.step;
        let log_prob_gap = gap;
        Ok(StepRecord {
            step,
            loss,
            metrics,
            grad_norm,
            learning_rate,
            tokens,
            computed_tokens,
            rank_load,
            skipped,
            log_prob_gap,
        })
    }

    /// The error about the last steps, which were skipped.
    pub(crate) fn not_finite(&self, what: &'static str, samples: Vec<usize>) -> Error {
        let (count, step) = (self.position.skipped_in_a_row, self.position.step);
        Error::NotFinite { what, count, step, places: RowOrigins::default().names(&samples), samples }
    }
}

/// A new adapter for a model, if the settings train one, drawn from their seed.
fn new_adapter(config: &TrainConfig, network: &Network, base: Option<&Path>) -> Result<Option<Adapter>> {
    let architecture = &network.config().architecture;
    let lora = config.lora(architecture, base.map(|dir| dir.display().to_string()))?;
    Ok(lora.map(|lora| Adapter::init(lora, architecture, config.seed)).transpose()?)
}
