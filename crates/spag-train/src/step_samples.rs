//! The samples of a step, and the passes that compute them.

use std::borrow::Cow;
use std::ops::Range;

use spag_dist::{ProcessGroup, gather_lists};

use crate::config::TrainConfig;
use crate::error::Result;
use crate::loss::{Loss, SampleCounts};
use crate::packing::Packing;
use crate::passes::{Pass, PassPlan, StepSample};
use crate::trajectory::Trajectory;

/// The samples of a step on all ranks, by their micro-batches.
#[derive(Clone, Debug, Default)]
pub(crate) struct StepSamples<'a> {
    trajectories: Vec<&'a Trajectory>,
    micro_batches: Vec<MicroBatch>,
}

#[derive(Clone, Debug)]
struct MicroBatch {
    /// The numbers of its samples.
    samples: Range<usize>,
    /// Its share of the step's mean loss.
    share: f64,
}

/// How samples are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PassLayout {
    pub(crate) packing: Packing,
    /// Most tokens of a pass; `None` if each micro-batch is a pass.
    pub(crate) most_tokens: Option<usize>,
}

impl PassLayout {
    /// Of a training with these settings.
    pub(crate) fn of(config: &TrainConfig) -> Self {
        let most_tokens = (config.max_tokens_per_pass != Some(0)).then(|| config.tokens_of_pass());
        Self { packing: config.packing.unwrap_or_default(), most_tokens }
    }
}

impl<'a> StepSamples<'a> {
    /// Adds a micro-batch with its share of the step's mean loss.
    pub(crate) fn push(&mut self, trajectories: impl IntoIterator<Item = &'a Trajectory>, share: f64) {
        let first = self.trajectories.len();
        self.trajectories.extend(trajectories);
        self.micro_batches.push(MicroBatch { samples: first..self.trajectories.len(), share });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.trajectories.is_empty()
    }

    /// The rows of all samples.
    pub(crate) fn rows(&self) -> Vec<usize> {
        self.trajectories.iter().map(|trajectory| trajectory.row).collect()
    }

    /// The passes of a rank. All ranks have as many.
    pub(crate) fn passes(&self, loss: &dyn Loss, layout: PassLayout, (rank, ranks): (usize, usize)) -> Vec<Pass<'a>> {
        let divisors = self.divisors(loss);
        let most_tokens = layout.most_tokens.filter(|_| divisors.is_some());
        let plan = self.plan(PassLayout { most_tokens, ..layout }, ranks);
        let sample = |at: &usize| StepSample {
            trajectory: self.trajectories[*at],
            divisor: divisors.as_ref().map_or(1.0, |divisors| divisors[*at]),
        };
        // A pass that is no sum over samples is a micro-batch.
        let share_of = |first: usize| match divisors {
            Some(_) => 1.0,
            None => self.micro_batches.iter().find(|one| one.samples.contains(&first)).map_or(0.0, |one| one.share),
        };
        let pass = |samples: &[usize]| Pass {
            samples: samples.iter().map(sample).collect(),
            share: samples.first().map_or(0.0, |first| share_of(*first)),
        };
        plan.of_rank(rank).map(pass).collect()
    }
    /// Which samples the passes of all ranks have, for a loss that is a sum over samples unless each micro-batch is a pass.
    pub(crate) fn plan(&self, PassLayout { packing, most_tokens }: PassLayout, ranks: usize) -> PassPlan {
        match most_tokens {
            Some(most) => PassPlan::by_tokens(&self.trajectories, packing, most, ranks),
            None => PassPlan::of_micro_batches(self.micro_batches.iter().map(|one| one.samples.clone()), ranks),
        }
    }

    /// Tokens that a pass with these samples computes.
    pub(crate) fn tokens(&self, packing: Packing, samples: &[usize]) -> usize {
        let trajectories: Vec<_> = samples.iter().map(|at| self.trajectories[*at]).collect();
        packing.pack(&trajectories).0.len()
    }

    /// What each sample's own loss is divided by in the step's; `None` if the loss is no sum of such.
    fn divisors(&self, loss: &dyn Loss) -> Option<Vec<f64>> {
        let mut divisors = Vec::with_capacity(self.trajectories.len());
        for MicroBatch { samples, share } in &self.micro_batches {
            let spans = self.trajectories[samples.clone()].iter().flat_map(|trajectory| &trajectory.spans);
            let counts: SampleCounts = spans.map(|span| (span.kind, span.predicted())).collect();
            for trajectory in &self.trajectories[samples.clone()] {
                // Its spans are of one kind.
                let kind = trajectory.spans.first().map(|span| span.kind).unwrap_or_default();
                divisors.push(loss.divisor(counts, kind)?.max(1) as f64 / share);
            }
        }
        Some(divisors)
    }
}

/// The trajectories of all ranks, in the order of their rows, from those of each.
pub(crate) fn of_all_ranks<'a>(group: &dyn ProcessGroup, own: &'a [Trajectory]) -> Result<Cow<'a, [Trajectory]>> {
    if group.size() == 1 {
        return Ok(Cow::Borrowed(own));
    }
    let mut all = gather_lists(group, own)?;
    all.sort_by_key(|trajectory| trajectory.row);
    Ok(Cow::Owned(all))
}
