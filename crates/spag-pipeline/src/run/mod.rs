//! The loop, stage by stage: base → im → spag-1 … spag-k → evaluation → report.
//!
//! A stage reads the files of the one before and writes its own; `done.json`, written last, marks it as finished.

mod evaluate;
mod folder;
mod games;
mod learn;
mod summarize;
mod table;

use std::path::Path;
use std::sync::Arc;

use spag_game::Seats;
use spag_model::{
    Checkpoint, DtypeChoice, EngineConfig, GenerationConfig, LlamaConfig, LoadOptions, MemoryBudget, Sampling,
};
use spag_selfplay::ModelPlayer;
use spag_world::{ScriptedAttacker, ScriptedDefender};

use crate::config::RunConfig;
use crate::error::{Error, Result};
use crate::progress::{RunProgress, Staged};
use crate::report::Report;
use crate::seeds::stage_seed;

use folder::{RunFolder, StageDone, StageFolder};
use games::GameSet;
use learn::{Learning, learn};
use table::Table;

/// Runs the whole loop, or what is left of it, and returns the report.
///
/// Finished stages are not run again. Interrupted anywhere, the same call goes on: games already played are kept, a
/// training that was cut starts over from its inputs, and the files in the end are those of a run never interrupted.
///
/// # Errors
/// A folder in use or made with other settings, inputs that cannot be read, and whatever stops a stage.
pub fn run(config: &RunConfig, progress: &mut dyn RunProgress) -> Result<Report> {
    // Before anything else: a device that cannot be used is found out at once. One process, so number 0 of its machine.
    config.device.open(0)?;
    let folder = RunFolder::open(config)?;
    let table = Table::set(config)?;
    let mut stages = vec![base(config, &folder)?];

    let im = folder.stage("im")?;
    stages.push(unless_done(&im, progress, |progress| imitation(config, &table, &im, progress))?);

    let mut current = im.clone();
    for epoch in 1..=config.epochs {
        let stage = folder.stage(&format!("spag-{epoch}"))?;
        stages.push(unless_done(&stage, progress, |progress| spag(config, &table, &current, &stage, progress))?);
        current = stage;
    }

    let eval = folder.stage("eval")?;
    stages.push(unless_done(&eval, progress, |progress| evaluate::evaluate(config, &table, &folder, &eval, progress))?);

    summarize::summarize(config, &table, &folder, &stages)
}

/// Runs a stage, or says that it was done before.
fn unless_done(
    stage: &StageFolder,
    progress: &mut dyn RunProgress,
    work: impl FnOnce(&mut dyn RunProgress) -> Result<StageDone>,
) -> Result<StageDone> {
    match stage.done()? {
        Some(done) => {
            progress.say(&format!("{}: done before", stage.name()));
            Ok(done)
        }
        None => {
            let done = work(progress)?;
            stage.finish(done)
        }
    }
}

/// The base is used where it lies; the stage checks that it can be read, and leaves a note.
fn base(config: &RunConfig, folder: &RunFolder) -> Result<StageDone> {
    let stage = folder.stage("base")?;
    if let Some(done) = stage.done()? {
        return Ok(done);
    }
    read(config, &config.base_model)?;
    let note =
        format!("The base model of this run is {}; inputs.json has its fingerprint.\n", config.base_model.display());
    crate::files::write_text(&stage.file("where.txt"), &note)?;
    stage.finish(StageDone::default())
}

/// Scripted players play, the base learns from the winners.
fn imitation(
    config: &RunConfig,
    table: &Table,
    stage: &StageFolder,
    progress: &mut dyn RunProgress,
) -> Result<StageDone> {
    let seed = stage_seed(config.seed, "im/play");
    let set = GameSet {
        path: stage.episodes(),
        words: &table.words,
        count: config.imitation.games,
        seed,
        players: "scripted".into(),
    };
    let mut done = StageDone::default();
    done.note_seed("play", seed);
    done.timed("play", || {
        let mut games = set.begin(config.max_turns)?;
        if !games.is_complete() {
            let mut attacker = ScriptedAttacker::new(&table.lexicon);
            let mut defender = ScriptedDefender::new(&table.lexicon);
            let seats = Seats::Versus { attacker: &mut attacker, defender: &mut defender };
            let mut progress = Staged { stage: stage.name(), inner: progress };
            games.play(seats, &table.prompts, config, &mut progress)?;
        }
        games.finish().map(drop)
    })?;
    learn(Learning::Imitation, config, table, &config.base_model, stage, &mut done, progress)?;
    Ok(done)
}

/// The current model plays itself and learns from the winners.
fn spag(
    config: &RunConfig,
    table: &Table,
    current: &StageFolder,
    stage: &StageFolder,
    progress: &mut dyn RunProgress,
) -> Result<StageDone> {
    let seed = stage_seed(config.seed, &format!("{}/play", stage.name()));
    let set = GameSet {
        path: stage.episodes(),
        words: &table.words,
        count: config.self_play.games,
        seed,
        players: current.name().to_owned(),
    };
    let mut done = StageDone::default();
    done.note_seed("play", seed);
    done.timed("play", || {
        let mut games = set.begin(config.max_turns)?;
        if !games.is_complete() {
            let mut player = player(config, &load(config, current)?, config.self_play.temperature)?;
            let mut progress = Staged { stage: stage.name(), inner: progress };
            games.play(Seats::SelfPlay(&mut player), &table.prompts, config, &mut progress)?;
        }
        games.finish().map(drop)
    })?;
    learn(Learning::OfflinePo, config, table, &current.model(), stage, &mut done, progress)?;
    Ok(done)
}

fn load(config: &RunConfig, stage: &StageFolder) -> Result<Arc<Checkpoint>> {
    Ok(Arc::new(read(config, &stage.model())?))
}

/// A checkpoint on the run's device.
fn read(config: &RunConfig, dir: &Path) -> Result<Checkpoint> {
    let device = config.device.open(0)?.device().clone();
    let dtype = match device.is_cpu() {
        true => LoadOptions::default().dtype,
        false => DtypeChoice::Auto.resolve(&LlamaConfig::from_file(dir.join("config.json"))?, &device),
    };
    Ok(Checkpoint::load_with(dir, &LoadOptions { device, dtype })?)
}

/// A model as player; temperature 0 plays greedily.
fn player(config: &RunConfig, checkpoint: &Arc<Checkpoint>, temperature: f64) -> Result<ModelPlayer> {
    let max_length = checkpoint.model.config().max_position_embeddings;
    if config.self_play.max_new_tokens >= max_length {
        return Err(Error::BadSetting {
            setting: "self_play.max_new_tokens",
            message: format!(
                "{} tokens leave no room for the game: the model reads {max_length} in all",
                config.self_play.max_new_tokens
            ),
        });
    }
    let generation = GenerationConfig {
        max_new_tokens: config.self_play.max_new_tokens,
        min_new_tokens: 1,
        sampling: if temperature > 0.0 { Sampling::at_temperature(temperature) } else { Sampling::Greedy },
        ..GenerationConfig::default()
    };
    let memory = MemoryBudget::of(&checkpoint.model)?;
    let engine = EngineConfig::new(checkpoint.model.config(), config.self_play.games_in_flight, memory);
    Ok(ModelPlayer::load(checkpoint, generation, engine)?)
}
