//! Passes of decoding that a device takes down once and then repeats: a few hundred launches become one.
//!
//! Between two passes of as many sequences nothing changes but the contents of three tensors: the embedded tokens, the
//! positions, and the tables of pages. A pass of a new kind runs as it is, which loads its kernels; the second of its kind
//! is taken down, with inputs and logits in memory of its own; all others are copies into that memory and one start.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use candle_core::{DType, Result, Shape, Tensor};

use crate::kernels::{self, CapturedGraph, Kernels};
use crate::ops::paged_attention::Plan;
use crate::ops::rope::Positions;

/// What a forward pass reads beside weights and pages.
pub(super) struct Inputs<'a> {
    /// The embedded tokens, [N, D].
    pub(super) x: Tensor,
    pub(super) positions: Positions,
    pub(super) plan: Plan<'a>,
}

/// What passes of one kind have in common: rows, splits of their keys, and the length of the tables.
type Kind = (usize, usize, usize);

/// Passes of decoding by their kind.
#[derive(Default)]
pub(super) struct RecordedPasses(Mutex<HashMap<Kind, Known>>);

enum Known {
    /// One has run, and its logits were of this shape and number format.
    Seen(Shape, DType),
    /// The device does not take them down.
    Refused,
    Recorded(Box<Recorded>),
}

struct Recorded {
    /// The memory that the pass reads, and the plan that owns some of what it works in.
    inputs: Inputs<'static>,
    logits: Tensor,
    replay: Box<dyn CapturedGraph>,
}

/// Kinds that are kept at most; beyond, all are forgotten and taken down anew.
const MOST: usize = 512;

impl RecordedPasses {
    /// The logits after every row of a pass, and the time that attention took, where that was measured. `run` computes
    /// both from its inputs alone.
    pub(super) fn pass(
        &self,
        inputs: Inputs<'_>,
        run: impl Fn(&Inputs<'_>) -> Result<(Tensor, Duration)>,
    ) -> Result<(Tensor, Duration)> {
        let (Some(kernels), Some(kind)) = (kernels::of(inputs.x.device())?, inputs.plan.decoding()) else {
            return run(&inputs);
        };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() > MOST {
            known.clear();
        }
        match known.get(&kind) {
            None => {
                let (logits, attention) = run(&inputs)?;
                known.insert(kind, Known::Seen(logits.shape().clone(), logits.dtype()));
                Ok((logits, attention))
            }
            Some(Known::Refused) => run(&inputs),
            Some(Known::Recorded(recorded)) => Ok((recorded.again(&*kernels, &inputs)?, Duration::ZERO)),
            Some(Known::Seen(shape, dtype)) => match Recorded::new(&*kernels, &inputs, (shape, *dtype), &run) {
                Ok(Some(recorded)) => {
                    let logits = recorded.again(&*kernels, &inputs)?;
                    known.insert(kind, Known::Recorded(Box::new(recorded)));
                    Ok((logits, Duration::ZERO))
                }
                // Slower, and right all the same; where the device has failed, it fails again here.
                Ok(None) | Err(_) => {
                    known.insert(kind, Known::Refused);
                    run(&inputs)
                }
            },
        }
    }
}

impl Recorded {
    fn new(
        kernels: &dyn Kernels,
        like: &Inputs<'_>,
        (shape, dtype): (&Shape, DType),
        run: &impl Fn(&Inputs<'_>) -> Result<(Tensor, Duration)>,
    ) -> Result<Option<Self>> {
        let Some(inputs) = like.unwritten(kernels)? else { return Ok(None) };
        let logits = kernels.empty(shape.dims(), dtype)?;
        let replay = kernels.capture(&mut || {
            let (computed, _) = run(&inputs)?;
            kernels.copy(&computed, &logits)
        })?;
        Ok(replay.map(|replay| Self { inputs, logits, replay }))
    }

    fn again(&self, kernels: &dyn Kernels, inputs: &Inputs<'_>) -> Result<Tensor> {
        inputs.copy_to(kernels, &self.inputs)?;
        self.replay.replay()?;
        Ok(self.logits.clone())
    }
}

impl Inputs<'_> {
    /// Memory for inputs of the same kind.
    fn unwritten(&self, kernels: &dyn Kernels) -> Result<Option<Inputs<'static>>> {
        let Some(plan) = self.plan.unwritten(kernels)? else { return Ok(None) };
        let x = kernels.empty(self.x.dims(), self.x.dtype())?;
        Ok(Some(Inputs { x, positions: self.positions.unwritten(kernels)?, plan }))
    }

    /// Overwrites the memory of inputs of the same kind.
    fn copy_to(&self, kernels: &dyn Kernels, to: &Inputs<'_>) -> Result<()> {
        kernels.copy(&self.x, &to.x)?;
        for (from, to) in [(self.positions.tensor(), to.positions.tensor()), (self.plan.tables(), to.plan.tables())] {
            if let (Some(from), Some(to)) = (from, to) {
                kernels.copy(from, to)?;
            }
        }
        Ok(())
    }
}
