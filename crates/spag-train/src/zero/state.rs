//! The shards of a run's state on one rank: parameters, gradients, optimizer state.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use candle_core::{DType, Device, Tensor};
use spag_dist::{Collective, Pending, ProcessGroup, Single};
use spag_model::checkpoint::{LoadOptions, read_buffers, read_tensors};
use spag_model::dtype::WeightDtype;
use spag_model::params::{FlatBuffers, GradientSink, Layout, WeightSource};
use spag_ops::kernels::Accumulate;

use super::Partition;
use super::grad_shards::GradShards;
use super::param_shards::ParamShards;
use super::ranks::StateRanks;
use super::whole_gradients::WholeGradients;
use crate::config::{Placement, ShardingPlan, TrainConfig, ZeroStage};
use crate::error::{Error, Result};
use crate::optimizer::{self, Covers, OptimizerState, ShardedParameters, StateBuffer, UpdateUnit, squared_norm};

/// Parameters, gradients and optimizer state of this rank.
pub(crate) struct ShardedState {
    ranks: StateRanks,
    stage: ZeroStage,
    weights: Weights,
    gradients: Gradients,
    optimizer: OptimizerState,
    /// The number format of sums over ranks.
    reduce_dtype: WeightDtype,
    /// What this rank updates: its shards, or everything in stage 0.
    updated: Partition,
}

enum Weights {
    Whole(FlatBuffers),
    Sharded(ParamShards),
}

/// Where parameters are written when a run begins.
enum Target<'a> {
    Whole(&'a FlatBuffers),
    Shards(&'a Partition, &'a [Tensor]),
}

enum Gradients {
    /// Of one process: passes write and add to them directly.
    Whole(WholeGradients),
    /// Own shards of the sums over the ranks.
    Sharded(GradShards),
    /// The same, stored in whole buffers, which are all-gathered before an update.
    Replicated { whole: FlatBuffers, own: GradShards },
}

impl ShardedState {
    /// The state of a single process, with the parameters of a model.
    pub(crate) fn single(parameters: &FlatBuffers, config: &TrainConfig) -> Result<Self> {
        let plan = ShardingPlan::default();
        let ranks = StateRanks::new(Arc::new(Single), plan.within)?;
        Self::new(Weights::Whole(parameters.clone()), parameters.layout(), config, plan, ranks)
    }

    /// The state with parameters from the checkpoint in `dir`.
    pub(crate) fn load(
        dir: &Path,
        layout: &Layout,
        options: &LoadOptions,
        config: &TrainConfig,
        plan: ShardingPlan,
        group: Arc<dyn ProcessGroup>,
    ) -> Result<Self> {
        Self::filled(layout, options, config, plan, group, |target| match target {
            Target::Whole(whole) => Ok(read_buffers(whole, dir, "model")?),
            Target::Shards(partition, parts) => {
                Ok(read_tensors(layout, options.dtype, dir, "model", &mut |layer, view, values| {
                    partition.fill(parts, layer, view, &values).map_err(super::into_model)
                })?)
            }
        })
    }

    /// The state with a copy of parameters that every rank has.
    pub(crate) fn of(
        parameters: &FlatBuffers,
        options: &LoadOptions,
        config: &TrainConfig,
        plan: ShardingPlan,
        group: Arc<dyn ProcessGroup>,
    ) -> Result<Self> {
        let layout = parameters.layout();
        let parameters = parameters.to_dtype(options.dtype)?;
        Self::filled(layout, options, config, plan, group, |target| {
            for (layer, own) in layout.layers.iter().enumerate() {
                for view in 0..own.views.len() {
                    let values = parameters.view(layer, view)?;
                    match &target {
                        Target::Whole(whole) => whole.set_view(layer, view, &values)?,
                        Target::Shards(partition, parts) => {
                            partition.fill(parts, layer, view, &values.flatten_all()?)?;
                        }
                    }
                }
            }
            Ok(())
        })
    }

    /// The state with parameters that `fill` writes.
    fn filled(
        layout: &Layout,
        options: &LoadOptions,
        config: &TrainConfig,
        plan: ShardingPlan,
        group: Arc<dyn ProcessGroup>,
        fill: impl FnOnce(Target<'_>) -> Result<()>,
    ) -> Result<Self> {
        let ranks = StateRanks::new(group, plan.within)?;
        let group = &ranks.shards;
        let partition = Partition::new(layout, group.rank(), group.size());
        let LoadOptions { device, dtype } = options;
        let weights = if plan.gathers(group.size()) {
            let stored_on = match plan.parameters {
                Placement::Device => device,
                Placement::Host => &Device::Cpu,
            };
            let parts = partition.zeros(DType::from(*dtype), stored_on)?;
            fill(Target::Shards(&partition, &parts))?;
            // Passes wait for gathers, and for reductions only in the end.
            let shards = ParamShards::new(group.with_priority()?, partition, parts, *dtype, device);
            Weights::Sharded(match plan.parameters {
                Placement::Device => shards,
                Placement::Host => shards.on_host().locked()?,
            })
        } else {
            let whole = FlatBuffers::padded(layout, *dtype, device, partition.multiple())?;
            fill(Target::Whole(&whole))?;
            Weights::Whole(whole)
        };
        Self::new(weights, layout, config, plan, ranks)
    }

    fn new(
        weights: Weights,
        layout: &Layout,
        config: &TrainConfig,
        plan: ShardingPlan,
        ranks: StateRanks,
    ) -> Result<Self> {
        let group = &ranks.shards;
        let partition = Partition::new(layout, group.rank(), group.size());
        let device = weights.source().device().clone();
        let format = (&device, config.reduce_dtype);
        let shards = |sums| GradShards::new(group.clone(), partition.clone(), sums, format);
        let gradients = match (group.size(), plan.stage) {
            (1, _) => Gradients::Whole(WholeGradients::zeros(layout, &device)?),
            (_, ZeroStage::Disabled) => {
                let whole = FlatBuffers::padded(layout, WeightDtype::F32, &device, partition.multiple())?;
                let own = shards(partition.own_of_all(whole.layers())?);
                Gradients::Replicated { whole, own }
            }
            _ => Gradients::Sharded(shards(partition.zeros(DType::F32, &device)?)),
        };
        let updated = match plan.stage {
            ZeroStage::Disabled => Partition::whole(layout),
            _ => partition,
        };
        let optimizer = optimizer::build(config);
        if optimizer.unit() == UpdateUnit::Matrices && group.size() > 1 && plan.stage != ZeroStage::Disabled {
            let reason = format!("{} updates whole matrices, and shards cut them; use --zero_stage 0", config.optim);
            return Err(Error::Setting { name: "optim", reason });
        }
        let layers = updated_parameters(&weights, plan.stage, &updated)?;
        let parameters = ShardedParameters {
            layers: &layers,
            spans: (0..layers.len()).map(|layer| updated.update_spans(layer, optimizer.unit())).collect(),
            device: &device,
            placement: if plan.gathers(group.size()) { plan.parameters } else { Placement::Device },
            gradients: config.optim_grad_dtype,
        };
        let optimizer = OptimizerState::sharded(optimizer, parameters, plan.optimizer)?;
        let (stage, reduce_dtype) = (plan.stage, config.reduce_dtype);
        Ok(Self { ranks, stage, weights, gradients, optimizer, reduce_dtype, updated })
    }

    /// All ranks that train together.
    pub(crate) fn group(&self) -> &Arc<dyn ProcessGroup> {
        &self.ranks.all
    }

    /// The parameters as passes read them.
    pub(crate) fn weights(&self) -> &dyn WeightSource {
        self.weights.source()
    }

    /// Where passes add gradients, between [`ShardedState::begin_gradients`] and [`ShardedState::finish_gradients`]. The last pass of a
    /// step adds to [`ShardedState::last_gradients`].
    pub(crate) fn gradients(&self) -> &dyn GradientSink {
        match &self.gradients {
            Gradients::Whole(whole) => whole,
            Gradients::Sharded(own) | Gradients::Replicated { own, .. } => own,
        }
    }

    /// As [`ShardedState::gradients`], for the last pass of a step: an optimizer on the host gets them while the pass continues.
    pub(crate) fn last_gradients(&self) -> LastGradients<'_> {
        LastGradients { state: self, completed: Mutex::default() }
    }

    /// The optimizer.
    pub(crate) fn optimizer(&self) -> &OptimizerState {
        &self.optimizer
    }

    /// Resumes after `updates` updates.
    pub(crate) fn resume_at(&mut self, updates: u64) {
        self.optimizer.resume_at(updates);
    }

    /// Begins a step without gradients.
    pub(crate) fn begin_gradients(&self) {
        self.optimizer.forget_gradients();
        match &self.gradients {
            Gradients::Whole(whole) => whole.begin(),
            Gradients::Sharded(own) | Gradients::Replicated { own, .. } => own.begin(),
        }
    }

    /// Waits until all gradients are reduced, and sums them over the replicas of the state; once, after the last pass of a step.
    pub(crate) fn finish_gradients(&self) -> Result<()> {
        match &self.gradients {
            Gradients::Whole(whole) => whole.finish()?,
            Gradients::Sharded(own) | Gradients::Replicated { own, .. } => own.finish()?,
        }
        self.ranks.sum_over_replicas(self.own_gradients(), self.reduce_dtype)
    }

    /// The own shards of the gradients, in the layers' order.
    fn own_gradients(&self) -> &[Tensor] {
        match &self.gradients {
            Gradients::Whole(whole) => whole.layers(),
            Gradients::Sharded(own) | Gradients::Replicated { own, .. } => own.shards(),
        }
    }

    /// The sum of squares of the own gradient shards, or 0 if another replica's count. The sum over all ranks is that of the whole
    /// gradient.
    pub(crate) fn squared_norm(&self) -> Result<f64> {
        if self.ranks.counts() { squared_norm(self.own_gradients()) } else { Ok(0.0) }
    }

    /// The sum of squares of what this rank updates: parameters and optimizer state. It is finite if they all are, and
    /// their squares do not overflow.
    pub(crate) fn squared_state(&self) -> Result<f64> {
        let mut sum = 0.0;
        let parameters = updated_parameters(&self.weights, self.stage, &self.updated)?;
        // Those in bf16 have master weights among the buffers.
        if parameters.iter().all(|layer| layer.dtype() == DType::F32) {
            sum += squared_norm(&parameters)?;
        }
        for (_, parts) in self.optimizer.buffers() {
            sum += squared_norm(parts)?;
        }
        Ok(sum)
    }

    /// One update of the parameters; `gradient_scale` multiplies the gradients first.
    pub(crate) fn update(&mut self, learning_rate: f64, gradient_scale: f64) -> Result<()> {
        let parameters = updated_parameters(&self.weights, self.stage, &self.updated)?;
        let gradients = match &self.gradients {
            Gradients::Whole(whole) => whole.layers(),
            Gradients::Sharded(own) => own.shards(),
            Gradients::Replicated { whole, .. } => {
                self.all_gather(whole.layers())?;
                whole.layers()
            }
        };
        if let Weights::Sharded(shards) = &self.weights {
            shards.free_gathered()?;
        }
        self.optimizer.update(&parameters, gradients, learning_rate, gradient_scale)?;
        match &self.weights {
            Weights::Whole(whole) if self.stage != ZeroStage::Disabled => self.all_gather(whole.layers()),
            Weights::Whole(_) | Weights::Sharded(_) => Ok(()),
        }
    }

    /// Gathers the shards of the ranks that share the state into whole layers.
    fn all_gather(&self, layers: &[Tensor]) -> Result<()> {
        let group = &self.ranks.shards;
        if group.size() == 1 {
            return Ok(());
        }
        let start = |layer: &Tensor| group.start(Collective::AllGather(layer.clone()));
        let pending: Vec<Pending> = layers.iter().map(start).collect::<spag_dist::Result<_>>()?;
        pending.into_iter().try_for_each(|pending| Ok(pending.wait()?))
    }

    /// The optimizer's buffers, as whole layers. All ranks have to read the same layers in
    /// the same order.
    pub(crate) fn optimizer_state(&self) -> Vec<(StateBuffer, Box<dyn WeightSource>)> {
        let sharded = self.stage != ZeroStage::Disabled && self.ranks.shards.size() > 1;
        let group: Arc<dyn ProcessGroup> = if sharded { self.ranks.shards.clone() } else { Arc::new(Single) };
        let source = |buffer: StateBuffer, parts: &[Tensor]| -> Box<dyn WeightSource> {
            // Whole layers are read where they are stored.
            let stored_on = parts.first().filter(|_| !sharded).map(Tensor::device);
            let device = stored_on.unwrap_or(self.weights().device());
            let partition = self.partition_of(buffer);
            let shards = ParamShards::new(group.clone(), partition, parts.to_vec(), buffer.dtype, device);
            Box::new(match self.optimizer.place() {
                Placement::Host if sharded => shards.on_host(),
                _ => shards,
            })
        };
        self.optimizer.buffers().map(|(buffer, parts)| (buffer, source(buffer, parts))).collect()
    }

    /// Fills the optimizer's buffers from the files of their stems in `dir`.
    pub(crate) fn restore_optimizer(&self, dir: &Path) -> Result<()> {
        for (buffer, parts) in self.optimizer.buffers() {
            let partition = self.partition_of(buffer);
            read_tensors(partition.layout(), buffer.dtype, dir, buffer.name, &mut |layer, view, values| {
                partition.fill(parts, layer, view, &values).map_err(super::into_model)
            })?;
        }
        Ok(())
    }

    /// What a rank stores of a state buffer.
    fn partition_of(&self, buffer: StateBuffer) -> Partition {
        match buffer.covers {
            Covers::All => self.updated.clone(),
            // Only optimizers whose state is not sharded have such buffers.
            covers => Partition::whole(&covers.layout(self.updated.layout())),
        }
    }
}

/// Gradients of the last pass of a step.
pub(crate) struct LastGradients<'a> {
    state: &'a ShardedState,
    /// The layers that it has completed. Reductions of the pass before may end during it.
    completed: Mutex<Vec<usize>>,
}

impl LastGradients<'_> {
    fn complete(&self, layer: usize) -> Result<()> {
        let optimizer = &self.state.optimizer;
        match &self.state.gradients {
            // They are complete once they are summed over the replicas.
            Gradients::Whole(_) if self.state.ranks.has_replicas() => Ok(()),
            Gradients::Sharded(own) if self.state.ranks.has_replicas() => own.reduce(layer).map(drop),
            Gradients::Whole(whole) => optimizer.start(layer, &whole.layers()[layer]),
            Gradients::Sharded(own) => {
                let mut completed = self.completed.lock().unwrap_or_else(PoisonError::into_inner);
                completed.push(layer);
                let summed = own.reduce(layer)?.filter(|summed| completed.contains(summed));
                summed.map_or(Ok(()), |summed| optimizer.start(summed, &own.shards()[summed]))
            }
            // Gathered before the update.
            Gradients::Replicated { own, .. } => own.reduce(layer).map(drop),
        }
    }
}

impl GradientSink for LastGradients<'_> {
    fn layout(&self) -> &Layout {
        self.state.gradients().layout()
    }

    fn buffer(&self, layer: usize) -> spag_model::Result<Tensor> {
        self.state.gradients().buffer(layer)
    }

    fn block_buffer(&self, layer: usize) -> spag_model::Result<(Tensor, Accumulate)> {
        self.state.gradients().block_buffer(layer)
    }

    fn complete(&self, layer: usize) -> spag_model::Result<()> {
        self.complete(layer).map_err(super::into_model)
    }
}

impl Weights {
    fn source(&self) -> &dyn WeightSource {
        match self {
            Self::Whole(whole) => whole,
            Self::Sharded(shards) => shards,
        }
    }
}

/// The parameters that a rank updates.
fn updated_parameters(weights: &Weights, stage: ZeroStage, updated: &Partition) -> Result<Vec<Tensor>> {
    match (weights, stage) {
        (Weights::Sharded(shards), _) => Ok(shards.shards().to_vec()),
        (Weights::Whole(whole), ZeroStage::Disabled) => Ok(whole.layers().to_vec()),
        (Weights::Whole(whole), _) => updated.own_of_all(whole.layers()),
    }
}
