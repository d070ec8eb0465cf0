//! Shares with confidence intervals.

use std::fmt;

use serde::{Deserialize, Serialize};
use spag_game::{Ending, Seat, Tally};

use crate::text_table::signed;

/// Two-sided 95% quantile of the normal distribution.
pub(crate) const Z95: f64 = 1.959_963_984_540_054;

/// `count` out of `total`, with its Wilson 95% interval.
///
/// The Wilson score interval (E. B. Wilson, 1927) stays within 0–1 and does not collapse to a point at the edges. As
/// text, in per cent: `61.2 [57.3, 65.0]`, or a dash if `total` is 0.
///
/// ```
/// use spag_selfplay::Rate;
/// let rate = Rate::new(10, 20);
/// assert_eq!((rate.share, rate.to_string().as_str()), (Some(0.5), "50.0 [29.9, 70.1]"));
/// assert!((rate.low - 0.299).abs() < 1e-3 && (rate.high - 0.701).abs() < 1e-3);
/// assert_eq!(Rate::new(0, 0).share, None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rate {
    /// Cases with the property.
    pub count: usize,
    /// All cases.
    pub total: usize,
    /// `count / total`, 0–1; `None` if `total` is 0.
    pub share: Option<f64>,
    /// Lower end of the 95% interval, 0–1; 0 if `total` is 0.
    pub low: f64,
    /// Upper end of the 95% interval, 0–1; 1 if `total` is 0.
    pub high: f64,
}

impl Rate {
    /// The rate of `count` among `total`; a larger `count` is clamped to `total`.
    pub fn new(count: usize, total: usize) -> Self {
        let count = count.min(total);
        if total == 0 {
            return Self { count, total, share: None, low: 0.0, high: 1.0 };
        }
        let n = total as f64;
        let p = count as f64 / n;
        let z2 = Z95 * Z95;
        let centre = p + z2 / (2.0 * n);
        let half = Z95 * (p * (1.0 - p) / n + z2 / (4.0 * n * n)).sqrt();
        let scale = 1.0 + z2 / n;
        Self {
            count,
            total,
            share: Some(p),
            // At the edges the exact end is 0 or 1, up to rounding.
            low: if count == 0 { 0.0 } else { ((centre - half) / scale).max(0.0) },
            high: if count == total { 1.0 } else { ((centre + half) / scale).min(1.0) },
        }
    }

    /// The wins of a seat among the decided games. A broken rule is a win of the other seat.
    pub fn of_wins(games: &Tally, seat: Seat) -> Self {
        Self::new(games.wins(seat), games.decided())
    }

    /// The games with this ending among all finished games.
    pub fn of_ending(games: &Tally, ending: Ending) -> Self {
        Self::new(games.ended(ending), games.games())
    }

    /// The rate over the cases of both.
    pub fn pooled(self, other: Self) -> Self {
        Self::new(self.count + other.count, self.total + other.total)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.share {
            Some(share) => write!(f, "{:.1} [{:.1}, {:.1}]", 100.0 * share, 100.0 * self.low, 100.0 * self.high),
            None => f.write_str("–"),
        }
    }
}

/// The change from one rate to another, in percentage points, with a 95% interval.
///
/// The interval is Newcombe's hybrid score interval (R. G. Newcombe, Statistics in Medicine 17, 1998, method 10), which
/// combines the two Wilson intervals. The two rates must come from independent games.
///
/// ```
/// use spag_selfplay::{Change, Rate};
/// let change = Change::between(Rate::new(48, 80), Rate::new(56, 70)).unwrap();
/// assert!((change.low - 5.24).abs() < 0.01 && (change.high - 33.39).abs() < 0.01);
/// assert_eq!(change.to_string(), "+20.0 [+5.2, +33.4]");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// New minus old, in points (−100 to 100).
    pub points: f64,
    /// Lower end of the 95% interval, in points.
    pub low: f64,
    /// Upper end of the 95% interval, in points.
    pub high: f64,
}

impl Change {
    /// The change from `old` to `new`; `None` if either has no cases.
    pub fn between(old: Rate, new: Rate) -> Option<Self> {
        let (p_old, p_new) = (old.share?, new.share?);
        let d = p_new - p_old;
        let below = ((p_new - new.low).powi(2) + (old.high - p_old).powi(2)).sqrt();
        let above = ((new.high - p_new).powi(2) + (p_old - old.low).powi(2)).sqrt();
        Some(Self { points: 100.0 * d, low: 100.0 * (d - below), high: 100.0 * (d + above) })
    }
}

impl fmt::Display for Change {
    /// As in `+5.1 [−0.2, +10.3]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let signed = |points: f64| signed(points, 1);
        write!(f, "{} [{}, {}]", signed(self.points), signed(self.low), signed(self.high))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of Newcombe 1998 (Statistics in Medicine 17, 857–872), table I, method 3: Wilson without correction.
    #[test]
    fn wilson_agrees_with_published_values() {
        for (count, total, low, high) in [
            (81, 263, 0.2553, 0.3662),
            (15, 148, 0.0624, 0.1605),
            (0, 20, 0.0, 0.1611),
            (1, 29, 0.0061, 0.1718),
            (29, 29, 0.8830, 1.0),
        ] {
            let rate = Rate::new(count, total);
            assert!((rate.low - low).abs() < 6e-5, "{rate:?} low {low}");
            assert!((rate.high - high).abs() < 6e-5, "{rate:?} high {high}");
        }
    }

    /// Values of the companion paper (Statistics in Medicine 17, 873–890), table II, method 10.
    #[test]
    fn newcombe_agrees_with_published_values() {
        for (a, m, b, n, low, high) in [
            (56, 70, 48, 80, 0.0524, 0.3339),
            (9, 10, 3, 10, 0.1705, 0.8090),
            (10, 10, 0, 20, 0.6791, 1.0),
            (0, 10, 0, 20, -0.1611, 0.2775),
        ] {
            let change = Change::between(Rate::new(b, n), Rate::new(a, m)).unwrap();
            assert!((change.low - 100.0 * low).abs() < 6e-3, "{change:?}");
            assert!((change.high - 100.0 * high).abs() < 6e-3, "{change:?}");
        }
    }

    #[test]
    fn change_that_rounds_to_0_has_a_plus_sign() {
        let change = Change { points: -0.04, low: -0.06, high: -0.0 };
        assert_eq!(change.to_string(), "+0.0 [−0.1, +0.0]");
    }

    #[test]
    fn rate_without_cases_has_no_share() {
        let rate = Rate::new(0, 0);
        assert_eq!((rate.low, rate.high, rate.to_string().as_str()), (0.0, 1.0, "–"));
        assert!(Change::between(rate, Rate::new(1, 2)).is_none());
        assert_eq!(rate.pooled(Rate::new(1, 2)), Rate::new(1, 2));
    }
}
