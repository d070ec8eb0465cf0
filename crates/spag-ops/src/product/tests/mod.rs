//! Tiles and large products compared with f64 sums, and the process's path compared bit by bit with the portable
//! one.

#[cfg(target_arch = "x86_64")]
mod bf16_gemm;
mod bf16_gemv;
#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), target_os = "linux"))]
mod disassembly;
mod emulation;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod tile_emulator;

use std::sync::Arc;

use half::bf16;
use proptest::prelude::*;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::instructions::Portable;
use super::tile::portable;
use super::*;

/// Whether a path can be tested: with instructions of the processor, or with emulated tiles.
fn can_run(path: CpuPath) -> bool {
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    if path == CpuPath::Amx && CpuPath::Avx512.is_available() && !path.is_available() {
        tile_emulator::install();
        return true;
    }
    path.is_available()
}

/// Runs the self-check of every path available here.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
#[test]
fn kernels_pass_their_check() {
    use super::self_check::multiplies;
    if CpuPath::Avx512Bf16.is_available() {
        assert!(multiplies::<super::dot::Pairs>());
    } else {
        eprintln!("avx512bf16: not checked");
    }
    if !CpuPath::Amx.is_available() {
        tile_emulator::install();
    }
    assert!(multiplies::<Tiles>());
}

/// Tiles that drop their last step fail the check.
#[cfg(target_arch = "x86_64")]
#[test]
fn wrong_kernels_do_not_pass_their_check() {
    struct Wrong;

    impl Format for Wrong {
        type Weight = bf16;
        type Activation = bf16;

        const ROWS: usize = 6;
        const DEPTH: usize = 128;
        const STEPS: usize = 1;

        fn begin() -> Self {
            Self
        }

        fn index(_: usize, step: usize, column: usize) -> usize {
            step * COLUMNS + column
        }

        unsafe fn tile(
            &mut self,
            (m, k, n): (usize, usize, usize),
            a: Left<bf16>,
            b: Right<bf16>,
            c: Target,
            output: Output,
        ) {
            for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
                // SAFETY: guaranteed by the caller.
                unsafe {
                    let to = c.at.add(i * c.row + j);
                    let start = if output == Output::Accumulate { *to } else { 0.0 };
                    *to = (0..k - 1).fold(start, |sum, p| {
                        (*a.at.add(i * a.row + p)).to_f32().mul_add((*b.at.add(p * b.k + j)).to_f32(), sum)
                    });
                }
            }
        }
    }
    assert!(!self_check::multiplies::<Wrong>());
}

fn random(len: usize, seed: u64) -> Vec<f32> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    (0..len).map(|_| rng.random::<f32>() * 2.0 - 1.0).collect()
}

/// Stores row-major `[rows, columns]` in the order `side`.
fn stored(values: &[f32], (rows, columns): (usize, usize), side: Side) -> Vec<f32> {
    match side {
        Side::Rows => values.to_vec(),
        Side::Columns => (0..rows * columns).map(|i| values[i % rows * columns + i / rows]).collect(),
    }
}

/// base + a·b in f64, with the sum of the terms' magnitudes to bound the permissible error.
fn reference((m, k, n): (usize, usize, usize), a: &[f32], b: &[f32], base: &[f32]) -> Vec<(f64, f64)> {
    let element = |i: usize, j: usize| {
        let start = f64::from(base[i * n + j]);
        (0..k).fold((start, start.abs()), |(sum, size), p| {
            let term = f64::from(a[i * k + p]) * f64::from(b[p * n + j]);
            (sum + term, size + term.abs())
        })
    };
    (0..m * n).map(|at| element(at / n, at % n)).collect()
}

fn agrees(got: &[f32], want: &[(f64, f64)], what: &str) {
    for (i, (got, (want, size))) in got.iter().zip(want).enumerate() {
        assert!((f64::from(*got) - want).abs() <= 1e-6 * size + 1e-30, "{what}[{i}]: {got}, not {want}");
    }
}

fn side() -> impl Strategy<Value = Side> {
    prop_oneof![Just(Side::Rows), Just(Side::Columns)]
}

fn same_bits(a: &[f32], b: &[f32]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Every product path: zero and one row, arbitrary widths, all sides and starts.
    #[test]
    fn products_agree_with_f64(
        m in prop_oneof![0usize..20, 100usize..140],
        k in prop_oneof![0usize..40, 250usize..600],
        n in prop_oneof![0usize..80, 250usize..330],
        (a_side, b_side) in (side(), side()),
        seed in 0u64..1000,
    ) {
        let (a, b, base) = (random(m * k, seed), random(k * n, seed + 1), random(m * n, seed + 2));
        let (a_stored, b_stored) = (stored(&a, (m, k), a_side), stored(&b, (k, n), b_side));
        let (sum, zero) = (reference((m, k, n), &a, &b, &base), vec![0f32; m * n]);
        let product_only = reference((m, k, n), &a, &b, &zero);
        // A poisoned output proves that it is overwritten.
        let poisoned = || vec![f32::NAN; m * n];
        let (a, b) = ((&a_stored[..], a_side), (&b_stored[..], b_side));
        let starts = [(Start::Zero, &product_only), (Start::Output, &sum), (Start::Of(&base), &sum)];
        for (start, want) in starts {
            let mut c = if start == Start::Output { base.clone() } else { poisoned() };
            let mut portable = c.clone();
            large::product::<Exact<f32>, Exact<f32>>((m, k, n), a, b, &mut c, start);
            agrees(&c, want, "product");
            // SAFETY: any processor.
            unsafe {
                large::product_with::<Portable, Exact<f32>, Exact<f32>>((m, k, n), a, b, &mut portable, start);
            }
            assert!(same_bits(&c, &portable));
        }
    }

    /// Operands converted while packing are bit-identical to operands converted beforehand.
    #[test]
    fn converted_operands_equal_operands_converted_before(
        m in prop_oneof![0usize..20, 100usize..140],
        k in prop_oneof![0usize..40, 250usize..600],
        n in prop_oneof![0usize..80, 250usize..330],
        (a_side, b_side) in (side(), side()),
        seed in 0u64..1000,
    ) {
        type Stored = Exact<bf16>;
        let (a, b) = (random(m * k, seed), random(k * n, seed + 1));
        let [narrow_a, narrow_b] = [&a, &b].map(|values| values.iter().map(|x| bf16::from_f32(*x)).collect::<Vec<_>>());
        let [wide_a, wide_b] = [&narrow_a, &narrow_b].map(|values| values.iter().map(|x| x.to_f32()).collect::<Vec<_>>());
        let new = || vec![f32::NAN; m * n];
        let (extents, start) = ((m, k, n), Start::Zero);
        let mut want = new();
        large::product::<Exact<f32>, Exact<f32>>(extents, (&wide_a, a_side), (&wide_b, b_side), &mut want, start);
        let mut c = new();
        large::product::<ToBf16, ToBf16>(extents, (&a, a_side), (&b, b_side), &mut c, start);
        assert!(same_bits(&c, &want));
        let mut c = new();
        large::product::<Stored, Stored>(extents, (&narrow_a, a_side), (&narrow_b, b_side), &mut c, start);
        assert!(same_bits(&c, &want));
        let mut c = new();
        large::product::<ToBf16, Stored>(extents, (&a, a_side), (&narrow_b, b_side), &mut c, start);
        assert!(same_bits(&c, &want));
    }

    /// A tile writes its own columns and nothing else, on both paths.
    #[test]
    fn tiles_agree_with_f64(
        m in 0usize..=ROWS, k in 0usize..70, n in 0usize..=COLUMNS, pad in 0usize..5, seed in 0u64..1000,
    ) {
        let (a, b, base) = (random(m * k, seed), random(k * n, seed + 1), random(m * n, seed + 2));
        for output in [Output::Overwrite, Output::Accumulate, Output::Continue] {
            let zero = vec![0f32; m * n];
            let want = reference((m, k, n), &a, &b, if output == Output::Overwrite { &zero } else { &base });
            type Tile = unsafe fn((usize, usize, usize), Left, Right, Target, Output);
            let mut results = Vec::new();
            for (run, what) in [(tile::<f32> as Tile, "chosen"), (portable::tile::<f32> as Tile, "portable")] {
                let row = n + pad;
                let mut c = vec![f32::NAN; m * row];
                if output != Output::Overwrite {
                    for i in 0..m {
                        c[i * row..i * row + n].copy_from_slice(&base[i * n..(i + 1) * n]);
                    }
                }
                let target = Target::new(c.as_mut_ptr(), row);
                // SAFETY: the matrices have the extents.
                unsafe {
                    run((m, k, n), Left { at: a.as_ptr(), row: k, k: 1 }, Right::new(b.as_ptr(), n), target, output);
                }
                for i in 0..m {
                    agrees(&c[i * row..i * row + n], &want[i * n..(i + 1) * n], what);
                    assert!(c[i * row + n..(i + 1) * row].iter().all(|x| x.is_nan()), "{what} wrote beside its columns");
                    c[i * row + n..(i + 1) * row].fill(0.0);
                }
                results.push(c);
            }
            assert!(same_bits(&results[0], &results[1]));
        }
    }

    /// bf16 panels are bit-identical to f32 panels of the same weights for every number of rows, and return the
    /// weights.
    #[test]
    fn panels_of_bf16_equal_widened_panels(
        m in prop_oneof![0usize..8, 20usize..30],
        k in prop_oneof![0usize..40, 250usize..600],
        n in prop_oneof![0usize..80, 120usize..140],
        seed in 0u64..1000,
    ) {
        let narrow: Vec<bf16> = random(n * k, seed).into_iter().map(bf16::from_f32).collect();
        let wide: Vec<f32> = narrow.iter().map(|x| x.to_f32()).collect();
        let (a, base) = (random(m * k, seed + 1), random(m * n, seed + 2));
        let (of_narrow, of_wide) =
            (Panels::<Widened<bf16>>::pack((n, k), &narrow), Panels::<Widened<f32>>::pack((n, k), &wide));
        let a = Rows { values: &a, stride: k };
        for start in [Start::Zero, Start::Output, Start::Of(&base)] {
            let (mut got, mut want) = (base.clone(), base.clone());
            of_narrow.product(m, a, &mut got, start);
            of_wide.product(m, a, &mut want, start);
            assert!(same_bits(&got, &want));
        }
        for (index, row) in wide.chunks_exact(k.max(1)).enumerate() {
            let (mut from_narrow, mut from_wide) = (vec![f32::NAN; k], vec![f32::NAN; k]);
            of_narrow.unpack_row(index, &mut from_narrow);
            of_wide.unpack_row(index, &mut from_wide);
            assert_eq!((&from_narrow[..], &from_wide[..]), (row, row));
        }
    }

    /// Panels packed in place, at any offset, are bit-identical to owned panels.
    #[test]
    fn panels_in_place_equal_panels_of_their_own(
        m in prop_oneof![0usize..8, 20usize..30],
        k in prop_oneof![0usize..40, 250usize..600],
        panels in 0usize..4,
        before in 0usize..40,
        seed in 0u64..1000,
    ) {
        fn check<T: Packable>(m: usize, k: usize, n: usize, before: usize, values: &[T], a: &[f32]) {
            let a = Rows { values: a, stride: k };
            let own = Panels::<Widened<T>>::pack((n, k), &values[before..]);
            let mut values_in_place = values.to_vec();
            Panels::<Widened<T>>::pack_in_place((n, k), &mut values_in_place[before..]);
            let in_place = Panels::<Widened<T>>::of_packed((n, k), Arc::new(values_in_place.into()), before);
            let (mut got, mut want) = (vec![f32::NAN; m * n], vec![f32::NAN; m * n]);
            in_place.product(m, a, &mut got, Start::Zero);
            own.product(m, a, &mut want, Start::Zero);
            assert!(same_bits(&got, &want));
            for (index, row) in values[before..].chunks_exact(k.max(1)).take(n).enumerate() {
                let mut found = vec![f32::NAN; k];
                in_place.unpack_row(index, &mut found);
                assert!(found.iter().zip(row).all(|(found, value)| *found == value.widen()));
            }
        }
        let n = panels * COLUMNS;
        let wide = random(before + n * k, seed);
        let narrow: Vec<bf16> = wide.iter().map(|x| bf16::from_f32(*x)).collect();
        let a = random(m * k, seed + 1);
        check(m, k, n, before, &wide, &a);
        check(m, k, n, before, &narrow, &a);
    }

    /// Both paths convert bf16 on load.
    #[test]
    fn tiles_of_bf16_equal_widened_tiles(m in 0usize..=ROWS, k in 0usize..70, n in 0usize..=COLUMNS, seed in 0u64..1000) {
        let narrow: Vec<bf16> = random(k * COLUMNS, seed).into_iter().map(bf16::from_f32).collect();
        let wide: Vec<f32> = narrow.iter().map(|x| x.to_f32()).collect();
        let a = random(m * k, seed + 1);
        let left = Left { at: a.as_ptr(), row: k, k: 1 };
        let new = || vec![0f32; m * COLUMNS];
        let (mut own, mut portable, mut want) = (new(), new(), new());
        let target = |c: &mut Vec<f32>| Target::new(c.as_mut_ptr(), COLUMNS);
        let right = Right::new(narrow.as_ptr(), COLUMNS);
        // SAFETY: the matrices have the extents.
        unsafe {
            tile((m, k, n), left, right, target(&mut own), Output::Overwrite);
            portable::tile((m, k, n), left, right, target(&mut portable), Output::Overwrite);
            tile((m, k, n), left, Right::new(wide.as_ptr(), COLUMNS), target(&mut want), Output::Overwrite);
        }
        assert!(same_bits(&own, &want) && same_bits(&portable, &want));
    }

    #[test]
    fn a_transpose_is_padded_with_zeros(rows in 0usize..70, columns in 0usize..40, seed in 0u64..1000) {
        let (from, width) = (random(rows * columns, seed), rows.next_multiple_of(LANES) + LANES);
        let mut to = vec![f32::NAN; columns * width];
        // SAFETY: the matrices have the extents.
        unsafe { transpose((rows, columns), from.as_ptr(), columns, to.as_mut_ptr(), width) }
        for (at, got) in to.iter().enumerate() {
            let (column, row) = (at / width, at % width);
            assert_eq!(*got, if row < rows { from[row * columns + column] } else { 0.0 });
        }
    }
}
