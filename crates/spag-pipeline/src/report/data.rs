//! The report as data: `report.json` is this, and the text and the page are drawn from it alone.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use spag_selfplay::{Change, Rate};

use super::numbers::seconds;
use crate::play_stats::PlayStats;

/// Everything the end of a run has to say.
///
/// Made by the report stage from the files of the run; read by [`render_text`](super::render_text) and
/// [`render_html`](super::render_html), and by whoever opens `report.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The run folder.
    pub run_dir: String,
    /// The run's seed.
    pub seed: u64,
    /// The evaluation's seed.
    pub evaluation_seed: u64,
    /// A few settings worth showing beside the numbers, as (name, value).
    pub settings: Vec<(String, String)>,
    /// The games that the models were trained on, in order: the scripted players', IM's, SPAG-1's …; last, if it was
    /// played, the last model's self-play from the evaluation.
    pub training_games: Vec<NamedPlay>,
    /// IM against itself in the evaluation: the baseline of both seats.
    pub baseline: PlayStats,
    /// Each evaluated model against IM, in order of epochs.
    pub matches: Vec<Match>,
    /// Loss curves of the training stages, in order.
    pub losses: Vec<LossCurve>,
    /// Games on the same word, side by side.
    pub samples: Vec<SamplePair>,
    /// Seconds spent, by stage.
    pub stages: Vec<StageSeconds>,
    /// Where everything lies, as (path in the run folder, what it is).
    pub files: Vec<(String, String)>,
}

/// Statistics of some games, with the players' name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NamedPlay {
    /// Who played against itself: "scripted", "IM", "SPAG-1" …
    pub name: String,
    /// How it went.
    pub play: PlayStats,
}

/// One model against IM, in both seats.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Match {
    /// The model's name, "SPAG-1" …
    pub name: String,
    /// Its epoch, from 1.
    pub epoch: usize,
    /// The model attacks, IM defends.
    pub as_attacker: PlayStats,
    /// IM attacks, the model defends.
    pub as_defender: PlayStats,
    /// The model's wins among decided games, both seats together.
    pub win: Rate,
    /// The model's win rate as attacker against that of IM attacking itself.
    pub attacker_change: Option<Change>,
    /// The model's win rate as defender against that of IM defending against itself.
    pub defender_change: Option<Change>,
}

impl Match {
    /// Joins the two seats and compares them with the baseline.
    pub fn new(epoch: usize, as_attacker: PlayStats, as_defender: PlayStats, baseline: &PlayStats) -> Self {
        Self {
            name: format!("SPAG-{epoch}"),
            epoch,
            win: as_attacker.attacker_win.pooled(as_defender.defender_win),
            attacker_change: Change::between(baseline.attacker_win, as_attacker.attacker_win),
            defender_change: Change::between(baseline.defender_win, as_defender.defender_win),
            as_attacker,
            as_defender,
        }
    }
}

/// The loss of one training stage, step by step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LossCurve {
    /// "IM", "SPAG-1" …
    pub name: String,
    /// The logged steps, in order.
    pub points: Vec<LossPoint>,
}

/// One logged optimizer step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LossPoint {
    /// Optimizer step, from 1.
    pub step: u64,
    /// The loss of that step's batch.
    pub loss: f64,
}

/// Two games on one word.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SamplePair {
    /// The target word.
    pub target_word: String,
    /// IM against itself.
    pub before: ShownGame,
    /// The last model in one of the seats against IM.
    pub after: ShownGame,
}

/// One game, to be read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShownGame {
    /// Who attacked.
    pub attacker: String,
    /// Who defended.
    pub defender: String,
    /// The utterances up to the deciding one.
    pub utterances: Vec<ShownUtterance>,
    /// How it ended, in words.
    pub ending: String,
}

/// One utterance of a shown game.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShownUtterance {
    /// "attacker" or "defender".
    pub role: String,
    /// What was said.
    pub content: String,
    /// Clues in it that do not hold for the target word; always empty for a defender.
    pub untrue: Vec<String>,
}

/// Where the time of one stage went.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StageSeconds {
    /// The stage's name.
    pub stage: String,
    /// Seconds by part: play, credit, train.
    pub parts: BTreeMap<String, f64>,
    /// Whether the stage was interrupted and taken up again: the seconds are then of its last start only.
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
        let parts: Vec<String> = parts.iter().map(|(part, spent)| format!("{part} {}", seconds(**spent))).collect();
        let resumed = if self.resumed { " (since it was taken up again)" } else { "" };
        format!("{}{resumed}", parts.join(", "))
    }
}
