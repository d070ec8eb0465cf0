//! Statistics of games, accumulated game by game.

mod ngrams;
mod speech;
mod thought;

use std::collections::HashSet;
use std::fmt;

use serde::{Serialize, Serializer};
use serde_json::{Map, json};
use spag_game::{Episode, Labels, PerSeat, SEATS, Seat, Tally, Verdict};

use crate::refusals::Refusals;
use crate::text_table::number_or_dash;
use ngrams::NGrams;
use speech::Speech;
pub use speech::SpeechStats;
pub use thought::ReasoningStats;
use thought::Thought;

/// Width of the column of names, in characters.
const NAMES: usize = 52;

/// Statistics of games: how they ended, how long they took, and what the players said.
///
/// Only utterances up to the deciding one are counted, and the order of the games does not matter. Memory grows only with
/// the distinct words and pairs of words, about 20 bytes each. As JSON, this is a part of a run's summary file; as text, a
/// table without a final newline.
///
/// ```
/// use spag_game::{Episode, JudgeKind, judge_episode};
/// use spag_selfplay::GameStats;
///
/// # fn main() -> spag_game::Result<()> {
/// let mut episode = Episode::new("horse", 5);
/// episode.push(episode.next_role(), "Knights ride on it.");
/// episode.push(episode.next_role(), "I know the word! It is horse!");
/// let mut stats = GameStats::new(JudgeKind::Paper.labels());
/// stats.add(&episode, &judge_episode(JudgeKind::Paper, &episode)?);
/// assert_eq!((stats.counts().games(), stats.counts().decided()), (1, 1));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct GameStats {
    counts: Tally,
    /// What each seat said.
    speech: [Speech; SEATS],
    /// What each seat thought.
    thought: [Thought; SEATS],
    words: NGrams,
    pairs: NGrams,
}

impl GameStats {
    /// Statistics of no games of the game with these labels.
    pub fn new(labels: &'static Labels) -> Self {
        Self {
            counts: Tally::new(labels),
            speech: [Speech::default(); SEATS],
            thought: [Thought::default(); SEATS],
            words: NGrams::new(1),
            pairs: NGrams::new(2),
        }
    }

    /// Adds a game with the verdict of its judge.
    pub fn add(&mut self, episode: &Episode, verdict: &Verdict) {
        let length = verdict.history_length;
        self.counts.add_game(episode, verdict);
        let said = &episode.history[..length.min(episode.history.len())];
        let mut earlier = HashSet::new();
        for utterance in said {
            let text = &utterance.content;
            let lower = text.to_lowercase();
            let words: Vec<&str> = lower.split_whitespace().collect();
            let speech = &mut self.speech[utterance.seat.index()];
            speech.utterances += 1;
            speech.empty += u64::from(words.is_empty());
            speech.repeated += u64::from(!earlier.insert(text.as_str()));
            speech.words += words.len() as u64;
            speech.characters += text.chars().count() as u64;
            self.thought[utterance.seat.index()].add(utterance.reasoning.as_deref(), utterance.reasoning_end);
            self.words.add(utterance.seat, &words);
            self.pairs.add(utterance.seat, &words);
        }
    }

    /// How the games ended and how long they took.
    pub fn counts(&self) -> &Tally {
        &self.counts
    }

    /// The utterances of one seat.
    pub fn speech(&self, seat: Seat) -> SpeechStats {
        self.speech[seat.index()].stats(self.words.share_of(seat), self.pairs.share_of(seat))
    }

    /// The utterances of both seats.
    pub fn all_speech(&self) -> SpeechStats {
        let [first, second] = self.speech;
        first.plus(second).stats(self.words.share(), self.pairs.share())
    }

    /// The reasoning of one seat; `None` if it has thought nothing.
    pub fn reasoning(&self, seat: Seat) -> Option<ReasoningStats> {
        self.thought[seat.index()].stats()
    }

    /// The reasoning of both seats; `None` if they have thought nothing.
    pub fn all_reasoning(&self) -> Option<ReasoningStats> {
        let [first, second] = self.thought;
        first.plus(second).stats()
    }

    /// The reasoning of each seat that has thought something, and of both together.
    fn reasoning_by_name(&self) -> impl Iterator<Item = (&'static str, ReasoningStats)> {
        let seats = self.counts.labels().seats.map(|seat| (seat.name(), self.reasoning(seat)));
        let all = seats.into_iter().chain([("overall", self.all_reasoning())]);
        all.filter_map(|(name, stats)| Some((name, stats?)))
    }

    /// `count` of the games, 0–1; 0 without games.
    fn share(&self, count: usize) -> f64 {
        count as f64 / (self.counts.games() as f64).max(1.0)
    }
}

impl Serialize for GameStats {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (counts, labels) = (&self.counts, self.counts.labels());
        let value = |count| json!({"games": count, "share": self.share(count)});
        let outcomes = labels.outcomes.iter().map(|outcome| (*outcome, counts.with_outcome(outcome)));
        let endings = labels.endings.iter().map(|ending| (ending.name, counts.ended(*ending)));
        let named = |(name, count): (&str, usize)| (name.to_owned(), value(count));
        let speech = labels.seats.into_iter().map(|seat| (seat.name(), self.speech(seat)));
        let speech =
            speech.chain([("overall", self.all_speech())]).map(|(name, speech)| (name.to_owned(), json!(speech)));
        let mut stats = json!({
            "games": counts.games(),
            "outcomes": outcomes.map(named).collect::<Map<_, _>>(),
            "endings": endings.map(named).collect::<Map<_, _>>(),
            "mean_turns": counts.mean_turns(),
            "utterances": speech.collect::<Map<_, _>>(),
        });
        if self.all_reasoning().is_some() {
            let of = self.reasoning_by_name().map(|(name, stats)| (name.to_owned(), json!(stats)));
            stats["reasoning"] = of.collect::<Map<_, _>>().into();
        }
        if let Some(refusals) = Refusals::of(counts) {
            stats["refusals"] = json!(refusals);
        }
        stats.serialize(serializer)
    }
}

impl fmt::Display for GameStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = |indent: usize, name: &str, count: usize| {
            let width = NAMES - indent;
            writeln!(f, "{:indent$}{name:<width$}{count:>9}  {:5.1}%", "", 100.0 * self.share(count))
        };
        let labels = self.counts.labels();
        for outcome in labels.outcomes {
            line(2, outcome, self.counts.with_outcome(outcome))?;
            let endings: Vec<_> = labels.endings.iter().filter(|ending| ending.outcome == *outcome).collect();
            // The only ending of an outcome would repeat its line.
            for ending in endings.iter().filter(|_| endings.len() > 1) {
                line(4, ending.description, self.counts.ended(**ending))?;
            }
        }
        for (seat, Refusals { refused, games_lost }) in Refusals::of(&self.counts).iter().flat_map(PerSeat::iter) {
            let (name, share) = (format!("refused utterances of {seat}"), 100.0 * refused.share.unwrap_or(0.0));
            let width = NAMES - 2;
            writeln!(f, "  {name:<width$}{:>9}  {share:5.1}%  {games_lost} games lost by them", refused.count)?;
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
        let seats = labels.seats.map(|seat| (seat.name(), self.speech(seat)));
        for (name, speech) in seats.into_iter().chain([("both", self.all_speech())]) {
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
        for (name, ReasoningStats { characters, empty, forced, unfinished }) in self.reasoning_by_name() {
            let [empty, forced, unfinished] = [empty, forced, unfinished].map(|share| 100.0 * share);
            write!(
                f,
                "\n  reasoning of {name}: {characters:.1} characters, {empty:.1}% empty, {forced:.1}% forced, {unfinished:.1}% unfinished"
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use spag_game::{JudgeKind, ReasoningEnd, judge_episode, taboo};

    use super::*;

    fn game(word: &str, said: &[&str]) -> Episode {
        let mut episode = Episode::new(word, 2);
        for utterance in said {
            episode.push(episode.next_role(), *utterance);
        }
        episode
    }

    fn stats(games: &[Episode]) -> GameStats {
        let mut stats = GameStats::new(&taboo::LABELS);
        games.iter().for_each(|game| stats.add(game, &judge_episode(JudgeKind::Paper, game).unwrap()));
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
        let endings = taboo::LABELS.endings.iter().map(|ending| stats.counts().ended(*ending)).collect::<Vec<_>>();
        // Right guess, wrong guess, said unknowingly, broken rule, tie.
        assert_eq!(endings, [1, 1, 1, 1, 1]);
        // Utterances: 2 + 2 + 2 + 1 + 4.
        assert_eq!(stats.counts().mean_turns(), Some(11.0 / 2.0 / 5.0));
        // It is hot. | It is hot. | It is white. | Milk | Go on | (white space)
        assert_eq!(
            stats.speech(taboo::ATTACKER),
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
            stats.speech(taboo::DEFENDER),
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
        assert_eq!(stats.speech(taboo::DEFENDER).repeated_share(), Some(1.0 / 5.0));
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
        assert_eq!((stats.all_speech().repeated_share(), stats.counts().games()), (None, 0));
        let json = serde_json::to_value(&stats).unwrap();
        assert_eq!(json["outcomes"]["tied game"], json!({"games": 0, "share": 0.0}));
        assert_eq!(json["utterances"]["attacker"]["mean_words"], Value::Null);
    }

    #[test]
    fn reasoning_is_counted_by_seat_if_there_is_some() {
        assert_eq!((stats(&games()).all_reasoning(), stats(&games()).reasoning(taboo::ATTACKER)), (None, None));
        let mut games = games();
        for (at, text, end) in
            [(0, Some("1234"), None), (1, Some("12"), Some(ReasoningEnd::Forced)), (2, Some("after the end"), None)]
        {
            let said = &mut games[0].history[at];
            (said.reasoning, said.reasoning_end) = (text.map(str::to_owned), end);
        }
        games[4].history[2].reasoning_end = Some(ReasoningEnd::Unfinished);
        let stats = stats(&games);
        let of = |characters, empty, forced, unfinished| Some(ReasoningStats { characters, empty, forced, unfinished });
        assert_eq!(stats.reasoning(taboo::ATTACKER), of(4.0 / 6.0, 5.0 / 6.0, 0.0, 1.0 / 6.0));
        assert_eq!(stats.reasoning(taboo::DEFENDER), of(2.0 / 5.0, 4.0 / 5.0, 1.0 / 5.0, 0.0));
        assert_eq!(stats.all_reasoning(), of(6.0 / 11.0, 9.0 / 11.0, 1.0 / 11.0, 1.0 / 11.0));
        let json = serde_json::to_value(&stats).unwrap();
        assert_eq!(json["reasoning"]["defender"]["forced"], 0.2);
        assert!(stats.to_string().contains("reasoning of defender: 0.4 characters, 80.0% empty, 20.0% forced"));
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
