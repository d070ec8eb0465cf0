//! Weights of a row that share scales, and their storage in ggml files.

use half::f16;

use super::format::{BLOCK, BlockFormat, SUPERBLOCK};

/// Quantised weights of a row that share scales: the 8 blocks of a superblock, or otherwise a single block, the first. Weight i is
/// `scale·factor·(code - offset) + minimum·factor`, with the factors of its block or half-block, or 1 in formats without factors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Span {
    pub(super) codes: [u8; SUPERBLOCK],
    pub(super) scale: f16,
    pub(super) minimum: f16,
    /// Per block (8, q4_k) or per half-block (16, q6_k).
    pub(super) factors: [i8; 16],
    pub(super) minimum_factors: [i8; 8],
}

impl Span {
    pub(super) const ZERO: Self = Self {
        codes: [0; SUPERBLOCK],
        scale: f16::ZERO,
        minimum: f16::ZERO,
        factors: [0; 16],
        minimum_factors: [0; 8],
    };

    /// Whether the weights are finite.
    pub(super) fn is_finite(&self) -> bool {
        self.scale.is_finite() && self.minimum.is_finite()
    }

    /// Parses ggml's file format: [`BlockFormat::stored_bytes`] bytes.
    pub(super) fn stored(format: BlockFormat, bytes: &[u8]) -> Self {
        let mut span = Self::ZERO;
        let half = |at: usize| f16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let codes = &mut span.codes;
        match format {
            BlockFormat::Q8_0 => {
                span.scale = half(0);
                codes.iter_mut().zip(&bytes[2..34]).for_each(|(code, byte)| *code = byte ^ 0x80);
            }
            BlockFormat::Q4_0 => {
                span.scale = half(0);
                split(&mut codes[..BLOCK], &bytes[2..18]);
            }
            BlockFormat::Q4_1 => {
                (span.scale, span.minimum) = (half(0), half(2));
                split(&mut codes[..BLOCK], &bytes[4..20]);
            }
            BlockFormat::Q5_0 => {
                span.scale = half(0);
                split(&mut codes[..BLOCK], &bytes[6..22]);
                for (column, code) in codes[..BLOCK].iter_mut().enumerate() {
                    *code |= (bytes[2 + column / 8] >> (column % 8) & 1) << 4;
                }
            }
            BlockFormat::Q4K => {
                (span.scale, span.minimum) = (half(0), -half(2));
                for block in 0..8 {
                    let (factor, minimum) = six_bits(&bytes[4..16], block);
                    (span.factors[block], span.minimum_factors[block]) = (factor as i8, minimum as i8);
                }
                for (codes, bytes) in codes.chunks_exact_mut(2 * BLOCK).zip(bytes[16..144].chunks_exact(BLOCK)) {
                    split(codes, bytes);
                }
            }
            BlockFormat::Q6K => {
                span.scale = half(208);
                for (factor, byte) in span.factors.iter_mut().zip(&bytes[192..208]) {
                    *factor = *byte as i8;
                }
                for part in 0..2 {
                    let (low, high) = (&bytes[64 * part..], &bytes[128 + 32 * part..]);
                    let codes = &mut codes[128 * part..128 * (part + 1)];
                    split(&mut codes[..], &low[..64]);
                    for (column, code) in codes.iter_mut().enumerate() {
                        *code |= (high[column % 32] >> (2 * (column / 32)) & 3) << 4;
                    }
                }
            }
        }
        span
    }
}

/// Unpacks 4-bit codes: the first half from the low halves of the bytes, the second from the high ones.
fn split(codes: &mut [u8], bytes: &[u8]) {
    let (low, high) = codes.split_at_mut(bytes.len());
    for ((low, high), byte) in low.iter_mut().zip(high).zip(bytes) {
        (*low, *high) = (byte & 15, byte >> 4);
    }
}

/// Factors of the scale and the minimum of a q4_k block: 16 6-bit numbers in 12 bytes. Those of the last four blocks have their
/// low bits in the last bytes, and their high bits above those of the first blocks.
fn six_bits(bytes: &[u8], block: usize) -> (u8, u8) {
    match block.checked_sub(4) {
        None => (bytes[block] & 63, bytes[block + 4] & 63),
        Some(before) => {
            let low = bytes[block + 4];
            ((low & 15) | (bytes[before] >> 6) << 4, (low >> 4) | (bytes[block] >> 6) << 4)
        }
    }
}

#[cfg(test)]
mod tests {
    use candle_core::quantized::{GgmlDType, QTensor};
    use candle_core::{Device, Tensor};

    use super::*;
    use crate::quantised::QuantisedMatrix;

    /// Every format, written and read by candle.
    #[test]
    fn stored_weights_are_those_that_candle_reads() {
        let values: Vec<f32> = (0..3 * 512).map(|i| ((i * 7919 % 1009) as f32 / 1009.0 - 0.4) * 0.3).collect();
        let weights = Tensor::from_slice(&values, (3, 512), &Device::Cpu).unwrap();
        for (format, dtype) in [
            (BlockFormat::Q8_0, GgmlDType::Q8_0),
            (BlockFormat::Q4_0, GgmlDType::Q4_0),
            (BlockFormat::Q4_1, GgmlDType::Q4_1),
            (BlockFormat::Q5_0, GgmlDType::Q5_0),
            (BlockFormat::Q4K, GgmlDType::Q4K),
            (BlockFormat::Q6K, GgmlDType::Q6K),
        ] {
            let stored = QTensor::quantize(&weights, dtype).unwrap();
            let wanted = stored.dequantize(&Device::Cpu).unwrap().to_vec2::<f32>().unwrap();
            let matrix = QuantisedMatrix::stored(format, (3, 512), &stored.data().unwrap()).unwrap();
            let mut row = vec![0f32; 512];
            for (index, wanted) in wanted.iter().enumerate() {
                matrix.unpack_row(index, &mut row);
                for (column, (found, wanted)) in row.iter().zip(wanted).enumerate() {
                    assert!(
                        (found - wanted).abs() <= 1e-7,
                        "{format}: row {index}, column {column}: {found}, {wanted}"
                    );
                }
            }
        }
    }
}
