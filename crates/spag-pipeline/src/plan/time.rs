//! The least time of an optimizer step: FLOPs over the peak and bytes over bandwidths, each at one assumed share.
//!
//! Legend: N ranks on H hosts, P parameters, T tokens of a micro-batch, S of a sequence, Q query size, L blocks.

use serde::Serialize;
use spag_model::Architecture;
use spag_model::params::Layout;
use spag_train::{Placement, ShardWithin, ShardingPlan, ZeroStage};

use super::assumptions::Assumptions;
use super::settings::Settings;
use crate::config::Figures;

/// Lower bounds in seconds for an optimizer step and its parts, which may run at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct StepBound {
    /// Matrix products.
    pub(crate) compute: f64,
    /// Collectives between ranks.
    pub(crate) links: f64,
    /// Uploads of offloaded parameters.
    pub(crate) host_links: f64,
    /// The largest of the three.
    pub(crate) step: f64,
    /// Tokens per second of all ranks together in a step that takes no longer.
    pub(crate) tokens_per_second: f64,
}

impl StepBound {
    pub(crate) fn new(
        model: &Architecture,
        settings: &Settings,
        plan: &ShardingPlan,
        gpu: &Figures,
        assumed: &Assumptions,
    ) -> Self {
        let (layout, config) = (Layout::new(model), &settings.config);
        let (p, n) = (layout.len() as f64, settings.gpus as f64);
        // What has gradients: all weights, or an adapter's.
        let trained = if config.lora_r.is_some() { config.trained_layout(model).len() as f64 } else { p };
        let size = |layer: Option<&spag_model::params::LayerLayout>| layer.map_or(0, |layer| layer.len) as f64;
        let head = size(layout.layers.last());
        let multiplied = if model.is_tied() { p } else { p - size(layout.layers.first()) };
        let attended = model.num_hidden_layers as f64 * config.max_length as f64 * model.query_size() as f64;
        let t = (config.per_device_train_batch_size * config.max_length) as f64;
        let micro_batches = config.gradient_accumulation_steps as f64;
        // Layers are gathered, and their gradients reduced, in each pass.
        let passes = (micro_batches * t / config.tokens_of_pass() as f64).ceil();
        let element = config.dtype().bytes() as f64;
        // A block is recomputed to its last product, which only a norm behind it needs.
        let down = if model.norms.after() { 0 } else { model.hidden_size * model.intermediate_size };
        let not_again = head + (model.num_hidden_layers * down) as f64;
        let recomputed = if config.gradient_checkpointing { 2.0 * (multiplied - not_again + attended) } else { 0.0 };
        // Two FLOPs per weight and token forward, four backward, of which a frozen weight has two; causal attention reads half of all
        // pairs.
        let of_weights = match config.lora_r {
            None => 6.0 * multiplied,
            Some(_) => 4.0 * multiplied + 6.0 * trained,
        };
        let flops = t * (of_weights + 6.0 * attended + recomputed);
        let compute = micro_batches * flops / (gpu.flops(config.dtype()) * assumed.flops_share);

        let hosts = n / settings.local_gpus() as f64;
        let crosses = hosts > 1.0 && plan.within == ShardWithin::All;
        let link = if crosses { gpu.link_bytes.min(assumed.network_bytes) } else { gpu.link_bytes };
        // Gradients are f32. Stage 3 gathers the parameters in the forward and in the backward pass.
        let sent = match plan.stage {
            ZeroStage::Disabled => 8.0 * trained,
            ZeroStage::OptimizerState | ZeroStage::Gradients => 4.0 * trained,
            ZeroStage::Parameters => (4.0 + 2.0 * element) * trained,
        };
        let shards = plan.shards(settings.gpus, settings.local_gpus()) as f64;
        let in_passes = passes * sent * (shards - 1.0) / shards / link;
        // The ranks of a host share its network, and each sends its shards of the gradients' sums.
        let between_hosts = match plan.within {
            ShardWithin::All => 0.0,
            ShardWithin::Host => 8.0 * trained * (hosts - 1.0) / hosts / assumed.network_bytes,
        };
        let links = (in_passes + between_hosts) / assumed.link_share;
        let host_links = match plan.parameters {
            Placement::Device => 0.0,
            Placement::Host => passes * 2.0 * element * trained / shards / (gpu.host_link_bytes * assumed.link_share),
        };
        let step = compute.max(links).max(host_links);
        Self { compute, links, host_links, step, tokens_per_second: t * micro_batches * n / step }
    }
}
