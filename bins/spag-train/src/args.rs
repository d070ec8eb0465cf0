//! The flags of `spag-train` and the settings that they resolve to.

use std::path::PathBuf;

use clap::{ArgAction, Parser};
use spag_train::{IntervalStrategy, JobSettings, Start, TrainConfig};

use spag_cli::{BosArgs, DeviceArgs, Error, Result, TemplateSettings, flags};

/// Train a checkpoint on samples with SFT, SFTwithKL (imitation) or OfflinePO (self-play).
///
/// Takes the flags of the reference's training script, in snake_case or kebab-case. Flags of `transformers` without effect
/// are accepted with a note. Values that would change the result are errors.
#[derive(Debug, Parser)]
#[command(name = "spag-train", version, rename_all = "snake_case", max_term_width = 110)]
pub(crate) struct TrainArgs {
    /// The checkpoint to train: a Hugging Face folder or a GGUF file. A folder is written.
    #[arg(long, value_name = "DIR", help_heading = "Model and data")]
    pub(super) model_name_or_path: PathBuf,
    /// A LoRA adapter of the checkpoint to continue training: a folder in PEFT's format, which has the settings of the adapter.
    /// The optimizer state is new.
    #[arg(long, value_name = "DIR", help_heading = "Adapter")]
    pub(super) adapter: Option<PathBuf>,
    /// The frozen reference model of the KL term.
    #[arg(long, value_name = "DIR", help_heading = "Model and data")]
    pub(super) ref_model_name_or_path: Option<PathBuf>,
    /// Samples to train on: JSON lists or JSONL.
    #[arg(long, value_name = "FILE", num_args = 1.., required = true, help_heading = "Model and data")]
    pub(super) train_data_path: Vec<PathBuf>,
    /// Output folder of the trained model, metrics.jsonl and checkpoints.
    #[arg(long, value_name = "DIR", help_heading = "Model and data")]
    pub(super) output_dir: PathBuf,
    #[command(flatten)]
    pub(super) config: TrainConfig,

    /// Folder of TensorBoard events [default: runs/ in --output_dir].
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub(super) logging_dir: Option<PathBuf>,
    /// Metrics besides metrics.jsonl: tensorboard, or none.
    #[arg(long, value_name = "NAME", num_args = 1.., default_value = "tensorboard", help_heading = "Output")]
    pub(super) report_to: Vec<String>,
    /// Resume from a checkpoint folder, or from the latest checkpoint in --output_dir (latest). Starts from scratch if there
    /// is no checkpoint yet, so latest is always safe to pass.
    #[arg(long, value_name = "DIR|latest", help_heading = "Output")]
    pub(super) resume_from_checkpoint: Option<PathBuf>,
    /// Start from scratch in an --output_dir that holds checkpoints, a model or results: checkpoints are deleted, other files
    /// replaced. Without the flag such a folder is refused.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, action = ArgAction::Set, default_value = "False", default_missing_value = "True", value_parser = flags::truth, help_heading = "Output")]
    pub(super) overwrite_output_dir: bool,

    #[command(flatten)]
    pub(super) bos: BosArgs,
    #[command(flatten)]
    pub(super) template: TemplateSettings,
    #[command(flatten)]
    pub(super) device: DeviceArgs,
    #[command(flatten)]
    pub(super) job: JobSettings,
}

impl TrainArgs {
    /// The settings that the flags resolve to, with samples of at most `max_length` tokens.
    pub(super) fn config(&self, max_length: usize) -> TrainConfig {
        let config = TrainConfig { max_length, ..self.config.clone() };
        if self.job.eval_data_path.is_empty() {
            return TrainConfig { evaluation_strategy: IntervalStrategy::No, ..config };
        }
        config
    }

    /// How the run starts. `transformers` writes `True` for `latest`.
    pub(super) fn start(&self) -> Result<Start> {
        let asked = self.resume_from_checkpoint.as_ref().map(|path| (path, path.to_string_lossy()));
        let resumes = asked.filter(|(_, text)| !text.is_empty() && flags::truth(text) != Ok(false));
        match (resumes, self.overwrite_output_dir) {
            (None, false) => Ok(Start::New),
            (None, true) => Ok(Start::Overwrite),
            (Some(_), true) => Err(Error::BadValue {
                flag: "--overwrite_output_dir True".into(),
                problem: "it would delete the checkpoint of --resume_from_checkpoint; use only one of the two".into(),
            }),
            (Some((_, text)), false) if text == "latest" || flags::truth(&text) == Ok(true) => Ok(Start::Latest),
            (Some((path, _)), false) => Ok(Start::From(path.clone())),
        }
    }

    /// The folder of TensorBoard events, if any, and the names in --report_to that are not supported.
    pub(super) fn events(&self) -> (Option<PathBuf>, Vec<&str>) {
        let known = |name: &str| matches!(name, "tensorboard" | "all" | "none");
        let others = self.report_to.iter().map(String::as_str).filter(|name| !known(name)).collect();
        let folder = || self.logging_dir.clone().unwrap_or_else(|| self.output_dir.join("runs"));
        ((!self.report_to.iter().any(|name| name == "none")).then(folder), others)
    }
}
