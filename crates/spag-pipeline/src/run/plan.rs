//! A run before anything starts: its stages, games, samples, steps and files.

use std::path::PathBuf;

use spag_game::{SEATS, read_episodes};
use spag_io::{Silent, folder_size, free_disk};
use spag_model::checkpoint::load_config;
use spag_model::params::Layout;
use spag_model::{Architecture, ModelConfig};
use spag_rewards::{AlpacaTemplate, read_samples, read_sft_samples};
use spag_run::Model;
use spag_train::{IntervalStrategy, TrainConfig, checkpoint_bytes, on_policy_settings};

use super::context::RunInputs;
use super::pairings::{Pairing, WordSet, pairings};
use super::stage::{StageKind, StageWork};
use super::stages;
use crate::config::{ImitationSource, MissingInput, OnlineSettings, RunConfig, SftShare, TrainSettings};
use crate::error::{Error, Result};

/// Samples of a game on average: an assumption. GPT-4's games and the first round of a run with LLaMA-2-7B have about as many.
pub const SAMPLES_PER_GAME: usize = 2;
/// Bytes of a game in files: an assumption.
const GAME_BYTES: u64 = 2 << 10;
/// Bytes of a sample in files: an assumption.
const SAMPLE_BYTES: u64 = 4 << 10;

/// What a run will do.
#[derive(Clone, Debug, PartialEq)]
pub struct RunPlan {
    /// Target words of the training games.
    pub words: usize,
    /// Target words that are held out.
    pub held_out: usize,
    /// The stages in order.
    pub stages: Vec<PlannedStage>,
    /// The files that it writes.
    pub disk: DiskPlan,
}

/// A stage that a run will have.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedStage {
    /// The name, which is also that of its folder in the run folder.
    pub name: String,
    /// What it does in order: play, credit, train, score.
    pub parts: Vec<&'static str>,
    /// Files and folders that it reads.
    pub inputs: Vec<PathBuf>,
    /// Files and folders that it makes.
    pub outputs: Vec<PathBuf>,
    /// Games that it plays.
    pub games: usize,
    /// Its training.
    pub training: Option<PlannedTraining>,
}

/// A training that a run will have.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedTraining {
    /// Samples: those of a file are counted, those of games are [`SAMPLES_PER_GAME`] for each.
    pub samples: usize,
    /// Optimizer steps for them.
    pub steps: usize,
    /// Its settings.
    pub settings: TrainSettings,
    /// Whether it learns from games that it plays meanwhile, with an engine beside the learner.
    pub on_policy: bool,
}

/// Bytes that a run writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskPlan {
    /// Finished models.
    pub models: u64,
    /// Checkpoints that are kept, and one that is being written.
    pub checkpoints: u64,
    /// Games, samples and ℓ_ref.
    pub texts: u64,
}

impl DiskPlan {
    /// All files.
    pub fn total(&self) -> u64 {
        self.models.saturating_add(self.checkpoints).saturating_add(self.texts)
    }
}

/// Plans a run on `ranks` ranks. Reads the words and counts the rows of samples, games and texts; loads no model.
///
/// # Errors
/// Inputs that cannot be read.
pub fn plan_run(config: &RunConfig, ranks: usize) -> Result<RunPlan> {
    plan_run_without(config, &[], ranks)
}

/// As [`plan_run`] before all inputs are there: `[hardware]` has the rows of those that are missing.
///
/// # Errors
/// Inputs that cannot be read, or [`Error::MissingInputs`] if one is missing whose rows are not known.
pub fn plan_run_without(config: &RunConfig, missing: &[MissingInput], ranks: usize) -> Result<RunPlan> {
    let assumed = |setting: &str, rows: Option<usize>| match missing.iter().any(|input| input.setting == setting) {
        true if rows.is_none() => Err(Error::MissingInputs { inputs: missing.to_vec() }),
        true => Ok(rows),
        false => Ok(None),
    };
    let hardware = &config.hardware;
    let rows = AssumedRows {
        words: assumed("words.file", hardware.words)?,
        imitation: assumed("imitation.file", hardware.imitation_rows)?,
        sft: assumed("sft.file", hardware.sft_rows)?,
    };
    plan_with(config, &RunInputs::load(&config.without(missing), &mut Silent)?, &rows, ranks)
}

/// The rows of files that are not there.
#[derive(Clone, Copy, Debug, Default)]
struct AssumedRows {
    words: Option<usize>,
    imitation: Option<usize>,
    sft: Option<usize>,
}

/// As [`plan_run`], for inputs that have been read.
fn plan_with(config: &RunConfig, inputs: &RunInputs, rows: &AssumedRows, ranks: usize) -> Result<RunPlan> {
    let model = load_config(&config.base_model)?;
    let (words, held_out) = match (rows.words, inputs.words()) {
        (Some(all), _) => {
            let held_out = (config.words.holdout * all as f64).round() as usize;
            (all.saturating_sub(held_out), held_out)
        }
        (None, Some(words)) => (words.training.len(), words.held_out.len()),
        (None, None) => (1, 0),
    };
    let sft_rows = match (rows.sft, &config.sft.file) {
        (Some(rows), _) => rows,
        (None, Some(file)) => read_sft_samples(file, &AlpacaTemplate::default())?.len(),
        (None, None) => 0,
    };
    let mut disk = DiskPlan::default();
    let mut planned = Vec::new();
    for stage in stages::list(config) {
        let (games, training) = match stage.kind {
            StageKind::Train(Model::Base) => (0, None),
            StageKind::Train(Model::Im) => imitation(config, words, rows.imitation, ranks)?,
            StageKind::Train(Model::Spag(epoch)) => match &config.online {
                Some(online) => on_policy(config, online, (&model, ranks), epoch),
                None => round(config, (words, sft_rows), ranks, epoch),
            },
            StageKind::Evaluate => {
                let made: Vec<Model> = config.models().collect();
                let played = |(pairing, games): (Pairing, usize)| match pairing.words {
                    WordSet::Trained => games,
                    // Of the game that has words alone.
                    WordSet::HeldOut => inputs
                        .games
                        .iter()
                        .find(|game| game.rules.has_items())
                        .map_or(0, |game| game.part_of(config, games)),
                };
                (pairings(config, &made).into_iter().map(played).sum(), None)
            }
            StageKind::EvaluateFromRecords => (0, None),
        };
        disk.texts += games as u64 * GAME_BYTES;
        if let Some(training) = &training {
            let written = Written::by(training, &model.architecture);
            let policies = if training.on_policy { config.policies().count() } else { 1 };
            disk.models += written.model * policies as u64;
            disk.checkpoints += written.kept;
            disk.texts += training.samples as u64 * (SAMPLE_BYTES + 4 * training.settings.max_length as u64);
        }
        let StageWork { name, parts, inputs, outputs, .. } = stage;
        planned.push(PlannedStage { name, parts, inputs, outputs, games, training });
    }
    let next =
        planned.iter().filter_map(|stage| stage.training.as_ref()).map(|t| Written::by(t, &model.architecture).next);
    disk.checkpoints += next.max().unwrap_or(0);
    Ok(RunPlan { words, held_out, stages: planned, disk })
}

/// The games and the training of a round.
fn round(
    config: &RunConfig,
    (words, sft_rows): (usize, usize),
    ranks: usize,
    epoch: usize,
) -> (usize, Option<PlannedTraining>) {
    if let Some(rows) = epoch.checked_sub(1).and_then(|at| config.sft.alone.get(at)) {
        return (0, Some(training(&config.train, *rows, ranks)));
    }
    let games = config.self_play.games.unwrap_or(words);
    let samples = games.saturating_mul(SAMPLES_PER_GAME);
    let sft = match config.sft.share {
        SftShare::PerSample(share) => (share * samples as f64).round() as usize,
        SftShare::All(_) => sft_rows,
    };
    (games, Some(training(&config.train, samples.saturating_add(sft), ranks)))
}

/// The games and the updates of a part of an on-policy run, which keeps its last checkpoint. Both seats learn.
fn on_policy(
    config: &RunConfig,
    online: &OnlineSettings,
    (model, ranks): (&ModelConfig, usize),
    epoch: usize,
) -> (usize, Option<PlannedTraining>) {
    let updates = online.part(epoch).len();
    let steps = updates.saturating_mul(online.steps() / online.updates);
    let games = updates.saturating_mul(online.games_per_update);
    let mut settings = config.train.clone();
    let max_length = config.max_play_length(model);
    settings.config = on_policy_settings(&settings.config, max_length);
    // A sequence of each seat of a game, in the micro-batches of a step.
    let batch = settings.config.per_device_train_batch_size.saturating_mul(ranks * online.minibatches).max(1);
    settings.config.gradient_accumulation_steps = online.games_per_update.saturating_mul(SEATS).div_ceil(batch);
    settings.config.save_strategy = IntervalStrategy::Steps;
    settings.config.save_steps = online.save_updates.min(steps.max(1));
    settings.config.save_total_limit = Some(1);
    let samples = games.saturating_mul(SEATS * SAMPLES_PER_GAME);
    (games, Some(PlannedTraining { samples, steps, settings, on_policy: true }))
}

/// The games and the training of the imitation stage.
fn imitation(
    config: &RunConfig,
    words: usize,
    rows: Option<usize>,
    ranks: usize,
) -> Result<(usize, Option<PlannedTraining>)> {
    let settings = &config.imitation;
    let mut played: usize = 0;
    // The source that has the fewest samples for its share limits the others.
    let mut samples = f64::INFINITY;
    for (source, share) in settings.source.parts() {
        let of_source = match (source, &settings.file) {
            (ImitationSource::Samples, Some(file)) => {
                rows.map_or_else(|| Ok(read_samples(file)?.len()), Ok::<_, Error>)?
            }
            (ImitationSource::Games, Some(file)) => {
                let games = rows.map_or_else(|| Ok(read_episodes(file)?.len()), Ok::<_, Error>)?;
                games.saturating_mul(SAMPLES_PER_GAME)
            }
            _ => {
                let games = settings.games.unwrap_or(words);
                played = played.saturating_add(games);
                games.saturating_mul(SAMPLES_PER_GAME)
            }
        };
        samples = samples.min(of_source as f64 / share);
    }
    let samples = samples.round() as usize;
    Ok((played, Some(training(&settings.train, samples, ranks))))
}

fn training(settings: &TrainSettings, samples: usize, ranks: usize) -> PlannedTraining {
    let TrainConfig { per_device_train_batch_size, gradient_accumulation_steps, num_train_epochs, max_steps, .. } =
        settings.config;
    let batch = per_device_train_batch_size.saturating_mul(gradient_accumulation_steps).saturating_mul(ranks).max(1);
    let steps = max_steps.unwrap_or_else(|| (samples.div_ceil(batch) as f64 * num_train_epochs).ceil() as usize);
    PlannedTraining { samples, steps, settings: settings.clone(), on_policy: false }
}

/// Bytes that a training writes.
struct Written {
    model: u64,
    /// Checkpoints that are kept.
    kept: u64,
    /// The next checkpoint, which is written beside the kept ones.
    next: u64,
}

impl Written {
    fn by(training: &PlannedTraining, architecture: &Architecture) -> Self {
        let config = &training.settings.config;
        let model = (Layout::new(architecture).len() * config.dtype().bytes()) as u64;
        let checkpoint = checkpoint_bytes(architecture, config);
        let count = match config.save_strategy {
            IntervalStrategy::No => 0,
            IntervalStrategy::Epoch => config.num_train_epochs.ceil() as u64,
            IntervalStrategy::Steps => (training.steps / config.save_steps.max(1)) as u64,
        };
        let kept = config.save_total_limit.map_or(count, |limit| count.min(limit as u64));
        Self { model, kept: kept * checkpoint, next: if kept < count { checkpoint } else { 0 } }
    }
}

/// The plan of a run whose files fit on its disk beside what the run folder has.
///
/// # Errors
/// [`Error::TooLittleDisk`], or inputs that cannot be read.
pub(super) fn fitting_plan(config: &RunConfig, inputs: &RunInputs, ranks: usize) -> Result<RunPlan> {
    let plan = plan_with(config, inputs, &AssumedRows::default(), ranks)?;
    let needed = plan.disk.total().saturating_sub(folder_size(&config.run_dir));
    match free_disk(&config.run_dir) {
        Some(free) if free < needed => Err(Error::TooLittleDisk { path: config.run_dir.clone(), needed, free }),
        _ => Ok(plan),
    }
}
