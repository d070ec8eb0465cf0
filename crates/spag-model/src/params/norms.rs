//! The norms of a block.

use candle_core::Tensor;

use super::Part;
use crate::error::Result;

/// The norms of a block's inputs and outputs, or their gradients.
pub(crate) struct BlockNorms(Vec<(Part, Tensor)>);

impl BlockNorms {
    const PARTS: [Part; 4] = [Part::AttentionNorm, Part::AttentionPostNorm, Part::MlpNorm, Part::MlpPostNorm];

    /// Collects the norms returned by `part`.
    ///
    /// # Errors
    /// As `part`.
    pub(crate) fn of(part: impl Fn(Part) -> Result<Option<Tensor>>) -> Result<Self> {
        let norms = Self::PARTS.into_iter().map(|at| Ok(part(at)?.map(|norm| (at, norm))));
        Ok(Self(norms.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect()))
    }

    /// A required norm of the block.
    pub(crate) fn get(&self, part: Part) -> candle_core::Result<&Tensor> {
        match self.0.iter().find(|(own, _)| *own == part) {
            Some((_, norm)) => Ok(norm),
            None => candle_core::bail!("a block has no {part:?}"),
        }
    }

    /// Applies `of` to each norm.
    pub(crate) fn map(&self, of: impl Fn(&Tensor) -> candle_core::Result<Tensor>) -> candle_core::Result<Self> {
        Ok(Self(self.0.iter().map(|(part, norm)| Ok((*part, of(norm)?))).collect::<candle_core::Result<_>>()?))
    }
}
