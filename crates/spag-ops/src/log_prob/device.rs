//! The output head with matrix products and the kernels of `log_prob.cu`. Logits are f32 for every number format: bf16
//! would leave log-probabilities two digits.

use candle_core::{DType, Result, Tensor};

use super::{DEVICE_CHUNK_ELEMENTS, LogProbs, Targets};
use crate::kernels::{Accumulate, Arg, Kernels, Launch, Module, THREADS, blocks, module, suffix, vector_len};
use crate::matmul;
use crate::sample::restrict_with;

const MODULE: Module = module!("log_prob");
/// Threads per row of logits.
const ROW_THREADS: u32 = 512;
/// Shared memory of a block reduction.
const SCRATCH_BYTES: usize = 32 * 4;

/// `hidden` [M, D], `head` [V, D] and the targets.
pub(super) type Head<'a> = (&'a Tensor, &'a Tensor, Targets<'a>);

fn chunk_rows(v: usize) -> usize {
    (DEVICE_CHUNK_ELEMENTS / v.max(1)).max(1)
}

/// First row and number of rows of each chunk.
fn chunks(m: usize, v: usize) -> impl Iterator<Item = (usize, usize)> {
    let rows = chunk_rows(v);
    (0..m).step_by(rows).map(move |start| (start, rows.min(m - start)))
}

/// The logits [R, V] of some rows, f32, adjusted so that their softmax is the distribution of each row, and their log-sum-exps,
/// [R], if any are known.
fn logits(
    kernels: &dyn Kernels,
    rows: &Tensor,
    head: &Tensor,
    targets: Targets<'_>,
) -> Result<(Tensor, Option<Tensor>)> {
    let logits = matmul::launch_linear(kernels, rows, head, DType::F32)?;
    let known = match targets.distributions {
        [] => None,
        distributions => restrict_with(kernels, &logits, distributions, targets.tokens)?,
    };
    Ok((logits, known))
}

pub(super) fn forward(kernels: &dyn Kernels, (hidden, head, targets): Head<'_>, keep: Keep) -> Result<LogProbs> {
    let (m, v) = (hidden.dim(0)?, head.dim(0)?);
    let (values, lse) = (kernels.empty(&[m], DType::F32)?, kernels.empty(&[m], DType::F32)?);
    let mut result = LogProbs { values, lse, kept: Vec::new(), targets: None };
    if m == 0 {
        return Ok(result);
    }
    let tokens = Tensor::new(targets.tokens, hidden.device())?;
    for (start, rows) in chunks(m, v) {
        let (logits, known) =
            logits(kernels, &hidden.narrow(0, start, rows)?, head, targets.rows(start..start + rows))?;
        kernels.launch(&Launch {
            kernel: "log_prob_rows".into(),
            grid: [rows as u32, 1, 1],
            block: ROW_THREADS,
            shared_bytes: SCRATCH_BYTES,
            args: &[
                Arg::In(&logits),
                Arg::In(&tokens.narrow(0, start, rows)?),
                known.as_ref().map_or(Arg::Null, Arg::In),
                Arg::Out(&result.values.narrow(0, start, rows)?),
                Arg::Out(&result.lse.narrow(0, start, rows)?),
                Arg::U32(v as u32),
            ],
            ..Launch::of(MODULE)
        })?;
        if keep == Keep::ForBackward && rows == m {
            result.kept.push(logits);
        }
    }
    result.targets = Some(tokens);
    Ok(result)
}

/// Whether a backward pass will follow.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    Nothing,
    ForBackward,
}

pub(super) fn backward(
    kernels: &dyn Kernels,
    forward: LogProbs,
    (hidden, head, targets): Head<'_>,
    upstream: &Tensor,
    dhead: Option<&Tensor>,
) -> Result<Tensor> {
    let ((m, d), v, dtype) = (hidden.dims2()?, head.dim(0)?, hidden.dtype());
    let dhidden = kernels.empty(&[m, d], dtype)?;
    if m == 0 {
        return Ok(dhidden);
    }
    let tokens = match forward.targets {
        Some(tokens) => tokens,
        None => Tensor::new(targets.tokens, hidden.device())?,
    };
    let mut kept = forward.kept.into_iter();
    for (start, rows) in chunks(m, v) {
        let x = hidden.narrow(0, start, rows)?;
        let logits = match kept.next() {
            Some(kept) => kept,
            None => logits(kernels, &x, head, targets.rows(start..start + rows))?.0,
        };
        let gradients = match dtype {
            // In place: logits are overwritten with their gradients.
            DType::F32 => logits.clone(),
            _ => kernels.empty(&[rows, v], dtype)?,
        };
        kernels.launch(&Launch {
            kernel: format!("log_prob_gradients_{}", suffix(dtype)?),
            grid: [rows as u32, blocks(v, vector_len(dtype))?, 1],
            block: THREADS,
            args: &[
                Arg::In(&logits),
                Arg::In(&tokens.narrow(0, start, rows)?),
                Arg::In(&forward.lse.narrow(0, start, rows)?),
                Arg::In(&upstream.narrow(0, start, rows)?),
                Arg::Out(&gradients),
                Arg::U32(v as u32),
            ],
            ..Launch::of(MODULE)
        })?;
        drop(logits);
        if let Some(dhead) = dhead {
            matmul::linear_backward_weight(&gradients, &x, (dhead, Accumulate::Yes), matmul::Arithmetic::of(head))?;
        }
        matmul::launch_backward_input_into(kernels, &[(&gradients, head)], &dhidden.narrow(0, start, rows)?)?;
    }
    Ok(dhidden)
}
