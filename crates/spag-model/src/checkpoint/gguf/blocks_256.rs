//! Blocks of 256 numbers, in groups with a scale of their own: the K-quants. Bits of a number are those of ggml; sums and
//! products have its order.

use super::block::f16_at;
use super::blocks_32::signed;

/// Numbers of 2 bits, in groups of 16 with scales and minima of 4 bits.
pub(super) fn q2_k(block: &[u8; 84], out: &mut [f32; 256]) {
    let (scales, bits) = (&block[..16], &block[16..80]);
    let (scale, minimum) = (f16_at(block, 80), f16_at(block, 82));
    for (group, out) in out.chunks_exact_mut(16).enumerate() {
        let of_group = scales[group];
        let (scale, minimum) = (scale * f32::from(of_group & 15), minimum * f32::from(of_group >> 4));
        let (first, shift) = two_bits(group);
        for (out, byte) in out.iter_mut().zip(&bits[first..]) {
            *out = scale * f32::from(byte >> shift & 3) - minimum;
        }
    }
}

/// Numbers of 3 bits around 4, in groups of 16 with scales of 6 bits around 32.
pub(super) fn q3_k(block: &[u8; 110], out: &mut [f32; 256]) {
    let (third, bits, scales) = (&block[..32], &block[32..96], &block[96..108]);
    let scale = f16_at(block, 108);
    for (group, out) in out.chunks_exact_mut(16).enumerate() {
        let low = if group < 8 { scales[group] & 15 } else { scales[group - 8] >> 4 };
        let high = scales[8 + group % 4] >> (2 * (group / 4)) & 3;
        let scale = scale * (f32::from(low | high << 4) - 32.0);
        let (first, shift) = two_bits(group);
        // One bit of each of 32 bytes for 32 numbers in a row.
        let (mask, first_third) = (1 << (group / 2), 16 * (group % 2));
        for ((out, byte), third) in out.iter_mut().zip(&bits[first..]).zip(&third[first_third..]) {
            let below = if third & mask == 0 { 4.0 } else { 0.0 };
            *out = scale * (f32::from(byte >> shift & 3) - below);
        }
    }
}

/// The first byte and the shift of the 16 numbers of a group. Each byte of 32 has a number of four groups.
fn two_bits(group: usize) -> (usize, usize) {
    (32 * (group / 8) + 16 * (group % 2), 2 * (group / 2 % 4))
}

/// Scale and minimum, of 6 bits each, of group `i` of 8.
fn scale_and_minimum(scales: &[u8], i: usize) -> (f32, f32) {
    let (scale, minimum) = if i < 4 {
        (scales[i] & 63, scales[i + 4] & 63)
    } else {
        let (low, high) = (scales[i + 4], (scales[i - 4] >> 6, scales[i] >> 6));
        (low & 15 | high.0 << 4, low >> 4 | high.1 << 4)
    };
    (f32::from(scale), f32::from(minimum))
}

/// Numbers of 4 bits, in groups of 32 with scales and minima of 6 bits.
pub(super) fn q4_k(block: &[u8; 144], out: &mut [f32; 256]) {
    let (scale, minimum) = (f16_at(block, 0), f16_at(block, 2));
    for (group, out) in out.chunks_exact_mut(32).enumerate() {
        let of_group = scale_and_minimum(&block[4..16], group);
        let (scale, minimum) = (scale * of_group.0, minimum * of_group.1);
        let shift = 4 * (group % 2);
        for (out, byte) in out.iter_mut().zip(&block[16 + 32 * (group / 2)..]) {
            *out = scale * f32::from(byte >> shift & 15) - minimum;
        }
    }
}

/// Numbers of 5 bits, in groups of 32 with scales and minima of 6 bits.
pub(super) fn q5_k(block: &[u8; 176], out: &mut [f32; 256]) {
    let (scale, minimum) = (f16_at(block, 0), f16_at(block, 2));
    for (group, out) in out.chunks_exact_mut(32).enumerate() {
        let of_group = scale_and_minimum(&block[4..16], group);
        let (scale, minimum) = (scale * of_group.0, minimum * of_group.1);
        let shift = 4 * (group % 2);
        for ((out, byte), fifth) in out.iter_mut().zip(&block[48 + 32 * (group / 2)..]).zip(&block[16..48]) {
            *out = scale * f32::from(byte >> shift & 15 | (fifth >> group & 1) << 4) - minimum;
        }
    }
}

/// Numbers of 6 bits around 32, in groups of 16 with scales of 8 bits.
pub(super) fn q6_k(block: &[u8; 210], out: &mut [f32; 256]) {
    let scale = f16_at(block, 208);
    for (group, out) in out.chunks_exact_mut(16).enumerate() {
        let scale = scale * f32::from(block[192 + group].cast_signed());
        let (part, within) = (group / 8, group % 8);
        // Of 64 bytes with the low bits, two groups of 32 numbers have each byte; of 32 bytes with the high bits, four.
        let low = &block[64 * part + 16 * (within % 4)..];
        let high = &block[128 + 32 * part + 16 * (within % 2)..];
        let (low_shift, high_shift) = (4 * (within / 4), 2 * (within / 2));
        for ((out, low), high) in out.iter_mut().zip(low).zip(high) {
            *out = scale * (f32::from(low >> low_shift & 15 | (high >> high_shift & 3) << 4) - 32.0);
        }
    }
}

/// A scale of 32 bits; bytes with a sign; sums of them, which are not needed.
pub(super) fn q8_k(block: &[u8; 292], out: &mut [f32; 256]) {
    let scale = f32::from_le_bytes([block[0], block[1], block[2], block[3]]);
    signed(scale, &block[4..260], out);
}
