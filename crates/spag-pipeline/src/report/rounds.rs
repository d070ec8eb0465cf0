//! The rounds of training: what players said and how training went, so that a run that goes wrong is seen.

use serde::{Deserialize, Serialize};
use spag_game::{Labels, PerSeat, SeatKey, UtteranceKind};
use spag_selfplay::{Rate, number_or_dash};

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
/// A share of ties or early guesses that a warning names.
const MOST: f64 = 0.6;
/// A share of clipped tokens that a warning names.
const CLIPPED: f64 = 0.5;

impl Round {
    /// What of this round of games with these labels looks wrong, a sentence each.
    pub fn warnings(&self, labels: &Labels) -> Vec<String> {
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
                warn(games.early_guesses.share, MOST, &format!("of the {second}s guess in their first utterance"));
            }
            warn(games.ties.share, MOST, "of the games are ties, which no player learns from");
        }
        if let Some(training) = &self.training {
            warn(training.clipped_fraction, CLIPPED, "of the tokens had a clipped importance ratio; train more gently");
        }
        found
    }
}

/// The title of the table of games.
pub(super) const GAME_TITLE: &str =
    "Games that each model was trained on: wins, shares in %, and words of an utterance";
/// The title of the table of trainings.
pub(super) const TRAINING_TITLE: &str = "Training; loss and KL of the last quarter of the steps, clipped tokens in %";

/// Headers of the table of games: those of what games with these labels have.
pub(super) fn game_columns(labels: &Labels) -> Vec<String> {
    let [first, second] = labels.seats;
    let mut columns = vec!["trained on".to_owned(), "games".to_owned(), format!("{first} : {second}")];
    columns.extend(shares(labels).map(|(name, _)| name.to_owned()));
    columns.extend(labels.seats.map(|seat| format!("words, {seat}")));
    columns.push("distinct-1, -2".to_owned());
    columns
}

/// A share of games or utterances.
type Share = fn(&RoundGames) -> Rate;

/// The shares that mean something in games with these labels.
fn shares(labels: &Labels) -> impl Iterator<Item = (&'static str, Share)> {
    let (has_guesses, is_talk) = (!labels.guesses.is_empty(), labels.utterances == UtteranceKind::Sentences);
    let all: [(&str, bool, Share); 4] = [
        ("ties", true, |games| games.ties),
        ("early guesses", has_guesses, |games| games.early_guesses),
        ("empty", true, |games| games.empty_utterances),
        ("repeated", is_talk, |games| games.repeated_utterances),
    ];
    all.into_iter().filter(|(_, is_meant, _)| *is_meant).map(|(name, _, of)| (name, of))
}

/// Headers of the table of trainings.
pub(super) const TRAINING_COLUMNS: [&str; 8] =
    ["training", "steps", "loss", "KL", "ratio, mean", "ratio, largest", "clipped", "gradient norm, largest"];

/// Rows of the table of games.
pub(super) fn game_rows(labels: &Labels, rounds: &[Round]) -> Vec<Vec<String>> {
    let row = |round: &Round| {
        let games = round.games.as_ref()?;
        let mut row = vec![round.name.clone(), games.games.to_string()];
        row.push(games.wins.values().map(|wins| wins.count.to_string()).join(" : "));
        row.extend(shares(labels).map(|(_, of)| super::text::percent(of(games).share)));
        row.extend(games.words.values().map(|words| number_or_dash(words, 1)));
        row.push(format!("{}, {}", number_or_dash(games.distinct_1, 3), number_or_dash(games.distinct_2, 3)));
        Some(row)
    };
    rounds.iter().filter_map(row).collect()
}

/// Rows of the table of trainings.
pub(super) fn training_rows(rounds: &[Round]) -> Vec<Vec<String>> {
    let row = |round: &Round| {
        let training = round.training.as_ref()?;
        let mut row = vec![round.name.clone(), training.steps.to_string()];
        row.extend([training.loss, training.kl].map(|value| number_or_dash(value, 4)));
        row.extend(
            [training.importance_ratio_mean, training.importance_ratio_max].map(|value| number_or_dash(value, 3)),
        );
        row.extend([super::text::percent(training.clipped_fraction), number_or_dash(training.grad_norm_max, 2)]);
        Some(row)
    };
    rounds.iter().filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use spag_game::taboo;

    use super::*;

    fn round() -> Round {
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
                distinct_1: Some(0.5),
                distinct_2: Some(0.75),
            }),
            training: None,
        }
    }

    #[test]
    fn collapse_is_warned_of() {
        assert_eq!(round().warnings(&taboo::LABELS), Vec::<String>::new());
        let mut wrong = round();
        if let Some(games) = &mut wrong.games {
            games.wins = PerSeat::new(&taboo::LABELS, [Rate::new(31_273, 33_973), Rate::new(40, 90)]);
            games.empty_utterances = Rate::new(80, 100);
        }
        let said = wrong.warnings(&taboo::LABELS).join("\n");
        assert!(said.contains("SPAG-2: 80% of the utterances are empty"), "{said}");
        assert!(said.contains("SPAG-2: 92% of the decided games were won by the attacker"), "{said}");
        assert_eq!(said.lines().count(), 2, "{said}");
    }

    #[test]
    fn rows_have_a_cell_for_each_header() {
        let mut whole = round();
        whole.training = Some(RoundTraining {
            steps: 7,
            loss: Some(-0.5),
            kl: Some(0.25),
            importance_ratio_mean: None,
            importance_ratio_max: None,
            clipped_fraction: Some(0.125),
            grad_norm_max: Some(1.0),
        });
        let games = &game_rows(&taboo::LABELS, &[whole.clone()])[0];
        assert_eq!(games.join("|"), "SPAG-2|100|50 : 40|10.0|1.0|1.0|1.0|6.0|–|0.500, 0.750");
        let training = &training_rows(&[whole, round()]);
        assert_eq!(training[0].join("|"), "SPAG-2|7|-0.5000|0.2500|–|–|12.5|1.00");
        assert_eq!(
            (games.len(), training[0].len(), training.len()),
            (game_columns(&taboo::LABELS).len(), TRAINING_COLUMNS.len(), 1)
        );
    }
}
