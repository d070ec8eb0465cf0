//! One token from each row of logits: greedy or drawn, with how likely it was.
//!
//! A draw takes one uniform number that the caller brings, so that it depends on nothing but its row. The order that the
//! number is looked up in: the vocabulary's where every token may be drawn, else that of the tokens' likelihood.

mod device;
mod row;

use std::fmt;

use candle_core::{Result, Tensor, bail};
use rayon::prelude::*;

use super::cpu;
use crate::kernels;

/// How a row's token is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Draw {
    /// The most likely token; of equals the one with the lowest id.
    #[default]
    Greedy,
    /// A draw from softmax(logits / temperature), restricted to the most likely tokens where asked.
    Random {
        /// Divides the logits.
        temperature: f64,
        /// Only the `k` most likely tokens, if given; at least 1.
        top_k: Option<usize>,
        /// Only the most likely tokens that together reach probability `p`, if given.
        top_p: Option<f64>,
        /// Where in the distribution, in [0, 1).
        uniform: f64,
    },
}

/// What a row is asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ask {
    /// How its token is chosen.
    pub draw: Draw,
    /// Tokens that may not be chosen.
    pub banned: Vec<u32>,
}

/// A token and how likely it was.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// The token.
    pub token: u32,
    /// ln p under softmax of the logits as they are.
    pub model_log_prob: f32,
    /// ln p under the distribution that it was drawn from; 0 where the choice was greedy.
    pub sampling_log_prob: f32,
}

/// Why no token could be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The logits make no distribution: a NaN, +∞, or all -∞.
    Unsound,
    /// Every token of any likelihood is banned.
    NothingAllowed,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unsound => "the model's logits are not finite; are the weights sound?",
            Self::NothingAllowed => "no token may be chosen",
        })
    }
}

/// Chooses a token from each row of `logits` [R, V] as `asks` say, one a row.
///
/// # Errors
/// Asks that do not fit, a number that makes no distribution, or a tensor that is not contiguous f32 (or, for kernels,
/// bf16).
pub fn choose(logits: &Tensor, asks: &[Ask]) -> Result<Vec<std::result::Result<Choice, Refusal>>> {
    let (rows, size) = logits.dims2()?;
    if rows != asks.len() || size == 0 {
        bail!("sampling: {} asks for logits [{rows}, {size}]", asks.len());
    }
    for ask in asks {
        let Draw::Random { temperature, top_k, top_p, uniform } = ask.draw else { continue };
        let sound = temperature > 0.0 && top_k != Some(0) && top_p.is_none_or(|p| p > 0.0 && p <= 1.0);
        if !sound || !(0.0..1.0).contains(&uniform) {
            bail!("sampling: {:?} makes no distribution", ask.draw);
        }
    }
    if let Some(kernels) = kernels::of(logits.device())? {
        return device::choose(&*kernels, logits, asks);
    }
    cpu::read(logits, |logits| {
        let rows = logits.par_chunks_exact(size).zip(asks);
        Ok(rows.map_init(Vec::new, |weights, (row, ask)| row::choose(row, ask, weights)).collect())
    })
}
