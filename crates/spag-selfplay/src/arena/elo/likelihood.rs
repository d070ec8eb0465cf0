//! The log-likelihood of strengths and edge, with its derivatives.

use spag_game::SEATS;

use super::matrix::Matrix;

/// The score of two players in fixed seats.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seating {
    /// The indices in the list of players, in the order of the seats. Equal for self-play, which only determines the edge.
    pub players: [usize; SEATS],
    /// Games.
    pub games: f64,
    /// The points of the first seat in them: wins, and half of the ties.
    pub points: f64,
}

/// The log-likelihood of games and virtual ties. Its parameters are the strengths of all players in log odds, followed by
/// the edge.
///
/// Only differences of strengths matter, so their mean is subtracted. The function is constant in the direction in which
/// all strengths grow alike; [`Likelihood::derivatives`] replaces the eigenvalue 0 there by 1, so that no step has a
/// component in it.
pub(super) struct Likelihood {
    players: usize,
    seatings: Vec<Seating>,
    virtual_ties: f64,
}

impl Likelihood {
    /// The games of `players` players. Seatings with other indices, without games or with invalid points are ignored.
    pub(super) fn new(players: usize, seatings: &[Seating], virtual_ties: f64) -> Self {
        let counts = |s: &&Seating| {
            s.players.iter().all(|player| *player < players) && s.games > 0.0 && s.points >= 0.0 && s.points <= s.games
        };
        Self { players, seatings: seatings.iter().filter(counts).copied().collect(), virtual_ties }
    }

    /// The number of parameters.
    pub(super) fn size(&self) -> usize {
        self.players + 1
    }

    /// The log-likelihood, up to a constant.
    pub(super) fn value(&self, at: &[f64]) -> f64 {
        let at = self.centred(at);
        let games = self.seatings.iter().map(|s| {
            let odds = self.log_odds(s, &at);
            s.points * log_share(odds) + (s.games - s.points) * log_share(-odds)
        });
        let ties = at.iter().map(|odds| 0.5 * self.virtual_ties * (log_share(*odds) + log_share(-odds)));
        games.sum::<f64>() + ties.sum::<f64>()
    }

    /// The gradient, and the observed information (minus the second derivatives).
    pub(super) fn derivatives(&self, at: &[f64]) -> (Vec<f64>, Matrix) {
        let at = self.centred(at);
        let mut gradient = vec![0.0; self.size()];
        let mut information = Matrix::zero(self.size());
        for s in &self.seatings {
            let share = share(self.log_odds(s, &at));
            let (slope, weight) = (s.points - s.games * share, s.games * share * (1.0 - share));
            let [first, second] = s.players;
            let parts = [(first, 1.0), (second, -1.0), (self.players, 1.0)];
            for (row, sign) in parts {
                gradient[row] += sign * slope;
                for (column, other) in parts {
                    information.add(row, column, sign * other * weight);
                }
            }
        }
        for (index, odds) in at.iter().enumerate() {
            let share = share(*odds);
            gradient[index] += self.virtual_ties * (0.5 - share);
            information.add(index, index, self.virtual_ties * share * (1.0 - share));
        }
        self.without_mean(&mut gradient, &mut information);
        (gradient, information)
    }

    /// The covariance of the parameters: the inverse of the information, without the constant direction.
    pub(super) fn covariance(&self, information: &Matrix) -> Matrix {
        let size = self.size();
        let mut covariance = Matrix::zero(size);
        for column in 0..size {
            let mut unit = vec![0.0; size];
            unit[column] = 1.0;
            let solved = information.solve(&unit).unwrap_or_default();
            for (row, value) in solved.into_iter().enumerate() {
                let all_alike = if row.max(column) < self.players { 1.0 / self.players as f64 } else { 0.0 };
                covariance.add(row, column, value - all_alike);
            }
        }
        covariance
    }

    fn log_odds(&self, s: &Seating, at: &[f64]) -> f64 {
        at[s.players[0]] - at[s.players[1]] + at[self.players]
    }

    /// The same point with strengths of mean 0.
    pub(super) fn centred(&self, at: &[f64]) -> Vec<f64> {
        let mean = at[..self.players].iter().sum::<f64>() / self.players.max(1) as f64;
        at.iter().enumerate().map(|(index, value)| if index < self.players { value - mean } else { *value }).collect()
    }

    /// Removes the constant direction from the gradient and the information, where it sets the eigenvalue to 1.
    fn without_mean(&self, gradient: &mut [f64], information: &mut Matrix) {
        let (players, count) = (self.players, self.players.max(1) as f64);
        let mean = gradient[..players].iter().sum::<f64>() / count;
        gradient[..players].iter_mut().for_each(|value| *value -= mean);
        for row in 0..self.size() {
            let mean = (0..players).map(|column| information.get(row, column)).sum::<f64>() / count;
            (0..players).for_each(|column| information.add(row, column, -mean));
        }
        for column in 0..self.size() {
            let mean = (0..players).map(|row| information.get(row, column)).sum::<f64>() / count;
            (0..players).for_each(|row| information.add(row, column, -mean));
        }
        for row in 0..players {
            (0..players).for_each(|column| information.add(row, column, 1.0 / count));
        }
    }
}

/// The probability of these log odds, without overflow.
fn share(log_odds: f64) -> f64 {
    if log_odds > 0.0 { 1.0 / (1.0 + (-log_odds).exp()) } else { log_odds.exp() / (1.0 + log_odds.exp()) }
}

/// The logarithm of [`share`].
fn log_share(log_odds: f64) -> f64 {
    if log_odds > 0.0 { -(-log_odds).exp().ln_1p() } else { log_odds - log_odds.exp().ln_1p() }
}
