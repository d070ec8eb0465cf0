//! What the ranks compute in a step of a plan: by the lengths of samples, dealt as training deals them.

use std::path::{Path, PathBuf};

use serde::Serialize;
use spag_chat::PromptEncoder;
use spag_model::checkpoint::load_tokenizer;
use spag_rewards::{Sample, read_samples};
use spag_train::{Dataset, RankLoad, TrainConfig, TrainMethod, limits};

use super::assumptions::Assumptions;
use super::lengths::lengths_of_mean;
use crate::error::{Error, Result};

/// Samples of a step times passes, up to which dealing takes seconds.
const MAX_DEAL: usize = 1 << 24;
/// The same for all steps that are dealt.
const MAX_DEALS: usize = 1 << 26;
/// Steps that are dealt at most: their mean is near that of all.
const MAX_STEPS: usize = 256;

spag_io::settings! {
    /// The samples that a plan is for.
    #[derive(clap::Args)]
    pub flags PlannedSamples {
        /// Samples, by whose lengths the time of a step and the load of the ranks are planned. They are tokenized as for training if the
        /// model's folder has a tokenizer
        #[arg(value_name = "FILE", num_args = 1.., help_heading = "Samples")]
        pub train_data_path: Vec<PathBuf>;
        /// Mean tokens of a sample, if the samples are not there; memory is that of --max_length [default: --max_length]
        #[arg(value_name = "X", help_heading = "Samples")]
        pub mean_length: Option<f64> [1.0..=*limits::LENGTH.end() as f64];
    }
}

/// What the ranks compute in a step.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Workload {
    /// Tokens of all ranks.
    pub(super) tokens: f64,
    /// The length of the sample that a token is of, on average.
    pub(super) context: f64,
    /// Passes of each rank.
    pub(super) passes: f64,
    /// Computed tokens of the busiest rank over the mean rank's; 1 is even.
    pub(super) rank_load: f64,
    /// Where the lengths are from.
    pub(super) lengths: String,
}

impl Workload {
    /// Samples of the maximum length.
    pub(super) fn longest(config: &TrainConfig, ranks: usize) -> Self {
        let samples = config.per_device_train_batch_size as f64 * config.gradient_accumulation_steps as f64;
        let tokens = samples * config.max_length as f64;
        Self {
            tokens: tokens * ranks as f64,
            context: config.max_length as f64,
            passes: (tokens / config.tokens_of_pass() as f64).ceil(),
            rank_load: 1.0,
            lengths: "assumed: every sample has --max_length tokens".into(),
        }
    }

    /// The samples of `model` that are planned for.
    ///
    /// # Errors
    /// Files that cannot be read or have no samples, flags that contradict each other, or too many samples to deal.
    pub(super) fn new(samples: &PlannedSamples, model: &Path, config: &TrainConfig, ranks: usize) -> Result<Self> {
        let PlannedSamples { train_data_path, mean_length } = samples;
        // Of the loss only whether it needs a reference matters here, which a plan has not.
        let config = &TrainConfig { method: TrainMethod::Sft, ..config.clone() };
        match (&train_data_path[..], *mean_length) {
            ([], None) => Ok(Self::longest(config, ranks)),
            ([], Some(mean)) => Self::of_mean(mean, config, ranks),
            (files, None) => Self::of_files(files, model, config, ranks),
            (_, Some(mean)) => Err(bad(format!("--mean_length {mean}"), "omit it: --train_data_path has the lengths")),
        }
    }

    fn of_mean(mean: f64, config: &TrainConfig, ranks: usize) -> Result<Self> {
        let longest = config.max_length;
        if mean > longest as f64 {
            return Err(bad(format!("--mean_length {mean}"), format!("samples are cut to --max_length {longest}")));
        }
        let (samples, steps) = deal_of("--mean_length", config, ranks)?;
        let load = RankLoad::of_lengths(&lengths_of_mean(mean, longest, samples * steps), config, ranks, steps);
        let lengths =
            format!("assumed: lengths between 1 and --max_length, spread as evenly as a mean of {mean} allows");
        Ok(Self::of(load, lengths))
    }

    fn of_files(files: &[PathBuf], model: &Path, config: &TrainConfig, ranks: usize) -> Result<Self> {
        let (_, steps) = deal_of("--train_data_path", config, ranks)?;
        let mut samples: Vec<Sample> = Vec::new();
        for file in files {
            samples.extend(read_samples(file)?);
        }
        if samples.is_empty() {
            return Err(bad("--train_data_path".into(), "it has no samples"));
        }
        let count = samples.len();
        let Some(folder) = tokenizer_of(model) else {
            let assumed = Assumptions::new(0.0).text_bytes;
            let length = |sample: &Sample| {
                let bytes = sample.query.text().len() + sample.target.len();
                ((bytes as f64 / assumed).ceil() as usize).clamp(1, config.max_length)
            };
            let lengths: Vec<usize> = samples.iter().map(length).collect();
            let load = RankLoad::of_lengths(&lengths, config, ranks, steps);
            let how = format!(
                "assumed: {assumed} bytes of text a token in {count} samples, since the model has no tokenizer"
            );
            return Ok(Self::of(load, how));
        };
        let data = Dataset::new(&samples, &PromptEncoder::new(load_tokenizer(folder)?), config.max_length)?;
        let load = RankLoad::of(&data, config, ranks, steps)?;
        Ok(Self::of(load, format!("lengths are those of {count} samples, by the model's tokenizer")))
    }

    fn of(load: RankLoad, lengths: String) -> Self {
        let RankLoad { passes, tokens, context, load, .. } = load;
        Self { tokens, context, passes, rank_load: load, lengths }
    }
}

/// Samples of a step, and how many steps to deal.
///
/// # Errors
/// Too many samples; `flag` is named.
fn deal_of(flag: &str, config: &TrainConfig, ranks: usize) -> Result<(usize, usize)> {
    let micro_batches = config.gradient_accumulation_steps.saturating_mul(ranks);
    let samples = config.per_device_train_batch_size.saturating_mul(micro_batches);
    let deal = samples.saturating_mul(micro_batches);
    if deal > MAX_DEAL {
        let problem = format!("the {samples} samples of a step are too many to deal to {ranks} ranks; leave it out");
        return Err(bad(flag.into(), problem));
    }
    Ok((samples, (MAX_DEALS / deal.max(1)).clamp(1, MAX_STEPS)))
}

/// The checkpoint with the model's tokenizer, if it has one. Of a folder, `config.json` may be named.
fn tokenizer_of(model: &Path) -> Option<&Path> {
    let is_config = model.extension().is_some_and(|extension| extension == "json");
    let folder = if is_config { model.parent()? } else { model };
    let has = |name: &str| folder.join(name).exists();
    (folder.is_file() || has("tokenizer.json") || has("tokenizer.model")).then_some(folder)
}

fn bad(place: String, problem: impl Into<String>) -> Error {
    Error::Malformed { place, message: problem.into() }
}
