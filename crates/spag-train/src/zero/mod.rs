//! ZeRO (Rajbhandari et al. 2020): a run's state, sharded over its ranks.
//!
//! | stage | parameters | gradients | optimizer state | traffic of a step with one micro-batch, Ψ parameters |
//! |---|---|---|---|---|
//! | 0 | whole | whole | whole | 2Ψ: reduce-scatter and all-gather of the gradients |
//! | 1 | whole | shards | shards | 2Ψ: reduce-scatter of the gradients, all-gather of the new parameters |
//! | 2 | whole | shards | shards | 2Ψ |
//! | 3 | shards | shards | shards | 3Ψ: reduce-scatter of the gradients, all-gather of the parameters for each pass |
//!
//! Each Ψ is (N − 1)/N of the model, sent and received by every rank. In every stage, gradients are reduced after each
//! micro-batch, layer by layer during the backward pass, and each rank accumulates its shards of the sums. So all stages
//! give the same bits with the same ranks. Stages 1 and 2 are therefore the same here. Each further micro-batch of a
//! step costs another Ψ, in stage 3 three.
//!
//! Buffers are sharded per layer ([`Partition`]).
//!
//! With `--shard_within host` (hybrid sharding: FSDP's `HYBRID_SHARD`) each of H hosts has a whole state, sharded over its L ranks
//! ([`StateRanks`](ranks::StateRanks)). The traffic of the table is then within hosts, with L for N. After the last pass of a step,
//! each rank's shards of the sums, Ψ / L gradients, are summed with those of its peers on the other hosts, the ranks with the same
//! local rank, before norm and update. Of each shard a rank sends 2 · (H − 1)/H to another host, in parts of ⌈length / H⌉:
//!
//! ```text
//! bytes between hosts, of each host in a step = 2 · (H − 1)/H · (bytes of all gradients, padded to L shards a layer)
//! ```
//!
//! (of f32, or half with `--reduce_dtype bf16`) whatever the stage and the number of passes. Sums are in the order: ranks of a host in each pass, passes, hosts. So all stages give
//! the same bits here, too, but those of a run over all ranks up to rounding.
//!
//! With `--reduce_dtype bf16`, the gradients of a layer, sums of f32 over the tokens of a pass, are rounded to bf16, and so is each
//! sum of two ranks' while they are reduce-scattered, in the order of [`Collective`](spag_dist::Collective). The own shard is widened
//! and added in f32 to the sum over passes. Sums between hosts are rounded likewise, once more. Norm, clipping and optimizer get f32.

mod grad_shards;
mod layer_cache;
mod param_shards;
mod partition;
mod ranks;
mod stale;
mod state;
mod whole_gradients;

pub(crate) use grad_shards::REDUCING_LAYERS;
pub(crate) use layer_cache::LayerCache;
pub(crate) use partition::Partition;
pub(crate) use state::ShardedState;

use crate::error::Error;

/// Wraps an error that passes through the model.
fn into_model(error: Error) -> spag_model::Error {
    match error {
        Error::Model(error) => error,
        error => spag_model::Error::WeightSource(Box::new(error)),
    }
}
