//! The attention mask: sliding window, ALiBi bias and scale.

use std::sync::{Arc, Mutex, PoisonError};

use candle_core::{Device, Result, Tensor, bail};

use super::Heads;
use crate::kernels::Arg;

/// The sliding window, ALiBi slopes and scale of attention scores. Causality always applies.
///
/// The score of query i and key j is q·k·scale + slope·(j − i), in f32; a key is visible if i − window < j ≤ i. The scale
/// defaults to 1/√(head size).
///
/// ```
/// use spag_ops::attention::{Mask, Slopes};
///
/// # fn main() -> candle_core::Result<()> {
/// // A token sees itself and the 15 before it.
/// let mask = Mask::new(Some(16), None)?;
/// assert_eq!((mask.first_key(10), mask.first_key(20)), (0, 5));
/// assert_eq!(Slopes::alibi(2).values(), [1.0 / 16.0, 1.0 / 256.0]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Mask {
    window: Option<u32>,
    slopes: Option<Slopes>,
    scale: Option<f32>,
}

impl Mask {
    /// Purely causal: a token sees itself and all earlier tokens.
    pub fn causal() -> Self {
        Self { window: None, slopes: None, scale: None }
    }

    /// A token sees itself and the `window - 1` tokens before it; `None` means all. `slopes` are the ALiBi slopes.
    ///
    /// # Errors
    /// A window of 0.
    pub fn new(window: Option<usize>, slopes: Option<Slopes>) -> Result<Self> {
        if window == Some(0) {
            bail!("attention: a window of 0 tokens sees nothing");
        }
        // Sequences have fewer than 2³² tokens, so a larger window has no effect.
        Ok(Self { window: window.and_then(|window| u32::try_from(window).ok()), slopes, scale: None })
    }

    /// Sets the scale of scores.
    pub fn with_scale(self, scale: f32) -> Self {
        Self { scale: Some(scale), ..self }
    }

    /// The scale of scores for heads of size `dim`.
    pub(crate) fn scale(&self, dim: usize) -> f32 {
        self.scale.unwrap_or_else(|| default_scale(dim))
    }

    /// The first key visible to the query at `position` of its sequence.
    pub fn first_key(&self, position: usize) -> usize {
        self.window.map_or(0, |window| (position + 1).saturating_sub(window as usize))
    }

    /// One past the last query that sees the key at `position`, in an unbounded sequence.
    pub(super) fn end_of_queries(&self, position: usize) -> usize {
        self.window.map_or(usize::MAX, |window| position + window as usize)
    }

    /// The ALiBi slope of a query head.
    pub(crate) fn slope(&self, head: usize) -> Option<f32> {
        self.slopes.as_ref().map(|slopes| slopes.values[head])
    }

    /// Checks that every query head has a slope.
    pub(crate) fn check(&self, heads: Heads) -> Result<()> {
        match &self.slopes {
            Some(slopes) if slopes.values.len() != heads.query => {
                bail!("attention: {} ALiBi slopes for {} query heads", slopes.values.len(), heads.query)
            }
            _ => Ok(()),
        }
    }
}

fn default_scale(dim: usize) -> f32 {
    1.0 / (dim as f32).sqrt()
}

/// The ALiBi slopes of all query heads (Press et al. 2022). Clones share the device copies.
#[derive(Clone, Debug)]
pub struct Slopes {
    values: Arc<[f32]>,
    copies: Arc<Mutex<Vec<Tensor>>>,
}

impl Slopes {
    /// The slopes of n heads. With m the largest power of two not above n: 2^(-8k/m) for k = 1..m, then
    /// 2^(-4(2k-1)/m) for k = 1..n-m.
    pub fn alibi(heads: usize) -> Self {
        let whole = heads.checked_ilog2().map_or(0, |log| 1usize << log);
        let slope = |exponent: usize| (-(exponent as f64) / whole as f64).exp2() as f32;
        let first = (1..=whole).map(|k| slope(8 * k));
        let rest = (1..=heads - whole).map(|k| slope(4 * (2 * k - 1)));
        Self { values: first.chain(rest).collect(), copies: Arc::default() }
    }

    /// One slope per head.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// The slopes on `device`, uploaded on first use.
    fn on(&self, device: &Device) -> Result<Tensor> {
        let mut copies = self.copies.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(copy) = copies.iter().find(|copy| copy.device().same_device(device)) {
            return Ok(copy.clone());
        }
        let copy = Tensor::new(&*self.values, device)?;
        copies.push(copy.clone());
        Ok(copy)
    }
}

/// A mask on a device; see `mask.cuh`.
pub(crate) struct MaskOnDevice {
    slopes: Option<Tensor>,
    window: Option<u32>,
    scale: Option<f32>,
}

impl Mask {
    /// The mask for kernels on `device`.
    pub(crate) fn on(&self, device: &Device) -> Result<MaskOnDevice> {
        let slopes = self.slopes.as_ref().map(|slopes| slopes.on(device)).transpose()?;
        Ok(MaskOnDevice { slopes, window: self.window, scale: self.scale })
    }
}

impl MaskOnDevice {
    /// As [`Mask::scale`].
    pub(crate) fn scale(&self, dim: usize) -> f32 {
        self.scale.unwrap_or_else(|| default_scale(dim))
    }

    /// The scale times log₂e.
    pub(crate) fn log2_scale(&self, dim: usize) -> f32 {
        use std::f32::consts::LOG2_E;
        self.scale.map_or_else(|| LOG2_E / (dim as f32).sqrt(), |scale| LOG2_E * scale)
    }

    /// The last two kernel arguments: slopes and window.
    pub(crate) fn args(&self) -> [Arg<'_>; 2] {
        // Kernels compare it with signed distances.
        let window = self.window.map_or(i32::MAX as u32, |window| window.min(i32::MAX as u32));
        [self.slopes.as_ref().map_or(Arg::Null, Arg::In), Arg::U32(window)]
    }

    /// The arguments and name suffix of a kernel that has a purely causal version.
    pub(crate) fn version(&self) -> (&'static str, Vec<Arg<'_>>) {
        match self {
            Self { slopes: None, window: None, .. } => ("", Vec::new()),
            _ => ("_masked", self.args().to_vec()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alibi_slopes_follow_the_powers_of_two_below_and_above() {
        let of = |heads| Slopes::alibi(heads).values().to_vec();
        assert_eq!(of(8), [0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125, 0.00390625]);
        // The last two are the first and third of 8 heads.
        assert_eq!(of(6), [0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125]);
        assert_eq!((of(1), of(0)), (vec![0.00390625], vec![]));
        assert_eq!(of(40).len(), 40);
        assert_eq!((of(40)[0], of(40)[32]), (2f64.powf(-0.25) as f32, 2f64.powf(-0.125) as f32));
    }

    #[test]
    fn windows_hold_the_token_itself_and_are_not_empty() {
        let mask = Mask::new(Some(1), None).unwrap();
        assert_eq!((mask.first_key(0), mask.first_key(7)), (0, 7));
        assert_eq!((mask.end_of_queries(0), Mask::causal().end_of_queries(0)), (1, usize::MAX));
        assert!(Mask::new(Some(0), None).is_err());
        assert_eq!(Mask::new(Some(usize::MAX), None).unwrap().first_key(1 << 40), 0);
    }
}
