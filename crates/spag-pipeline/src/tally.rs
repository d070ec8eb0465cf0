//! Counting games: from episodes to statistics.

use spag_game::{Episode, JudgeKind, Outcome, Referee, Role};
use spag_world::Lexicon;

use crate::error::Result;
use crate::play_stats::PlayStats;
use crate::stats::Rate;

/// How a game ended, told apart more finely than by its outcome: the attacker wins in two very different ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The defender named the target word: the defender wins.
    RightGuess,
    /// The defender named another word: the attacker wins.
    WrongGuess,
    /// The defender uttered the target word without naming it: the attacker wins.
    SaidUnknowingly,
    /// The attacker uttered the target word, or made a prediction: the attacker's loss.
    BrokenRule,
    /// Nobody won within the turns.
    Tie,
}

impl Ending {
    /// In a few words, for a reader.
    pub(crate) fn describe(self) -> &'static str {
        match self {
            Self::RightGuess => "defender names the word and wins",
            Self::WrongGuess => "defender names a wrong word, attacker wins",
            Self::SaidUnknowingly => "defender says the word unknowingly, attacker wins",
            Self::BrokenRule => "attacker breaks the rules",
            Self::Tie => "tied",
        }
    }
}

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

/// How a game ended and how many utterances it took.
pub(crate) fn ending(episode: &Episode, judge: JudgeKind) -> Result<(Ending, usize)> {
    let verdict = Referee::new(judge, &episode.target_word)?.judge(&episode.history, episode.max_turns);
    let ending = match verdict.outcome {
        Outcome::DefenderWins => Ending::RightGuess,
        Outcome::AttackerBreaksRules => Ending::BrokenRule,
        Outcome::Tie => Ending::Tie,
        Outcome::AttackerWins => {
            let last = episode
                .history
                .get(verdict.history_length.saturating_sub(1))
                .filter(|utterance| utterance.role == Role::Defender);
            match last.is_some_and(|utterance| spag_game::is_prediction(&utterance.content)) {
                true => Ending::WrongGuess,
                false => Ending::SaidUnknowingly,
            }
        }
    };
    Ok((ending, verdict.history_length))
}
