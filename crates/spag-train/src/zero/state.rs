//! A rank's share of what a run remembers: parameters, gradients, the optimizer's state.

use std::path::Path;
use std::sync::Arc;

use candle_core::{DType, Device, Tensor};
use spag_dist::{Collective, Pending, ProcessGroup, Single};
use spag_model::{
    FlatBuffers, GradientSink, Layout, LoadOptions, OptimizerPlace, WeightDtype, WeightSource, read_buffers,
    read_tensors,
};

use super::gathered::Gathered;
use super::reduced::Reduced;
use super::{Partition, Zero};
use crate::config::{OffloadParam, TrainConfig, ZeroStage};
use crate::error::Result;
use crate::optimizer::{self, OptimizerState, ShardedParameters, squared_norm};

/// Parameters, gradients and the optimizer's state, as far as they are this rank's.
pub(crate) struct State {
    group: Arc<dyn ProcessGroup>,
    partition: Partition,
    stage: ZeroStage,
    weights: Weights,
    gradients: Gradients,
    optimizer: OptimizerState,
}

enum Weights {
    Whole(FlatBuffers),
    Parts(Gathered),
}

enum Gradients {
    /// Of one process: passes add to them.
    Whole(FlatBuffers),
    /// Sums over the ranks, of which the own parts are kept.
    Parts(Reduced),
    /// As before, in buffers that the other parts are put into before an update.
    Replicated { whole: FlatBuffers, own: Reduced },
}

impl State {
    /// Of a process on its own, whose parameters are those of a model.
    pub(crate) fn whole(parameters: &FlatBuffers, config: &TrainConfig) -> Result<Self> {
        let zero = Zero::default();
        Self::new(Weights::Whole(parameters.clone()), parameters.layout(), config, zero, Arc::new(Single))
    }

    /// With parameters from the checkpoint in `dir`.
    pub(crate) fn load(
        dir: &Path,
        layout: &Layout,
        options: &LoadOptions,
        config: &TrainConfig,
        zero: Zero,
        group: Arc<dyn ProcessGroup>,
    ) -> Result<Self> {
        let partition = Partition::new(layout, group.rank(), group.size());
        let LoadOptions { device, dtype } = options;
        let weights = if zero.gathers(group.size()) {
            let place = match zero.parameters {
                OffloadParam::None => device,
                OffloadParam::Cpu => &Device::Cpu,
            };
            let parts = partition.zeros(DType::from(*dtype), place)?;
            read_tensors(layout, *dtype, dir, "model", &mut |layer, view, values| {
                partition.fill(&parts, layer, view, &values).map_err(super::into_model)
            })?;
            let gathered = Gathered::new(group.clone(), partition, parts, *dtype, device);
            Weights::Parts(match zero.parameters {
                OffloadParam::None => gathered,
                OffloadParam::Cpu => gathered.on_host().locked()?,
            })
        } else {
            let whole = FlatBuffers::padded(layout, *dtype, device, partition.multiple())?;
            read_buffers(&whole, dir, "model")?;
            Weights::Whole(whole)
        };
        Self::new(weights, layout, config, zero, group)
    }

    fn new(
        weights: Weights,
        layout: &Layout,
        config: &TrainConfig,
        zero: Zero,
        group: Arc<dyn ProcessGroup>,
    ) -> Result<Self> {
        let partition = Partition::new(layout, group.rank(), group.size());
        let device = weights.source().device().clone();
        let reduced = |parts| Reduced::new(group.clone(), partition.clone(), parts, &device);
        let gradients = match (group.size(), zero.stage) {
            (1, _) => Gradients::Whole(FlatBuffers::zeros(layout, &device)?),
            (_, ZeroStage::Disabled) => {
                let whole = FlatBuffers::padded(layout, WeightDtype::F32, &device, partition.multiple())?;
                let own = reduced(partition.own_of_all(whole.layers())?);
                Gradients::Replicated { whole, own }
            }
            _ => Gradients::Parts(reduced(partition.zeros(DType::F32, &device)?)),
        };
        let updated = updated_partition(zero.stage, &partition);
        let parameters = match zero.gathers(group.size()) {
            true => zero.parameters,
            false => OffloadParam::None,
        };
        let parts = updated_parts(&weights, zero.stage, &partition)?;
        let sharded = ShardedParameters {
            layers: &parts,
            decay_spans: (0..parts.len()).map(|layer| updated.decay_spans(layer)).collect(),
            device: &device,
            offload: parameters,
        };
        let optimizer = OptimizerState::sharded(optimizer::build(config), sharded, zero.optimizer)?;
        Ok(Self { group, partition, stage: zero.stage, weights, gradients, optimizer })
    }

    /// The ranks that share it.
    pub(crate) fn group(&self) -> &Arc<dyn ProcessGroup> {
        &self.group
    }

    /// Where passes find the parameters.
    pub(crate) fn weights(&self) -> &dyn WeightSource {
        self.weights.source()
    }

    /// Where passes leave gradients, after [`State::begin`] and before [`State::finish_gradients`].
    pub(crate) fn gradients(&self) -> &dyn GradientSink {
        match &self.gradients {
            Gradients::Whole(whole) => whole,
            Gradients::Parts(own) | Gradients::Replicated { own, .. } => own,
        }
    }

    /// The optimizer.
    pub(crate) fn optimizer(&self) -> &OptimizerState {
        &self.optimizer
    }

    /// Goes on after so many updates.
    pub(crate) fn resume_at(&mut self, updates: u64) {
        self.optimizer.resume_at(updates);
    }

    /// Sets the gradients to zero.
    pub(crate) fn begin(&self) -> Result<()> {
        match &self.gradients {
            Gradients::Whole(whole) => Ok(whole.set_zero()?),
            Gradients::Parts(own) | Gradients::Replicated { own, .. } => own.begin(),
        }
    }

    /// Waits until all gradients are summed.
    pub(crate) fn finish_gradients(&self) -> Result<()> {
        match &self.gradients {
            Gradients::Whole(_) => Ok(()),
            Gradients::Parts(own) | Gradients::Replicated { own, .. } => own.finish(),
        }
    }

    /// The sum of squares of this rank's parts of the gradients: those of all ranks make the whole.
    pub(crate) fn squared_norm(&self) -> Result<f64> {
        match &self.gradients {
            Gradients::Whole(whole) => squared_norm(whole.layers()),
            Gradients::Parts(own) | Gradients::Replicated { own, .. } => squared_norm(own.parts()),
        }
    }

    /// One update of the parameters; `gradient_scale` multiplies the gradients first.
    pub(crate) fn update(&mut self, learning_rate: f64, gradient_scale: f64) -> Result<()> {
        let parts = updated_parts(&self.weights, self.stage, &self.partition)?;
        let gradients = match &self.gradients {
            Gradients::Whole(whole) => whole.layers(),
            Gradients::Parts(own) => own.parts(),
            Gradients::Replicated { whole, .. } => {
                self.gather(whole.layers())?;
                whole.layers()
            }
        };
        self.optimizer.update(&parts, gradients, learning_rate, gradient_scale)?;
        match &self.weights {
            Weights::Parts(gathered) => gathered.forget(),
            Weights::Whole(whole) if self.updated_partition() == self.partition => self.gather(whole.layers()),
            Weights::Whole(_) => Ok(()),
        }
    }

    /// Puts every rank's parts of whole layers there on every rank.
    fn gather(&self, layers: &[Tensor]) -> Result<()> {
        if self.group.size() == 1 {
            return Ok(());
        }
        let start = |layer: &Tensor| self.group.start(Collective::AllGather(layer.clone()));
        let pending: Vec<Pending> = layers.iter().map(start).collect::<spag_dist::Result<_>>()?;
        pending.into_iter().try_for_each(|pending| Ok(pending.wait()?))
    }

    /// What this rank updates.
    fn updated_partition(&self) -> Partition {
        updated_partition(self.stage, &self.partition)
    }

    /// The optimizer's buffers by the stem of their files, as whole layers. All ranks have to read the same of them in
    /// the same order.
    pub(crate) fn optimizer_state(&self) -> Vec<(&'static str, Box<dyn WeightSource>)> {
        let split = self.updated_partition() == self.partition && self.group.size() > 1;
        let group: Arc<dyn ProcessGroup> = if split { self.group.clone() } else { Arc::new(Single) };
        let device = self.weights().device();
        let source = |parts: &[Tensor]| -> Box<dyn WeightSource> {
            // One process's are lent where they lie.
            let device = if split { device } else { parts.first().map_or(device, Tensor::device) };
            let partition = self.updated_partition();
            let gathered = Gathered::new(group.clone(), partition, parts.to_vec(), WeightDtype::F32, device);
            Box::new(match self.optimizer.place() {
                OptimizerPlace::Host if split => gathered.on_host(),
                _ => gathered,
            })
        };
        self.optimizer.buffers().map(|(stem, parts)| (stem, source(parts))).collect()
    }

    /// Fills the optimizer's buffers from the files of their stems in `dir`.
    pub(crate) fn restore_optimizer(&self, dir: &Path) -> Result<()> {
        let partition = self.updated_partition();
        for (stem, parts) in self.optimizer.buffers() {
            read_tensors(partition.layout(), WeightDtype::F32, dir, stem, &mut |layer, view, values| {
                partition.fill(parts, layer, view, &values).map_err(super::into_model)
            })?;
        }
        Ok(())
    }
}

impl Weights {
    fn source(&self) -> &dyn WeightSource {
        match self {
            Self::Whole(whole) => whole,
            Self::Parts(gathered) => gathered,
        }
    }
}

/// What a rank updates: its parts, or everything in stage 0.
fn updated_partition(stage: ZeroStage, partition: &Partition) -> Partition {
    match stage {
        ZeroStage::Disabled => Partition::whole(partition.layout()),
        _ => partition.clone(),
    }
}

/// The parameters that a rank updates.
fn updated_parts(weights: &Weights, stage: ZeroStage, partition: &Partition) -> Result<Vec<Tensor>> {
    match (weights, stage) {
        (Weights::Parts(gathered), _) => Ok(gathered.parts().to_vec()),
        (Weights::Whole(whole), ZeroStage::Disabled) => Ok(whole.layers().to_vec()),
        (Weights::Whole(whole), _) => partition.own_of_all(whole.layers()),
    }
}
