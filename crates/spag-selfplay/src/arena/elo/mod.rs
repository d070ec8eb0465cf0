//! Ratings: how strong each player is, on one scale for all.
//!
//! The model of Bradley and Terry (Biometrika 39, 1952) with a seat: the attacker i beats the defender j with probability
//! 1 / (1 + 10^(−(rᵢ − rⱼ + e) / 400)), where r are the ratings and e is the attacker's edge, in Elo's unit, in which 400
//! points are odds of ten to one (A. E. Elo, The Rating of Chessplayers, 1978). A tie is half a win and half a loss.
//!
//! Ratings are those of the highest likelihood over all games, with **one virtual tie** of each player against an
//! opponent of mean strength, and one between equals in both seats for the edge: whoever won or lost everything gets a
//! finite rating, and among hundreds of games the virtual one is hardly felt.
//!
//! Intervals are 1.96 standard errors to both sides, from the inverse of the observed Fisher information. A rating's is
//! that of its distance from the scale's origin: the mean of all players, or the player that the scale is anchored to,
//! whose own interval has no width. Ties vary less than wins and losses, so intervals are rather too wide where there are
//! many; with few games they are rough, being symmetric.

mod likelihood;
mod matrix;

use serde::{Deserialize, Serialize};

use crate::stats::Z95;
use likelihood::Likelihood;
use matrix::Matrix;

/// Elo points of one unit of log odds.
const POINTS: f64 = 400.0 / std::f64::consts::LN_10;
/// What the origin of the scale is rated.
const ORIGIN: f64 = 1500.0;
/// Virtual ties of each player.
const VIRTUAL_TIES: f64 = 1.0;
/// Newton's method takes about six steps, some dozens where somebody lost everything; so many are never taken.
const MOST_STEPS: usize = 1000;
/// The longest step, in log odds: far from where it was taken, the information says nothing, and where shares are next to
/// 0 or 1 there is hardly any to come back by.
const LONGEST_STEP: f64 = 1.0;
/// How often a step is halved at most.
const HALVINGS: i32 = 60;
/// Share of a log-likelihood that rounding may take.
const ROUNDING: f64 = 1e-13;
/// Steps this small, in log odds, shrink to less than half from one to the next; one that does not is rounding, and the
/// last.
const SMALL_STEP: f64 = 1e-3;

/// What two players scored in fixed seats.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seating {
    /// The attacker's place in the list of players.
    pub attacker: usize,
    /// The defender's place; the attacker's own where a player met itself, which tells of the edge alone.
    pub defender: usize,
    /// Games.
    pub games: f64,
    /// The attacker's points in them: wins, and half of the ties.
    pub points: f64,
}

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
    /// `log_odds` from `origin` with the variance of the log odds.
    fn new(origin: f64, log_odds: f64, variance: f64) -> Self {
        let points = origin + POINTS * log_odds;
        // Rounding may leave a variance of nothing at −1e-18.
        let half = POINTS * Z95 * variance.max(0.0).sqrt();
        Self { points, low: points - half, high: points + half }
    }
}

/// What is rated 1500.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EloScale {
    /// The mean of all players.
    #[default]
    Mean,
    /// The player at this place of the list.
    Anchor(usize),
}

/// The fitted model.
#[derive(Clone, Debug)]
pub struct Fit {
    /// Strengths in log odds, 0 in the mean, and the edge behind them.
    at: Vec<f64>,
    /// Their covariance.
    covariance: Matrix,
}

/// Fits the model to the games of `players` players; seatings of others are left out.
///
/// The result depends on the sums of games and points only, not on their order, and is finite whatever they are.
pub fn fit(players: usize, seatings: &[Seating]) -> Fit {
    fit_with(&Likelihood::new(players, seatings, VIRTUAL_TIES))
}

/// Newton's method with halved steps. The log-likelihood is strictly concave where there are virtual games, so there is
/// one maximum, wherever one begins.
fn fit_with(likelihood: &Likelihood) -> Fit {
    let mut at = vec![0.0; likelihood.size()];
    let (mut gradient, mut information) = likelihood.derivatives(&at);
    let mut before = f64::INFINITY;
    for _ in 0..MOST_STEPS {
        let Some(mut step) = information.solve(&gradient) else { break };
        let size = step.iter().fold(0.0_f64, |most, part| most.max(part.abs()));
        if size > LONGEST_STEP {
            step.iter_mut().for_each(|part| *part *= LONGEST_STEP / size);
        }
        let Some(next) = climb(likelihood, &at, &step) else { break };
        // Rounding would let the mean drift away from 0 by and by.
        at = likelihood.centred(&next);
        (gradient, information) = likelihood.derivatives(&at);
        if size < SMALL_STEP && size >= 0.5 * before {
            break;
        }
        before = size;
    }
    Fit { covariance: likelihood.covariance(&information), at }
}

/// The end of a step, of half of it, and so on: the first that is not lower than the beginning. What rounding takes off
/// a sum of many games does not count, or the last steps, which gain less than that, would be refused.
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
    /// Every player's rating, in the order of the list.
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

    /// How many points the attacker's seat is worth; below 0 where it is the worse one.
    pub fn attacker_edge(&self) -> Elo {
        let last = self.at.len().saturating_sub(1);
        Elo::new(0.0, self.at.last().copied().unwrap_or(0.0), self.covariance.get(last, last))
    }
}

#[cfg(test)]
mod tests;
