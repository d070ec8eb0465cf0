//! How long an optimizer step takes: an estimate from FLOPs, bytes and links.
//!
//! Legend: N ranks, P parameters, T tokens of a micro-batch, S of a sequence, D hidden size, Q query size, F feed-forward
//! size, L blocks.

use serde::Serialize;
use spag_model::{Architecture, Layout, WeightDtype};
use spag_train::{Placement, ShardingPlan, ZeroStage};

use super::hardware::{Assumptions, Figures};
use super::settings::Settings;

/// Bytes that AdamW reads and writes per element: gradient, moments and master weight in, moments, master weight and
/// parameter out.
const UPDATE_BYTES: f64 = 30.0;

/// Seconds of an optimizer step and of its parts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct StepTime {
    /// Computation of all micro-batches.
    pub(crate) compute: f64,
    /// Collectives between ranks, for all micro-batches.
    pub(crate) links: f64,
    /// Uploads of offloaded parameters, for all micro-batches.
    pub(crate) host_links: f64,
    /// The update with its transfers.
    pub(crate) update: f64,
    /// The sum: links and host links run beside computing, and the slowest of the three counts.
    pub(crate) step: f64,
    /// Tokens per second of all ranks together.
    pub(crate) tokens_per_second: f64,
}

impl StepTime {
    pub(crate) fn new(
        model: &Architecture,
        settings: &Settings,
        plan: &ShardingPlan,
        gpu: &Figures,
        assumed: &Assumptions,
    ) -> Self {
        let layout = Layout::new(model);
        let (p, n) = (layout.len() as f64, settings.gpus as f64);
        let embedding = layout.layers.first().map_or(0, |layer| layer.len) as f64;
        let head = layout.layers.last().map_or(0, |layer| layer.len) as f64;
        let multiplied = if model.is_tied() { p } else { p - embedding };
        let (d, f) = (model.hidden_size as f64, model.intermediate_size as f64);
        let q = model.query_size() as f64;
        let (l, s) = (model.num_hidden_layers as f64, settings.max_length as f64);
        let t = (settings.per_device_train_batch_size * settings.max_length) as f64;
        let micro_batches = settings.gradient_accumulation_steps as f64;
        let element = settings.dtype().bytes() as f64;
        let recomputed = if settings.gradient_checkpointing { 1.0 } else { 0.0 };
        // Two FLOPs per weight and token forward, four backward; causal attention reads half of all pairs.
        let flops =
            t * (6.0 * multiplied + 6.0 * l * s * q + recomputed * (2.0 * (multiplied - head) + 2.0 * l * s * q));
        let products = flops / (gpu.flops(settings.dtype()) * assumed.flops_share);
        // The weights of each pass, and the gradients, read and written.
        let weights = (3.0 + recomputed) * p * element + 8.0 * p;
        // Norms, RoPE, activations and sums: about ten rows of D and four of F per block and pass.
        let between = (3.0 + recomputed) * l * t * (10.0 * d + 4.0 * f) * element;
        let memory = gpu.memory_bytes * assumed.memory_share;
        let compute = micro_batches * (products.max(weights / memory) + between / memory);

        let others = (n - 1.0) / n;
        let crosses = settings.gpus > settings.gpus_per_node;
        let slowest = if crosses { gpu.link_bytes.min(assumed.network_bytes) } else { gpu.link_bytes };
        let link = slowest * assumed.link_share;
        let reduced = match plan.stage {
            ZeroStage::Disabled => 2.0 * 4.0 * p,
            _ => 4.0 * p,
        };
        let gathered = if plan.stage == ZeroStage::Parameters { 2.0 * element * p } else { 0.0 };
        let links = micro_batches * others * (reduced + gathered) / link;
        let host_link = gpu.host_link_bytes * assumed.link_share;
        let host_links = match plan.parameters {
            Placement::Device => 0.0,
            Placement::Host => micro_batches * 2.0 * element * (p / n) / host_link,
        };

        let own = if plan.stage == ZeroStage::Disabled { p } else { p / n };
        let updating = match plan.optimizer {
            Placement::Device => UPDATE_BYTES * own / memory,
            Placement::Host => {
                let here = settings.local_gpus() as f64;
                (UPDATE_BYTES * own * here / assumed.host_memory_bytes).max(4.0 * own / host_link)
            }
        };
        let gather = match plan.stage {
            ZeroStage::OptimizerState | ZeroStage::Gradients => others * element * p / link,
            ZeroStage::Disabled | ZeroStage::Parameters => 0.0,
        };
        let update = updating + gather;
        let step = compute.max(links).max(host_links) + update;
        Self { compute, links, host_links, update, step, tokens_per_second: t * micro_batches * n / step }
    }
}

/// Of the model's number format, for messages.
pub(crate) fn format_name(dtype: WeightDtype) -> &'static str {
    match dtype {
        WeightDtype::F32 => "f32",
        WeightDtype::Bf16 => "bf16",
    }
}
