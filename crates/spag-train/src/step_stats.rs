//! What the ranks exchange after a step: losses, metrics, the gradient norm, rows that are not finite.

use spag_dist::{ProcessGroup, gather_numbers, gather_texts};

use crate::error::Result;
use crate::metrics::{Metric, MetricValues};
use crate::step::Passes;

/// A step over all ranks.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct StepStats {
    /// The mean of all micro-batches' losses.
    pub(crate) loss: f64,
    pub(crate) metrics: MetricValues,
    /// Tokens read.
    pub(crate) tokens: u64,
    /// The sum of the squares of all gradients.
    pub(crate) squared_norm: f64,
}

/// Numbers of each rank before those of its micro-batches: the squared norm and the tokens.
const HEADER: usize = 2;

impl StepStats {
    /// Combines the passes of all ranks. Micro-batch m of `micro_batches` belongs to rank m modulo the number of ranks.
    ///
    /// Losses are added in the order of the micro-batches, as in one process.
    pub(crate) fn gather(
        group: &dyn ProcessGroup,
        passes: &Passes,
        squared_norm: f64,
        micro_batches: usize,
        metrics: &[Metric],
    ) -> Result<Self> {
        let ranks = group.size();
        let each = 1 + MetricValues::encoded_len(metrics);
        let mut own = vec![squared_norm, passes.tokens as f64];
        for (loss, values) in &passes.losses {
            own.push(*loss);
            own.extend(values.encode(metrics));
        }
        // Collectives need as many numbers from each rank. The padding is not read.
        own.resize(HEADER + micro_batches.div_ceil(ranks) * each, 0.0);
        let all = gather_numbers(group, &own)?;
        let share = 1.0 / micro_batches.max(1) as f64;
        let (mut loss, mut values) = (0.0, Vec::with_capacity(micro_batches));
        for micro in 0..micro_batches {
            let numbers = &all[micro % ranks][HEADER + micro / ranks * each..][..each];
            loss += numbers[0] * share;
            values.push(MetricValues::decode(metrics, &numbers[1..]));
        }
        Ok(Self {
            loss,
            metrics: MetricValues::reduce(metrics, &values),
            tokens: all.iter().map(|rank| rank[1] as u64).sum(),
            squared_norm: all.iter().map(|rank| rank[0]).sum(),
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
        let values = |sft| MetricValues::from_iter([(SFT, sft)]);
        let losses = vec![(1.0, values(1.0)), (4.0, values(4.0))];
        let passes = Passes { losses, tokens: 7, non_finite_rows: vec![3, 1] };
        let stats = StepStats::gather(&Single, &passes, 9.0, 2, &[SFT]).unwrap();
        assert_eq!(stats, StepStats { loss: 2.5, metrics: values(2.5), tokens: 7, squared_norm: 9.0 });
        assert_eq!(gather_rows(&Single, &passes.non_finite_rows).unwrap(), [3, 1]);
    }
}
