use half::bf16;

use super::*;
use crate::product::Values;

const FORMATS: [BlockFormat; 6] = BlockFormat::ALL;

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

/// Rows below and above the kernels' tiles, a partial panel, one span and many, on one thread and on several.
#[test]
fn all_kernels_have_the_bits_of_the_portable_one() {
    let kernels = Kernel::available();
    for format in FORMATS {
        for (m, spans, n) in [(1, 1, 1), (2, 2, 17), (3, 3, 16), (7, 5, 33), (15, 1, 48), (23, 13, 75), (37, 16, 130)] {
            let k = spans * format.span();
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

/// The largest codes of both sides, with both signs: 16-bit integer sums would saturate. Scales are 2⁻¹⁰.
#[test]
fn the_largest_products_are_exact() {
    for format in FORMATS {
        for codes in [0u8, 0xff, 0x7f, 0x80] {
            let mut bytes = vec![codes; 16 * 2 * format.stored_bytes()];
            for span in bytes.chunks_exact_mut(format.stored_bytes()) {
                let scales = match format {
                    BlockFormat::Q6K => &[208][..],
                    BlockFormat::Q4K | BlockFormat::Q4_1 => &[0, 2],
                    _ => &[0],
                };
                scales.iter().for_each(|at| span[*at..*at + 2].copy_from_slice(&[0x00, 0x14]));
            }
            let k = 2 * format.span();
            let matrix = QuantisedMatrix::stored(format, (16, k), &bytes).unwrap();
            let row = matrix_row(&matrix, 0);
            for x in [1.0f32, -1.0] {
                let wanted: f32 = row.iter().map(|weight| weight * x).sum();
                let size: f32 = row.iter().map(|weight| weight.abs()).sum();
                for kernel in Kernel::available() {
                    for sum in product(&matrix, kernel, &vec![x; k], Start::Zero) {
                        let error = (sum - wanted).abs();
                        assert!(error <= 1e-5 * size, "{format} by {kernel:?}: {sum}, not {wanted}");
                    }
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
    let (m, n) = (29, 83);
    for format in FORMATS {
        let k = 6 * format.span();
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

/// Compared with f64 sums of the quantised values of both sides, relative to the sum of magnitudes.
#[test]
fn products_are_those_of_dequantised_numbers() {
    let (m, k, n) = (5, 1536, 40);
    for format in FORMATS {
        let weights: Vec<bf16> = values(n * k, 8).into_iter().map(bf16::from_f32).collect();
        let matrix = QuantisedMatrix::new(format, (n, k), Values::Bf16(&weights)).unwrap();
        let a = values(m * k, 9);
        let quantised = with_format!(format, F => Activations::quantise::<F>(&a, k, 4));
        let found = product(&matrix, Kernel::of(CpuPath::current()), &a, Start::Zero);
        for i in 0..m {
            let x = quantised.row(i);
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
    let (n, k) = (19, 768);
    let weights = values(n * k, 11);
    for (format, bound) in [
        (BlockFormat::Q8_0, 0.5 * (0.5 / 127.0 + 1.0 / 2048.0)),
        (BlockFormat::Q6K, 0.5 * 0.036),
        (BlockFormat::Q5_0, 0.5 * 0.0635),
        (BlockFormat::Q4_1, 0.5 * 0.068),
        (BlockFormat::Q4_0, 0.0635),
        (BlockFormat::Q4K, 0.07),
    ] {
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
