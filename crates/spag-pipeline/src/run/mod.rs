//! The loop, stage by stage: base → im → spag-1 … spag-k → evaluation → report.
//!
//! A stage reads the files of the one before and writes its own; `done.json`, written last, marks it as finished.

mod crew;
mod evaluate;
mod folder;
mod games;
mod learn;
mod summarize;
mod table;

use std::path::Path;
use std::sync::Arc;

use spag_dist::{LaunchEnv, ProcessGroup, Single};
use spag_game::Seats;
use spag_model::{
    Checkpoint, DtypeChoice, EngineConfig, GenerationConfig, LlamaConfig, LoadOptions, MemoryBudget, Sampling,
};
use spag_selfplay::ModelPlayer;
use spag_world::{ScriptedAttacker, ScriptedDefender};

use crate::config::RunConfig;
use crate::error::{Error, Result};
use spag_io::Progress;

use crate::progress::Staged;
use crate::report::Report;
use crate::seeds::stage_seed;

use crew::Crew;
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
pub fn run(config: &RunConfig, progress: &mut dyn Progress) -> Result<Report> {
    let (env, alone) = (LaunchEnv::single(), Arc::new(Single));
    let report = run_on(config, &env, alone, progress)?;
    // Rank 0 always has one.
    report.ok_or_else(|| Error::DamagedRun { path: config.run_dir.clone(), message: "there is no report".into() })
}

/// As [`run`], on processes that have met and see the same files. All of them play and train; rank 0 does the rest, and
/// returns the report.
///
/// Training equals that of one process whose steps have as many micro-batches as those of all ranks together.
///
/// # Errors
/// As [`run`], or a rank that is lost. The other ranks are told why, and end too.
pub fn run_on(
    config: &RunConfig,
    env: &LaunchEnv,
    group: Arc<dyn ProcessGroup>,
    progress: &mut dyn Progress,
) -> Result<Option<Report>> {
    let outcome = Crew::new(env, group.clone(), config).and_then(|crew| stages(config, &crew, progress));
    if let Err(error) = &outcome {
        group.abort(&error.to_string());
    }
    outcome
}

fn stages(config: &RunConfig, crew: &Crew, progress: &mut dyn Progress) -> Result<Option<Report>> {
    // Before anything else: a device that cannot be used is found out at once.
    config.device.open(crew.env().local_rank)?;
    let folder = RunFolder::open(config, crew)?;
    let table = Table::set(config)?;
    let scene = Scene { config, crew, table: &table };
    let base_stage = folder.stage("base")?;
    let mut stages = vec![unless_done(crew, &base_stage, progress, |_| base(config, crew, &base_stage))?];

    let im = folder.stage("im")?;
    stages.push(unless_done(crew, &im, progress, |progress| imitation(scene, &im, progress))?);

    let mut current = im.clone();
    for epoch in 1..=config.epochs {
        let stage = folder.stage(&format!("spag-{epoch}"))?;
        let work = |progress: &mut dyn Progress| spag(scene, &current, &stage, progress);
        stages.push(unless_done(crew, &stage, progress, work)?);
        current = stage;
    }

    let eval = folder.stage("eval")?;
    let work = |progress: &mut dyn Progress| evaluate::evaluate(scene, &folder, &eval, progress);
    stages.push(unless_done(crew, &eval, progress, work)?);

    match crew.is_first() {
        true => summarize::summarize(config, &table, &folder, &stages).map(Some),
        false => Ok(None),
    }
}

/// What every stage is done with.
#[derive(Clone, Copy)]
struct Scene<'a> {
    config: &'a RunConfig,
    crew: &'a Crew,
    table: &'a Table,
}

/// Runs a stage, or says that it was done before.
fn unless_done(
    crew: &Crew,
    stage: &StageFolder,
    progress: &mut dyn Progress,
    work: impl FnOnce(&mut dyn Progress) -> Result<StageDone>,
) -> Result<StageDone> {
    if crew.decide(|| Ok(stage.done()?.is_some()))? {
        progress.message(&format!("{}: done before", stage.name()));
        return Ok(stage.done()?.unwrap_or_default());
    }
    let mut done = work(progress)?;
    crew.first_does(|| {
        done = stage.finish(std::mem::take(&mut done))?;
        Ok(())
    })?;
    Ok(done)
}

/// The base is used where it lies; the stage checks that it can be read, and leaves a note.
fn base(config: &RunConfig, crew: &Crew, stage: &StageFolder) -> Result<StageDone> {
    crew.first_does(|| {
        read(config, crew, &config.base_model)?;
        let note = format!(
            "The base model of this run is {}; inputs.json has its fingerprint.\n",
            config.base_model.display()
        );
        crate::files::write_text(&stage.file("where.txt"), &note)
    })?;
    Ok(StageDone::default())
}

/// Scripted players play, the base learns from the winners.
fn imitation(scene: Scene<'_>, stage: &StageFolder, progress: &mut dyn Progress) -> Result<StageDone> {
    let Scene { config, crew, table } = scene;
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
        let mut games = set.begin(crew, config.max_turns)?;
        if !games.is_complete() {
            let mut attacker = ScriptedAttacker::new(&table.lexicon);
            let mut defender = ScriptedDefender::new(&table.lexicon);
            let seats = Seats::Versus { attacker: &mut attacker, defender: &mut defender };
            let mut progress = Staged { stage: stage.name(), inner: progress };
            games.play(seats, &table.prompts, config, &mut progress)?;
        }
        games.finish()
    })?;
    learn(Learning::Imitation, scene, &config.base_model, stage, &mut done, progress)?;
    Ok(done)
}

/// The current model plays itself and learns from the winners.
fn spag(
    scene: Scene<'_>,
    current: &StageFolder,
    stage: &StageFolder,
    progress: &mut dyn Progress,
) -> Result<StageDone> {
    let Scene { config, crew, table } = scene;
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
        let mut games = set.begin(crew, config.max_turns)?;
        if !games.is_complete() {
            let mut player = player(config, crew, &load(config, crew, current)?, config.self_play.temperature)?;
            let mut progress = Staged { stage: stage.name(), inner: progress };
            games.play(Seats::SelfPlay(&mut player), &table.prompts, config, &mut progress)?;
        }
        games.finish()
    })?;
    learn(Learning::OfflinePo, scene, &current.model(), stage, &mut done, progress)?;
    Ok(done)
}

fn load(config: &RunConfig, crew: &Crew, stage: &StageFolder) -> Result<Arc<Checkpoint>> {
    Ok(Arc::new(read(config, crew, &stage.model())?))
}

/// A checkpoint on the run's device.
fn read(config: &RunConfig, crew: &Crew, dir: &Path) -> Result<Checkpoint> {
    let device = config.device.open(crew.env().local_rank)?.device().clone();
    let dtype = match device.is_cpu() {
        true => LoadOptions::default().dtype,
        false => DtypeChoice::Auto.resolve(&LlamaConfig::from_file(dir.join("config.json"))?, &device),
    };
    Ok(Checkpoint::load_with(dir, &LoadOptions { device, dtype })?)
}

/// A model as player; temperature 0 plays greedily.
fn player(config: &RunConfig, crew: &Crew, checkpoint: &Arc<Checkpoint>, temperature: f64) -> Result<ModelPlayer> {
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
    let own = MemoryBudget::for_model(&checkpoint.model)?;
    // On a CPU the processes of a machine share its memory; a GPU is a process's own.
    let memory = if checkpoint.model.parameters().device().is_cpu() { own.split(crew.env().local_size) } else { own };
    let engine = EngineConfig::new(checkpoint.model.config(), config.self_play.games_in_flight, memory);
    Ok(ModelPlayer::load(checkpoint, generation, engine)?)
}
