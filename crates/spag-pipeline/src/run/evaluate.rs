//! Evaluation: the trained models against the imitation model in both seats.

use std::path::PathBuf;

use spag_game::Seats;
use spag_io::Progress;

use super::context::{RunContext, StageProgress};
use super::folder::{RunFolder, StageDone, StageFolder};
use super::games::GameSet;
use crate::config::RunConfig;
use crate::error::Result;
use crate::seeds::stage_seed;

/// A model of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Model {
    /// The imitation model.
    Im,
    /// The model of an epoch, from 1.
    Spag(usize),
}

impl Model {
    /// The stage that makes it.
    pub(super) fn stage(self) -> String {
        match self {
            Self::Im => "im".to_owned(),
            Self::Spag(epoch) => format!("spag-{epoch}"),
        }
    }

    /// The name in the report.
    pub(super) fn name(self) -> String {
        self.stage().to_uppercase()
    }
}

/// Two models in fixed seats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pairing {
    pub(super) attacker: Model,
    pub(super) defender: Model,
}

impl Pairing {
    fn name(self) -> String {
        format!("{}-vs-{}", self.attacker.stage(), self.defender.stage())
    }

    /// The file of its games.
    pub(super) fn file(self, eval: &StageFolder) -> PathBuf {
        eval.file(&format!("{}.jsonl", self.name()))
    }
}

/// All pairings with their numbers of games: the baseline, both seats of each epoch, and the last model against itself.
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

/// Plays the missing games of every pairing.
pub(super) fn evaluate(
    run: RunContext<'_>,
    folder: &RunFolder,
    eval: &StageFolder,
    progress: &mut dyn Progress,
) -> Result<StageDone> {
    let mut done = StageDone::default();
    let mut total = 0;
    for (pairing, count) in pairings(run.config) {
        let name = pairing.name();
        let seed = stage_seed(run.config.evaluation.seed, &name);
        done.note_seed(&name, seed);
        let set = GameSet { path: pairing.file(eval), count, seed, players: name };
        set.complete(run, &mut done, |games| {
            let stage = format!("eval: {} – {}", pairing.attacker.name(), pairing.defender.name());
            let mut progress = StageProgress { stage: &stage, inner: &mut *progress };
            let player = |model: Model| run.player(&folder.stage(&model.stage())?, run.config.evaluation.sampling());
            let mut attacker = player(pairing.attacker)?;
            if pairing.attacker == pairing.defender {
                return games.play(Seats::SelfPlay(&mut attacker), &mut progress);
            }
            let mut defender = player(pairing.defender)?;
            games.play(Seats::Versus { attacker: &mut attacker, defender: &mut defender }, &mut progress)
        })?;
        total += count;
    }
    done.note_count("games", total);
    Ok(done)
}
