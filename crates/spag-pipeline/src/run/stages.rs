//! The stages of the loop that make models: base, imitation and self-play. A stage is one function here and one line in
//! the list of [`super`].

use spag_game::Seats;
use spag_io::{Progress, write_atomically};
use spag_world::{ScriptedAttacker, ScriptedDefender};

use super::context::{RunContext, StageProgress};
use super::folder::{StageDone, StageFolder};
use super::games::{GameSet, OpenGameSet};
use super::train::{Method, train};
use crate::error::Result;
use crate::seeds::stage_seed;

/// Checks that the base model can be loaded, and writes a note of its path. The model is not copied.
pub(super) fn base(run: RunContext<'_>, stage: &StageFolder) -> Result<StageDone> {
    let model = &run.config.base_model;
    run.ranks.on_rank_0(|| {
        run.load(model)?;
        let note = format!("The base model of this run is {}; inputs.json has its fingerprint.\n", model.display());
        Ok(write_atomically(stage.file("where.txt"), note)?)
    })?;
    Ok(StageDone::default())
}

/// Scripted players play, and the base model is trained on the winners' utterances.
pub(super) fn imitation(run: RunContext<'_>, stage: &StageFolder, progress: &mut dyn Progress) -> Result<StageDone> {
    let mut done = StageDone::default();
    play(run, stage, run.config.imitation.games, "scripted", &mut done, |games| {
        let mut attacker = ScriptedAttacker::new(&run.inputs.lexicon);
        let mut defender = ScriptedDefender::new(&run.inputs.lexicon);
        let seats = Seats::Versus { attacker: &mut attacker, defender: &mut defender };
        games.play(seats, &mut StageProgress { stage: &stage.name, inner: &mut *progress })
    })?;
    train(Method::Imitation, run, &run.config.base_model, stage, &mut done, progress)?;
    Ok(done)
}

/// The `current` model plays against itself and is trained on the winners' utterances.
pub(super) fn self_play(
    run: RunContext<'_>,
    current: &StageFolder,
    stage: &StageFolder,
    progress: &mut dyn Progress,
) -> Result<StageDone> {
    let mut done = StageDone::default();
    play(run, stage, run.config.self_play.games, &current.name, &mut done, |games| {
        let mut player = run.player(current, run.config.self_play.sampling())?;
        games.play(Seats::SelfPlay(&mut player), &mut StageProgress { stage: &stage.name, inner: &mut *progress })
    })?;
    train(Method::OfflinePo, run, &current.model(), stage, &mut done, progress)?;
    Ok(done)
}

/// Completes the games of a stage.
fn play(
    run: RunContext<'_>,
    stage: &StageFolder,
    count: usize,
    players: &str,
    done: &mut StageDone,
    play: impl FnOnce(&mut OpenGameSet<'_>) -> Result<()>,
) -> Result<()> {
    let seed = stage_seed(run.config.seed, &format!("{}/play", stage.name));
    done.note_seed("play", seed);
    let set = GameSet { path: stage.episodes(), count, seed, players: players.to_owned() };
    set.complete(run, done, play)
}
