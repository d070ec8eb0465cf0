//! What bounds an op on the path of this process: multiply-adds and reads of memory, with all threads.

use std::time::Instant;

use rayon::prelude::*;
use spag_ops::CpuPath;

/// Operations and bytes a second.
pub(crate) struct Peaks {
    pub(crate) f32_flops: f64,
    pub(crate) bf16_flops: f64,
    pub(crate) bytes: f64,
}

/// Rounds of a measurement, of which the best counts.
const ROUNDS: usize = 5;
/// Elements that are read: 1 GiB, which no cache holds.
const READ: usize = 1 << 27;

impl Peaks {
    /// Measures a path that the processor has.
    pub(crate) fn measure(path: CpuPath) -> Self {
        let (f32_burst, bf16_burst) = bursts(path);
        let f32_flops = flops(f32_burst);
        let bf16_flops = bf16_burst.map_or(f32_flops, flops);
        let values = vec![1u64; READ];
        let bytes = best(|| {
            std::hint::black_box(read(&values));
            (8 * READ) as f64
        });
        Self { f32_flops, bf16_flops, bytes }
    }
}

/// Reads memory with all threads.
pub(crate) fn read(values: &[u64]) -> u64 {
    let sums = values.par_chunks(1 << 17).map(|chunk| chunk.iter().fold(0, |sum: u64, x| sum.wrapping_add(*x)));
    sums.reduce(|| 0, u64::wrapping_add)
}

/// The best rate of what `f` says it did.
fn best(f: impl Fn() -> f64) -> f64 {
    let round = |_| {
        let start = Instant::now();
        let done = f();
        done / start.elapsed().as_secs_f64()
    };
    (0..ROUNDS).map(round).fold(0.0, f64::max)
}

/// Computes multiply-adds of chains that do not depend on each other, and returns the floating-point operations.
type Burst = fn(usize) -> usize;

fn flops(burst: Burst) -> f64 {
    // Long enough for all threads to compute at the same time.
    best(|| rayon::broadcast(|_| burst(1 << 20)).into_iter().sum::<usize>() as f64)
}

/// The bursts in f32 and, if the path has instructions for it, in bf16.
fn bursts(path: CpuPath) -> (Burst, Option<Burst>) {
    #[cfg(target_arch = "x86_64")]
    {
        let avx2: Burst = |steps| {
            // SAFETY: called for available paths only, so the processor has the instructions.
            unsafe { x86::avx2(steps) }
        };
        let avx512: Burst = |steps| {
            // SAFETY: as above.
            unsafe { x86::avx512(steps) }
        };
        let pairs: Burst = |steps| {
            // SAFETY: as above.
            unsafe { x86::pairs(steps) }
        };
        let tiles: Burst = |steps| {
            // SAFETY: as above; the process is permitted to use tiles since it asked whether the path is available.
            unsafe { x86::tiles(steps) }
        };
        match path {
            CpuPath::Portable | CpuPath::Neon => (portable, None),
            CpuPath::Avx2 => (avx2, None),
            CpuPath::Avx512 => (avx512, None),
            CpuPath::Avx512Bf16 => (avx512, Some(pairs)),
            CpuPath::Amx => (avx512, Some(tiles)),
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    match path {
        #[cfg(target_arch = "aarch64")]
        CpuPath::Neon => (neon, None),
        _ => (portable, None),
    }
}

/// Products and sums of the compiler's baseline, which may have no fused ones.
fn portable(steps: usize) -> usize {
    const CHAINS: usize = 32;
    // Equal chains would become one.
    let (mut sums, factor) = (std::hint::black_box([0f32; CHAINS]), std::hint::black_box(0.5f32));
    for _ in 0..steps {
        for sum in &mut sums {
            *sum = *sum * factor + factor;
        }
    }
    std::hint::black_box(sums);
    2 * CHAINS * steps
}

/// Chains of NEON: four units with a latency of four cycles have 16 at a time.
#[cfg(target_arch = "aarch64")]
fn neon(steps: usize) -> usize {
    use std::arch::aarch64::*;
    use std::hint::black_box;
    const CHAINS: usize = 24;
    // SAFETY: every Arm processor of 64 bits has NEON.
    unsafe {
        let (mut sums, factor) = (black_box([vdupq_n_f32(0.0); CHAINS]), vdupq_n_f32(black_box(0.5)));
        for _ in 0..steps {
            for sum in &mut sums {
                *sum = vfmaq_f32(factor, *sum, factor);
            }
        }
        black_box(sums);
    }
    2 * 4 * CHAINS * steps
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::asm;
    use std::arch::x86_64::*;
    use std::hint::black_box;

    /// Chains of AVX2: with two factors they fill the registers.
    const YMM: usize = 12;
    /// Chains of AVX-512.
    const ZMM: usize = 24;

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn avx2(steps: usize) -> usize {
        let (mut sums, factor) = (black_box([_mm256_setzero_ps(); YMM]), _mm256_set1_ps(black_box(0.5)));
        for _ in 0..steps {
            for sum in &mut sums {
                *sum = _mm256_fmadd_ps(*sum, factor, factor);
            }
        }
        black_box(sums);
        2 * 8 * YMM * steps
    }

    #[target_feature(enable = "avx512f")]
    pub(super) fn avx512(steps: usize) -> usize {
        let (mut sums, factor) = (black_box([_mm512_setzero_ps(); ZMM]), _mm512_set1_ps(black_box(0.5)));
        for _ in 0..steps {
            for sum in &mut sums {
                *sum = _mm512_fmadd_ps(*sum, factor, factor);
            }
        }
        black_box(sums);
        2 * 16 * ZMM * steps
    }

    #[target_feature(enable = "avx512f,avx512bf16")]
    pub(super) fn pairs(steps: usize) -> usize {
        let mut sums = black_box([_mm512_setzero_ps(); ZMM]);
        let halves = _mm512_set1_ps(black_box(0.5));
        let factor = _mm512_cvtne2ps_pbh(halves, halves);
        for _ in 0..steps {
            for sum in &mut sums {
                *sum = _mm512_dpbf16_ps(*sum, factor, factor);
            }
        }
        black_box(sums);
        2 * 32 * ZMM * steps
    }

    /// Four tiles of sums. A step takes as long as many of other instructions.
    ///
    /// # Safety
    /// The processor must have AMX-BF16, and the process must be permitted to use tiles.
    pub(super) unsafe fn tiles(steps: usize) -> usize {
        const FASTER: usize = 16;
        #[repr(align(64))]
        struct Config([u8; 64]);
        let mut config = Config([0; 64]);
        config.0[0] = 1;
        for tile in 0..8 {
            // 16 rows of 64 bytes.
            config.0[16 + 2 * tile] = 64;
            config.0[48 + tile] = 16;
        }
        let steps = steps / FASTER;
        // SAFETY: guaranteed by the caller; 64 bytes are read, and all tiles are zero after it.
        unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const config, options(nostack, readonly)) }
        for _ in 0..steps {
            // SAFETY: the tiles are configured.
            unsafe {
                asm!(
                    "tdpbf16ps tmm0, tmm4, tmm6",
                    "tdpbf16ps tmm1, tmm4, tmm7",
                    "tdpbf16ps tmm2, tmm5, tmm6",
                    "tdpbf16ps tmm3, tmm5, tmm7",
                    options(nostack, nomem)
                );
            }
        }
        // SAFETY: as above.
        unsafe { asm!("tilerelease", options(nostack, nomem)) }
        4 * 2 * 16 * 16 * 32 * steps
    }
}
