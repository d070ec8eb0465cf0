//! Which ranks share a run's state, and which have the same shards.

use std::sync::Arc;

use candle_core::{DType, Tensor};
use spag_dist::{Collective, HostGroups, Pending, ProcessGroup, Single};
use spag_model::dtype::WeightDtype;
use spag_ops::cast::{converted, widened};

use crate::config::ShardWithin;
use crate::error::Result;

/// The ranks of a run by what they store.
#[derive(Clone)]
pub(crate) struct StateRanks {
    /// All.
    pub(super) all: Arc<dyn ProcessGroup>,
    /// Those that share a state: layers are gathered and gradients reduce-scattered among them in each pass.
    pub(super) shards: Arc<dyn ProcessGroup>,
    /// Those with the same shards, whose gradients are summed once a step.
    replicas: Arc<dyn ProcessGroup>,
}

impl StateRanks {
    /// The state is sharded over all ranks, or over those of each host.
    ///
    /// # Errors
    /// Hosts with unequal numbers of ranks, or a lost rank.
    pub(super) fn new(group: Arc<dyn ProcessGroup>, within: ShardWithin) -> Result<Self> {
        let by_host = match within {
            ShardWithin::All => None,
            ShardWithin::Host => group.by_host()?,
        };
        let one = || HostGroups { within: group.clone(), between: Arc::new(Single) };
        let HostGroups { within: shards, between: replicas } = by_host.unwrap_or_else(one);
        Ok(Self { all: group, shards, replicas })
    }

    /// Whether other ranks have the same shards.
    pub(super) fn has_replicas(&self) -> bool {
        self.replicas.size() > 1
    }

    /// Whether this rank's shards count in sums over all ranks, which have each shard once.
    pub(super) fn counts(&self) -> bool {
        self.replicas.rank() == 0
    }

    /// Replaces gradients (f32) by their sums over the replicas, rounded to `dtype` before they are sent.
    pub(super) fn sum_over_replicas(&self, gradients: &[Tensor], dtype: WeightDtype) -> Result<()> {
        if !self.has_replicas() {
            return Ok(());
        }
        // One layer is rounded while the one before it is sent.
        let mut before: Option<Reduction<'_>> = None;
        // Devices run no kernel of zero blocks, and an adapter has empty layers.
        for gradient in gradients.iter().filter(|gradient| gradient.elem_count() > 0) {
            let sent = converted(gradient, DType::from(dtype))?;
            let pending = self.replicas.start(Collective::AllReduce(sent.clone()))?;
            before.replace(Reduction { sent, pending, gradient }).map_or(Ok(()), Reduction::finish)?;
        }
        before.map_or(Ok(()), Reduction::finish)
    }
}

/// A sum over the replicas on its way.
struct Reduction<'a> {
    /// The gradient itself, or a rounded copy.
    sent: Tensor,
    pending: Pending,
    gradient: &'a Tensor,
}

impl Reduction<'_> {
    fn finish(self) -> Result<()> {
        self.pending.wait()?;
        if self.sent.dtype() != self.gradient.dtype() {
            self.gradient.slice_set(&widened(&self.sent)?, 0, 0)?;
        }
        Ok(())
    }
}
