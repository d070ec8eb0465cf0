//! The samples of a step, and the passes that compute them.

use std::borrow::Cow;

use spag_dist::{ProcessGroup, gather_texts};

use crate::error::{Error, Result};
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
    samples: Vec<usize>,
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

impl<'a> StepSamples<'a> {
    /// Adds a micro-batch with its share of the step's mean loss.
    pub(crate) fn push(&mut self, trajectories: impl IntoIterator<Item = &'a Trajectory>, share: f64) {
        let first = self.trajectories.len();
        self.trajectories.extend(trajectories);
        self.micro_batches.push(MicroBatch { samples: (first..self.trajectories.len()).collect(), share });
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
        let micro_batches = || self.micro_batches.iter().map(|micro| micro.samples.clone()).collect::<Vec<_>>();
        let plan = match (layout.most_tokens, &divisors) {
            (Some(most), Some(_)) => PassPlan::by_tokens(&self.trajectories, layout.packing, most, ranks),
            _ => PassPlan::of_micro_batches(&micro_batches(), ranks),
        };
        let sample = |at: &usize| StepSample {
            trajectory: self.trajectories[*at],
            divisor: divisors.as_ref().map_or(1.0, |divisors| divisors[*at]),
        };
        // A pass that is no sum over samples is a micro-batch.
        let share_of = |first: Option<&usize>| match (first, &divisors) {
            (None, _) => 0.0,
            (Some(_), Some(_)) => 1.0,
            (Some(first), None) => {
                self.micro_batches.iter().find(|micro| micro.samples.contains(first)).map_or(0.0, |micro| micro.share)
            }
        };
        plan.of_rank(rank)
            .map(|pass| Pass { samples: pass.iter().map(sample).collect(), share: share_of(pass.first()) })
            .collect()
    }

    /// What each sample's own loss is divided by in the step's; `None` if the loss is no sum of such.
    fn divisors(&self, loss: &dyn Loss) -> Option<Vec<f64>> {
        let mut divisors = Vec::with_capacity(self.trajectories.len());
        for MicroBatch { samples, share } in &self.micro_batches {
            let spans = samples.iter().flat_map(|at| &self.trajectories[*at].spans);
            let counts: SampleCounts = spans.map(|span| (span.kind, span.predicted())).collect();
            for at in samples {
                // Its spans are of one kind.
                let kind = self.trajectories[*at].spans.first().map(|span| span.kind).unwrap_or_default();
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
    let mut all: Vec<Trajectory> = Vec::new();
    for text in gather_texts(group, &serde_json::to_string(own).map_err(Error::Exchange)?)? {
        all.extend(serde_json::from_str::<Vec<Trajectory>>(&text).map_err(Error::Exchange)?);
    }
    all.sort_by_key(|trajectory| trajectory.row);
    Ok(Cow::Owned(all))
}
