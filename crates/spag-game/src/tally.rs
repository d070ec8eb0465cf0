//! Counts of judged games, from which all statistics, ratings and weights are computed.

use crate::ending::{Ending, INVALID, Play};
use crate::episode::{Episode, REFUSAL};
use crate::labels::Labels;
use crate::seat::{SEATS, Seat};
use crate::verdict::Verdict;

/// How the games of one kind ended and how long they took. The order of the games does not matter.
///
/// A turn is one utterance of each seat, so every utterance up to the deciding one counts as half a turn: a game that is
/// decided by the third utterance takes 1.5 turns.
///
/// ```
/// use spag_game::{JudgeKind, Tally, Verdict};
///
/// let labels = JudgeKind::Paper.labels();
/// let mut tally = Tally::new(labels);
/// for name in ["right_guess", "broken_rule"] {
///     tally.add(&Verdict::of(labels.ending(name).unwrap(), 1));
/// }
/// let [_, second] = labels.seats;
/// assert_eq!((tally.wins(second), tally.rewarded_wins(second)), (2, 1));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Tally {
    labels: &'static Labels,
    /// In the order of [`Labels::endings`]; endings that are not among them follow.
    endings: Vec<(Ending, EndingCount)>,
    /// Utterances of all games up to the deciding ones.
    utterances: usize,
    /// Of them, those of each seat in the games of [`Tally::add_game`].
    said: [Said; SEATS],
    /// Games in which a seat gave no utterance. They count in nothing else.
    pub failed: usize,
}

/// The utterances of a seat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Said {
    all: usize,
    refused: usize,
}

/// The games of one ending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct EndingCount {
    ties: usize,
    won: [usize; SEATS],
    /// Of all these, the games that end with the first utterance of the second seat.
    first_reply: usize,
}

impl EndingCount {
    fn games(&self) -> usize {
        self.ties + self.won.iter().sum::<usize>()
    }
}

impl Tally {
    /// Counts of no games of the game with these labels.
    pub fn new(labels: &'static Labels) -> Self {
        let endings = labels.endings.iter().map(|ending| (*ending, EndingCount::default())).collect();
        Self { labels, endings, utterances: 0, said: [Said::default(); SEATS], failed: 0 }
    }

    /// The names of the game.
    pub fn labels(&self) -> &'static Labels {
        self.labels
    }

    /// Counts a finished game, and which of its utterances up to the end were refused.
    pub fn add_game(&mut self, episode: &Episode, verdict: &Verdict) {
        self.add(verdict);
        for utterance in episode.history.iter().take(verdict.history_length) {
            let said = &mut self.said[utterance.seat.index()];
            said.all += 1;
            said.refused += usize::from(utterance.extra.contains_key(REFUSAL));
        }
    }

    /// Counts a finished game by its end alone.
    pub fn add(&mut self, verdict: &Verdict) {
        let count = self.count_of(verdict.ending);
        match verdict.winner() {
            Some(winner) => count.won[winner.index()] += 1,
            None => count.ties += 1,
        }
        count.first_reply += usize::from(verdict.history_length == SEATS);
        self.utterances += verdict.history_length;
    }

    fn count_of(&mut self, ending: Ending) -> &mut EndingCount {
        let at = self.endings.iter().position(|(known, _)| *known == ending).unwrap_or(self.endings.len());
        if at == self.endings.len() {
            self.endings.push((ending, EndingCount::default()));
        }
        &mut self.endings[at].1
    }

    /// Adds the games of another tally.
    pub fn merge(&mut self, other: &Self) {
        for (ending, more) in &other.endings {
            let count = self.count_of(*ending);
            count.ties += more.ties;
            count.won.iter_mut().zip(more.won).for_each(|(won, more)| *won += more);
            count.first_reply += more.first_reply;
        }
        self.utterances += other.utterances;
        for (said, more) in self.said.iter_mut().zip(other.said) {
            said.all += more.all;
            said.refused += more.refused;
        }
        self.failed += other.failed;
    }

    /// The games of all tallies together.
    pub fn sum<'a>(labels: &'static Labels, tallies: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut sum = Self::new(labels);
        tallies.into_iter().for_each(|tally| sum.merge(tally));
        sum
    }

    /// Finished games.
    pub fn games(&self) -> usize {
        self.endings.iter().map(|(_, count)| count.games()).sum()
    }

    /// Games with this ending.
    pub fn ended(&self, ending: Ending) -> usize {
        self.count(|known, count| if *known == ending { count.games() } else { 0 })
    }

    /// Games of the endings of this [`EndingLabel::outcome`](crate::EndingLabel::outcome).
    pub fn with_outcome(&self, outcome: &str) -> usize {
        self.count(|ending, count| if ending.outcome == outcome { count.games() } else { 0 })
    }

    /// Games without a winner.
    pub fn ties(&self) -> usize {
        self.count(|_, count| count.ties)
    }

    /// Games in which a rule was broken.
    pub fn broken_rules(&self) -> usize {
        self.count(|ending, count| if ending.play == Play::RuleBroken { count.games() } else { 0 })
    }

    /// Games with a winner.
    pub fn decided(&self) -> usize {
        self.games() - self.ties()
    }

    /// Games that a seat won, as [`Verdict::winner`] tells: also since the other seat broke a rule.
    pub fn wins(&self, seat: Seat) -> usize {
        self.count(|_, count| count.won[seat.index()])
    }

    /// Games that a seat won by the rules, as [`Verdict::rewarded_winner`] tells.
    pub fn rewarded_wins(&self, seat: Seat) -> usize {
        self.count(|ending, count| if ending.play == Play::ByTheRules { count.won[seat.index()] } else { 0 })
    }

    /// Games that a seat won by the rules.
    pub fn won_by_the_rules(&self) -> usize {
        self.labels.seats.into_iter().map(|seat| self.rewarded_wins(seat)).sum()
    }

    /// Games with this ending that the first utterance of the second seat ended.
    pub fn ended_by_first_reply(&self, ending: Ending) -> usize {
        self.count(|known, count| if *known == ending { count.first_reply } else { 0 })
    }

    /// Games in which the first utterance of the second seat is a guess, right or wrong; 0 in games without guesses.
    pub fn early_guesses(&self) -> usize {
        self.labels.guesses.iter().map(|guess| self.ended_by_first_reply(*guess)).sum()
    }

    /// Utterances of all games up to the deciding ones.
    pub fn utterances(&self) -> usize {
        self.utterances
    }

    /// Utterances of a seat in the games of [`Tally::add_game`].
    pub fn utterances_of(&self, seat: Seat) -> usize {
        self.said[seat.index()].all
    }

    /// Those of them that were refused.
    pub fn refused(&self, seat: Seat) -> usize {
        self.said[seat.index()].refused
    }

    /// Games that a seat lost by refused utterances.
    pub fn lost_by_refusals(&self, seat: Seat) -> usize {
        self.count(|ending, count| if *ending == INVALID { count.won[1 - seat.index()] } else { 0 })
    }

    /// Mean number of turns up to the deciding utterance; `None` without games.
    pub fn mean_turns(&self) -> Option<f64> {
        let games = self.games();
        (games > 0).then(|| self.utterances as f64 / SEATS as f64 / games as f64)
    }

    fn count(&self, of: impl Fn(&Ending, &EndingCount) -> usize) -> usize {
        self.endings.iter().map(|(ending, count)| of(ending, count)).sum()
    }
}
