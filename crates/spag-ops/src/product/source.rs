//! Operands of a large product as they are packed: f32 or bf16 unchanged, or f32 rounded to bf16.

#[cfg(target_arch = "aarch64")]
use std::arch::aarch64::*;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;
use std::marker::PhantomData;

use half::bf16;

use super::Element;

/// A stored number format, and its conversion during packing. Panels and strips are f32.
pub(crate) trait Source {
    /// The stored format.
    type Stored: Element;
    /// Whether a tile can read the stored numbers in place.
    const IN_PLACE: bool;

    /// The packed number.
    fn value(stored: Self::Stored) -> f32;

    /// Packs 4 numbers.
    ///
    /// # Safety
    /// As [`Element::load4`].
    #[cfg(target_arch = "aarch64")]
    unsafe fn load4(at: *const Self::Stored) -> float32x4_t;

    /// Packs 8 numbers.
    ///
    /// # Safety
    /// The processor must have AVX2, and the numbers must be readable.
    #[cfg(target_arch = "x86_64")]
    unsafe fn load8(at: *const Self::Stored) -> __m256;

    /// Packs 16 numbers; those outside the mask are zero.
    ///
    /// # Safety
    /// As [`Element::load`].
    #[cfg(target_arch = "x86_64")]
    unsafe fn load16(mask: __mmask16, at: *const Self::Stored) -> __m512;
}

/// Unchanged numbers.
pub(crate) struct Exact<T>(PhantomData<T>);

/// f32 numbers, rounded to bf16.
pub(crate) struct ToBf16;

impl<T: Element> Source for Exact<T> {
    type Stored = T;
    const IN_PLACE: bool = T::IS_F32;

    #[inline(always)]
    fn value(stored: T) -> f32 {
        stored.widen()
    }

    #[cfg(target_arch = "aarch64")]
    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn load4(at: *const T) -> float32x4_t {
        // SAFETY: guaranteed by the caller.
        unsafe { T::load4(at) }
    }

    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn load8(at: *const T) -> __m256 {
        // SAFETY: guaranteed by the caller.
        unsafe { T::load8(at) }
    }

    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn load16(mask: __mmask16, at: *const T) -> __m512 {
        // SAFETY: guaranteed by the caller.
        unsafe { T::load(mask, at) }
    }
}

impl Source for ToBf16 {
    type Stored = f32;
    const IN_PLACE: bool = false;

    #[inline(always)]
    fn value(stored: f32) -> f32 {
        bf16::nearest(stored).widen()
    }

    /// [`bf16::nearest`], four at a time.
    #[cfg(target_arch = "aarch64")]
    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn load4(at: *const f32) -> float32x4_t {
        // SAFETY: guaranteed by the caller.
        let x = unsafe { vld1q_f32(at) };
        let bits = vreinterpretq_u32_f32(x);
        let odd = vandq_u32(vshrq_n_u32::<16>(bits), vdupq_n_u32(1));
        let rounded = vaddq_u32(bits, vaddq_u32(odd, vdupq_n_u32(0x7fff)));
        let quiet = vorrq_u32(bits, vdupq_n_u32(0x0040_0000));
        // Only NaN differs from itself.
        let bits = vbslq_u32(vceqq_f32(x, x), rounded, quiet);
        vreinterpretq_f32_u32(vandq_u32(bits, vdupq_n_u32(0xffff_0000)))
    }

    /// [`bf16::nearest`], eight at a time.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn load8(at: *const f32) -> __m256 {
        // SAFETY: guaranteed by the caller.
        let x = unsafe { _mm256_loadu_ps(at) };
        let bits = _mm256_castps_si256(x);
        let odd = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
        let rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
        let quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x0040_0000));
        let nan = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_UNORD_Q>(x, x));
        let bits = _mm256_blendv_epi8(rounded, quiet, nan);
        _mm256_castsi256_ps(_mm256_and_si256(bits, _mm256_set1_epi32(-0x1_0000)))
    }

    /// [`bf16::nearest`], sixteen at a time.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn load16(mask: __mmask16, at: *const f32) -> __m512 {
        // SAFETY: guaranteed by the caller.
        let x = unsafe { f32::load(mask, at) };
        let bits = _mm512_castps_si512(x);
        let odd = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
        let rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
        let quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x0040_0000));
        let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(x, x);
        let bits = _mm512_mask_mov_epi32(rounded, nan, quiet);
        _mm512_castsi512_ps(_mm512_and_si512(bits, _mm512_set1_epi32(-0x1_0000)))
    }
}
