//! The report as data, from which the text and the document are made. Written as `report.json`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use spag_eval::{Comparison, ModelScores};
use spag_game::games::unknown;
use spag_game::{AsSeat, Ending, Labels, PerSeat, SEATS, Seat, SeatKey, game_labels, taboo};
use spag_selfplay::arena::ArenaTable;
use spag_selfplay::{Change, GameMeter, Rate};

use super::measures::UpdatePoint;
use super::rounds::Round;
use crate::play_stats::PlayStats;

/// The report of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The run folder.
    pub run_dir: String,
    /// The run's seed.
    pub seed: u64,
    /// The seed of the evaluation.
    pub evaluation_seed: u64,
    /// The main settings, as (name, value).
    pub settings: Vec<(String, String)>,
    /// The game, or the first of several.
    #[serde(flatten)]
    pub first: GameReport,
    /// The further games of a run that plays several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub more_games: Vec<GameReport>,
    /// Loss curves of the training stages, in order.
    pub losses: Vec<LossCurve>,
    /// The updates of an on-policy run, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub updates: Vec<UpdatePoint>,
    /// Seconds by stage.
    pub stages: Vec<StageSeconds>,
    /// The files of the run, as (path in the run folder, description).
    pub files: Vec<(String, String)>,
    /// Why the run stopped before its last stage, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<String>,
    /// What looks wrong in the rounds, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The scores of each model in the benchmarks; empty without them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub benchmarks: Vec<ModelScores>,
    /// The last model against the base model and the control arms in the benchmarks, if the run has arms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controls: Option<Comparison>,
}

/// What a report says of one game.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GameReport {
    /// The name of the game; none in reports of Adversarial Taboo.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub game: Option<String>,
    /// The name of its folder in that of each stage, if it is one of several games.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// Its options in a run of several games, if it has some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub game_options: Option<String>,
    /// The training games of the imitated players ("scripted" for those of the small world), IM, SPAG-1 …, and the self-play of the last model from the evaluation,
    /// if any.
    pub training_games: Vec<NamedPlay>,
    /// IM against itself in the evaluation, the baseline of both seats.
    pub baseline: PlayStats,
    /// Each evaluated model against IM, in order of epochs.
    pub matches: Vec<MatchReport>,
    /// Games on the same words, side by side.
    pub samples: Vec<SamplePair>,
    /// The games and trainings of each model, in order. Trainings are on the samples of all games, and with the first game.
    #[serde(default)]
    pub rounds: Vec<Round>,
    /// What each source of the imitation gave.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub imitation: Vec<ImitationPart>,
    /// The evaluation on words that were held out, if any were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_out: Option<HeldOut>,
    /// IM and the evaluated models against perfect play, in games that have such a meter.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exact: Vec<ExactPlay>,
    /// Ratings of all models, if every two epochs played each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratings: Option<ArenaTable>,
}

/// What a source gave to the imitation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ImitationPart {
    /// The name of the source: "self", "scripted" …
    pub source: String,
    /// Its games; 0 for ready samples.
    pub games: usize,
    /// Games that were won without a broken rule, whose winners' utterances are samples.
    pub won: usize,
    /// Its samples.
    pub samples: usize,
    /// Samples that IM was trained on.
    pub used: usize,
}

/// The evaluation on words that no game of the training was played on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeldOut {
    /// Number of words.
    pub words: usize,
    /// IM against itself.
    pub baseline: PlayStats,
    /// Each evaluated model against IM, in order of epochs.
    pub matches: Vec<MatchReport>,
}

/// Statistics of self-play games, with the name of the player.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NamedPlay {
    /// The player: "scripted", "IM", "SPAG-1" …
    pub name: String,
    /// The statistics.
    pub play: PlayStats,
}

/// One model against IM, in both seats.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MatchReport {
    /// The model's name, "SPAG-1" …
    pub name: String,
    /// The epoch, from 1.
    pub epoch: usize,
    /// The games of the model in each seat, with IM in the other.
    #[serde(flatten)]
    pub seats: PerSeat<PlayStats, AsSeat>,
    /// The model's wins among decided games in both seats.
    pub win: Rate,
    /// The model's win rate in each seat, minus that of IM against itself.
    #[serde(flatten)]
    pub change: PerSeat<Option<Change>, ChangeKey>,
}

/// The keys of changes of win rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangeKey;

impl SeatKey for ChangeKey {
    const SUFFIX: &'static str = "_change";
}

/// A measure of a model's play against perfect play.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExactPlay {
    /// The model.
    pub model: String,
    /// How good it is.
    #[serde(flatten)]
    pub measure: GameMeter,
}

impl Report {
    /// All games in the order of the configuration.
    pub fn games(&self) -> impl Iterator<Item = &GameReport> {
        std::iter::once(&self.first).chain(&self.more_games)
    }

    /// The titles of all games, for a heading.
    pub(super) fn title(&self) -> String {
        self.games().map(GameReport::title).collect::<Vec<_>>().join(", ")
    }
}

impl GameReport {
    /// The names of the game.
    pub(crate) fn labels(&self) -> &'static Labels {
        match &self.game {
            None => &taboo::LABELS,
            Some(name) => game_labels(name).unwrap_or(&unknown::LABELS),
        }
    }

    /// The name of the game for people, with its options if they were given.
    pub(super) fn title(&self) -> String {
        let title = match &self.game {
            Some(name) if game_labels(name).is_none() => name,
            _ => self.labels().title,
        };
        match &self.game_options {
            Some(options) => format!("{title} ({options})"),
            None => title.to_owned(),
        }
    }

    /// The ways in which its games ended, in the order of reports.
    pub(super) fn endings(&self) -> Vec<Ending> {
        self.baseline.endings.iter().map(|(ending, _)| ending).collect()
    }
}

impl MatchReport {
    /// Pools the games in both seats, given in their order, and compares them with the baseline.
    pub fn new(labels: &Labels, epoch: usize, games: [PlayStats; SEATS], baseline: &PlayStats) -> Self {
        let seats = PerSeat::new(labels, games);
        let own = |seat: Seat| seats[seat].win[seat];
        let [first, second] = labels.seats;
        Self {
            name: format!("SPAG-{epoch}"),
            epoch,
            win: own(first).pooled(own(second)),
            change: PerSeat::of(labels, |seat| Change::between(baseline.win[seat], own(seat))),
            seats,
        }
    }

    /// The model's win rate in a seat.
    pub fn win_as(&self, seat: Seat) -> Rate {
        self.seats[seat].win[seat]
    }
}

/// The loss of a training stage by step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LossCurve {
    /// "IM", "SPAG-1" …
    pub name: String,
    /// The logged steps, in order.
    pub points: Vec<LossPoint>,
}

/// A logged optimizer step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LossPoint {
    /// Optimizer step, from 1.
    pub step: u64,
    /// The loss of the batch.
    pub loss: f64,
}

/// Two games on one item.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SamplePair {
    /// What both are about.
    #[serde(rename = "target_word")]
    pub item: String,
    /// IM against itself.
    pub before: ShownGame,
    /// The last model in one of the seats against IM.
    pub after: ShownGame,
}

/// A game for the reader.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShownGame {
    /// The players.
    #[serde(flatten)]
    pub players: PerSeat<String>,
    /// The utterances up to the deciding one.
    pub utterances: Vec<ShownUtterance>,
    /// A description of the ending.
    pub ending: String,
}

/// An utterance of a shown game.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShownUtterance {
    /// The speaker.
    #[serde(rename = "role")]
    pub seat: Seat,
    /// The text.
    pub content: String,
    /// Its clues that are false, in the small world; empty for a seat that gives none.
    pub untrue: Vec<String>,
}

/// The time of a stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StageSeconds {
    /// The stage's name.
    pub stage: String,
    /// Seconds by part: play, credit, train.
    pub parts: BTreeMap<String, f64>,
    /// Whether the stage was resumed; the seconds then count from its last start.
    pub resumed: bool,
}

impl StageSeconds {
    /// All parts together.
    pub fn total(&self) -> f64 {
        self.parts.values().sum()
    }

    /// "play 12.3, train 20.1", the longest part first.
    pub(super) fn describe(&self) -> String {
        let mut parts: Vec<_> = self.parts.iter().collect();
        parts.sort_by(|a, b| b.1.total_cmp(a.1));
        let parts: Vec<String> = parts.iter().map(|(part, spent)| format!("{part} {spent:.1}")).collect();
        let resumed = if self.resumed { " (since it was taken up again)" } else { "" };
        format!("{}{resumed}", parts.join(", "))
    }
}
