//! `spag plan`: the memory that a training run needs on given hardware, and a bound of its time.

mod hardware;
mod of_run;
mod on_policy;
mod report;
mod run_time;
mod settings;
mod time;

use std::path::PathBuf;

use clap::Args;

use hardware::Gpu;
use report::Report;
use settings::{Settings, TrainingFlags};
use spag_cli::{Result, exit};
use spag_pipeline::MachineSettings;

pub(crate) use of_run::plan_of_run;

/// Show how much memory a training run needs, what fits, and how long a step takes at least.
///
/// Without --zero_stage and --deepspeed, all stages and offloads are compared.
#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(crate) struct PlanArgs {
    /// A plan (.toml, examples in configs/launch), or a model's config.json. Flags override the plan.
    #[arg(value_name = "CONFIG")]
    config: Option<PathBuf>,
    /// The model: its folder, its config.json, or a GGUF file.
    #[arg(long, value_name = "DIR|FILE")]
    model_name_or_path: Option<PathBuf>,
    /// The kind of GPU; by default, chosen by --gpu_memory
    #[arg(long, value_name = "KIND")]
    gpu: Option<Gpu>,
    #[command(flatten)]
    machine: MachineSettings,
    #[command(flatten)]
    training: TrainingFlags,
    /// Print JSON: bytes and seconds.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: PlanArgs) -> Result<()> {
    let json = args.json;
    let (settings, model) = Settings::of_flags(args)?;
    let report = Report::new(&model, &settings);
    if json {
        return exit::say(format_args!("{:#}", report.json()));
    }
    exit::say(report.text().trim_end())
}
