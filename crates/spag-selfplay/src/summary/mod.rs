//! What a pile of games says, gathered game by game.

mod distinct;
mod speech;
mod text;

use serde::Serialize;
use serde_json::{Map, Value, json};
use spag_game::{Episode, JudgeKind, Role};

pub use speech::SpeechSummary;

use crate::ending::{Ending, ending};
use distinct::NGrams;
use speech::Speech;

/// Games as they come, counted. In which order they come changes nothing.
///
/// Only utterances up to the one that decides a game are looked at: what is played on after it changes nothing. Memory
/// grows with the distinct words and pairs of words alone, about 20 bytes each.
///
/// ```
/// use spag_game::{Episode, JudgeKind, Role};
/// use spag_selfplay::{Ending, GamesTally};
///
/// # fn main() -> spag_game::Result<()> {
/// let mut episode = Episode::new("horse", 5);
/// episode.push(Role::Attacker, "Knights ride on it.");
/// episode.push(Role::Defender, "I know the word! It is horse!");
/// let mut tally = GamesTally::new(JudgeKind::Paper);
/// tally.add(&episode)?;
/// assert_eq!((tally.games(), tally.ended(Ending::RightGuess)), (1, 1));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct GamesTally {
    judge: JudgeKind,
    endings: [u64; Ending::ALL.len()],
    /// Utterances up to the deciding ones.
    length: u64,
    attacker: Speech,
    defender: Speech,
    words: NGrams,
    pairs: NGrams,
}

impl GamesTally {
    /// No games yet.
    pub fn new(judge: JudgeKind) -> Self {
        Self {
            judge,
            endings: [0; Ending::ALL.len()],
            length: 0,
            attacker: Speech::default(),
            defender: Speech::default(),
            words: NGrams::new(1),
            pairs: NGrams::new(2),
        }
    }

    /// Counts a game.
    ///
    /// # Errors
    /// An empty target word, or roles that do not alternate.
    pub fn add(&mut self, episode: &Episode) -> spag_game::Result<()> {
        let (ending, length) = ending(episode, self.judge)?;
        self.endings[ending.place()] += 1;
        self.length += length as u64;
        let said = &episode.history[..length.min(episode.history.len())];
        for (at, utterance) in said.iter().enumerate() {
            let text = &utterance.content;
            let lower = text.to_lowercase();
            let words: Vec<&str> = lower.split_whitespace().collect();
            let speech = match utterance.role {
                Role::Attacker => &mut self.attacker,
                Role::Defender => &mut self.defender,
            };
            speech.utterances += 1;
            speech.empty += u64::from(words.is_empty());
            speech.repeated += u64::from(said[..at].iter().any(|earlier| earlier.content == *text));
            speech.words += words.len() as u64;
            speech.characters += text.chars().count() as u64;
            self.words.add(utterance.role, &words);
            self.pairs.add(utterance.role, &words);
        }
        Ok(())
    }

    /// Games counted.
    pub fn games(&self) -> u64 {
        self.endings.iter().sum()
    }

    /// Games that ended so.
    pub fn ended(&self, ending: Ending) -> u64 {
        self.endings[ending.place()]
    }

    /// What the games counted so far say.
    pub fn summary(&self) -> GamesSummary {
        let games = self.games();
        let endings = Ending::ALL.map(|ending| EndingCount { ending, games: self.ended(ending) }).to_vec();
        let role = |speech: Speech, role| speech.summary(self.words.share_of(role), self.pairs.share_of(role));
        GamesSummary {
            games,
            endings,
            // A turn is an utterance of each.
            mean_turns: (games > 0).then(|| self.length as f64 / 2.0 / games as f64),
            attacker: role(self.attacker, Role::Attacker),
            defender: role(self.defender, Role::Defender),
            overall: self.attacker.plus(self.defender).summary(self.words.share(), self.pairs.share()),
        }
    }
}

/// How many games ended in one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndingCount {
    /// How.
    pub ending: Ending,
    /// How many.
    pub games: u64,
}

/// What a pile of games says. As JSON, it is part of the summary of a run; as text, a table.
#[derive(Clone, Debug, PartialEq)]
pub struct GamesSummary {
    /// Games.
    pub games: u64,
    /// How they ended, in the order of [`Ending::ALL`].
    pub endings: Vec<EndingCount>,
    /// Turns up to the deciding utterance; a turn is one utterance of each player.
    pub mean_turns: Option<f64>,
    /// What attackers say.
    pub attacker: SpeechSummary,
    /// What defenders say.
    pub defender: SpeechSummary,
    /// What both say.
    pub overall: SpeechSummary,
}

impl GamesSummary {
    /// Games that ended in one of these ways.
    pub fn ended(&self, endings: &[Ending]) -> u64 {
        self.endings.iter().filter(|count| endings.contains(&count.ending)).map(|count| count.games).sum()
    }

    /// Outcomes in the order of reports: what files call them, and how many games had them.
    fn outcomes(&self) -> [(&'static str, u64); 4] {
        [
            ("attacker wins", self.ended(&[Ending::WrongGuess, Ending::SaidUnknowingly])),
            ("defender wins", self.ended(&[Ending::RightGuess])),
            ("attacker breaks the rules", self.ended(&[Ending::BrokenRule])),
            ("tied game", self.ended(&[Ending::Tie])),
        ]
    }

    /// `count` of the games, 0–1.
    fn share(&self, count: u64) -> f64 {
        count as f64 / (self.games as f64).max(1.0)
    }
}

impl Serialize for GamesSummary {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let counted = |rows: Vec<(&str, u64)>| -> Map<String, Value> {
            let value = |count| json!({"games": count, "share": self.share(count)});
            rows.into_iter().map(|(name, count)| (name.to_owned(), value(count))).collect()
        };
        let endings = self.endings.iter().map(|count| (count.ending.name(), count.games)).collect();
        json!({
            "games": self.games,
            "outcomes": counted(self.outcomes().to_vec()),
            "endings": counted(endings),
            "mean_turns": self.mean_turns,
            "utterances": {"attacker": self.attacker, "defender": self.defender, "overall": self.overall},
        })
        .serialize(serializer)
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

    fn tally(games: &[Episode]) -> GamesTally {
        let mut tally = GamesTally::new(JudgeKind::Paper);
        games.iter().for_each(|game| tally.add(game).unwrap());
        tally
    }

    fn games() -> [Episode; 5] {
        [
            game("tea", &["It is hot.", "I know the word! It is tea!", "Not looked at", "tea"]),
            game("tea", &["It is hot.", "I know the word! It is milk!"]),
            game("milk", &["It is white.", "Milk is."]),
            game("milk", &["Milk"]),
            game("bear", &["Go on", "Go on", " \n", "go ON"]),
        ]
    }

    /// Everything below was counted by hand.
    #[test]
    fn counted_by_hand() {
        let summary = tally(&games()).summary();
        assert_eq!(summary.games, 5);
        let endings: Vec<_> = summary.endings.iter().map(|count| count.games).collect();
        // Right guess, wrong guess, said unknowingly, broken rule, tie.
        assert_eq!(endings, [1, 1, 1, 1, 1]);
        // Utterances: 2 + 2 + 2 + 1 + 4.
        assert_eq!(summary.mean_turns, Some(11.0 / 2.0 / 5.0));
        // It is hot. | It is hot. | It is white. | Milk | Go on | (white space)
        assert_eq!(
            summary.attacker,
            SpeechSummary {
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
            summary.defender,
            SpeechSummary {
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
        let overall = summary.overall;
        assert_eq!((overall.utterances, overall.empty, overall.repeated), (11, 1, 1));
        // it is hot. white. milk go on i know the word! tea! milk! is.
        assert_eq!((overall.mean_words, overall.distinct_1), (Some(32.0 / 11.0), Some(14.0 / 32.0)));
        // The attacker's 4, the defender's 9, it-is and go-on in both.
        assert_eq!(overall.distinct_2, Some(11.0 / 22.0));
    }

    #[test]
    fn neither_the_order_nor_what_comes_after_the_decision_counts() {
        let mut backwards = games();
        backwards.reverse();
        assert_eq!(tally(&backwards).summary(), tally(&games()).summary());
        let mut stopped = games();
        stopped[0].history.truncate(2);
        assert_eq!(tally(&stopped).summary(), tally(&games()).summary());
    }

    #[test]
    fn without_games_there_are_no_means() {
        let summary = tally(&[]).summary();
        assert_eq!((summary.games, summary.mean_turns, summary.overall.distinct_1), (0, None, None));
        let json = serde_json::to_value(&summary).unwrap();
        assert_eq!(json["outcomes"]["tied game"], json!({"games": 0, "share": 0.0}));
        assert_eq!(json["utterances"]["attacker"]["mean_words"], Value::Null);
    }

    #[test]
    fn as_json_and_as_text() {
        let summary = tally(&games()).summary();
        let json = serde_json::to_value(&summary).unwrap();
        assert_eq!(json["outcomes"]["attacker wins"], json!({"games": 2, "share": 0.4}));
        assert_eq!(json["endings"]["wrong_guess"], json!({"games": 1, "share": 0.2}));
        assert_eq!(json["utterances"]["defender"]["repeated"], 1);
        let text = summary.to_string();
        for part in ["attacker wins", "40.0%", "defender names a wrong word", "mean turns", "1.10", "distinct-2"] {
            assert!(text.contains(part), "{part}:\n{text}");
        }
    }
}
