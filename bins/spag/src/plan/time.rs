//! How long an optimizer step takes: an estimate from FLOPs, bytes and links.
//!
//! Legend: N ranks, P parameters, T tokens of a micro-batch, S of a sequence, D hidden size, F feed-forward size, L blocks.

use serde::Serialize;
use spag_model::{Activations, Layout, LlamaConfig, OptimizerPlace, ParameterPlace, Sharding, WeightDtype};

use super::hardware::{Assumptions, Figures};
use super::settings::{Choice, Settings};

/// Bytes that AdamW reads and writes per element: gradient, moments and master weight in, moments, master weight and
/// parameter out.
const UPDATE_BYTES: f64 = 30.0;

/// Seconds of an optimizer step, and what they are made of.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct StepTime {
    /// Computing all micro-batches.
    pub(crate) compute: f64,
    /// Bringing layers together and gradients to their ranks, for all micro-batches.
    pub(crate) links: f64,
    /// Bringing offloaded parameters to the device, for all micro-batches.
    pub(crate) host_links: f64,
    /// The update, with what moves for it.
    pub(crate) update: f64,
    /// All of it: links and host links are taken to run beside computing, the slowest of the three counts.
    pub(crate) step: f64,
    /// Tokens a second of all ranks together.
    pub(crate) tokens_per_second: f64,
}

impl StepTime {
    pub(crate) fn new(
        model: &LlamaConfig,
        settings: &Settings,
        choice: &Choice,
        gpu: &Figures,
        assumed: &Assumptions,
    ) -> Self {
        let layout = Layout::new(model);
        let (p, n) = (layout.len() as f64, settings.gpus as f64);
        let embedding = layout.layers.first().map_or(0, |layer| layer.len) as f64;
        let head = layout.layers.last().map_or(0, |layer| layer.len) as f64;
        let multiplied = if model.tie_word_embeddings { p } else { p - embedding };
        let (d, f) = (model.hidden_size as f64, model.intermediate_size as f64);
        let (l, s) = (model.num_hidden_layers as f64, settings.max_length as f64);
        let t = (settings.per_device_train_batch_size * settings.max_length) as f64;
        let micro_batches = settings.gradient_accumulation_steps as f64;
        let element = settings.dtype().bytes() as f64;
        let again = match settings.activations() {
            Activations::Keep => 0.0,
            Activations::Recompute => 1.0,
        };
        // Two FLOPs a weight and token forward, four backward; causal attention reads half of all pairs.
        let flops = t * (6.0 * multiplied + 6.0 * l * s * d + again * (2.0 * (multiplied - head) + 2.0 * l * s * d));
        let products = flops / (gpu.flops(settings.dtype()) * assumed.flops_share);
        // Weights of each pass, and gradients read and written.
        let weights = (3.0 + again) * p * element + 8.0 * p;
        // Norms, rotations, activations and sums: about ten rows of D and four of F a block and pass.
        let between = (3.0 + again) * l * t * (10.0 * d + 4.0 * f) * element;
        let memory = gpu.memory_bytes * assumed.memory_share;
        let compute = micro_batches * (products.max(weights / memory) + between / memory);

        let others = (n - 1.0) / n;
        let crosses = settings.gpus > settings.gpus_per_node;
        let slowest = if crosses { gpu.link_bytes.min(assumed.network_bytes) } else { gpu.link_bytes };
        let link = slowest * assumed.link_share;
        let reduced = match choice.sharding {
            Sharding::Nothing => 2.0 * 4.0 * p,
            _ => 4.0 * p,
        };
        let gathered = if choice.sharding == Sharding::Parameters { 2.0 * element * p } else { 0.0 };
        let links = micro_batches * others * (reduced + gathered) / link;
        let host_link = gpu.host_link_bytes * assumed.link_share;
        let host_links = match choice.parameters {
            ParameterPlace::Device => 0.0,
            ParameterPlace::Host => micro_batches * 2.0 * element * (p / n) / host_link,
        };

        let own = if choice.sharding == Sharding::Nothing { p } else { p / n };
        let updating = match choice.optimizer {
            OptimizerPlace::Device => UPDATE_BYTES * own / memory,
            OptimizerPlace::Host => {
                let here = settings.gpus.min(settings.gpus_per_node) as f64;
                (UPDATE_BYTES * own * here / assumed.host_memory_bytes).max(4.0 * own / host_link)
            }
        };
        let spread = match choice.sharding {
            Sharding::OptimizerState | Sharding::Gradients => others * element * p / link,
            Sharding::Nothing | Sharding::Parameters => 0.0,
        };
        let update = updating + spread;
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
