//! Log-probabilities of given tokens, and the most likely alternatives.

use candle_core::{Result, Tensor, bail};
use rayon::prelude::*;

use super::{SampleError, ScoreParams, TokenLogProb, device, row};
use crate::cpu;
use crate::kernels;

/// Maximum number of alternatives reported.
pub const MAX_TOP: usize = 20;

/// Maximum elements of a chunk of logits computed only for scoring (16 MiB of f32). A chunk has at least 16 rows, so that the
/// output head is read only a few times.
const CHUNK_ELEMENTS: usize = 1 << 22;

/// Rows of a chunk of logits scored at once, for a vocabulary of `v`.
pub fn scored_rows(v: usize) -> usize {
    (CHUNK_ELEMENTS / v.max(1)).clamp(16, 1024)
}

/// Log-probabilities of tokens in rows of `logits` [R, V], bit-identical to those of [`sample`](super::sample).
///
/// # Errors
/// A row, a token or a number of tokens out of range, or a tensor that is not contiguous f32 (or, for kernels, bf16).
pub fn score(logits: &Tensor, params: &[ScoreParams]) -> Result<Vec<std::result::Result<TokenLogProb, SampleError>>> {
    let (rows, size) = logits.dims2()?;
    for ScoreParams { row, token, top } in params {
        if *row >= rows || *token as usize >= size || *top > MAX_TOP {
            bail!("scoring: token {token} of row {row} with {top} others, for logits [{rows}, {size}]");
        }
    }
    if params.is_empty() {
        return Ok(Vec::new());
    }
    if let Some(kernels) = kernels::of(logits.device())? {
        return device::score(&*kernels, logits, params);
    }
    cpu::read(logits, |logits| {
        let scored = params.par_iter().map(|params| row::score(&logits[params.row * size..][..size], params));
        Ok(scored.collect())
    })
}
