//! Checks kernels for rarely available instructions before a process uses them.
//!
//! The operands are small integers, so every product and sum is exact, and the summation order does not matter. The check
//! runs during path selection, so it calls only the format's tile: other code queries the path.

use half::bf16;

use super::amx::Tiles;
use super::dot::Pairs;
use super::{CpuPath, Format, Left, Output, Right, Target};

/// Whether the kernels added by a path compute a small product correctly. Kernels up to AVX-512 run on many machines and are
/// not checked. Takes microseconds.
pub(super) fn is_sound(path: CpuPath) -> bool {
    match path {
        CpuPath::Portable | CpuPath::Neon | CpuPath::Avx2 | CpuPath::Avx512 => true,
        CpuPath::Avx512Bf16 => multiplies::<Pairs>(),
        // Attention multiplies some head sizes as pairs.
        CpuPath::Amx => multiplies::<Pairs>() && multiplies::<Tiles>(),
    }
}

/// Whether the tile of a format, which the processor must support, is bit-identical to plain loops.
pub(super) fn multiplies<F: Format<Weight = bf16, Activation = bf16>>() -> bool {
    let (rows, columns) = (F::ROWS, F::COLUMNS);
    [
        // A full tile.
        ((rows, 64, columns), Output::Overwrite),
        // An odd number of steps, and partial tiles on both sides.
        ((rows - 1, 67, columns - 13), Output::Accumulate),
        // A single row, with fewer steps than a tile.
        ((1, 5, 3), Output::Accumulate),
    ]
    .into_iter()
    .all(|(extents, output)| agrees::<F>(extents, output))
}

/// An integer from -4 to 4.
fn integer(row: usize, column: usize) -> f32 {
    ((7 * row + 5 * column + row * column) % 9) as f32 - 4.0
}

fn agrees<F: Format<Weight = bf16, Activation = bf16>>((m, k, n): (usize, usize, usize), output: Output) -> bool {
    let (a_row, c_row) = (k.next_multiple_of(F::STEPS), n + 1);
    let mut a = vec![bf16::ZERO; m * a_row];
    for (i, row) in a.chunks_exact_mut(a_row).enumerate() {
        for (step, value) in row[..k].iter_mut().enumerate() {
            *value = bf16::from_f32(integer(i, step));
        }
    }
    let mut b = vec![bf16::ZERO; k * F::COLUMNS];
    for (step, column) in (0..k).flat_map(|step| (0..n).map(move |column| (step, column))) {
        b[F::index(k, step, column)] = bf16::from_f32(integer(step + 1, column));
    }
    // An element after the columns of each row must stay unchanged.
    let before: Vec<f32> = (0..m * c_row).map(|at| integer(at / c_row, at % c_row)).collect();
    let mut want = before.clone();
    for (i, row) in want.chunks_exact_mut(c_row).enumerate() {
        for (column, sum) in row[..n].iter_mut().enumerate() {
            let start = if output == Output::Accumulate { *sum } else { 0.0 };
            *sum = (0..k).fold(start, |sum, step| sum + integer(i, step) * integer(step + 1, column));
        }
    }
    let mut got = before;
    let left = Left { at: a.as_ptr(), row: a_row, k: 1 };
    let right = Right::new(b.as_ptr(), F::COLUMNS);
    // SAFETY: the caller's processor has the kernels. `a` has m padded rows, `b` k steps of a panel, and `got` m rows of n
    // columns and one more.
    unsafe { F::begin().tile((m, k, n), left, right, Target::new(got.as_mut_ptr(), c_row), output) }
    got.iter().zip(&want).all(|(got, want)| got.to_bits() == want.to_bits())
}
