//! bf16 products on every path: compared bit by bit with the arithmetic of its instructions, with f64, and across
//! batches and threads.

use std::sync::Arc;

use half::bf16;
use proptest::prelude::*;

use super::{emulation, random};
use crate::product::{Bf16Panels, CpuPath, Start, Values};

/// The paths available here. Tiles are emulated if the processor has none.
fn paths() -> Vec<CpuPath> {
    let paths: Vec<CpuPath> = CpuPath::ALL.into_iter().filter(|path| super::can_run(*path)).collect();
    eprintln!("paths of this processor: {:?}; tested: {paths:?}", CpuPath::ALL.map(|path| (path, path.is_available())));
    paths
}

/// Bits, with NaNs normalized to one pattern.
fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|x| if x.is_nan() { f32::NAN.to_bits() } else { x.to_bits() }).collect()
}

/// start + a·b for one element, with the arithmetic of the path.
fn rule(path: CpuPath, a: &[f32], b: &[bf16], start: Option<f32>) -> f32 {
    let k = a.len();
    let a: Vec<bf16> = a.iter().map(|x| bf16::from_f32(*x)).collect();
    let (most, unit) = match path {
        CpuPath::Portable | CpuPath::Neon | CpuPath::Avx2 | CpuPath::Avx512 => (256, 16),
        CpuPath::Avx512Bf16 => (512, 2),
        CpuPath::Amx => (512, 32),
    };
    let depth = k.div_ceil(k.div_ceil(most).max(1)).next_multiple_of(unit).max(1);
    let pairs = |values: &[bf16]| -> Vec<[bf16; 2]> {
        let mut values = values.to_vec();
        values.resize(values.len().next_multiple_of(unit), bf16::ZERO);
        values.chunks_exact(2).map(|pair| [pair[0], pair[1]]).collect()
    };
    if path == CpuPath::Amx {
        // One chain, beginning at start.
        let (a, b) = (pairs(&a), pairs(b));
        return (a.chunks(16).zip(b.chunks(16)))
            .fold(start.unwrap_or(0.0), |sum, (a, b)| emulation::tile_dot(sum, a, b));
    }
    let block = |a: &[bf16], b: &[bf16]| match path {
        CpuPath::Portable | CpuPath::Neon | CpuPath::Avx2 | CpuPath::Avx512 => {
            a.iter().zip(b).fold(0f32, |sum, (a, b)| a.to_f32().mul_add(b.to_f32(), sum))
        }
        CpuPath::Avx512Bf16 | CpuPath::Amx => {
            pairs(a).into_iter().zip(pairs(b)).fold(0f32, |sum, (a, b)| emulation::dot(sum, a, b))
        }
    };
    let mut sum = start;
    for (a, b) in a.chunks(depth).zip(b.chunks(depth)) {
        let block = block(a, b);
        sum = Some(sum.map_or(block, |sum| sum + block));
    }
    sum.unwrap_or(0.0)
}

pub(super) fn narrow(values: Vec<f32>) -> Vec<bf16> {
    values.into_iter().map(bf16::from_f32).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Every path follows its arithmetic for all extents, starts and panel memories, and returns the weights.
    #[test]
    fn products_follow_the_rule_of_their_path(
        m in prop_oneof![0usize..8, 12usize..20, 30usize..36],
        k in prop_oneof![0usize..70, 500usize..600],
        n in prop_oneof![0usize..80, Just(64), Just(128), 120usize..140],
        seed in 0u64..1000,
    ) {
        let weights = narrow(random(n * k, seed));
        let (a, base) = (random(m * k, seed + 1), random(m * n, seed + 2));
        for path in paths() {
            let mut panels = vec![Bf16Panels::pack(path, (n, k), &weights)];
            if n.is_multiple_of(64) {
                let mut values = narrow(random(7, seed));
                values.extend_from_slice(&weights);
                Bf16Panels::pack_in_place(path, (n, k), &mut values[7..]);
                panels.push(Bf16Panels::of_packed(path, (n, k), Arc::new(values.into()), 7));
            }
            // Packs other weights first: repacking must overwrite all of them.
            let others = random(n * k, seed + 3);
            let mut repacked = Bf16Panels::pack(path, (n, k), &narrow(others.clone()));
            repacked.repack(Values::Bf16(&weights));
            panels.push(repacked);
            if let Some(panels) = panels.get_mut(1).filter(|_| n.is_multiple_of(64)) {
                panels.repack(Values::F32(&others));
                panels.repack(Values::Bf16(&weights));
            }
            for panels in &panels {
                for start in [Start::Zero, Start::Output, Start::Of(&base)] {
                    let mut got = if start == Start::Output { base.clone() } else { vec![f32::NAN; m * n] };
                    panels.product(m, &a, &mut got, start);
                    for (at, got) in got.iter().enumerate() {
                        let (i, j) = (at / n, at % n);
                        let start = (start != Start::Zero).then(|| base[at]);
                        let want = rule(path, &a[i * k..(i + 1) * k], &weights[j * k..(j + 1) * k], start);
                        assert_eq!(got.to_bits(), want.to_bits(), "{path} [{i}, {j}] of {m}×{k}×{n}: {got}, not {want}");
                    }
                }
                for (index, row) in weights.chunks_exact(k.max(1)).enumerate() {
                    let mut found = vec![f32::NAN; k];
                    panels.unpack_row(index, &mut found);
                    assert!(found.iter().zip(row).all(|(found, weight)| *found == weight.to_f32()), "{path}");
                }
            }
        }
    }

    /// Rounding an activation to 8 bits changes it by at most a relative 2⁻⁸. f32 accumulation adds 2⁻²⁴ of the terms'
    /// magnitudes per step.
    #[test]
    fn products_agree_with_f64(
        m in 1usize..40,
        k in prop_oneof![1usize..70, 500usize..1100],
        seed in 0u64..1000,
    ) {
        let n = 70;
        let (a, weights) = (random(m * k, seed), narrow(random(n * k, seed + 1)));
        for path in paths() {
            let mut got = vec![f32::NAN; m * n];
            Bf16Panels::pack(path, (n, k), &weights).product(m, &a, &mut got, Start::Zero);
            for (at, got) in got.iter().enumerate() {
                let (a, weights) = (&a[at / n * k..][..k], &weights[at % n * k..][..k]);
                let terms = || a.iter().zip(weights).map(|(a, w)| f64::from(*a) * w.to_f64());
                let (want, size): (f64, f64) = (terms().sum(), terms().map(f64::abs).sum());
                let bound = size * (2f64.powi(-8) + k as f64 * 2f64.powi(-24)) + 1e-30;
                assert!((f64::from(*got) - want).abs() <= bound, "{path}, k {k}: {got}, not {want} ± {bound}");
            }
        }
    }
}

/// Large products on 1, 2 and 5 threads, and row by row.
#[test]
fn a_row_depends_neither_on_its_batch_nor_on_threads() {
    let (k, n) = (700, 330);
    let weights = narrow(random(n * k, 1));
    let base = random(100 * n, 2);
    for path in paths() {
        let panels = Bf16Panels::pack(path, (n, k), &weights);
        let a = random(100 * k, 3);
        let product = |rows: std::ops::Range<usize>| {
            let mut c = vec![f32::NAN; rows.len() * n];
            let start = Start::Of(&base[rows.start * n..rows.end * n]);
            panels.product(rows.len(), &a[rows.start * k..rows.end * k], &mut c, start);
            c
        };
        let want: Vec<f32> = (0..100).flat_map(|row| product(row..row + 1)).collect();
        for threads in [1, 2, 5] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            for size in [2, 3, 6, 7, 16, 17, 31, 32, 33, 64, 100] {
                let rows = 0..size;
                let got = pool.install(|| product(rows.clone()));
                assert_eq!(bits(&got), bits(&want[..size * n]), "{path}, {size} rows on {threads} threads");
                let rows = 100 - size..100;
                let got = pool.install(|| product(rows));
                assert_eq!(
                    bits(&got),
                    bits(&want[(100 - size) * n..]),
                    "{path}, last {size} rows on {threads} threads"
                );
            }
        }
    }
}

/// Infinities, denormals and NaN follow the same arithmetic.
#[test]
fn unusual_numbers_follow_the_rule() {
    let unusual = [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 1e-39, -1e-40, f32::MAX, f32::MIN_POSITIVE, 0.0, -0.0];
    let (m, k, n) = (3, 66, 5);
    for path in paths() {
        for seed in 0..200 {
            let (mut a, mut weights) = (random(m * k, seed), narrow(random(n * k, seed + 1)));
            let at = seed as usize;
            for step in 0..at % 4 {
                a[(at * 31 + step * 17) % (m * k)] = unusual[(at + step) % unusual.len()];
                weights[(at * 7 + step * 29) % (n * k)] = bf16::from_f32(unusual[(at / 9 + 2 * step) % unusual.len()]);
            }
            // Products among the denormals.
            if at.is_multiple_of(3) {
                a.iter_mut().for_each(|x| *x *= 1e-20);
                weights.iter_mut().for_each(|x| *x = bf16::from_f32(x.to_f32() * 1e-19));
            }
            let mut got = vec![0f32; m * n];
            Bf16Panels::pack(path, (n, k), &weights).product(m, &a, &mut got, Start::Zero);
            let want: Vec<f32> =
                (0..m * n).map(|at| rule(path, &a[at / n * k..][..k], &weights[at % n * k..][..k], None)).collect();
            assert_eq!(bits(&got), bits(&want), "{path}, seed {seed}: {got:?}, not {want:?}");
        }
    }
}
