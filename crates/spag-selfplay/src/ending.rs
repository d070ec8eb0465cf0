//! How a game ended, in the words of a report.

use spag_game::{Episode, JudgeKind, Outcome, Role, judge_episode};

/// How a game ended, told apart more finely than by its outcome: the attacker wins in two very different ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ending {
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
    /// All endings, in the order of reports.
    pub const ALL: [Self; 5] = [Self::RightGuess, Self::WrongGuess, Self::SaidUnknowingly, Self::BrokenRule, Self::Tie];

    /// Its place in [`Ending::ALL`].
    pub(crate) fn place(self) -> usize {
        self as usize
    }

    /// What files call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::RightGuess => "right_guess",
            Self::WrongGuess => "wrong_guess",
            Self::SaidUnknowingly => "said_unknowingly",
            Self::BrokenRule => "broken_rule",
            Self::Tie => "tie",
        }
    }

    /// In a few words, for a reader.
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

/// How a game ended and how many utterances it took.
///
/// # Errors
/// An empty target word, or roles that do not alternate.
pub fn ending(episode: &Episode, judge: JudgeKind) -> spag_game::Result<(Ending, usize)> {
    let verdict = judge_episode(judge, episode)?;
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
    fn every_ending_has_its_place() {
        for (place, ending) in Ending::ALL.into_iter().enumerate() {
            assert_eq!(ending.place(), place);
        }
    }

    #[test]
    fn every_ending_is_told_apart() {
        for (said, expected, length) in [
            (&["Mine has stripes.", "I know the word! It is tiger!"][..], Ending::RightGuess, 2),
            (&["Mine has stripes.", "I know the word! It is zebra!"], Ending::WrongGuess, 2),
            (&["Mine has stripes.", "Maybe you mean the tiger."], Ending::SaidUnknowingly, 2),
            (&["Hello.", "Well.", "My tiger has stripes."], Ending::BrokenRule, 3),
            (&["Hello.", "Well."], Ending::Tie, 2),
            // What comes after the deciding utterance changes nothing.
            (&["A", "I know the word! It is zebra!", "B", "tiger"], Ending::WrongGuess, 2),
        ] {
            assert_eq!(ending(&game(said), JudgeKind::Paper).unwrap(), (expected, length), "{said:?}");
        }
    }
}
