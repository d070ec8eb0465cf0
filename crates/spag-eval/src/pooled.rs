//! The mean difference of two models over rows and seeds, with an interval that respects both.

use spag_selfplay::Change;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Probability below the upper end of a two-sided 95% interval.
const UPPER: f64 = 0.975;

/// The mean of differences in points, of each seed and row (a list for each seed, all of the same rows), with its 95% interval.
///
/// With one seed the variance is that of the rows' mean. With several it is two-way clustered (Cameron, Gelbach and Miller, 2011): that
/// of the means of rows plus what seeds differ beyond it, each counted once, and Student's t with Satterthwaite's degrees of freedom.
/// `None` with fewer than two rows, or seeds of different rows.
pub(crate) fn pooled_change(seeds: &[Vec<f64>]) -> Option<Change> {
    let rows = seeds.first()?.len();
    if rows < 2 || seeds.iter().any(|seed| seed.len() != rows) {
        return None;
    }
    let (s, n) = (seeds.len() as f64, rows as f64);
    let mean = seeds.iter().flatten().sum::<f64>() / (s * n);
    let of_seeds: Vec<f64> = seeds.iter().map(|seed| seed.iter().map(|d| d - mean).sum()).collect();
    let of_rows: Vec<f64> = (0..rows).map(|row| seeds.iter().map(|seed| seed[row] - mean).sum()).collect();
    let of_cells: Vec<f64> = seeds.iter().flatten().map(|d| d - mean).collect();
    let by_rows = variance(&of_rows, s * n);
    let by_seeds =
        if seeds.len() > 1 { (variance(&of_seeds, s * n) - variance(&of_cells, s * n)).max(0.0) } else { 0.0 };
    let half = (by_rows + by_seeds).sqrt() * quantile((by_rows, n - 1.0), (by_seeds, s - 1.0));
    Some(Change { points: 100.0 * mean, low: 100.0 * (mean - half), high: 100.0 * (mean + half) })
}

/// The variance of a sum of clusters over `count` values, with Bessel's correction for the number of clusters.
fn variance(clusters: &[f64], count: f64) -> f64 {
    let clustered = clusters.len() as f64;
    clusters.iter().map(|sum| sum * sum).sum::<f64>() / count.powi(2) * clustered / (clustered - 1.0)
}

/// The quantile of Student's t for a sum of two variances, each with its degrees of freedom.
fn quantile(rows: (f64, f64), seeds: (f64, f64)) -> f64 {
    let part = |(variance, freedom): (f64, f64)| if variance > 0.0 { variance.powi(2) / freedom } else { 0.0 };
    let freedom = (rows.0 + seeds.0).powi(2) / (part(rows) + part(seeds));
    // Without any variance the interval is a point.
    StudentsT::new(0.0, 1.0, freedom).map_or(0.0, |t| t.inverse_cdf(UPPER))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn half(seeds: &[Vec<f64>]) -> f64 {
        let change = pooled_change(seeds).unwrap();
        assert!((change.high - change.points - (change.points - change.low)).abs() < 1e-9);
        change.high - change.points
    }

    #[test]
    fn one_seed_has_the_interval_of_the_mean_of_its_rows() {
        let rows: Vec<f64> = [vec![1.0; 30], vec![-1.0; 10], vec![0.0; 60]].concat();
        // t with 99 degrees of freedom: 1.98422; the variance of ±1 and 0 is (40 − 20²/100)/99.
        let wanted = 1.984_217 * (36.0f64 / 99.0 / 100.0).sqrt() * 100.0;
        assert!((half(std::slice::from_ref(&rows)) - wanted).abs() < 1e-3);
        assert!((pooled_change(&[rows]).unwrap().points - 20.0).abs() < 1e-9);
    }

    #[test]
    fn equal_seeds_are_one_seed_and_different_ones_widen_the_interval() {
        let rows = |mean: f64| (0..200).map(|row| mean + f64::from(row % 2) - 0.5).collect::<Vec<f64>>();
        let one = half(&[rows(0.1)]);
        assert!((half(&[rows(0.1), rows(0.1), rows(0.1)]) - one).abs() < 1e-9, "seeds add no rows");
        // Three seeds whose means differ by far more than rows explain: t with about 2 degrees of freedom of their standard error.
        let apart = half(&[rows(-0.4), rows(0.1), rows(0.6)]);
        let wanted = 4.303 * (0.25f64 / 3.0).sqrt() * 100.0;
        assert!((apart - wanted).abs() < 0.1 * wanted, "{apart} {wanted}");
    }

    #[test]
    fn no_variance_is_a_point_and_unequal_seeds_are_none() {
        assert_eq!(pooled_change(&[vec![0.0; 9]]).unwrap(), Change { points: 0.0, low: 0.0, high: 0.0 });
        assert_eq!((pooled_change(&[]), pooled_change(&[vec![1.0]])), (None, None));
        assert_eq!(pooled_change(&[vec![1.0, 0.0], vec![1.0]]), None);
    }
}
