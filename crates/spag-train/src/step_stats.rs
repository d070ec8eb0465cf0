//! What the ranks exchange after a step: losses, metrics, the gradient norm, rows that are not finite.

use spag_dist::{ProcessGroup, gather_numbers, gather_texts};

use crate::error::Result;
use crate::log_prob_gap::LogProbGap;
use crate::metrics::{Metric, MetricValues};
use crate::step::Passes;

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
    /// The sum of the squares of all gradients.
    pub(crate) squared_norm: f64,
    /// The difference from the log-probabilities at sampling.
    pub(crate) gap: LogProbGap,
}

/// Numbers of each rank before those of its micro-batches: the squared norm, the tokens, those computed, and the gap of
/// log-probabilities.
const HEADER: usize = 6;

impl StepStats {
    /// Combines the passes of all ranks, which have as many `micro_batches` each, those without a share included.
    ///
    /// Losses are added by the micro-batches' numbers on their ranks, then by rank: in the order of one process that takes
    /// micro-batch m where rank m modulo the number of ranks has it.
    pub(crate) fn gather(
        group: &dyn ProcessGroup,
        passes: &Passes,
        squared_norm: f64,
        micro_batches: usize,
        metrics: &[Metric],
    ) -> Result<Self> {
        let each = 2 + MetricValues::encoded_len(metrics);
        let gap = &passes.gap;
        let tokens = [passes.tokens as f64, passes.computed_tokens as f64];
        let mut own = vec![squared_norm, tokens[0], tokens[1], gap.max, gap.sum, gap.tokens as f64];
        for micro in &passes.losses {
            own.extend([micro.share, micro.loss]);
            own.extend(micro.metrics.encode(metrics));
        }
        // Collectives need as many numbers from each rank. The padding has shares of 0.
        own.resize(HEADER + micro_batches * each, 0.0);
        let all = gather_numbers(group, &own)?;
        let (mut loss, mut values) = (0.0, Vec::with_capacity(micro_batches * all.len()));
        for at in (0..micro_batches).map(|micro| HEADER + micro * each) {
            for numbers in all.iter().map(|rank| &rank[at..at + each]).filter(|numbers| numbers[0] > 0.0) {
                loss += numbers[1] * numbers[0];
                values.push(MetricValues::decode(metrics, &numbers[2..]));
            }
        }
        let gap = |rank: &Vec<f64>| LogProbGap { max: rank[3], sum: rank[4], tokens: rank[5] as u64 };
        Ok(Self {
            loss,
            metrics: MetricValues::reduce(metrics, &values),
            tokens: all.iter().map(|rank| rank[1] as u64).sum(),
            computed_tokens: all.iter().map(|rank| rank[2] as u64).sum(),
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
    use crate::step::MicroLoss;

    #[test]
    fn one_process_gathers_its_own_passes() {
        const SFT: Metric = Metric::mean("sft");
        let values = |sft| MetricValues::from_iter([(SFT, sft)]);
        let losses = [(1.0, 1.0), (4.0, 4.0)];
        let losses = losses.map(|(loss, sft)| MicroLoss { share: 0.5, loss, metrics: values(sft) }).to_vec();
        let gap = LogProbGap { max: 0.5, sum: 0.75, tokens: 3 };
        let passes = Passes { losses, tokens: 7, computed_tokens: 5, gap, non_finite_rows: vec![3, 1] };
        let stats = StepStats::gather(&Single, &passes, 9.0, 2, &[SFT]).unwrap();
        let want = StepStats { loss: 2.5, metrics: values(2.5), tokens: 7, computed_tokens: 5, squared_norm: 9.0, gap };
        assert_eq!(stats, want);
        assert_eq!(gather_rows(&Single, &passes.non_finite_rows).unwrap(), [3, 1]);
    }
}
