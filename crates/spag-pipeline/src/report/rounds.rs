//! The rounds of training: what players said and how training went, so that a run that goes wrong is seen.

use serde::{Deserialize, Serialize};
use spag_game::{Labels, PerSeat, SeatKey, UtteranceKind};
use spag_run::MANY_TIES;
use spag_selfplay::{Rate, ReasoningStats};

use crate::config::RunMethod;

/// The games that a model was trained on, and its training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// The model that was trained: "IM", "SPAG-1" …
    pub name: String,
    /// Its games; `None` if it was trained on ready samples.
    pub games: Option<RoundGames>,
    /// Its training; `None` if the run stopped before it.
    pub training: Option<RoundTraining>,
}

/// Statistics of the games of a round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RoundGames {
    /// Number of games.
    pub games: usize,
    /// The wins of each seat among decided games. A broken rule is a win of the other seat.
    #[serde(flatten)]
    pub wins: PerSeat<Rate, Wins>,
    /// Ties among all games.
    pub ties: Rate,
    /// Games that a guess ends in the first utterance of the second seat, right or wrong, among all.
    pub early_guesses: Rate,
    /// Empty utterances among all.
    pub empty_utterances: Rate,
    /// Utterances equal to an earlier one of their game, among all.
    pub repeated_utterances: Rate,
    /// Words of an utterance of each seat on average; `None` without utterances.
    #[serde(flatten)]
    pub words: PerSeat<Option<f64>, Words>,
    /// Distinct words over all words; `None` without words.
    pub distinct_1: Option<f64>,
    /// Distinct pairs of neighbouring words over all such pairs; `None` without pairs.
    pub distinct_2: Option<f64>,
    /// How the players thought before their utterances; `None` if they did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<ReasoningStats>,
}

/// The keys of wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wins;

impl SeatKey for Wins {
    const SUFFIX: &'static str = "_wins";
}

/// The keys of words of an utterance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Words;

impl SeatKey for Words {
    const SUFFIX: &'static str = "_words";
}

/// Statistics of the training of a round, from its `metrics.jsonl`. `None` if the loss has no such metric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RoundTraining {
    /// Optimizer steps.
    pub steps: u64,
    /// Mean loss over the last quarter of the logged steps.
    pub loss: Option<f64>,
    /// Mean divergence from the reference model over the last quarter of the logged steps.
    pub kl: Option<f64>,
    /// The mean importance ratio over all logged steps.
    pub importance_ratio_mean: Option<f64>,
    /// The largest importance ratio.
    pub importance_ratio_max: Option<f64>,
    /// Mean share of tokens whose importance ratio was clipped.
    pub clipped_fraction: Option<f64>,
    /// Largest gradient norm before clipping.
    pub grad_norm_max: Option<f64>,
}

/// The round of the imitation.
const IMITATION: &str = "IM";

/// A share of empty utterances that a warning names.
const EMPTY: f64 = 0.05;
/// A share of repeated utterances that a warning names.
const REPEATED: f64 = 0.3;
/// A share of the decided games won by one seat that a warning names.
const ONE_SIDED: f64 = 0.9;
/// A share of early guesses that a warning names.
const EARLY: f64 = 0.6;
/// A share of clipped tokens that a warning names.
const CLIPPED: f64 = 0.5;

impl Round {
    /// What of this round of games with these labels looks wrong, a sentence each. The updates of an on-policy run have warnings of
    /// their ties.
    pub fn warnings(&self, labels: &Labels, method: RunMethod) -> Vec<String> {
        let mut found = Vec::new();
        let mut warn = |rate: Option<f64>, limit: f64, what: &str| {
            if let Some(share) = rate.filter(|share| *share > limit) {
                found.push(format!("{}: {:.0}% {what}", self.name, 100.0 * share));
            }
        };
        if let Some(games) = &self.games {
            let empty = match self.name.as_str() {
                // Of games that [self_play] has no part in.
                IMITATION => "of the utterances are empty",
                _ => "of the utterances are empty; self_play.min_new_tokens = 1 excludes empty completions",
            };
            warn(games.empty_utterances.share, EMPTY, empty);
            if labels.utterances == UtteranceKind::Sentences {
                warn(
                    games.repeated_utterances.share,
                    REPEATED,
                    "of the utterances repeat an earlier one of their game",
                );
            }
            for (seat, wins) in games.wins.iter() {
                let who = seat.in_a_sentence();
                let what = format!("of the decided games were won by {who}: the other seat learns little");
                warn(wins.share, ONE_SIDED, &what);
            }
            if !labels.guesses.is_empty() {
                let [_, second] = games.wins.seats();
                warn(games.early_guesses.share, EARLY, &format!("of the {second}s guess in their first utterance"));
            }
            if method == RunMethod::Offline || self.name == IMITATION {
                warn(games.ties.share, MANY_TIES, "of the games are ties, which no player learns from");
            }
        }
        if let Some(training) = &self.training {
            warn(training.clipped_fraction, CLIPPED, "of the tokens had a clipped importance ratio; train more gently");
        }
        found
    }
}

#[cfg(test)]
pub(super) mod tests {
    use spag_game::taboo;

    use super::*;

    /// A round of games, without a training.
    pub(in crate::report) fn round() -> Round {
        let few = Rate::new(1, 100);
        Round {
            name: "SPAG-2".into(),
            games: Some(RoundGames {
                games: 100,
                wins: PerSeat::new(&taboo::LABELS, [Rate::new(50, 90), Rate::new(40, 90)]),
                ties: Rate::new(10, 100),
                early_guesses: few,
                empty_utterances: few,
                repeated_utterances: few,
                words: PerSeat::new(&taboo::LABELS, [Some(6.0), None]),
                reasoning: None,
                distinct_1: Some(0.5),
                distinct_2: Some(0.75),
            }),
            training: None,
        }
    }

    #[test]
    fn collapse_is_warned_of() {
        assert_eq!(round().warnings(&taboo::LABELS, RunMethod::Offline), Vec::<String>::new());
        let mut wrong = round();
        if let Some(games) = &mut wrong.games {
            games.wins = PerSeat::new(&taboo::LABELS, [Rate::new(31_273, 33_973), Rate::new(40, 90)]);
            games.empty_utterances = Rate::new(80, 100);
        }
        let said = wrong.warnings(&taboo::LABELS, RunMethod::Offline).join("\n");
        assert!(said.contains("SPAG-2: 80% of the utterances are empty"), "{said}");
        assert!(said.contains("SPAG-2: 92% of the decided games were won by the attacker"), "{said}");
        assert_eq!(said.lines().count(), 2, "{said}");
    }

    #[test]
    fn ties_of_updates_have_a_warning_of_their_own() {
        let mut tied = round();
        tied.games.iter_mut().for_each(|games| games.ties = Rate::new(70, 100));
        let said = tied.warnings(&taboo::LABELS, RunMethod::Offline);
        assert_eq!(said, ["SPAG-2: 70% of the games are ties, which no player learns from"]);
        assert_eq!(tied.warnings(&taboo::LABELS, RunMethod::Online), [""; 0]);
        tied.name = IMITATION.to_owned();
        assert_eq!(tied.warnings(&taboo::LABELS, RunMethod::Online).len(), 1);
    }
}
