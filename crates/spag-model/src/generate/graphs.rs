//! CUDA graphs of decoding passes, which replace a few hundred launches by one.
//!
//! Decoding passes with the same key differ only in three tensors: embedded tokens, positions and page tables. Row counts
//! are padded to a few values, so that a pass with one request less has the same key. The first pass of a key runs
//! eagerly, which loads its kernels. The second is captured, with its own input and output buffers. Later passes copy
//! their inputs into these buffers and replay the graph.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use candle_core::{DType, Result, Shape, Tensor};

use spag_ops::kernels::{self, CapturedGraph, Kernels};
use spag_ops::paged_attention::Plan;
use spag_ops::rope::Positions;

/// Inputs of a forward pass besides weights and KV cache.
pub(super) struct Inputs<'a> {
    /// The embedded tokens, [N, D].
    pub(super) x: Tensor,
    /// For RoPE; `None` with other position encodings.
    pub(super) positions: Option<Positions>,
    pub(super) plan: Plan<'a>,
}

/// Rows, splits of their keys, and page table length.
type GraphKey = (usize, usize, usize);

/// Captured decoding passes by key.
#[derive(Default)]
pub(super) struct GraphCache(Mutex<Graphs>);

#[derive(Default)]
struct Graphs {
    entries: HashMap<GraphKey, Entry>,
    /// The first capture failure.
    failure: Option<String>,
}

enum Entry {
    /// One pass has run; its logits had this shape and number format.
    Warm(Shape, DType),
    /// The device cannot capture, or a capture failed; passes run eagerly.
    Eager,
    Captured(Box<Captured>),
}

struct Captured {
    /// Buffers that the graph reads, and the plan that owns its scratch memory.
    inputs: Inputs<'static>,
    logits: Tensor,
    graph: Box<dyn CapturedGraph>,
}

/// Maximum number of graphs. When it is exceeded, all are dropped and captured again.
const MAX_GRAPHS: usize = 512;

/// The padded row count: up to 4 unpadded, then multiples of 8 up to 64, of 16 up to 256, and of 32. Weights are read once
/// for all rows, so a few more cost little.
pub(super) fn padded_rows(rows: usize) -> usize {
    let step = match rows {
        0..=4 => 1,
        5..=64 => 8,
        65..=256 => 16,
        _ => 32,
    };
    rows.next_multiple_of(step)
}

impl GraphCache {
    /// Returns the logits of every row and the time of attention (zero if replayed). `run` computes both from its
    /// inputs alone.
    pub(super) fn pass(
        &self,
        inputs: Inputs<'_>,
        run: impl Fn(&Inputs<'_>) -> Result<(Tensor, Duration)>,
    ) -> Result<(Tensor, Duration)> {
        let (Some(kernels), Some(key)) = (kernels::of(inputs.x.device())?, inputs.plan.graph_key()) else {
            return run(&inputs);
        };
        let Graphs { entries, failure } = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.len() > MAX_GRAPHS {
            entries.clear();
        }
        match entries.get(&key) {
            None => {
                let (logits, attention) = run(&inputs)?;
                entries.insert(key, Entry::Warm(logits.shape().clone(), logits.dtype()));
                Ok((logits, attention))
            }
            Some(Entry::Eager) => run(&inputs),
            Some(Entry::Captured(captured)) => Ok((captured.replay(&*kernels, &inputs)?, Duration::ZERO)),
            Some(Entry::Warm(shape, dtype)) => match Captured::new(&*kernels, &inputs, (shape, *dtype), &run) {
                Ok(Some(captured)) => {
                    let logits = captured.replay(&*kernels, &inputs)?;
                    entries.insert(key, Entry::Captured(Box::new(captured)));
                    Ok((logits, Duration::ZERO))
                }
                // Eager execution is slower but correct. A device failure is reported by this call.
                uncaptured => {
                    if let (Err(error), None) = (uncaptured, &failure) {
                        *failure = Some(error.to_string());
                    }
                    entries.insert(key, Entry::Eager);
                    run(&inputs)
                }
            },
        }
    }

    /// The first capture failure, if any.
    pub(super) fn failure(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).failure.clone()
    }
}

impl Captured {
    fn new(
        kernels: &dyn Kernels,
        like: &Inputs<'_>,
        (shape, dtype): (&Shape, DType),
        run: &impl Fn(&Inputs<'_>) -> Result<(Tensor, Duration)>,
    ) -> Result<Option<Self>> {
        let Some(inputs) = like.uninit_like(kernels)? else { return Ok(None) };
        let logits = kernels.empty(shape.dims(), dtype)?;
        let graph = kernels.capture(&mut || {
            let (computed, _) = run(&inputs)?;
            kernels.copy(&computed, &logits)
        })?;
        Ok(graph.map(|graph| Self { inputs, logits, graph }))
    }

    fn replay(&self, kernels: &dyn Kernels, inputs: &Inputs<'_>) -> Result<Tensor> {
        inputs.copy_to(kernels, &self.inputs)?;
        self.graph.replay()?;
        Ok(self.logits.clone())
    }
}

impl Inputs<'_> {
    /// Uninitialized buffers for inputs with the same key.
    fn uninit_like(&self, kernels: &dyn Kernels) -> Result<Option<Inputs<'static>>> {
        let Some(plan) = self.plan.uninit_like(kernels)? else { return Ok(None) };
        let x = kernels.empty(self.x.dims(), self.x.dtype())?;
        let positions = match &self.positions {
            Some(positions) => Some(positions.uninit_like(kernels)?),
            None => None,
        };
        Ok(Some(Inputs { x, positions, plan }))
    }

    /// Copies into the buffers of inputs with the same key.
    fn copy_to(&self, kernels: &dyn Kernels, to: &Inputs<'_>) -> Result<()> {
        kernels.copy(&self.x, &to.x)?;
        let positions = |inputs: &Inputs<'_>| inputs.positions.as_ref().and_then(|at| at.tensor().cloned());
        let (from_positions, to_positions) = (positions(self), positions(to));
        let pairs = [(from_positions.as_ref(), to_positions.as_ref()), (self.plan.tables(), to.plan.tables())];
        for (from, to) in pairs {
            if let (Some(from), Some(to)) = (from, to) {
                kernels.copy(from, to)?;
            }
        }
        Ok(())
    }
}
