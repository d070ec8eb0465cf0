//! `spag plan`: what a run would need and how long it would take, before anything is rented.

mod hardware;
mod model;
mod report;
mod settings;
mod time;

use std::path::PathBuf;

use clap::{ArgAction, Args};

use hardware::{Assumptions, Gpu};
use report::Report;
use settings::{Place, Settings};
use spag_cli::{Result, exit, flags};

/// Say how much memory a training run needs, what fits, and about how long a step takes.
///
/// Without --zero_stage or --deepspeed, all stages and offloads are compared.
#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(crate) struct PlanArgs {
    /// A plan (.toml; configs/launch has some), or a model's config.json. Flags go before what it says.
    #[arg(value_name = "CONFIG")]
    config: Option<PathBuf>,
    /// The model: its folder, or its config.json.
    #[arg(long, value_name = "DIR|FILE")]
    model_name_or_path: Option<PathBuf>,
    /// GPUs in all, one rank each; 1 by default.
    #[arg(long, value_name = "N", value_parser = flags::count)]
    gpus: Option<usize>,
    /// GPUs that share a host; 8 by default.
    #[arg(long, value_name = "N", value_parser = flags::count)]
    gpus_per_node: Option<usize>,
    /// The kind of GPU; by default one with --gpu_memory.
    #[arg(long, value_name = "KIND")]
    gpu: Option<Gpu>,
    /// GiB of a GPU, where it is not what its kind has.
    #[arg(long, value_name = "GIB", value_parser = flags::positive)]
    gpu_memory: Option<f64>,
    /// GiB of a host; not checked where it is not given.
    #[arg(long, value_name = "GIB", value_parser = flags::positive)]
    host_memory: Option<f64>,
    /// Gbit/s between hosts, per host and each way; 200 by default.
    #[arg(long, value_name = "GBIT", value_parser = flags::positive)]
    network: Option<f64>,
    /// Samples of a micro-batch; 8 by default.
    #[arg(long, value_name = "N", value_parser = flags::count)]
    per_device_train_batch_size: Option<usize>,
    /// Micro-batches of an optimizer step; 1 by default.
    #[arg(long, value_name = "N", value_parser = flags::count)]
    gradient_accumulation_steps: Option<usize>,
    /// Tokens of a sample; 2048 by default.
    #[arg(long, value_name = "N", value_parser = flags::count)]
    max_length: Option<usize>,
    /// Parameters and activations in bf16.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, action = ArgAction::Set, default_missing_value = "True", value_parser = flags::truth)]
    bf16: Option<bool>,
    /// Compute activations again in the backward pass.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, action = ArgAction::Set, default_missing_value = "True", value_parser = flags::truth)]
    gradient_checkpointing: Option<bool>,
    /// ZeRO settings in DeepSpeed's JSON.
    #[arg(long, value_name = "FILE")]
    deepspeed: Option<PathBuf>,
    /// What is split over the ranks: 0 nothing, 1 the optimizer's state, 2 gradients too, 3 parameters too.
    #[arg(long, value_name = "STAGE")]
    zero_stage: Option<u8>,
    /// Where the optimizer's state lies: none (with the model) or cpu; with --zero_stage.
    #[arg(long, value_name = "PLACE")]
    offload_optimizer: Option<Place>,
    /// Where the parameters lie: none (on the device) or cpu; with --zero_stage 3.
    #[arg(long, value_name = "PLACE")]
    offload_param: Option<Place>,
    /// Print JSON: bytes and seconds.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: PlanArgs) -> Result<()> {
    let settings = Settings::new(&args)?;
    let model = model::read(&settings.model)?;
    let report = Report {
        model: &model.config,
        remark: model.remark.as_deref(),
        settings: &settings,
        gpu: settings.gpu.figures(),
        assumed: Assumptions::new(settings.network),
    };
    match args.json {
        true => exit::say(format_args!("{:#}", report.json())),
        false => exit::say(report.text().trim_end()),
    }
}
