//! The K formats: superblocks with a search for better scales than those of the largest weights.

use half::f16;

use super::format::{BLOCK, SUPERBLOCK};
use super::quantise::{farthest, inverse, range};
use super::span::Span;

/// Largest factor of q4_k.
const SIX_BITS: f32 = 63.0;

/// A superblock of q4_k.
pub(super) fn four_bits(weights: &[f32]) -> Span {
    let blocks = weights.as_chunks::<BLOCK>().0;
    let fits: Vec<Fit> = blocks.iter().map(Fit::of).collect();
    let most = |of: fn(&Fit) -> f32| fits.iter().map(of).fold(0f32, f32::max);
    let (scale, minimum) =
        (f16::from_f32(most(|fit| fit.scale) / SIX_BITS), f16::from_f32(most(|fit| fit.below) / SIX_BITS));
    let mut span = Span { scale, minimum: -minimum, ..Span::ZERO };
    let (scale, minimum) = (scale.to_f32(), minimum.to_f32());
    for (index, (fit, weights)) in fits.iter().zip(blocks).enumerate() {
        let factor = |number: f32, unit: f32| (number * inverse(unit)).round().clamp(0.0, SIX_BITS);
        let (factor, below) = (factor(fit.scale, scale), factor(fit.below, minimum));
        (span.factors[index], span.minimum_factors[index]) = (factor as i8, below as i8);
        // Recomputes the codes for the stored scale and minimum.
        let (inverse, below) = (inverse(scale * factor), minimum * below);
        for (code, weight) in span.codes[index * BLOCK..].iter_mut().zip(weights) {
            *code = ((weight + below) * inverse).round_ties_even().clamp(0.0, 15.0) as u8;
        }
    }
    span
}

/// Scale and minimum of a 4-bit block: w ≈ scale·q - below, with a small sum of squared errors, weighted by magnitudes.
struct Fit {
    scale: f32,
    below: f32,
}

impl Fit {
    /// Tries scales around that of the range, each with a least-squares fit of scale and minimum to its codes.
    fn of(weights: &[f32; BLOCK]) -> Self {
        let (minimum, maximum) = range(weights);
        let minimum = minimum.min(0.0);
        if maximum <= minimum {
            return Self { scale: 0.0, below: -minimum };
        }
        let mean_square = weights.iter().map(|w| w * w).sum::<f32>() / BLOCK as f32;
        let importance = weights.map(|weight| mean_square.sqrt() + weight.abs());
        let mut best = Self { scale: (maximum - minimum) / 15.0, below: -minimum };
        let mut least = best.error(weights, &importance);
        let sum = importance.iter().sum::<f32>();
        let sum_w = importance.iter().zip(weights).map(|(i, w)| i * w).sum::<f32>();
        for step in 0..21 {
            let inverse = (14.0 + 0.1 * step as f32) / (maximum - minimum);
            let codes = weights.map(|weight| ((weight - minimum) * inverse).round_ties_even().clamp(0.0, 15.0));
            let sum_q = dot(&importance, &codes);
            let (mut sum_qq, mut sum_qw) = (0.0, 0.0);
            for ((q, w), i) in codes.iter().zip(weights).zip(&importance) {
                sum_qq += i * q * q;
                sum_qw += i * q * w;
            }
            let determinant = sum * sum_qq - sum_q * sum_q;
            if determinant <= 0.0 {
                continue;
            }
            let mut fit = Self {
                scale: (sum * sum_qw - sum_w * sum_q) / determinant,
                below: (sum_q * sum_qw - sum_qq * sum_w) / determinant,
            };
            // Minimums must not be positive.
            if fit.below < 0.0 {
                fit = Self { scale: sum_qw / sum_qq, below: 0.0 };
            }
            let error = fit.error_of(weights, &importance, &codes);
            if error < least && fit.scale > 0.0 {
                (best, least) = (fit, error);
            }
        }
        best
    }

    /// The error with the nearest codes.
    fn error(&self, weights: &[f32; BLOCK], importance: &[f32; BLOCK]) -> f32 {
        let codes = weights.map(|weight| ((weight + self.below) / self.scale).round_ties_even().clamp(0.0, 15.0));
        self.error_of(weights, importance, &codes)
    }

    fn error_of(&self, weights: &[f32; BLOCK], importance: &[f32; BLOCK], codes: &[f32; BLOCK]) -> f32 {
        let mut squares = [0f32; BLOCK];
        for (square, ((q, w), i)) in squares.iter_mut().zip(codes.iter().zip(weights).zip(importance)) {
            let difference = self.scale * q - self.below - w;
            *square = i * difference * difference;
        }
        squares.iter().sum()
    }
}

fn dot(a: &[f32; BLOCK], b: &[f32; BLOCK]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Weights of a part of q6_k.
const PART: usize = SUPERBLOCK / 16;

/// A superblock of q6_k.
pub(super) fn six_bits(weights: &[f32]) -> Span {
    let parts = weights.as_chunks::<PART>().0;
    let scales: Vec<f32> = parts.iter().map(six_bit_scale).collect();
    // The factor of the largest scale is -128, so that its sign is that of the unit.
    let scale = f16::from_f32(farthest(&scales) / -128.0);
    let mut span = Span { scale, ..Span::ZERO };
    let unit = scale.to_f32();
    for (index, (own, weights)) in scales.iter().zip(parts).enumerate() {
        let factor = (own * inverse(unit)).round().clamp(-128.0, 127.0);
        span.factors[index] = factor as i8;
        let inverse = inverse(unit * factor);
        for (code, weight) in span.codes[index * PART..].iter_mut().zip(weights) {
            *code = ((weight * inverse).round_ties_even().clamp(-32.0, 31.0) as i32 + 32) as u8;
        }
    }
    span
}

/// The scale of a 6-bit part with a small sum of squared errors, weighted by squares: tries scales around that of the largest
/// weight, each refitted to its codes.
fn six_bit_scale(weights: &[f32; PART]) -> f32 {
    let largest = farthest(weights);
    if largest == 0.0 {
        return 0.0;
    }
    let (mut best, mut most) = (0.0, f32::NEG_INFINITY);
    // Relative to the largest, so that squares do not overflow.
    let relative = weights.map(|weight| weight / largest);
    for step in -9..=9 {
        let inverse = -(32.0 + 0.1 * step as f32);
        let (mut sum_qw, mut sum_qq) = (0f32, 0f32);
        for weight in relative {
            let code = (weight * inverse).round_ties_even().clamp(-32.0, 31.0);
            let importance = weight * weight;
            sum_qw += importance * code * weight;
            sum_qq += importance * code * code;
        }
        // The squared error of the best scale is a constant minus this.
        let gain = sum_qw * sum_qw / sum_qq;
        if gain > most {
            (best, most) = (largest * (sum_qw / sum_qq), gain);
        }
    }
    best
}
