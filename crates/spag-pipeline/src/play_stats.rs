//! Statistics of games for the report.

use serde::{Deserialize, Serialize};
use spag_game::{Episode, PerEnding, PerSeat, Seat, SeatKey, Tally, Verdict};
use spag_selfplay::{Rate, Refusals, Score};
use spag_world::Lexicon;

/// Statistics of games between the same two players.
///
/// Win rates are among decided games: a tie is not decided, a broken rule is a win of the other seat.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlayStats {
    /// Number of games.
    pub games: usize,
    /// The wins of each seat among decided games.
    #[serde(flatten)]
    pub win: PerSeat<Rate, Win>,
    /// Games that ended in each way, among all.
    #[serde(flatten)]
    pub endings: PerEnding<Rate>,
    /// Mean number of turns up to the deciding utterance, each utterance being half a turn
    /// ([`Tally::mean_turns`]); 0 without games.
    pub mean_turns: f64,
    /// True clues among the clues of the first seat, according to the lexicon; of none without the small world. Clues of one game are not independent, so the
    /// interval is somewhat too narrow.
    pub true_clues: Rate,
    /// Refused utterances of each seat, in games that refuse some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusals: Option<PerSeat<Refusals>>,
}

/// The keys of win rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Win;

impl SeatKey for Win {
    const SUFFIX: &'static str = "_win";
}

impl PlayStats {
    /// The statistics of games with these counts.
    pub(crate) fn of(counts: &Tally, games: &[(Episode, Verdict)], lexicon: Option<&Lexicon>) -> Self {
        let (mut clues, mut true_clues) = (0, 0);
        if let Some(lexicon) = lexicon {
            for truth in games.iter().map(|(episode, _)| spag_world::clue_truth(lexicon, episode)) {
                clues += truth.clues;
                true_clues += truth.true_clues;
            }
        }
        Self {
            games: counts.games(),
            win: PerSeat::of(counts.labels(), |seat| Rate::of_wins(counts, seat)),
            endings: PerEnding::of(counts.labels(), |ending| Rate::of_ending(counts, ending)),
            mean_turns: counts.mean_turns().unwrap_or(0.0),
            true_clues: Rate::new(true_clues, clues),
            refusals: Refusals::of(counts),
        }
    }

    /// Ties among all games.
    pub fn ties(&self) -> Rate {
        // Both seats' wins are among the same decided games.
        let decided = self.win.values()[0].total;
        Rate::new(self.games.saturating_sub(decided), self.games)
    }

    /// The score of a seat: its wins minus its losses, of all games.
    pub fn score(&self, seat: Seat) -> Score {
        let Rate { count, total, .. } = self.win[seat];
        Score { wins: count, losses: total - count, games: self.games }
    }
}

#[cfg(test)]
mod tests {
    use spag_game::taboo::{self, Taboo};
    use spag_game::{
        FinishedGame, JudgeKind, PlayConfig, PromptSet, ScriptedPolicy, Seats, TurnRequest, judge_episode, play_games,
    };
    use spag_selfplay::{GameStats, game_specs};

    use super::*;

    fn lexicon() -> Lexicon {
        Lexicon::load(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/lexicon.toml")).unwrap()
    }

    fn judged(episodes: &[Episode]) -> PlayStats {
        let mut counts = Tally::new(&taboo::LABELS);
        let verdict = |episode: &Episode| judge_episode(JudgeKind::Paper, episode).unwrap();
        let games: Vec<_> = episodes.iter().map(|episode| (episode.clone(), verdict(episode))).collect();
        games.iter().for_each(|(_, verdict)| counts.add(verdict));
        PlayStats::of(&counts, &games, Some(&lexicon()))
    }

    fn game(said: &[&str]) -> Episode {
        let mut episode = Episode::new("tiger", 5);
        for utterance in said {
            episode.push(episode.next_role(), *utterance);
        }
        episode
    }

    #[test]
    fn broken_rule_is_the_attackers_loss_and_tie_is_not_decided() {
        let games = [
            &["It has stripes. It eats grass.", "Well.", "It is dangerous.", "I know the word! It is tiger!"][..],
            &["Mine jumps well.", "I know the word! It is goat!"],
            &["Say tiger."],
            &["Hello.", "Well."],
        ];
        let stats = judged(&games.map(game));
        assert_eq!(stats.ties(), Rate::new(1, 4));
        assert_eq!((stats.win[taboo::ATTACKER], stats.win[taboo::DEFENDER]), (Rate::new(1, 3), Rate::new(2, 3)));
        // 2 + 1 + ½ + 1 turns; a tiger has stripes, is dangerous and jumps well, but eats no grass.
        assert_eq!((stats.mean_turns, stats.true_clues), (1.125, Rate::new(3, 4)));
    }

    /// The report of `spag run` and the summary of `spag-play` count turns in the same way.
    #[test]
    fn mean_turns_equal_those_of_game_stats() {
        let mut player = ScriptedPolicy::new(|turn: &TurnRequest<'_>| match (turn.seed % 8, turn.seat) {
            (0, _) => "It is tiger.".into(),
            (1 | 2, taboo::DEFENDER) => "I know the word! It is tiger!".into(),
            (3, taboo::DEFENDER) => "I know the word! It is goat!".into(),
            _ => "Hello.".into(),
        });
        let words = ["tiger".to_owned()];
        let specs = game_specs(words.iter().cycle().take(100), 5, 1);
        let mut episodes = Vec::new();
        let mut keep = |game: FinishedGame| {
            episodes.push(game.episode);
            Ok(())
        };
        let (prompts, config) = (PromptSet::default(), PlayConfig::default());
        play_games(&Taboo::new(&prompts), specs, Seats::SelfPlay(&mut player), &config, &mut keep).unwrap();
        let mut summary = GameStats::new(&taboo::LABELS);
        let verdict = |episode| judge_episode(JudgeKind::Paper, episode).unwrap();
        episodes.iter().for_each(|episode| summary.add(episode, &verdict(episode)));
        let summary = serde_json::to_value(&summary).unwrap();
        let report = judged(&episodes);
        assert_eq!(summary["mean_turns"].as_f64(), Some(report.mean_turns));
        assert!(episodes.iter().any(|episode| episode.history.len() % 2 == 1), "some games end with a half turn");
    }
}
