//! Lengths of samples of which only the mean is known.

/// `count` lengths from 1 to `longest`, in rising order, of the distribution that says nothing else than their mean: the one of the
/// largest entropy, whose density is an exponential, falling or rising. Means are kept up to the rounding of lengths.
pub(super) fn lengths_of_mean(mean: f64, longest: usize, count: usize) -> Vec<usize> {
    let longest = longest as f64;
    let rate = rate_of_mean((mean / longest).min(1.0));
    let length = |at: usize| {
        let share = (at as f64 + 0.5) / count as f64;
        (quantile(rate, share) * longest).round().clamp(1.0, longest) as usize
    };
    (0..count).map(length).collect()
}

/// The quantile of the density e^(rate · x) on 0 to 1.
fn quantile(rate: f64, share: f64) -> f64 {
    match rate {
        _ if rate.abs() < 1e-6 => share,
        _ if rate > 0.0 => 1.0 + (share + (1.0 - share) * (-rate).exp()).ln() / rate,
        _ => (share * rate.exp_m1()).ln_1p() / rate,
    }
}

/// The rate of the density with this mean, by bisection: the mean rises with the rate.
fn rate_of_mean(mean: f64) -> f64 {
    let of_rate = |rate: f64| match rate {
        _ if rate.abs() < 1e-6 => 0.5,
        _ => -1.0 / (-rate).exp_m1() - 1.0 / rate,
    };
    let (mut low, mut high) = (-1e6, 1e6);
    for _ in 0..100 {
        let middle = (low + high) / 2.0;
        if of_rate(middle) < mean { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_have_their_mean_and_the_lower_it_is_the_more_are_short() {
        for mean in [1.0, 60.0, 500.0, 1024.0, 1500.0, 2048.0] {
            let lengths = lengths_of_mean(mean, 2048, 4096);
            let found = lengths.iter().sum::<usize>() as f64 / 4096.0;
            assert!((found - mean).abs() < 0.01 * mean + 0.5, "{mean}: {found}");
            assert!(lengths.is_sorted() && lengths[0] >= 1 && lengths[4095] <= 2048);
            let below = lengths.iter().filter(|length| (**length as f64) < mean).count();
            assert_eq!(below > 2048, mean < 1024.0 && mean > 1.0, "{mean}: {below}");
        }
    }
}
