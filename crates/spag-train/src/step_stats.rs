//! What the ranks exchange after a step: losses, metrics, the gradient norm, rows that are not finite.

use spag_dist::{ProcessGroup, gather_numbers, gather_texts};

use crate::error::Result;
use crate::log_prob_gap::LogProbGap;
use crate::metrics::{Metric, MetricValues, PassMetric};
use crate::step::{PassResult, Passes};

/// A step over all ranks.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct StepStats {
    /// The mean of all micro-batches' losses.
    pub(crate) loss: f64,
    pub(crate) metrics: MetricValues,
    /// Tokens of the trajectories.
    pub(crate) tokens: u64,
    /// Tokens computed.
    pub(crate) computed_tokens: u64,
    /// Those of the busiest rank over the mean rank's, of each round of passes, weighted by its tokens.
    pub(crate) rank_load: f64,
    /// The sum of the squares of all gradients.
    pub(crate) squared_norm: f64,
    /// The difference from the log-probabilities at sampling.
    pub(crate) gap: LogProbGap,
}

/// Numbers of each rank before those of its passes: the squared norm, the tokens, and the gap of log-probabilities.
const HEADER: usize = 5;

impl StepStats {
    /// Combines the passes of all ranks, which have as many `rounds` each, empty ones included.
    ///
    /// Losses are added by the passes' numbers on their ranks, then by rank: in the order of one process that takes
    /// micro-batch m where rank m modulo the number of ranks has it.
    pub(crate) fn gather(
        group: &dyn ProcessGroup,
        passes: &Passes,
        squared_norm: f64,
        rounds: usize,
        metrics: &[Metric],
    ) -> Result<Self> {
        let each = 2 + PassMetric::encoded_len(metrics);
        let gap = &passes.gap;
        let mut own = vec![squared_norm, passes.tokens as f64, gap.max, gap.sum, gap.tokens as f64];
        // Empty passes have zeros.
        own.resize(HEADER + rounds * each, 0.0);
        for (number, PassResult { loss, metrics: values, computed_tokens }) in &passes.results {
            let numbers = [*computed_tokens as f64, *loss].into_iter().chain(PassMetric::encode(values, metrics));
            own[HEADER + number * each..][..each].iter_mut().zip(numbers).for_each(|(to, number)| *to = number);
        }
        let all = gather_numbers(group, &own)?;
        let (mut loss, mut values) = (0.0, Vec::with_capacity(rounds * all.len()));
        let (mut computed, mut busiest) = (0.0, 0.0);
        for at in (0..rounds).map(|round| HEADER + round * each) {
            let round = || all.iter().map(|rank| &rank[at..at + each]);
            for numbers in round().filter(|numbers| numbers[0] > 0.0) {
                loss += numbers[1];
                values.extend(PassMetric::decode(metrics, &numbers[2..]));
            }
            computed += round().map(|numbers| numbers[0]).sum::<f64>();
            busiest += round().map(|numbers| numbers[0]).fold(0.0, f64::max);
        }
        let gap = |rank: &Vec<f64>| LogProbGap { max: rank[2], sum: rank[3], tokens: rank[4] as u64 };
        Ok(Self {
            loss,
            metrics: MetricValues::of_passes(metrics, &values),
            tokens: all.iter().map(|rank| rank[1] as u64).sum(),
            computed_tokens: computed as u64,
            rank_load: if computed > 0.0 { busiest * all.len() as f64 / computed } else { 1.0 },
            squared_norm: all.iter().map(|rank| rank[0]).sum(),
            gap: all.iter().map(gap).fold(LogProbGap::default(), |sum, rank| sum.and(&rank)),
        })
    }
}

/// The rows of all ranks.
pub(crate) fn gather_rows(group: &dyn ProcessGroup, own: &[usize]) -> Result<Vec<usize>> {
    let own: Vec<String> = own.iter().map(usize::to_string).collect();
    let texts = gather_texts(group, &own.join(" "))?;
    Ok(texts.iter().flat_map(|text| text.split_whitespace()).filter_map(|row| row.parse().ok()).collect())
}

#[cfg(test)]
mod tests {
    use spag_dist::Single;

    use super::*;

    #[test]
    fn one_process_gathers_its_own_passes() {
        const SFT: Metric = Metric::mean("sft");
        let of_pass = |number, loss, value, computed_tokens| {
            let metrics = vec![PassMetric { metric: SFT, value, weight: 0.5 }];
            (number, PassResult { loss, metrics, computed_tokens })
        };
        let gap = LogProbGap { max: 0.5, sum: 0.75, tokens: 3 };
        let results = vec![of_pass(0, 0.5, 1.0, 2), of_pass(2, 2.0, 4.0, 3)];
        let passes = Passes { results, tokens: 7, gap, non_finite_rows: vec![3, 1] };
        let stats = StepStats::gather(&Single, &passes, 9.0, 3, &[SFT]).unwrap();
        let metrics = MetricValues::from_iter([(SFT, 2.5)]);
        let want =
            StepStats { loss: 2.5, metrics, tokens: 7, computed_tokens: 5, rank_load: 1.0, squared_norm: 9.0, gap };
        assert_eq!(stats, want);
        assert_eq!(gather_rows(&Single, &passes.non_finite_rows).unwrap(), [3, 1]);
    }
}
