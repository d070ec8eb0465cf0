//! Statistics of games, accumulated game by game.

mod ngrams;
mod speech;

use std::collections::HashSet;
use std::fmt;

use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};
use spag_game::{Episode, JudgeKind, Role, Verdict, judge_episode};

use crate::counts::GameCounts;
use crate::ending::Ending;
use crate::text_table::number_or_dash;
use ngrams::NGrams;
use speech::Speech;
pub use speech::SpeechStats;

/// Width of the column of names, in characters.
const NAMES: usize = 52;

/// Statistics of games: how they ended, how long they took, and what the players said.
///
/// Only utterances up to the deciding one are counted, and the order of the games does not matter. Memory grows only with
/// the distinct words and pairs of words, about 20 bytes each. As JSON, this is a part of a run's summary file; as text, a
/// table without a final newline.
///
/// ```
/// use spag_game::{Episode, JudgeKind, Role};
/// use spag_selfplay::{Ending, GameStats};
///
/// # fn main() -> spag_game::Result<()> {
/// let mut episode = Episode::new("horse", 5);
/// episode.push(Role::Attacker, "Knights ride on it.");
/// episode.push(Role::Defender, "I know the word! It is horse!");
/// let mut stats = GameStats::new(JudgeKind::Paper);
/// stats.add(&episode)?;
/// assert_eq!((stats.counts().games(), stats.counts().ended(Ending::RightGuess)), (1, 1));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct GameStats {
    judge: JudgeKind,
    counts: GameCounts,
    attacker: Speech,
    defender: Speech,
    words: NGrams,
    pairs: NGrams,
}

impl GameStats {
    /// Statistics of no games; `judge` decides the games that are added.
    pub fn new(judge: JudgeKind) -> Self {
        Self {
            judge,
            counts: GameCounts::default(),
            attacker: Speech::default(),
            defender: Speech::default(),
            words: NGrams::new(1),
            pairs: NGrams::new(2),
        }
    }

    /// Adds a game.
    ///
    /// # Errors
    /// An empty target word, or roles that do not alternate.
    pub fn add(&mut self, episode: &Episode) -> spag_game::Result<()> {
        let verdict = judge_episode(self.judge, episode)?;
        self.add_judged(episode, &verdict);
        Ok(())
    }

    /// Adds a game with the verdict of its judge.
    pub fn add_judged(&mut self, episode: &Episode, verdict: &Verdict) {
        let length = verdict.history_length;
        self.counts.add(Ending::of(verdict, episode), length);
        let said = &episode.history[..length.min(episode.history.len())];
        let mut earlier = HashSet::new();
        for utterance in said {
            let text = &utterance.content;
            let lower = text.to_lowercase();
            let words: Vec<&str> = lower.split_whitespace().collect();
            let speech = match utterance.role {
                Role::Attacker => &mut self.attacker,
                Role::Defender => &mut self.defender,
            };
            speech.utterances += 1;
            speech.empty += u64::from(words.is_empty());
            speech.repeated += u64::from(!earlier.insert(text.as_str()));
            speech.words += words.len() as u64;
            speech.characters += text.chars().count() as u64;
            self.words.add(utterance.role, &words);
            self.pairs.add(utterance.role, &words);
        }
    }

    /// How the games ended and how long they took.
    pub fn counts(&self) -> &GameCounts {
        &self.counts
    }

    /// The utterances of one role.
    pub fn speech(&self, role: Role) -> SpeechStats {
        let speech = match role {
            Role::Attacker => self.attacker,
            Role::Defender => self.defender,
        };
        speech.stats(self.words.share_of(role), self.pairs.share_of(role))
    }

    /// The utterances of both roles.
    pub fn all_speech(&self) -> SpeechStats {
        self.attacker.plus(self.defender).stats(self.words.share(), self.pairs.share())
    }

    /// Games by outcome: the name in reports and files, and the number.
    fn outcomes(&self) -> [(&'static str, usize); 4] {
        [
            ("attacker wins", self.counts.wins(Role::Attacker)),
            ("defender wins", self.counts.ended(Ending::RightGuess)),
            ("attacker breaks the rules", self.counts.ended(Ending::BrokenRule)),
            ("tied game", self.counts.ended(Ending::Tie)),
        ]
    }

    /// `count` of the games, 0–1; 0 without games.
    fn share(&self, count: usize) -> f64 {
        count as f64 / (self.counts.games() as f64).max(1.0)
    }
}

impl Serialize for GameStats {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let counted = |rows: &[(&str, usize)]| -> Map<String, Value> {
            let value = |count| json!({"games": count, "share": self.share(count)});
            rows.iter().map(|(name, count)| ((*name).to_owned(), value(*count))).collect()
        };
        json!({
            "games": self.counts.games(),
            "outcomes": counted(&self.outcomes()),
            "endings": counted(&Ending::ALL.map(|ending| (ending.name(), self.counts.ended(ending)))),
            "mean_turns": self.counts.mean_turns(),
            "utterances": {
                "attacker": self.speech(Role::Attacker),
                "defender": self.speech(Role::Defender),
                "overall": self.all_speech(),
            },
        })
        .serialize(serializer)
    }
}

impl fmt::Display for GameStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = |indent: usize, name: &str, count: usize| {
            let width = NAMES - indent;
            writeln!(f, "{:indent$}{name:<width$}{count:>9}  {:5.1}%", "", 100.0 * self.share(count))
        };
        for (name, count) in self.outcomes() {
            line(2, name, count)?;
            if name == "attacker wins" {
                for ending in [Ending::WrongGuess, Ending::SaidUnknowingly] {
                    line(4, ending.describe(), self.counts.ended(ending))?;
                }
            }
        }
        let turns = number_or_dash(self.counts.mean_turns(), 2);
        write!(
            f,
            "  {:<width$}{turns:>9}\n  {:<13}{:>10} {:>8} {:>9} {:>8} {:>11} {:>11} {:>11}",
            "mean turns",
            "utterances",
            "all",
            "empty",
            "repeated",
            "words",
            "characters",
            "distinct-1",
            "distinct-2",
            width = NAMES - 2
        )?;
        let roles = [Role::Attacker, Role::Defender].map(|role| (role.name(), self.speech(role)));
        for (name, speech) in roles.into_iter().chain([("both", self.all_speech())]) {
            write!(
                f,
                "\n  {name:<13}{:>10} {:>8} {:>9} {:>8} {:>11} {:>11} {:>11}",
                speech.utterances,
                speech.empty,
                speech.repeated,
                number_or_dash(speech.mean_words, 1),
                number_or_dash(speech.mean_characters, 1),
                number_or_dash(speech.distinct_1, 3),
                number_or_dash(speech.distinct_2, 3)
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn game(word: &str, said: &[&str]) -> Episode {
        let mut episode = Episode::new(word, 2);
        for utterance in said {
            episode.push(episode.next_role(), *utterance);
        }
        episode
    }

    fn stats(games: &[Episode]) -> GameStats {
        let mut stats = GameStats::new(JudgeKind::Paper);
        games.iter().for_each(|game| stats.add(game).unwrap());
        stats
    }

    fn games() -> [Episode; 5] {
        [
            game("tea", &["It is hot.", "I know the word! It is tea!", "Not counted", "tea"]),
            game("tea", &["It is hot.", "I know the word! It is milk!"]),
            game("milk", &["It is white.", "Milk is."]),
            game("milk", &["Milk"]),
            game("bear", &["Go on", "Go on", " \n", "go ON"]),
        ]
    }

    #[test]
    fn stats_match_counts_by_hand() {
        let stats = stats(&games());
        assert_eq!(stats.counts().games(), 5);
        let endings = Ending::ALL.map(|ending| stats.counts().ended(ending));
        // Right guess, wrong guess, said unknowingly, broken rule, tie.
        assert_eq!(endings, [1, 1, 1, 1, 1]);
        // Utterances: 2 + 2 + 2 + 1 + 4.
        assert_eq!(stats.counts().mean_turns(), Some(11.0 / 2.0 / 5.0));
        // It is hot. | It is hot. | It is white. | Milk | Go on | (white space)
        assert_eq!(
            stats.speech(Role::Attacker),
            SpeechStats {
                utterances: 6,
                empty: 1,
                repeated: 0,
                mean_words: Some(12.0 / 6.0),
                mean_characters: Some((10 + 10 + 12 + 4 + 5 + 2) as f64 / 6.0),
                // it is hot. white. milk go on
                distinct_1: Some(7.0 / 12.0),
                // it-is is-hot. (twice both), it-is again, is-white., go-on: 7 pairs, 4 different.
                distinct_2: Some(4.0 / 7.0),
            }
        );
        // I know the word! It is tea! | I know the word! It is milk! | Milk is. | Go on | go ON
        assert_eq!(
            stats.speech(Role::Defender),
            SpeechStats {
                utterances: 5,
                empty: 0,
                repeated: 1,
                mean_words: Some(20.0 / 5.0),
                mean_characters: Some((27 + 28 + 8 + 5 + 5) as f64 / 5.0),
                // i know the word! it is tea! milk! milk is. go on
                distinct_1: Some(12.0 / 20.0),
                // i-know know-the the-word! word!-it it-is is-tea! is-milk! milk-is. go-on: 6 + 6 + 1 + 1 + 1 pairs.
                distinct_2: Some(9.0 / 15.0),
            }
        );
        assert_eq!(stats.speech(Role::Attacker).empty_share(), Some(1.0 / 6.0));
        assert_eq!(stats.speech(Role::Defender).repeated_share(), Some(1.0 / 5.0));
        let overall = stats.all_speech();
        assert_eq!((overall.utterances, overall.empty, overall.repeated), (11, 1, 1));
        // it is hot. white. milk go on i know the word! tea! milk! is.
        assert_eq!((overall.mean_words, overall.distinct_1), (Some(32.0 / 11.0), Some(14.0 / 32.0)));
        // The attacker's 4, the defender's 9, it-is and go-on in both.
        assert_eq!(overall.distinct_2, Some(11.0 / 22.0));
    }

    #[test]
    fn order_and_utterances_after_the_decision_do_not_matter() {
        let mut backwards = games();
        backwards.reverse();
        assert_eq!(stats(&backwards), stats(&games()));
        let mut stopped = games();
        stopped[0].history.truncate(2);
        assert_eq!(stats(&stopped), stats(&games()));
    }

    #[test]
    fn no_games_have_no_means() {
        let stats = stats(&[]);
        assert_eq!(
            (stats.counts().games(), stats.counts().mean_turns(), stats.all_speech().distinct_1),
            (0, None, None)
        );
        assert_eq!((stats.all_speech().empty_share(), stats.counts().early_guess_rate().total), (None, 0));
        let json = serde_json::to_value(&stats).unwrap();
        assert_eq!(json["outcomes"]["tied game"], json!({"games": 0, "share": 0.0}));
        assert_eq!(json["utterances"]["attacker"]["mean_words"], Value::Null);
    }

    #[test]
    fn json_and_text_have_the_same_numbers() {
        let stats = stats(&games());
        let json = serde_json::to_value(&stats).unwrap();
        assert_eq!(json["outcomes"]["attacker wins"], json!({"games": 2, "share": 0.4}));
        assert_eq!(json["endings"]["wrong_guess"], json!({"games": 1, "share": 0.2}));
        assert_eq!(json["utterances"]["defender"]["repeated"], 1);
        let text = stats.to_string();
        for part in ["attacker wins", "40.0%", "defender names a wrong word", "mean turns", "1.10", "distinct-2"] {
            assert!(text.contains(part), "{part}:\n{text}");
        }
    }
}
