//! Loops auto-vectorized for several instruction sets, selected at run time.

#[cfg(target_arch = "x86_64")]
use super::product::CpuPath;
use super::product::Element;

/// Runs `f` compiled for the instruction set of the process's path: AVX-512, AVX2 with FMA, or the baseline (NEON on 64-bit
/// Arm).
#[inline]
pub(crate) fn vectorized<R>(f: impl FnOnce() -> R) -> R {
    #[cfg(target_arch = "x86_64")]
    {
        #[inline]
        #[target_feature(enable = "avx2,fma,bmi1,bmi2,f16c,lzcnt,movbe,popcnt")]
        fn avx2<R>(f: impl FnOnce() -> R) -> R {
            f()
        }
        #[inline]
        #[target_feature(
            enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx2,fma,bmi1,bmi2,f16c,lzcnt,movbe,popcnt"
        )]
        fn avx512<R>(f: impl FnOnce() -> R) -> R {
            f()
        }
        match CpuPath::current() {
            CpuPath::Portable | CpuPath::Neon => f(),
            // SAFETY: the processor has the path.
            CpuPath::Avx2 => unsafe { avx2(f) },
            // SAFETY: as above.
            CpuPath::Avx512 | CpuPath::Avx512Bf16 | CpuPath::Amx => unsafe { avx512(f) },
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    f()
}

/// Number of partial sums of a reduction. Fixed, so that results do not depend on the machine.
const LANES: usize = 16;

/// Σ a·b.
#[inline(always)]
pub(crate) fn dot<T: Element>(a: &[T], b: &[T]) -> f32 {
    let mut lanes = [0f32; LANES];
    let (a_chunks, a_rest) = a.as_chunks::<LANES>();
    let (b_chunks, b_rest) = b.as_chunks::<LANES>();
    for (x, y) in a_chunks.iter().zip(b_chunks) {
        for i in 0..LANES {
            lanes[i] += x[i].widen() * y[i].widen();
        }
    }
    let mut sum = fold(&lanes);
    for (x, y) in a_rest.iter().zip(b_rest) {
        sum += x.widen() * y.widen();
    }
    sum
}

/// Replaces every value x by f(x) and returns the sum.
#[inline(always)]
pub(crate) fn map_sum(values: &mut [f32], f: impl Fn(f32) -> f32) -> f32 {
    let mut lanes = [0f32; LANES];
    let (chunks, rest) = values.as_chunks_mut::<LANES>();
    for x in chunks {
        for i in 0..LANES {
            x[i] = f(x[i]);
            lanes[i] += x[i];
        }
    }
    let mut sum = fold(&lanes);
    for x in rest {
        *x = f(*x);
        sum += *x;
    }
    sum
}

/// Σ f(x).
#[inline(always)]
pub(crate) fn sum_of(values: &[f32], f: impl Fn(f32) -> f32) -> f32 {
    let mut lanes = [0f32; LANES];
    let (chunks, rest) = values.as_chunks::<LANES>();
    for x in chunks {
        for i in 0..LANES {
            lanes[i] += f(x[i]);
        }
    }
    let mut sum = fold(&lanes);
    for &x in rest {
        sum += f(x);
    }
    sum
}

/// The maximum; `-inf` if empty. NaNs are ignored here; they show up in the sums.
#[inline(always)]
pub(crate) fn max(values: &[f32]) -> f32 {
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let (chunks, rest) = values.as_chunks::<LANES>();
    for x in chunks {
        for i in 0..LANES {
            lanes[i] = if x[i] > lanes[i] { x[i] } else { lanes[i] };
        }
    }
    rest.iter().chain(&lanes).copied().fold(f32::NEG_INFINITY, f32::max)
}

/// Sums the lanes as a balanced tree.
#[inline(always)]
fn fold(lanes: &[f32; LANES]) -> f32 {
    let mut lanes = *lanes;
    let mut width = LANES / 2;
    while width > 0 {
        for i in 0..width {
            lanes[i] += lanes[i + width];
        }
        width /= 2;
    }
    lanes[0]
}

/// eˣ to about 2 ulp, without branches, so that loops vectorize. Uses fused multiply-adds, which every machine with
/// AVX2 or NEON has. Saturates outside [-87, 88]; NaN stays NaN.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    // Comparisons keep NaN; f32::max and min would not.
    let x = if x < -87.0 { -87.0 } else { x };
    let x = if x > 88.0 { 88.0 } else { x };
    // Rounds x/ln 2 to an integer by adding and subtracting 1.5·2²³.
    const MAGIC: f32 = 12_582_912.0;
    let shifted = x.mul_add(std::f32::consts::LOG2_E, MAGIC);
    let n = shifted - MAGIC;
    // ln 2 in two parts, so that x - n·ln 2 keeps its low bits.
    let r = n.mul_add(-1.428_606_8e-6, n.mul_add(-0.693_145_75, x));
    // The polynomial of Cephes' expf, which is within 1e-7 of the value for |r| ≤ ln 2 / 2.
    let p = 1.987_569_1e-4f32;
    let p = p.mul_add(r, 1.398_2e-3);
    let p = p.mul_add(r, 8.333_452e-3);
    let p = p.mul_add(r, 4.166_579_6e-2);
    let p = p.mul_add(r, 1.666_666_6e-1);
    let p = p.mul_add(r, 0.5);
    let p = p.mul_add(r * r, r) + 1.0;
    // 2ⁿ: shifts n from the low bits of `shifted` into the exponent and adds the bias.
    let scale = f32::from_bits((shifted.to_bits() << 23).wrapping_add(127 << 23));
    scale * p
}

/// 1 / (1 + e⁻ˣ).
#[inline(always)]
pub(crate) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_matches_the_library_and_keeps_nan() {
        let mut worst = 0f64;
        for i in -86_000..87_000 {
            let x = i as f32 / 1000.0;
            let want = f64::from(x).exp();
            worst = worst.max((f64::from(exp(x)) / want - 1.0).abs());
        }
        assert!(worst < 4e-7, "worst relative error {worst}");
        assert!(exp(f32::NAN).is_nan());
        assert!(exp(f32::NEG_INFINITY) < 2e-38);
    }

    #[test]
    fn reductions_match_plain_loops() {
        for n in [0usize, 1, 15, 16, 17, 100] {
            let a: Vec<f32> = (0..n).map(|i| (i as f32 * 0.7).sin()).collect();
            let b: Vec<f32> = (0..n).map(|i| (i as f32 * 0.3).cos()).collect();
            let want: f64 = a.iter().zip(&b).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum();
            assert!((f64::from(vectorized(|| dot(&a, &b))) - want).abs() < 1e-5);
            let want = a.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            assert_eq!(vectorized(|| max(&a)), want);
        }
    }
}
