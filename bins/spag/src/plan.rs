//! `spag plan`: the memory that a training run needs on given hardware, and a bound of its time with its parts.

use std::path::PathBuf;

use clap::{Arg, Args};
use spag_cli::flags::Given;
use spag_cli::{Error, Result, exit};
use spag_pipeline::{MachineSettings, PLANNED_LENGTH, PlanFile, PlannedSamples, TrainSettings, TrainingPlan};

/// Show how much memory a training run needs, what fits, and how long a step takes at least.
///
/// Takes the flags of spag-train that change its result or how it is computed; those of schedule and output change no plan, but for
/// checkpoints. By default every sample has --max_length tokens.
/// Without --zero_stage and --deepspeed, all stages and offloads are compared.
#[derive(Debug, Args)]
#[command(rename_all = "snake_case", mut_arg("max_length", planned_length))]
pub(crate) struct PlanArgs {
    /// A plan (.toml, examples in configs/launch), or a model's config.json. Flags override the plan.
    #[arg(value_name = "CONFIG")]
    config: Option<PathBuf>,
    /// The model: its folder, its config.json, or a GGUF file.
    #[arg(long, value_name = "DIR|FILE")]
    model_name_or_path: Option<PathBuf>,
    #[command(flatten)]
    machine: Given<MachineSettings>,
    #[command(flatten)]
    training: Given<TrainSettings>,
    #[command(flatten)]
    samples: Given<PlannedSamples>,
    /// Print JSON: bytes and seconds.
    #[arg(long)]
    json: bool,
}

/// A plan is for longer samples than those of a small training.
fn planned_length(arg: Arg) -> Arg {
    arg.default_value(PLANNED_LENGTH.to_string())
}

pub(crate) fn run(args: PlanArgs) -> Result<()> {
    let is_plan = |path: &PathBuf| path.extension().is_some_and(|end| end == "toml");
    let (path, model) =
        if args.config.as_ref().is_some_and(is_plan) { (args.config, None) } else { (None, args.config) };
    let file = path.as_ref().map(|path| PlanFile::load(path)).transpose()?.unwrap_or_default();
    let Some(model) = args.model_name_or_path.or(model).or(file.model.config) else {
        let problem = "no model is named: pass a config.json, a plan file, or --model_name_or_path";
        return Err(Error::BadValue { flag: "spag plan".into(), problem: problem.into() });
    };
    let machine = args.machine.over(file.hardware).map_err(Error::Flags)?;
    let training = args.training.over(file.training.settings).map_err(Error::Flags)?;
    let samples = args.samples.over(file.training.samples).map_err(Error::Flags)?;
    let plan = TrainingPlan::new(model, machine, training, &samples).map_err(|error| match (path, error) {
        (Some(path), spag_pipeline::Error::Malformed { place, message }) => {
            Error::BadValue { flag: path.display().to_string(), problem: format!("{place}: {message}") }
        }
        (_, error) => error.into(),
    })?;
    if args.json { exit::say(format_args!("{:#}", plan.json())) } else { exit::say(plan.text().trim_end()) }
}
