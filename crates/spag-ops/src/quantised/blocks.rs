//! Blocks of 32 weights: ggml's formats Q8_0 and Q4_0.

use half::f16;

/// Weights of a block.
pub(super) const BLOCK: usize = 32;

/// Number format of quantised weights. A block of 32 consecutive weights of a row has one scale, in f16.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlockFormat {
    /// 8 bits a weight: scale = max |w| / 127.
    Q8_0,
    /// 4 bits a weight: scale = w / -8 for the w of the largest magnitude.
    Q4_0,
}

impl BlockFormat {
    /// Weights of a block. The input size of a quantised layer is a multiple of it.
    pub const BLOCK: usize = BLOCK;

    /// ggml's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Q8_0 => "q8_0",
            Self::Q4_0 => "q4_0",
        }
    }

    /// Whether layers of `inputs` inputs can be quantised.
    pub fn divides(self, inputs: usize) -> bool {
        inputs > 0 && inputs.is_multiple_of(BLOCK)
    }

    /// Bytes of a block: the weights and the scale.
    pub(super) fn block_bytes(self) -> usize {
        match self {
            Self::Q8_0 => 34,
            Self::Q4_0 => 18,
        }
    }
}

impl std::fmt::Display for BlockFormat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for BlockFormat {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "q8_0" => Ok(Self::Q8_0),
            "q4_0" => Ok(Self::Q4_0),
            other => Err(format!("unknown format of quantised weights \"{other}\"; expected q8_0 or q4_0")),
        }
    }
}

/// A block of quantised weights: weight i is `scale * (codes[i] - offset)`, with the offset of its format.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Block {
    pub(super) scale: f16,
    pub(super) codes: [u8; BLOCK],
}

/// A format as kernels see it: codes are unsigned, and a code of `OFFSET` is zero.
pub(super) trait Codes {
    /// The code of zero.
    const OFFSET: i32;
    /// Cache lines of a block of each of 16 rows.
    const LINES: usize;

    /// Quantises a block.
    fn quantise(weights: &[f32; BLOCK]) -> Block;
}

/// 8 bits a weight.
pub(super) struct Q8;
/// 4 bits a weight, two weights a byte.
pub(super) struct Q4;

impl Codes for Q8 {
    const OFFSET: i32 = 128;
    const LINES: usize = 8;

    /// As ggml's `quantize_row_q8_0_ref`: halves are rounded away from zero.
    fn quantise(weights: &[f32; BLOCK]) -> Block {
        let largest = weights.iter().fold(0f32, |largest, weight| largest.max(weight.abs()));
        let scale = largest / 127.0;
        let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
        // A scale so small that its inverse is infinite is zero in f16, and the codes have no effect.
        let code = |weight: f32| (weight * inverse).round().clamp(-127.0, 127.0) as i32 + Self::OFFSET;
        Block { scale: f16::from_f32(scale), codes: weights.map(|weight| code(weight) as u8) }
    }
}

impl Codes for Q4 {
    const OFFSET: i32 = 8;
    const LINES: usize = 4;

    /// As ggml's `quantize_row_q4_0_ref`.
    fn quantise(weights: &[f32; BLOCK]) -> Block {
        let largest =
            weights.iter().fold(0f32, |largest, weight| if weight.abs() > largest.abs() { *weight } else { largest });
        let scale = largest / -8.0;
        let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
        let code = |weight: f32| ((weight * inverse + 8.5) as u8).min(15);
        Block { scale: f16::from_f32(scale), codes: weights.map(code) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(start: &[f32]) -> [f32; BLOCK] {
        std::array::from_fn(|i| start.get(i).copied().unwrap_or(0.0))
    }

    #[test]
    fn q8_0_blocks_are_those_of_the_formula() {
        // d = 2, so that halves are exact: 3 / 2 = 1.5 → 2, -3 / 2 → -2, 5 / 2 → 3, 1 / 2 → 1.
        let Block { scale, codes } = Q8::quantise(&block(&[254.0, -254.0, 3.0, -3.0, 5.0, 1.0, 0.9, 100.0]));
        assert_eq!(scale.to_f32(), 2.0);
        assert_eq!(
            codes[..9].iter().map(|c| i32::from(*c) - 128).collect::<Vec<_>>(),
            [127, -127, 2, -2, 3, 1, 0, 50, 0]
        );
        // d = 1 / 127 = 0.0078740157, 0x2008 in f16.
        let Block { scale, codes } = Q8::quantise(&block(&[0.5, -1.0, 0.25]));
        assert_eq!((scale.to_bits(), &codes[..4]), (0x2008, &[192, 1, 160, 128][..]));
        assert_eq!(Q8::quantise(&block(&[])), Block { scale: f16::ZERO, codes: [128; BLOCK] });
    }

    #[test]
    fn q4_0_blocks_are_those_of_the_formula() {
        // The first of the largest magnitude is -8: d = 1, code = trunc(w + 8.5), at most 15.
        let Block { scale, codes } = Q4::quantise(&block(&[-8.0, 8.0, 7.0, -0.5, 0.5, -0.6, 3.4, 3.5]));
        assert_eq!((scale.to_f32(), &codes[..9]), (1.0, &[0, 15, 15, 8, 9, 7, 11, 12, 8][..]));
        // It is positive: d = 4 / -8 = -0.5, codes of w / -0.5 + 8.5.
        let Block { scale, codes } = Q4::quantise(&block(&[1.0, 4.0, -4.0, -3.5, 0.3]));
        assert_eq!((scale.to_f32(), &codes[..6]), (-0.5, &[6, 0, 15, 15, 7, 8][..]));
        assert_eq!(Q4::quantise(&block(&[])).codes, [8; BLOCK]);
    }

    /// Half a step of the scale, and the rounding of the scale to f16; Q4_0 also cuts the far end, by at most a step.
    #[test]
    fn errors_are_within_a_step() {
        for seed in 0..200usize {
            let value = |i: usize| ((i * 2654435761 + seed * 40503) % 10007) as f32 / 10007.0 - 0.5;
            let weights: [f32; BLOCK] = std::array::from_fn(|i| value(i + seed) * (seed as f32 + 0.1));
            let largest = weights.iter().fold(0f32, |m, w| m.max(w.abs()));
            let error = |block: Block, offset: i32| {
                let value = |code: u8| block.scale.to_f32() * (i32::from(code) - offset) as f32;
                weights.iter().zip(block.codes).fold(0f32, |worst, (w, code)| worst.max((w - value(code)).abs()))
            };
            assert!(error(Q8::quantise(&weights), 128) <= largest * (0.5 / 127.0 + 1.0 / 2048.0));
            assert!(error(Q4::quantise(&weights), 8) <= largest * (1.0 / 8.0 + 1.0 / 1024.0));
        }
    }

    #[test]
    fn values_at_the_ends_of_f32_do_not_panic() {
        for value in [f32::MIN_POSITIVE, 1e-45, f32::MAX, f32::INFINITY, f32::NAN, -f32::MAX] {
            let weights = block(&[value, -value, 1e-45]);
            assert!(Q4::quantise(&weights).codes.iter().all(|code| *code < 16));
            assert!(Q8::quantise(&weights).codes.iter().all(|code| *code >= 1 || value.is_nan()));
        }
    }

    #[test]
    fn names_are_those_of_ggml() {
        for format in [BlockFormat::Q8_0, BlockFormat::Q4_0] {
            assert_eq!(format.to_string().parse(), Ok(format));
        }
        let error = "Q4_K".parse::<BlockFormat>().unwrap_err();
        assert_eq!(error, "unknown format of quantised weights \"Q4_K\"; expected q8_0 or q4_0");
    }
}
