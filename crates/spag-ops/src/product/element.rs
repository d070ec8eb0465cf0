//! Elements of a right operand: f32, or bf16 that is converted to f32 on load.
//!
//! The conversion is exact, so a product with bf16 weights is bit-identical to one with the same weights in f32, with
//! half the memory traffic.

#[cfg(target_arch = "aarch64")]
use std::arch::aarch64::*;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

use half::bf16;

use crate::cpu::Stored;

/// A number format of weights, keys and values.
pub(crate) trait Element: Stored + Default {
    /// Elements per cache line.
    const PER_LINE: usize = 64 / size_of::<Self>();
    /// Whether the elements are f32.
    const IS_F32: bool;

    /// The value as f32.
    fn widen(self) -> f32;

    /// The nearest value, ties to even.
    fn nearest(value: f32) -> Self;

    /// The nearest bf16, ties to even.
    #[inline(always)]
    fn narrow(self) -> bf16 {
        bf16::nearest(self.widen())
    }

    /// Loads 4 elements, widened.
    ///
    /// # Safety
    /// The processor must have NEON, and the elements must be readable.
    #[cfg(target_arch = "aarch64")]
    unsafe fn load4(at: *const Self) -> float32x4_t;

    /// Loads 8 elements, widened.
    ///
    /// # Safety
    /// The processor must have AVX2, and the elements must be readable.
    #[cfg(target_arch = "x86_64")]
    unsafe fn load8(at: *const Self) -> __m256;

    /// Loads 16 elements, widened; those outside the mask are zero.
    ///
    /// # Safety
    /// The processor must have AVX-512 with BW and VL, and the elements of the mask must be readable.
    #[cfg(target_arch = "x86_64")]
    unsafe fn load(mask: __mmask16, at: *const Self) -> __m512;
}

impl Element for f32 {
    const IS_F32: bool = true;

    #[inline(always)]
    fn widen(self) -> f32 {
        self
    }

    #[inline(always)]
    fn nearest(value: f32) -> Self {
        value
    }

    #[cfg(target_arch = "aarch64")]
    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn load4(at: *const Self) -> float32x4_t {
        // SAFETY: guaranteed by the caller.
        unsafe { vld1q_f32(at) }
    }

    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn load8(at: *const Self) -> __m256 {
        // SAFETY: guaranteed by the caller.
        unsafe { _mm256_loadu_ps(at) }
    }

    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn load(mask: __mmask16, at: *const Self) -> __m512 {
        // SAFETY: guaranteed by the caller.
        unsafe { if mask == u16::MAX { _mm512_loadu_ps(at) } else { _mm512_maskz_loadu_ps(mask, at) } }
    }
}

impl Element for bf16 {
    const IS_F32: bool = false;

    #[inline(always)]
    fn widen(self) -> f32 {
        f32::from_bits(u32::from(self.to_bits()) << 16)
    }

    #[inline(always)]
    fn nearest(value: f32) -> Self {
        Self::from_bits(nearest(value))
    }

    #[inline(always)]
    fn narrow(self) -> bf16 {
        self
    }

    #[cfg(target_arch = "aarch64")]
    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn load4(at: *const Self) -> float32x4_t {
        // SAFETY: guaranteed by the caller.
        let bits = unsafe { vld1_u16(at.cast()) };
        vreinterpretq_f32_u32(vshll_n_u16::<16>(bits))
    }

    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn load8(at: *const Self) -> __m256 {
        // SAFETY: guaranteed by the caller.
        let bits = unsafe { _mm_loadu_si128(at.cast()) };
        _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(bits)))
    }

    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn load(mask: __mmask16, at: *const Self) -> __m512 {
        // SAFETY: guaranteed by the caller.
        let bits = unsafe {
            if mask == u16::MAX { _mm256_loadu_si256(at.cast()) } else { _mm256_maskz_loadu_epi16(mask, at.cast()) }
        };
        _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(bits)))
    }
}

/// The bits of the bf16 nearest to `x`, ties to even. NaN stays NaN, and numbers beyond the largest become infinite.
#[inline(always)]
fn nearest(x: f32) -> u16 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1));
    (if x.is_nan() { bits | 0x0040_0000 } else { rounded } >> 16) as u16
}
