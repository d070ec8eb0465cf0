//! Element-wise sums of buffers, given as bytes.

use candle_core::DType;

/// Adds the elements of the second slice to the first, each sum rounded to the format. Both hold whole elements.
pub(crate) type Add = fn(&mut [u8], &[u8]);

/// The addition for a number format; `None` if unsupported.
pub(crate) fn adder(format: DType) -> Option<Add> {
    match format {
        DType::F32 => Some(|sums, terms| each(sums, terms, |a: f32, b| a + b)),
        DType::F64 => Some(|sums, terms| each(sums, terms, |a: f64, b| a + b)),
        DType::BF16 => Some(|sums, terms| each(sums, terms, |a, b| rounded(widened(a) + widened(b)))),
        _ => None,
    }
}

fn each<T: bytemuck::Pod>(sums: &mut [u8], terms: &[u8], add: impl Fn(T, T) -> T) {
    // Tensors and scratch memory are aligned; the second branch is for other callers.
    match (bytemuck::try_cast_slice_mut::<u8, T>(sums), bytemuck::try_cast_slice::<u8, T>(terms)) {
        (Ok(sums), Ok(terms)) => sums.iter_mut().zip(terms).for_each(|(sum, term)| *sum = add(*sum, *term)),
        _ => {
            let width = size_of::<T>();
            for (sum, term) in sums.chunks_exact_mut(width).zip(terms.chunks_exact(width)) {
                let value = add(bytemuck::pod_read_unaligned(sum), bytemuck::pod_read_unaligned(term));
                sum.copy_from_slice(bytemuck::bytes_of(&value));
            }
        }
    }
}

/// bf16 bits to f32, as in `half`, but without branches, so that it vectorises.
fn widened(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// The bits of the nearest bf16, ties to even; NaNs become quiet.
fn rounded(value: f32) -> u16 {
    let bits = value.to_bits();
    let nearest = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
    let quiet = (bits >> 16) | 0x40;
    (if value.is_nan() { quiet } else { nearest }) as u16
}

#[cfg(test)]
mod tests {
    use half::bf16;

    use super::*;

    #[test]
    fn bf16_sums_equal_those_of_half() {
        // Every number with a few others, among them zeros, subnormals, infinities and NaNs.
        let others = [0u16, 0x8000, 1, 0x3f80, 0xbf81, 0x7f7f, 0xff80, 0x7f80, 0x7fc1, 0x4049, 0x0080, 0x3b01];
        for other in others {
            let mut sums: Vec<u16> = (0..=u16::MAX).collect();
            let expected: Vec<u16> =
                sums.iter().map(|bits| (bf16::from_bits(*bits) + bf16::from_bits(other)).to_bits()).collect();
            let terms = vec![other; sums.len()];
            adder(DType::BF16).unwrap()(bytemuck::cast_slice_mut(&mut sums), bytemuck::cast_slice(&terms));
            // The payload of a sum of two NaNs depends on the processor.
            let is_nan = |bits: u16| bf16::from_bits(bits).is_nan();
            let agree = |(a, b): (&u16, &u16)| a == b || (is_nan(*a) && is_nan(*b));
            assert!(sums.iter().zip(&expected).all(agree), "{other:x}");
        }
    }

    #[test]
    fn unaligned_memory_is_added_too() {
        let mut memory = [0u64; 3];
        let bytes = &mut bytemuck::cast_slice_mut::<u64, u8>(&mut memory)[..17];
        bytes[1..].copy_from_slice(bytemuck::cast_slice(&[1.5f64, -2.0]));
        adder(DType::F64).unwrap()(&mut bytes[1..], bytemuck::cast_slice(&[0.25f64, 1.0]));
        assert_eq!(bytemuck::pod_read_unaligned::<[f64; 2]>(&bytes[1..]), [1.75, -1.0]);
    }

    #[test]
    fn other_formats_have_no_adder() {
        assert!(adder(DType::U8).is_none() && adder(DType::I64).is_none() && adder(DType::F16).is_none());
    }
}
