//! Blocks of 32 numbers with one scale. Bits of a number are those of ggml; sums and products have its order.

use super::block::f16_at;

/// Numbers of 4 bits from 16 bytes, and a fifth bit of each from `fifth`. The first half are the low bits of the bytes.
fn fill(bytes: &[u8], fifth: u32, out: &mut [f32; 32], value: impl Fn(f32) -> f32) {
    let (low, high) = out.split_at_mut(16);
    for (i, ((low, high), byte)) in low.iter_mut().zip(high).zip(bytes).enumerate() {
        let fifth = |i: usize| ((fifth >> i) as u8 & 1) << 4;
        *low = value((byte & 15 | fifth(i)).into());
        *high = value((byte >> 4 | fifth(i + 16)).into());
    }
}

/// A scale; numbers around 8.
pub(super) fn q4_0(block: &[u8; 18], out: &mut [f32; 32]) {
    let scale = f16_at(block, 0);
    fill(&block[2..], 0, out, |number| (number - 8.0) * scale);
}

/// A scale and a minimum; numbers.
pub(super) fn q4_1(block: &[u8; 20], out: &mut [f32; 32]) {
    let (scale, minimum) = (f16_at(block, 0), f16_at(block, 2));
    fill(&block[4..], 0, out, |number| number * scale + minimum);
}

/// A scale; the fifth bits; numbers around 16.
pub(super) fn q5_0(block: &[u8; 22], out: &mut [f32; 32]) {
    let scale = f16_at(block, 0);
    let fifth = u32::from_le_bytes([block[2], block[3], block[4], block[5]]);
    fill(&block[6..], fifth, out, |number| (number - 16.0) * scale);
}

/// A scale and a minimum; the fifth bits; numbers.
pub(super) fn q5_1(block: &[u8; 24], out: &mut [f32; 32]) {
    let (scale, minimum) = (f16_at(block, 0), f16_at(block, 2));
    let fifth = u32::from_le_bytes([block[4], block[5], block[6], block[7]]);
    fill(&block[8..], fifth, out, |number| number * scale + minimum);
}

/// A scale; bytes with a sign.
pub(super) fn q8_0(block: &[u8; 34], out: &mut [f32; 32]) {
    signed(f16_at(block, 0), &block[2..], out);
}

/// A scale; the sum of the numbers, which is not needed; bytes with a sign.
pub(super) fn q8_1(block: &[u8; 36], out: &mut [f32; 32]) {
    signed(f16_at(block, 0), &block[4..], out);
}

/// Bytes with a sign, and their scale.
pub(super) fn signed(scale: f32, bytes: &[u8], out: &mut [f32]) {
    for (out, byte) in out.iter_mut().zip(bytes) {
        *out = f32::from(byte.cast_signed()) * scale;
    }
}
