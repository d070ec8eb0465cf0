//! How models differ from IM: changes of win rates and scores, pooled over the seeds of an arm, and compared between arms.

use spag_game::Seat;
use spag_selfplay::{Change, Rate, Score};

use super::Arm;
use crate::play_stats::PlayStats;
use crate::report::data::{MatchReport, Report};

/// Pairs up to which all signs are tried.
const MAX_SIGNS: u32 = 20;

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Measure {
    /// Wins among decided games.
    WinRate,
    /// Wins minus losses, of all games.
    Score,
}

/// Which words the games of an evaluation were played on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Words {
    Trained,
    HeldOut,
}

/// One measure of one seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Question {
    pub(super) measure: Measure,
    pub(super) words: Words,
    pub(super) seat: Seat,
}

/// The difference between two arms in a seat, over the seeds that both have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PairedSeeds {
    /// Mean difference in points.
    pub(super) mean: f64,
    /// Two-sided p of the exact sign-flip test: the share of all assignments of signs to the differences whose mean is at least as
    /// far from 0.
    pub(super) p: f64,
}

impl Measure {
    pub(super) const ALL: [Self; 2] = [Self::WinRate, Self::Score];

    /// What it is, for a title.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::WinRate => "Win rates, % of decided games",
            Self::Score => "Scores, wins minus losses in % of all games",
        }
    }
}

impl Words {
    pub(super) const ALL: [Self; 2] = [Self::Trained, Self::HeldOut];

    /// IM against itself, and the games of the evaluated models.
    fn of(self, report: &Report) -> Option<(&PlayStats, &[MatchReport])> {
        match self {
            Self::Trained => Some((&report.first.baseline, &report.first.matches)),
            Self::HeldOut => report.first.held_out.as_ref().map(|held| (&held.baseline, &held.matches[..])),
        }
    }

    /// Whether any run of the arms was evaluated on them.
    pub(super) fn are_in(self, arms: &[Arm]) -> bool {
        arms.iter().flat_map(|arm| &arm.reports).any(|report| self.of(report).is_some_and(|(_, all)| !all.is_empty()))
    }

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Trained => "words of the training",
            Self::HeldOut => "words that were held out",
        }
    }
}

impl Question {
    /// The change from one set of games to another.
    fn change(self, old: &[&PlayStats], new: &[&PlayStats]) -> Option<Change> {
        match self.measure {
            Measure::WinRate => {
                let rate = |games: &[&PlayStats]| {
                    let rates = games.iter().map(|games| games.win[self.seat]);
                    rates.fold(Rate::new(0, 0), Rate::pooled)
                };
                Change::between(rate(old), rate(new))
            }
            Measure::Score => {
                let score = |games: &[&PlayStats]| {
                    let scores = games.iter().map(|games| games.score(self.seat));
                    scores.fold(Score::default(), Score::pooled)
                };
                score(old).change(score(new))
            }
        }
    }

    /// The games of IM against itself, and those of the model of an epoch in the seat.
    fn games(self, report: &Report, epoch: Option<usize>) -> Option<(&PlayStats, &PlayStats)> {
        let (baseline, matches) = self.words.of(report)?;
        let game = match epoch {
            Some(epoch) => matches.iter().find(|game| game.epoch == epoch)?,
            None => matches.last()?,
        };
        Some((baseline, &game.seats[self.seat]))
    }
}

impl Arm {
    /// The change from IM to the model of an epoch, the last one if `None`, over all seeds.
    pub(super) fn change(&self, question: Question, epoch: Option<usize>) -> Option<Change> {
        let games = self.reports.iter().filter_map(|report| question.games(report, epoch));
        let (old, new): (Vec<_>, Vec<_>) = games.unzip();
        question.change(&old, &new)
    }

    /// The change of each seed in points.
    fn each(&self, question: Question) -> impl Iterator<Item = (u64, f64)> {
        self.reports.iter().filter_map(move |report| {
            let (old, new) = question.games(report, None)?;
            Some((report.seed, question.change(&[old], &[new])?.points))
        })
    }

    /// The difference of another arm from this one, seed by seed.
    pub(super) fn paired(&self, other: &Self, question: Question) -> Option<PairedSeeds> {
        let others: Vec<_> = other.each(question).collect();
        let difference = |(seed, points): (u64, f64)| Some(others.iter().find(|(of, _)| *of == seed)?.1 - points);
        sign_flips(&self.each(question).filter_map(difference).collect::<Vec<_>>())
    }
}

/// The exact test of differences in pairs; `None` without pairs or with too many.
fn sign_flips(differences: &[f64]) -> Option<PairedSeeds> {
    let count = u32::try_from(differences.len()).ok().filter(|count| (1..=MAX_SIGNS).contains(count))?;
    let sum: f64 = differences.iter().sum();
    let flipped = |signs: u32| -> f64 {
        let signed = differences.iter().enumerate().map(|(at, d)| if signs >> at & 1 == 1 { -d } else { *d });
        signed.sum()
    };
    let all = 1u32 << count;
    let as_far = (0..all).filter(|signs| flipped(*signs).abs() >= sum.abs() - 1e-9).count();
    Some(PairedSeeds { mean: sum / f64::from(count), p: as_far as f64 / f64::from(all) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_are_flipped_exactly() {
        let all = sign_flips(&[1.0, 2.0, 3.0]).unwrap();
        assert_eq!((all.mean, all.p), (2.0, 0.25));
        // ±(5 − 4) is as far as the sum of the differences, every other assignment is at least as far.
        assert_eq!(sign_flips(&[5.0, -4.0]).unwrap().p, 1.0);
        assert_eq!(sign_flips(&[0.5]).unwrap().p, 1.0);
        assert_eq!(sign_flips(&[]), None);
    }
}
