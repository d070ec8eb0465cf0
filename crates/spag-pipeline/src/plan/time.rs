//! The least time of an optimizer step: FLOPs over the peak and bytes over bandwidths, each at an assumed share.
//!
//! A step has four parts, one after another. In the passes, products, collectives and uploads of parameters run at the same time. The
//! update begins when the norm of all gradients is known; on the host, it runs beside the copies of gradients and parameters. Then come
//! collectives that wait for the last pass or the update. Checkpoints are written beside the steps; a step has the share of one for which
//! the next one waits.
//!
//! Legend: N ranks that share a state, on H hosts, P parameters, S length of the sample that a token is of, Q query size, L blocks.

use serde::Serialize;
use spag_model::Architecture;
use spag_model::params::Layout;
use spag_train::{
    IntervalStrategy, Placement, RankMemory, ShardWithin, ShardingPlan, TrainConfig, ZeroStage, checkpoint_bytes,
};

use super::assumptions::Assumptions;
use super::settings::Settings;
use crate::config::Figures;

/// Lower bounds in seconds for an optimizer step and its parts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct StepTime {
    /// The passes: the longest of the next three.
    pub(crate) passes: f64,
    /// Matrix products of the busiest rank in each pass.
    pub(crate) compute: f64,
    /// What of that the mean rank waits for the busiest one.
    pub(crate) imbalance: f64,
    /// Collectives during the passes.
    pub(crate) links: f64,
    /// Uploads of offloaded parameters for the passes.
    pub(crate) host_links: f64,
    /// The update: what the device does, and the longest of the other three.
    pub(crate) update: f64,
    /// Memory of the device: gradients are read for their norm; the optimizer's update if its state is there.
    pub(crate) device_update: f64,
    /// Memory of the host: the optimizer's update if its state is there, for all ranks of the host.
    pub(crate) host_update: f64,
    /// Gradients on the way to an optimizer on the host.
    pub(crate) gradients_down: f64,
    /// New parameters on the way back.
    pub(crate) parameters_up: f64,
    /// Collectives that nothing runs beside: gradients before the update, or new parameters after it.
    pub(crate) exchange: f64,
    /// What of a checkpoint the steps between two are too short for, over these steps. None is counted if they are written by epochs.
    pub(crate) checkpoints: f64,
    /// The whole checkpoint.
    pub(crate) checkpoint: f64,
    /// Passes, update, exchange and checkpoints.
    pub(crate) step: f64,
    /// Tokens per second that all ranks compute together in a step that takes no longer.
    pub(crate) tokens_per_second: f64,
}

/// What a plan's step is made of.
pub(crate) struct PlannedStep<'a> {
    pub(crate) model: &'a Architecture,
    pub(crate) settings: &'a Settings,
    /// The settings of training, with the blocks whose activations are kept.
    pub(crate) config: &'a TrainConfig,
    pub(crate) plan: ShardingPlan,
    pub(crate) memory: &'a RankMemory,
    pub(crate) gpu: &'a Figures,
    pub(crate) assumed: &'a Assumptions,
}

impl PlannedStep<'_> {
    pub(crate) fn time(&self) -> StepTime {
        let Self { settings, plan, .. } = self;
        let (gpus, work) = (settings.gpus as f64, &settings.workload);
        let even = work.tokens / gpus * self.flops_per_token()
            / (self.gpu.flops(self.config.dtype()) * self.assumed.flops_share);
        let compute = even * work.rank_load;
        // Gradients are summed in the format of reductions. Stage 3 gathers the parameters in the forward and in the backward pass; other
        // stages gather whole gradients (f32) before the update, or the parameters after it.
        let (element, trained) = (self.config.dtype().bytes() as f64, self.trained());
        let reduced = self.config.reduce_dtype.bytes() as f64;
        let (in_pass, after) = match plan.stage {
            ZeroStage::Disabled => (reduced, 4.0),
            ZeroStage::OptimizerState | ZeroStage::Gradients => (reduced, element),
            ZeroStage::Parameters => (reduced + 2.0 * element, 0.0),
        };
        let n = plan.shards(settings.gpus, settings.local_gpus()) as f64;
        let collective = |bytes: f64| bytes * trained * (n - 1.0) / n / self.link();
        let links = work.passes * collective(in_pass);
        // The ranks of a host share its network, and each sends its shards of the gradients' sums, once a step.
        let hosts = gpus / settings.local_gpus() as f64;
        let between_hosts = match plan.within {
            ShardWithin::All => 0.0,
            ShardWithin::Host => {
                2.0 * reduced * trained * (hosts - 1.0) / hosts / (self.assumed.network_bytes * self.assumed.link_share)
            }
        };
        let host_links = match plan.parameters {
            Placement::Device => 0.0,
            Placement::Host => work.passes * 2.0 * element * trained / n / self.host_link(),
        };
        let passes = compute.max(links).max(host_links);
        let (device_update, host_update, gradients_down, parameters_up) = self.update();
        let update = device_update + host_update.max(gradients_down).max(parameters_up);
        let exchange = between_hosts + collective(after);
        let without = passes + update + exchange;
        let checkpoint = checkpoint_bytes(self.model, self.config) as f64 / self.assumed.disk_bytes;
        let checkpoints = match self.config.save_strategy {
            IntervalStrategy::Steps => (checkpoint / self.config.save_steps.max(1) as f64 - without).max(0.0),
            IntervalStrategy::No | IntervalStrategy::Epoch => 0.0,
        };
        let step = without + checkpoints;
        StepTime {
            passes,
            compute,
            imbalance: compute - even,
            links,
            host_links,
            update,
            device_update,
            host_update,
            gradients_down,
            parameters_up,
            exchange,
            checkpoints,
            checkpoint,
            step,
            tokens_per_second: work.tokens / step,
        }
    }

    /// What has gradients: all weights, or an adapter's.
    fn trained(&self) -> f64 {
        self.config.trained_layout(self.model).len() as f64
    }

    /// Two FLOPs per weight and token forward, four backward, of which a frozen weight has two; causal attention reads half of all
    /// pairs.
    fn flops_per_token(&self) -> f64 {
        let (model, config) = (self.model, self.config);
        let layout = Layout::new(model);
        let size = |layer: Option<&spag_model::params::LayerLayout>| layer.map_or(0, |layer| layer.len) as f64;
        let embedding = if model.is_tied() { 0.0 } else { size(layout.layers.first()) };
        let multiplied = layout.len() as f64 - embedding;
        let attended = model.num_hidden_layers as f64 * self.settings.workload.context * model.query_size() as f64;
        let of_weights = match config.lora_r {
            None => 6.0 * multiplied,
            Some(_) => 4.0 * multiplied + 6.0 * self.trained(),
        };
        // A block is recomputed to its last product, which only a norm behind it needs.
        let down = if model.norms.after() { 0 } else { model.hidden_size * model.intermediate_size };
        let not_again = size(layout.layers.last()) + (model.num_hidden_layers * down) as f64;
        let blocks = model.num_hidden_layers;
        let share = 1.0 - config.activations().kept_of(blocks) as f64 / blocks.max(1) as f64;
        let recomputed = share * 2.0 * (multiplied - not_again + attended);
        of_weights + 6.0 * attended + recomputed
    }

    /// Seconds of the device's memory, of the host's, of gradients to the host and of parameters from it.
    fn update(&self) -> (f64, f64, f64, f64) {
        let Self { settings, plan, memory, .. } = self;
        let (gradients, state) = (memory.gradients() as f64, memory.optimizer_state() as f64);
        let updated = gradients / 4.0;
        let parameters = updated * self.config.dtype().bytes() as f64;
        let on_device = |bytes: f64| bytes / (self.gpu.memory_bytes * self.assumed.memory_share);
        let norm = on_device(gradients);
        let parameters_on_host = plan.parameters == Placement::Host;
        if plan.optimizer == Placement::Device && !parameters_on_host {
            return (norm + on_device(gradients + 2.0 * state + parameters), 0.0, 0.0, 0.0);
        }
        let copied = updated * self.config.optim_grad_dtype.bytes() as f64;
        // The copy and the update each read or write what passes through the host's memory; parameters that stay are written once.
        let of_rank = 2.0 * copied + 2.0 * state + if parameters_on_host { parameters } else { 2.0 * parameters };
        let host = self.assumed.host_memory_bytes * self.assumed.memory_share / settings.local_gpus() as f64;
        let up = if parameters_on_host { 0.0 } else { parameters };
        (norm, of_rank / host, copied / self.host_link(), up / self.host_link())
    }

    /// Bytes per second of a collective between the ranks that share a state.
    fn link(&self) -> f64 {
        let crosses = self.settings.gpus > self.settings.gpus_per_node && self.plan.within == ShardWithin::All;
        let network = if crosses { self.assumed.network_bytes } else { f64::INFINITY };
        self.gpu.link_bytes.min(network) * self.assumed.link_share
    }

    /// Bytes per second between a GPU and its host.
    fn host_link(&self) -> f64 {
        self.gpu.host_link_bytes * self.assumed.link_share
    }
}
