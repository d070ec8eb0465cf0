//! Evaluation: the trained models against the imitation model, in both seats, on seeds of their own.

use std::path::PathBuf;
use std::sync::Arc;

use spag_game::Seats;
use spag_model::Checkpoint;

use super::folder::{RunFolder, StageDone, StageFolder};
use super::games::GameSet;
use super::{Scene, load, player};
use crate::config::RunConfig;
use crate::error::Result;
use spag_io::Progress;

use crate::progress::Staged;
use crate::seeds::stage_seed;

/// A model of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Model {
    /// The imitation model.
    Im,
    /// SPAG of an epoch, from 1.
    Spag(usize),
}

impl Model {
    /// The stage that made it.
    pub(super) fn stage(self) -> String {
        match self {
            Self::Im => "im".to_owned(),
            Self::Spag(epoch) => format!("spag-{epoch}"),
        }
    }

    /// As it is called in the report.
    pub(super) fn name(self) -> String {
        self.stage().to_uppercase()
    }
}

/// Two models at the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pairing {
    pub(super) attacker: Model,
    pub(super) defender: Model,
}

impl Pairing {
    fn name(self) -> String {
        format!("{}-vs-{}", self.attacker.stage(), self.defender.stage())
    }

    /// Where its games lie.
    pub(super) fn file(self, eval: &StageFolder) -> PathBuf {
        eval.file(&format!("{}.jsonl", self.name()))
    }
}

/// Every pairing of the evaluation with its number of games: the baseline, both seats of each epoch, and the last
/// model against itself.
pub(super) fn pairings(config: &RunConfig) -> Vec<(Pairing, usize)> {
    let games = config.evaluation.games;
    let mut pairings = vec![(Pairing { attacker: Model::Im, defender: Model::Im }, games)];
    for epoch in config.evaluation.epochs.iter().flatten() {
        let model = Model::Spag(*epoch);
        pairings.push((Pairing { attacker: model, defender: Model::Im }, games));
        pairings.push((Pairing { attacker: Model::Im, defender: model }, games));
    }
    if config.evaluation.self_play_games > 0 && config.epochs > 0 {
        let last = Model::Spag(config.epochs);
        pairings.push((Pairing { attacker: last, defender: last }, config.evaluation.self_play_games));
    }
    pairings
}

/// Plays what is missing of every pairing.
pub(super) fn evaluate(
    scene: Scene<'_>,
    folder: &RunFolder,
    eval: &StageFolder,
    progress: &mut dyn Progress,
) -> Result<StageDone> {
    let Scene { config, crew, table } = scene;
    let mut done = StageDone::default();
    let mut total = 0;
    for (pairing, count) in pairings(config) {
        let name = pairing.name();
        let seed = stage_seed(config.evaluation.seed, &name);
        done.note_seed(&name, seed);
        let set = GameSet { path: pairing.file(eval), words: &table.words, count, seed, players: name };
        done.timed("play", || {
            let mut games = set.begin(crew, config.max_turns)?;
            if !games.is_complete() {
                let stage = format!("eval: {} – {}", pairing.attacker.name(), pairing.defender.name());
                let mut progress = Staged { stage: &stage, inner: &mut *progress };
                let checkpoint =
                    |model: Model| -> Result<Arc<Checkpoint>> { load(config, crew, &folder.stage(&model.stage())?) };
                let temperature = config.evaluation.temperature;
                let mut attacker = player(config, crew, &checkpoint(pairing.attacker)?, temperature)?;
                if pairing.attacker == pairing.defender {
                    games.play(Seats::SelfPlay(&mut attacker), &table.prompts, config, &mut progress)?;
                } else {
                    let mut defender = player(config, crew, &checkpoint(pairing.defender)?, temperature)?;
                    let seats = Seats::Versus { attacker: &mut attacker, defender: &mut defender };
                    games.play(seats, &table.prompts, config, &mut progress)?;
                }
            }
            games.finish()
        })?;
        total += count;
    }
    done.note_count("games", total);
    Ok(done)
}
