//! Who plays whom in the evaluation, on which words.

use std::path::PathBuf;

use spag_game::SEATS;
use spag_run::{Model, files};

use super::stage_folder::StageFolder;
use crate::config::RunConfig;

/// The words of evaluation games.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WordSet {
    /// The words of the training games.
    Trained,
    /// The words that were held out.
    HeldOut,
}

impl WordSet {
    /// The folder of the games in that of the evaluation.
    pub(super) fn folder(self, eval: &StageFolder) -> PathBuf {
        match self {
            Self::Trained => eval.dir.clone(),
            Self::HeldOut => eval.file(files::HELD_OUT),
        }
    }

    /// The beginning of the names of seeds.
    fn prefix(self) -> &'static str {
        match self {
            Self::Trained => "",
            Self::HeldOut => "held-out/",
        }
    }
}

/// Two models in fixed seats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pairing {
    /// In the order of the seats.
    pub(super) players: [Model; SEATS],
    pub(super) words: WordSet,
}

impl Pairing {
    /// `players` on words of the training.
    pub(super) fn trained(players: [Model; SEATS]) -> Self {
        Self { players, words: WordSet::Trained }
    }

    /// Both assignments of seats.
    fn both_seats(one: Model, other: Model, words: WordSet) -> [Self; 2] {
        [[one, other], [other, one]].map(|players| Self { players, words })
    }

    /// The name of its seed, and of the players in records.
    pub(super) fn name(self) -> String {
        format!("{}{}", self.words.prefix(), self.players())
    }

    /// Both models, in the order of the seats.
    fn players(self) -> String {
        self.players.map(Model::stage).join("-vs-")
    }

    /// The file of its games.
    pub(super) fn file(self, eval: &StageFolder) -> PathBuf {
        self.words.folder(eval).join(format!("{}.jsonl", self.players()))
    }
}

/// The evaluated epochs that have been made.
pub(super) fn epochs<'a>(config: &'a RunConfig, made: &'a [Model]) -> impl Iterator<Item = Model> + 'a {
    let epochs = config.evaluation.epochs.iter().flatten().map(|epoch| Model::Spag(*epoch));
    epochs.filter(|epoch| made.contains(epoch))
}

/// All pairings of the models in `made` with their numbers of games: IM itself, both seats of each epoch against IM, the last
/// model against itself, every two epochs against each other, and IM and the epochs on words that were held out.
pub(super) fn pairings(config: &RunConfig, made: &[Model]) -> Vec<(Pairing, usize)> {
    if !made.contains(&Model::Im) {
        return Vec::new();
    }
    let settings = &config.evaluation;
    let mut pairings = against_im(config, made, WordSet::Trained, settings.games);
    let last = Model::Spag(config.epochs);
    if settings.self_play_games > 0 && made.contains(&last) {
        pairings.push((Pairing::trained([last, last]), settings.self_play_games));
    }
    if settings.arena_games > 0 {
        let epochs: Vec<Model> = epochs(config, made).collect();
        for (index, one) in epochs.iter().enumerate() {
            for other in epochs.iter().skip(index + 1) {
                let seats = Pairing::both_seats(*one, *other, WordSet::Trained);
                pairings.extend(seats.map(|pairing| (pairing, settings.arena_games)));
            }
        }
    }
    if config.words.holdout > 0.0 {
        let games = settings.held_out_games.unwrap_or(settings.games);
        pairings.extend(against_im(config, made, WordSet::HeldOut, games));
    }
    pairings
}

/// IM against itself, and each epoch against IM in both seats.
fn against_im(config: &RunConfig, made: &[Model], words: WordSet, games: usize) -> Vec<(Pairing, usize)> {
    let baseline = Pairing { players: [Model::Im, Model::Im], words };
    let matches = epochs(config, made).flat_map(|epoch| Pairing::both_seats(epoch, Model::Im, words));
    std::iter::once(baseline).chain(matches).map(|pairing| (pairing, games)).collect()
}
