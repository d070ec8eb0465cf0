use half::bf16;

use super::*;

const FORMATS: [BlockFormat; 2] = [BlockFormat::Q8_0, BlockFormat::Q4_0];

fn values(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 2_654_435_761 + seed * 40_503 + 17) % 10_007) as f32 / 10_007.0 - 0.5).collect()
}

fn product(matrix: &QuantisedMatrix, kernel: Kernel, a: &[f32], start: Start<'_>) -> Vec<f32> {
    let m = a.len() / matrix.k();
    let mut c = values(m * matrix.n(), 5);
    // SAFETY: callers pass kernels of this processor.
    unsafe { matrix.product_by(kernel, m, a, &mut c, start) }
    c
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// Rows below and above the groups of each kernel, rows of weights that do not fill a panel, one block and many, on one thread and on
/// several.
#[test]
fn all_kernels_have_the_bits_of_the_portable_one() {
    let kernels = Kernel::available();
    for format in FORMATS {
        for (m, k, n) in
            [(1, 32, 1), (2, 64, 17), (3, 96, 16), (7, 160, 33), (15, 32, 48), (23, 416, 75), (37, 512, 130)]
        {
            let matrix = QuantisedMatrix::new(format, (n, k), Values::F32(&values(n * k, m))).unwrap();
            let (a, base) = (values(m * k, 3), values(m * n, 4));
            for start in [Start::Zero, Start::Output, Start::Of(&base)] {
                let wanted = product(&matrix, Kernel::Portable, &a, start);
                for kernel in &kernels {
                    let found = product(&matrix, *kernel, &a, start);
                    assert_eq!(bits(&found), bits(&wanted), "{format} by {kernel:?}: {m}, {k}, {n}");
                }
            }
        }
    }
}

/// The largest codes of both sides: integer sums of 16 bits would saturate.
#[test]
fn the_largest_products_are_exact() {
    for format in FORMATS {
        for (weight, x) in [(1.0, 1.0), (1.0, -1.0), (-1.0, 1.0), (-1.0, -1.0)] {
            let matrix = QuantisedMatrix::new(format, (16, 64), Values::F32(&[weight; 16 * 64])).unwrap();
            let row = matrix_row(&matrix, 0);
            let wanted = 64.0 * row[0] * x;
            for kernel in Kernel::available() {
                for sum in product(&matrix, kernel, &[x; 64], Start::Zero) {
                    assert!((sum - wanted).abs() <= 1e-5 * 64.0, "{format} by {kernel:?}: {sum}, not {wanted}");
                }
            }
        }
    }
}

fn matrix_row(matrix: &QuantisedMatrix, index: usize) -> Vec<f32> {
    let mut row = vec![0.0; matrix.k()];
    matrix.unpack_row(index, &mut row);
    row
}

#[test]
fn a_row_does_not_depend_on_the_others() {
    let (m, k, n) = (29, 192, 83);
    for format in FORMATS {
        let matrix = QuantisedMatrix::new(format, (n, k), Values::F32(&values(n * k, 1))).unwrap();
        let a = values(m * k, 2);
        for kernel in Kernel::available() {
            let all = product(&matrix, kernel, &a, Start::Zero);
            for (a, wanted) in a.chunks(k).zip(all.chunks(n)) {
                assert_eq!(bits(&product(&matrix, kernel, a, Start::Zero)), bits(wanted), "{format} by {kernel:?}");
            }
        }
    }
}

/// Against sums in f64 of what both sides are quantised to, relative to the sum of magnitudes.
#[test]
fn products_are_those_of_dequantised_numbers() {
    let (m, k, n) = (5, 1536, 40);
    for format in FORMATS {
        let weights: Vec<bf16> = values(n * k, 8).into_iter().map(bf16::from_f32).collect();
        let matrix = QuantisedMatrix::new(format, (n, k), Values::Bf16(&weights)).unwrap();
        let a = values(m * k, 9);
        let quantised = activations::quantise(&a);
        let found = product(&matrix, Kernel::of(CpuPath::current()), &a, Start::Zero);
        for (i, x) in quantised.chunks(k / BLOCK).enumerate() {
            let x: Vec<f64> = x
                .iter()
                .flat_map(|block| (0..BLOCK).map(|at| f64::from(block.scale) * f64::from(block.code(at))))
                .collect();
            for column in 0..n {
                let row = matrix_row(&matrix, column);
                let products = row.iter().zip(&x).map(|(w, x)| f64::from(*w) * x);
                let (sum, size) = products.fold((0.0, 0.0), |(sum, size), p| (sum + p, size + p.abs()));
                let found = f64::from(found[i * n + column]);
                assert!((found - sum).abs() <= 1e-6 * size, "{format}: {found}, not {sum}");
                assert!((found - sum).abs() <= 1e-5 * sum.abs().max(0.1), "{format}: {found}, not {sum}");
            }
        }
    }
}

#[test]
fn dequantised_rows_are_near_the_weights() {
    let (n, k) = (19, 96);
    let weights = values(n * k, 11);
    for (format, bound) in [(BlockFormat::Q8_0, 0.5 * (0.5 / 127.0 + 1.0 / 2048.0)), (BlockFormat::Q4_0, 0.0635)] {
        let matrix = QuantisedMatrix::new(format, (n, k), Values::F32(&weights)).unwrap();
        for (index, row) in weights.chunks(k).enumerate() {
            for (found, wanted) in matrix_row(&matrix, index).iter().zip(row) {
                assert!((found - wanted).abs() <= bound, "{format}: {found}, not {wanted}");
            }
        }
    }
}

#[test]
fn activations_that_are_not_finite_show_in_their_row_alone() {
    let matrix = QuantisedMatrix::new(BlockFormat::Q8_0, (20, 64), Values::F32(&values(20 * 64, 1))).unwrap();
    let mut a = values(3 * 64, 2);
    a[64 + 7] = f32::INFINITY;
    for kernel in Kernel::available() {
        let c = product(&matrix, kernel, &a, Start::Zero);
        assert!(c[..20].iter().chain(&c[40..]).all(|c| c.is_finite()) && c[20..40].iter().all(|c| c.is_nan()));
    }
}

#[test]
fn invalid_matrices_are_refused() {
    let error = |k: usize, weights: &[f32]| match QuantisedMatrix::new(BlockFormat::Q4_0, (1, k), Values::F32(weights))
    {
        Ok(_) => panic!("accepted"),
        Err(error) => error.to_string().lines().next().unwrap_or_default().to_owned(),
    };
    assert_eq!(error(40, &[0.0; 40]), "q4_0: the input size 40 is no multiple of 32");
    assert_eq!(error(64, &[0.0; 40]), "q4_0: 40 weights for [1, 64]");
    assert_eq!(error(32, &[1e9; 32]), "q4_0: row 0 has a weight that is not finite or too large");
    assert!(error(32, &[f32::NAN; 32]).contains("not finite"));
    assert_eq!(error(32, &[f32::INFINITY; 32]), "q4_0: row 0 has a weight that is not finite or too large");
}
