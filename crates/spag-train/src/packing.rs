//! How the trajectories of a micro-batch become the rows of a pass.

use serde::{Deserialize, Serialize};
use spag_model::batch::PackedBatch;
use spag_model::config::Architecture;

use crate::trajectory::{Span, Trajectory};

/// How the trajectories of a micro-batch are packed. The loss is that of the trajectories; log-probabilities have the same bits
/// on a CPU, and gradients differ by rounding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Packing {
    /// One after another: every token of every trajectory is computed.
    #[default]
    None,
    /// As trees of their common prefixes: tokens that trajectories have in common are computed once, and those after the last
    /// prediction are not computed. Models with LongRoPE are trained without trees: it depends on the length of whole sequences.
    Tree,
}

impl Packing {
    /// This packing, or none if the model's RoPE depends on the length of a whole sequence.
    pub(crate) fn of_model(self, model: &Architecture) -> Self {
        if model.long_after().is_some() { Self::None } else { self }
    }

    /// The tokens of a trajectory that are computed if it is packed alone.
    pub(crate) fn computed(self, trajectory: &Trajectory) -> &[u32] {
        match self {
            Self::None => &trajectory.ids,
            Self::Tree => read_tokens(trajectory),
        }
    }

    /// The packed trajectories, and the row of each token that is computed.
    pub(crate) fn pack(self, trajectories: &[&Trajectory]) -> (PackedBatch, Vec<Vec<u32>>) {
        match self {
            Self::None => {
                let mut next = 0;
                let mut rows_of = |trajectory: &&Trajectory| {
                    let first = next;
                    next += trajectory.ids.len() as u32;
                    (first..next).collect()
                };
                let rows = trajectories.iter().map(&mut rows_of).collect();
                (PackedBatch::new(trajectories.iter().map(|trajectory| trajectory.ids.as_slice())), rows)
            }
            Self::Tree => PackedBatch::tree(trajectories.iter().map(|trajectory| read_tokens(trajectory))),
        }
    }
}

/// The tokens up to the last one that predicts another; one if none does, so that a pass has rows.
fn read_tokens(trajectory: &Trajectory) -> &[u32] {
    let end = |span: &Span| span.tokens.end - usize::from(span.leaf.is_none() && span.tokens.end > 0);
    let end = trajectory.spans.iter().map(end).max().unwrap_or(0);
    &trajectory.ids[..end.max(1).min(trajectory.ids.len())]
}
