//! Quantises weights like ggml's reference implementation.

use half::f16;

use super::format::BlockFormat;
use super::search::{four_bits, six_bits};
use super::span::Span;

/// Quantises the [`BlockFormat::span`] weights of a row that share scales. Weights that are not finite or too large give a
/// non-finite span.
pub(super) fn quantise(format: BlockFormat, weights: &[f32]) -> Span {
    if weights.iter().any(|weight| !weight.is_finite()) {
        return Span { scale: f16::NAN, ..Span::ZERO };
    }
    match format {
        BlockFormat::Q8_0 => {
            let largest = weights.iter().fold(0f32, |largest, weight| largest.max(weight.abs()));
            // Rounds half away from zero.
            of_steps(weights, largest / 127.0, |steps| steps.round().clamp(-127.0, 127.0) as i32 + 128)
        }
        BlockFormat::Q4_0 => of_steps(weights, farthest(weights) / -8.0, |steps| ((steps + 8.5) as i32).min(15)),
        BlockFormat::Q5_0 => of_steps(weights, farthest(weights) / -16.0, |steps| ((steps + 16.5) as i32).min(31)),
        BlockFormat::Q4_1 => {
            let (minimum, maximum) = range(weights);
            let shifted: Vec<f32> = weights.iter().map(|weight| weight - minimum).collect();
            let span = of_steps(&shifted, (maximum - minimum) / 15.0, |steps| ((steps + 0.5) as i32).min(15));
            Span { minimum: f16::from_f32(minimum), ..span }
        }
        BlockFormat::Q4K => four_bits(weights),
        BlockFormat::Q6K => six_bits(weights),
    }
}

/// The weight with the largest magnitude; the first one on ties.
pub(super) fn farthest(weights: &[f32]) -> f32 {
    weights.iter().fold(0f32, |farthest, weight| if weight.abs() > farthest.abs() { *weight } else { farthest })
}

pub(super) fn range(weights: &[f32]) -> (f32, f32) {
    weights.iter().fold((f32::INFINITY, f32::NEG_INFINITY), |(low, high), weight| (low.min(*weight), high.max(*weight)))
}

/// The inverse of a scale; 0 for 0.
pub(super) fn inverse(scale: f32) -> f32 {
    if scale == 0.0 { 0.0 } else { 1.0 / scale }
}

/// A block of weights in steps of `scale`. A scale so small that its inverse overflows is zero in f16, so the codes have no
/// effect.
fn of_steps(weights: &[f32], scale: f32, code: impl Fn(f32) -> i32) -> Span {
    let inverse = inverse(scale);
    let mut span = Span { scale: f16::from_f32(scale), ..Span::ZERO };
    for (to, weight) in span.codes.iter_mut().zip(weights) {
        *to = code(weight * inverse) as u8;
    }
    span
}

#[cfg(test)]
mod tests {
    use super::super::format::BLOCK;
    use super::*;

    fn block(start: &[f32]) -> [f32; BLOCK] {
        std::array::from_fn(|i| start.get(i).copied().unwrap_or(0.0))
    }

    #[test]
    fn blocks_of_q8_0_are_those_of_the_formula() {
        // d = 2, so that halves are exact: 3 / 2 = 1.5 → 2, -3 / 2 → -2, 5 / 2 → 3, 1 / 2 → 1.
        let weights = block(&[254.0, -254.0, 3.0, -3.0, 5.0, 1.0, 0.9, 100.0]);
        let Span { scale, codes, .. } = quantise(BlockFormat::Q8_0, &weights);
        assert_eq!(scale.to_f32(), 2.0);
        assert_eq!(
            codes[..9].iter().map(|c| i32::from(*c) - 128).collect::<Vec<_>>(),
            [127, -127, 2, -2, 3, 1, 0, 50, 0]
        );
        // d = 1 / 127 = 0.0078740157, 0x2008 in f16.
        let Span { scale, codes, .. } = quantise(BlockFormat::Q8_0, &block(&[0.5, -1.0, 0.25]));
        assert_eq!((scale.to_bits(), &codes[..4]), (0x2008, &[192, 1, 160, 128][..]));
        let zero = quantise(BlockFormat::Q8_0, &block(&[]));
        assert_eq!((zero.scale, &zero.codes[..BLOCK]), (f16::ZERO, &[128; BLOCK][..]));
    }

    #[test]
    fn blocks_of_fewer_bits_are_those_of_the_formula() {
        // The first weight of the largest magnitude is -8: d = 1, code = trunc(w + 8.5), at most 15.
        let weights = block(&[-8.0, 8.0, 7.0, -0.5, 0.5, -0.6, 3.4, 3.5]);
        let Span { scale, codes, .. } = quantise(BlockFormat::Q4_0, &weights);
        assert_eq!((scale.to_f32(), &codes[..9]), (1.0, &[0, 15, 15, 8, 9, 7, 11, 12, 8][..]));
        // It is positive: d = 4 / -8 = -0.5, codes of w / -0.5 + 8.5.
        let Span { scale, codes, .. } = quantise(BlockFormat::Q4_0, &block(&[1.0, 4.0, -4.0, -3.5, 0.3]));
        assert_eq!((scale.to_f32(), &codes[..6]), (-0.5, &[6, 0, 15, 15, 7, 8][..]));
        // d = 16 / -16 = -1.
        let Span { scale, codes, .. } = quantise(BlockFormat::Q5_0, &block(&[16.0, -16.0, 1.0, -0.4, 2.6]));
        assert_eq!((scale.to_f32(), &codes[..6]), (-1.0, &[0, 31, 15, 16, 13, 16][..]));
        // From -1 to 14: d = 1, m = -1.
        let Span { scale, minimum, codes, .. } = quantise(BlockFormat::Q4_1, &block(&[-1.0, 14.0, 3.4, 3.6]));
        assert_eq!((scale.to_f32(), minimum.to_f32(), &codes[..5]), (1.0, -1.0, &[0, 15, 4, 5, 1][..]));
    }

    /// The dequantised weights of a span.
    fn dequantised(format: BlockFormat, span: &Span) -> Vec<f32> {
        let (scale, minimum) = (span.scale.to_f32(), span.minimum.to_f32());
        let value = |(at, code): (usize, &u8)| {
            let code = f32::from(*code);
            match format {
                BlockFormat::Q8_0 => scale * (code - 128.0),
                BlockFormat::Q4_0 => scale * (code - 8.0),
                BlockFormat::Q5_0 => scale * (code - 16.0),
                BlockFormat::Q4_1 => scale * code + minimum,
                BlockFormat::Q4K => {
                    scale * f32::from(span.factors[at / 32]) * code + minimum * f32::from(span.minimum_factors[at / 32])
                }
                BlockFormat::Q6K => scale * f32::from(span.factors[at / 16]) * (code - 32.0),
            }
        };
        span.codes[..format.span()].iter().enumerate().map(value).collect()
    }

    /// The maximum error, relative to a span's largest magnitude.
    #[test]
    fn errors_are_bounded() {
        for (format, bound) in [
            (BlockFormat::Q8_0, 0.5 / 127.0 + 1.0 / 2048.0),
            (BlockFormat::Q4_0, 1.0 / 8.0 + 1.0 / 1024.0),
            (BlockFormat::Q5_0, 1.0 / 16.0 + 1.0 / 1024.0),
            (BlockFormat::Q4_1, 1.0 / 15.0 + 1.0 / 512.0),
            (BlockFormat::Q4K, 0.14),
            (BlockFormat::Q6K, 1.0 / 32.0 + 1.0 / 256.0),
        ] {
            let mut squares = [0f64; 2];
            for seed in 0..200usize {
                let value = |i: usize| ((i * 2654435761 + seed * 40503) % 10007) as f32 / 10007.0 - 0.5;
                let weights: Vec<f32> = (0..format.span()).map(|i| value(i + seed) * (seed as f32 + 0.1)).collect();
                let largest = farthest(&weights).abs();
                for (found, wanted) in dequantised(format, &quantise(format, &weights)).iter().zip(&weights) {
                    assert!((found - wanted).abs() <= largest * bound, "{format}: {found}, not {wanted} of {largest}");
                    squares[0] += f64::from(found - wanted).powi(2);
                    squares[1] += f64::from(*wanted).powi(2);
                }
            }
            eprintln!("{format}: {:.5} of the weights' root mean square", (squares[0] / squares[1]).sqrt());
        }
    }

    #[test]
    fn values_at_the_ends_of_f32_do_not_panic() {
        for format in BlockFormat::ALL {
            for value in [f32::MIN_POSITIVE, 1e-45, f32::MAX, f32::INFINITY, f32::NAN, -f32::MAX] {
                let weights: Vec<f32> = (0..format.span()).map(|i| [value, -value, 1e-45, 0.0][i.min(3)]).collect();
                let span = quantise(format, &weights);
                assert_eq!(span.is_finite(), value.abs() <= 1.0, "{format}: {value}");
            }
            let span = quantise(format, &vec![0.0; format.span()]);
            assert!(dequantised(format, &span).iter().all(|weight| *weight == 0.0), "{format}");
            let span = quantise(format, &vec![-0.25; format.span()]);
            assert!(dequantised(format, &span).iter().all(|weight| (weight + 0.25).abs() < 0.005), "{format}");
        }
    }
}
