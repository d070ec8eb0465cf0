//! Ratings of all players on one scale.
//!
//! The model is that of Bradley and Terry (Biometrika 39, 1952) with a parameter for the seat: player i in the first seat beats
//! player j with probability 1 / (1 + 10^(−(rᵢ − rⱼ + e) / 400)), where r are the ratings and e is the edge of the first seat, both in Elo
//! points: 400 points are odds of ten to one (A. E. Elo, The Rating of Chessplayers, 1978). A tie is half a win and half a
//! loss.
//!
//! Ratings maximise the likelihood of all games plus **one virtual tie** of each player against an opponent of mean
//! strength, and one between equal players for the edge. So a player that won or lost every game has a finite rating;
//! among hundreds of games the effect is small.
//!
//! Intervals are ±1.96 standard errors from the inverse of the observed Fisher information. The interval of a rating is
//! that of its distance from the origin of the scale: the mean of all players, or the anchor, whose own interval has no
//! width. Ties vary less than wins and losses, so intervals are too wide if ties are frequent. With few games the
//! symmetric intervals are rough.

mod likelihood;
mod matrix;

use serde::{Deserialize, Serialize};

use crate::rate::Z95;
use likelihood::Likelihood;
pub use likelihood::Seating;
use matrix::Matrix;

/// Elo points of one unit of log odds.
const POINTS: f64 = 400.0 / std::f64::consts::LN_10;
/// The rating of the origin of the scale.
const ORIGIN: f64 = 1500.0;
/// Virtual ties of each player.
const VIRTUAL_TIES: f64 = 1.0;
/// Bound on the steps of Newton's method, which takes about six, or dozens if a player lost every game.
const MAX_STEPS: usize = 1000;
/// The longest step, in log odds. The information is local, and nearly vanishes where shares are close to 0 or 1.
const LONGEST_STEP: f64 = 1.0;
/// How often a step is halved at most.
const HALVINGS: i32 = 60;
/// Relative rounding error of a log-likelihood.
const ROUNDING: f64 = 1e-13;
/// Below this size, in log odds, each step is less than half of the one before. If one is not, it is rounding error and the
/// last step.
const SMALL_STEP: f64 = 1e-3;

/// A value on Elo's scale with its 95% interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Elo {
    /// Elo points.
    pub points: f64,
    /// Lower end of the 95% interval.
    pub low: f64,
    /// Upper end of the 95% interval.
    pub high: f64,
}

impl Elo {
    /// `log_odds` above `origin`, with the variance of the log odds.
    fn new(origin: f64, log_odds: f64, variance: f64) -> Self {
        let points = origin + POINTS * log_odds;
        // Rounding can make a variance of 0 slightly negative.
        let half = POINTS * Z95 * variance.max(0.0).sqrt();
        Self { points, low: points - half, high: points + half }
    }
}

/// The origin of the scale, which is rated 1500.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EloScale {
    /// The mean of all players.
    #[default]
    Mean,
    /// The player of this index.
    Anchor(usize),
}

/// The fitted model.
#[derive(Clone, Debug)]
pub struct Fit {
    /// Strengths in log odds, with mean 0, followed by the edge.
    at: Vec<f64>,
    /// The covariance of `at`.
    covariance: Matrix,
}

/// Fits the model to the games of `players` players. Seatings with other indices are ignored.
///
/// The result is always finite and does not depend on the order of the seatings.
pub fn fit(players: usize, seatings: &[Seating]) -> Fit {
    fit_with(&Likelihood::new(players, seatings, VIRTUAL_TIES))
}

/// Newton's method with step halving. With virtual games the log-likelihood is strictly concave, so it has one maximum.
fn fit_with(likelihood: &Likelihood) -> Fit {
    let mut at = vec![0.0; likelihood.size()];
    let (mut gradient, mut information) = likelihood.derivatives(&at);
    let mut before = f64::INFINITY;
    for _ in 0..MAX_STEPS {
        let Some(mut step) = information.solve(&gradient) else { break };
        let size = step.iter().fold(0.0_f64, |most, part| most.max(part.abs()));
        if size > LONGEST_STEP {
            step.iter_mut().for_each(|part| *part *= LONGEST_STEP / size);
        }
        let Some(next) = climb(likelihood, &at, &step) else { break };
        // Removes the drift of the mean that rounding causes.
        at = likelihood.centred(&next);
        (gradient, information) = likelihood.derivatives(&at);
        if size < SMALL_STEP && size >= 0.5 * before {
            break;
        }
        before = size;
    }
    Fit { covariance: likelihood.covariance(&information), at }
}

/// The first point after a step, half of it, and so on, whose log-likelihood is not lower. Rounding errors are tolerated,
/// since the last steps gain less than those.
fn climb(likelihood: &Likelihood, at: &[f64], step: &[f64]) -> Option<Vec<f64>> {
    let here = likelihood.value(at);
    let least = here - ROUNDING * (1.0 + here.abs());
    (0..HALVINGS).find_map(|halved| {
        let share = 0.5_f64.powi(halved);
        let next: Vec<f64> = at.iter().zip(step).map(|(at, step)| at + share * step).collect();
        (likelihood.value(&next) >= least).then_some(next)
    })
}

impl Fit {
    /// The ratings of all players, in the order of the list.
    pub fn ratings(&self, scale: EloScale) -> Vec<Elo> {
        let players = self.at.len().saturating_sub(1);
        (0..players)
            .map(|player| match scale {
                EloScale::Anchor(anchor) if anchor < players => {
                    let covariance = |a, b| self.covariance.get(a, b);
                    let variance =
                        covariance(player, player) + covariance(anchor, anchor) - 2.0 * covariance(player, anchor);
                    let variance = if player == anchor { 0.0 } else { variance };
                    Elo::new(ORIGIN, self.at[player] - self.at[anchor], variance)
                }
                _ => Elo::new(ORIGIN, self.at[player], self.covariance.get(player, player)),
            })
            .collect()
    }

    /// The advantage of the first seat in Elo points; negative if the second seat is better.
    pub fn edge(&self) -> Elo {
        let last = self.at.len().saturating_sub(1);
        Elo::new(0.0, self.at.last().copied().unwrap_or(0.0), self.covariance.get(last, last))
    }
}

#[cfg(test)]
mod tests;
