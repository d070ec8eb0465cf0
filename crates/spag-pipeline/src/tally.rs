//! Counting games: from episodes to statistics.

use spag_game::{Episode, JudgeKind};
use spag_selfplay::{Ending, Rate, ending};
use spag_world::Lexicon;

use crate::error::Result;
use crate::play_stats::PlayStats;

/// Counts games one by one; [`Tally::finish`] makes the statistics.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    right_guess: usize,
    wrong_guess: usize,
    said_unknowingly: usize,
    broken_rule: usize,
    tie: usize,
    turns: usize,
    clues: usize,
    true_clues: usize,
}

impl Tally {
    /// Judges and counts one game.
    pub(crate) fn add(&mut self, episode: &Episode, judge: JudgeKind, lexicon: &Lexicon) -> Result<()> {
        let (ending, length) = ending(episode, judge)?;
        match ending {
            Ending::RightGuess => self.right_guess += 1,
            Ending::WrongGuess => self.wrong_guess += 1,
            Ending::SaidUnknowingly => self.said_unknowingly += 1,
            Ending::BrokenRule => self.broken_rule += 1,
            Ending::Tie => self.tie += 1,
        }
        self.turns += length.div_ceil(2);
        let truth = spag_world::clue_truth(lexicon, episode);
        self.clues += truth.clues;
        self.true_clues += truth.true_clues;
        Ok(())
    }

    pub(crate) fn finish(&self) -> PlayStats {
        let decided_for_attacker = self.wrong_guess + self.said_unknowingly;
        let decided_for_defender = self.right_guess + self.broken_rule;
        let decided = decided_for_attacker + decided_for_defender;
        let games = decided + self.tie;
        PlayStats {
            games,
            attacker_win: Rate::new(decided_for_attacker, decided),
            defender_win: Rate::new(decided_for_defender, decided),
            right_guess: Rate::new(self.right_guess, games),
            wrong_guess: Rate::new(self.wrong_guess, games),
            said_unknowingly: Rate::new(self.said_unknowingly, games),
            broken_rule: Rate::new(self.broken_rule, games),
            tie: Rate::new(self.tie, games),
            mean_turns: self.turns as f64 / games.max(1) as f64,
            true_clues: Rate::new(self.true_clues, self.clues),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lexicon() -> Lexicon {
        Lexicon::load(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/lexicon.toml")).unwrap()
    }

    fn game(said: &[&str]) -> Episode {
        let mut episode = Episode::new("tiger", 5);
        for utterance in said {
            episode.push(episode.next_role(), *utterance);
        }
        episode
    }

    #[test]
    fn a_broken_rule_is_the_attacker_s_loss_and_a_tie_decides_nothing() {
        let mut tally = Tally::default();
        for said in [
            &["It has stripes. It eats grass.", "Well.", "It is dangerous.", "I know the word! It is tiger!"][..],
            &["Mine jumps well.", "I know the word! It is goat!"],
            &["Say tiger."],
            &["Hello.", "Well."],
        ] {
            tally.add(&game(said), JudgeKind::Paper, &lexicon()).unwrap();
        }
        let stats = tally.finish();
        assert_eq!((stats.games, stats.tie.count), (4, 1));
        assert_eq!((stats.attacker_win, stats.defender_win), (Rate::new(1, 3), Rate::new(2, 3)));
        // 2 + 1 + 1 + 1 turns; a tiger has stripes, is dangerous and jumps well, but eats no grass.
        assert_eq!((stats.mean_turns, stats.true_clues), (1.25, Rate::new(3, 4)));
    }
}
