//! How a game ended.

use spag_game::{Episode, JudgeKind, Outcome, Role, Verdict, judge_episode};

/// How a game ended. Finer than [`Outcome`]: the attacker wins in two different ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ending {
    /// The defender named the target word and wins.
    RightGuess,
    /// The defender named another word: the attacker wins.
    WrongGuess,
    /// The defender uttered the target word without naming it: the attacker wins.
    SaidUnknowingly,
    /// The attacker uttered the target word or made a prediction, and loses.
    BrokenRule,
    /// No winner within the turns.
    Tie,
}

impl Ending {
    /// All endings, in the order of reports.
    pub const ALL: [Self; 5] = [Self::RightGuess, Self::WrongGuess, Self::SaidUnknowingly, Self::BrokenRule, Self::Tie];

    /// The ending of a judged game.
    pub fn of(verdict: &Verdict, episode: &Episode) -> Self {
        match verdict.outcome {
            Outcome::DefenderWins => Self::RightGuess,
            Outcome::AttackerBreaksRules => Self::BrokenRule,
            Outcome::Tie => Self::Tie,
            Outcome::AttackerWins => {
                let last = episode.history.get(verdict.history_length.saturating_sub(1));
                let guessed = last.is_some_and(|utterance| {
                    utterance.role == Role::Defender && spag_game::is_prediction(&utterance.content)
                });
                if guessed { Self::WrongGuess } else { Self::SaidUnknowingly }
            }
        }
    }

    /// The index in [`Ending::ALL`].
    pub(crate) fn index(self) -> usize {
        self as usize
    }

    /// The name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::RightGuess => "right_guess",
            Self::WrongGuess => "wrong_guess",
            Self::SaidUnknowingly => "said_unknowingly",
            Self::BrokenRule => "broken_rule",
            Self::Tie => "tie",
        }
    }

    /// The winner. A broken rule is the attacker's loss, unlike in [`Outcome::winner`].
    pub fn winner(self) -> Option<Role> {
        match self {
            Self::RightGuess | Self::BrokenRule => Some(Role::Defender),
            Self::WrongGuess | Self::SaidUnknowingly => Some(Role::Attacker),
            Self::Tie => None,
        }
    }

    /// A short description for a reader.
    pub fn describe(self) -> &'static str {
        match self {
            Self::RightGuess => "defender names the word and wins",
            Self::WrongGuess => "defender names a wrong word, attacker wins",
            Self::SaidUnknowingly => "defender says the word unknowingly, attacker wins",
            Self::BrokenRule => "attacker breaks the rules",
            Self::Tie => "tied",
        }
    }
}

/// Judges a game: how it ended, and its utterances up to the deciding one.
///
/// # Errors
/// An empty target word, or roles that do not alternate.
pub fn ending(episode: &Episode, judge: JudgeKind) -> spag_game::Result<(Ending, usize)> {
    let verdict = judge_episode(judge, episode)?;
    Ok((Ending::of(&verdict, episode), verdict.history_length))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn game(said: &[&str]) -> Episode {
        let mut episode = Episode::new("tiger", 5);
        for utterance in said {
            episode.push(episode.next_role(), *utterance);
        }
        episode
    }

    #[test]
    fn indices_follow_the_order_of_reports() {
        for (index, ending) in Ending::ALL.into_iter().enumerate() {
            assert_eq!(ending.index(), index);
        }
    }

    #[test]
    fn all_endings_are_distinguished() {
        for (said, expected, length) in [
            (&["Mine has stripes.", "I know the word! It is tiger!"][..], Ending::RightGuess, 2),
            (&["Mine has stripes.", "I know the word! It is zebra!"], Ending::WrongGuess, 2),
            (&["Mine has stripes.", "Maybe you mean the tiger."], Ending::SaidUnknowingly, 2),
            (&["Hello.", "Well.", "My tiger has stripes."], Ending::BrokenRule, 3),
            (&["Hello.", "Well."], Ending::Tie, 2),
            // Utterances after the deciding one are ignored.
            (&["A", "I know the word! It is zebra!", "B", "tiger"], Ending::WrongGuess, 2),
        ] {
            assert_eq!(ending(&game(said), JudgeKind::Paper).unwrap(), (expected, length), "{said:?}");
        }
    }
}
