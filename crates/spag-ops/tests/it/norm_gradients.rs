//! Biases, head norms and normalized rows: values, and gradients by finite differences.

use crate::differences::{differences, minus_ones, ones, random, scalar, values};
use candle_core::{Device, Tensor};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use spag_ops::{bias, head_norm, rms_norm, row_norm};

const EPS: f32 = 1e-6;

fn vector(length: usize, rng: &mut ChaCha8Rng) -> Tensor {
    random((1, length), rng).flatten_all().unwrap()
}

#[test]
fn bias_is_added_to_every_row_and_its_gradient_is_the_column_sums() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    for (n, o) in [(1, 1), (3, 7), (130, 33), (0, 4)] {
        let (y, b, g) = (random((n, o), &mut rng), vector(o, &mut rng), random((n, o), &mut rng));
        let biased = |y: &Tensor, b: &Tensor| {
            let y = y.copy().unwrap();
            bias::add(&y, b).unwrap();
            y
        };
        assert_eq!(values(&biased(&y, &b)), values(&y.broadcast_add(&b).unwrap()));
        let db = ones(&[o]);
        bias::backward(&g, &db).unwrap();
        differences(&b, &minus_ones(&db), |b| scalar(&biased(&y, b), &g), "db");
    }
}

#[test]
fn head_norm_gradients_equal_finite_differences() {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    for (n, heads, dim) in [(3, 2, 6), (1, 6, 8), (40, 3, 2), (5, 1, 20)] {
        let (x, g) = (random((n, heads * dim), &mut rng), random((n, heads * dim), &mut rng));
        // Away from zero, where heads of two elements are too nonlinear for the step of the differences.
        let x = ((x.abs().unwrap() + 0.3).unwrap() * x.sign().unwrap()).unwrap();
        let w = vector(dim, &mut rng);
        let dw = ones(&[dim]);
        let dx = head_norm::backward(&x, &w, EPS, &g, &dw).unwrap();
        differences(&x, &dx, |x| scalar(&head_norm::forward(x, &w, EPS).unwrap(), &g), "dx");
        differences(&w, &minus_ones(&dw), |w| scalar(&head_norm::forward(&x, w, EPS).unwrap(), &g), "dw");
    }
}

#[test]
fn head_norm_in_columns_has_the_bits_of_the_whole_and_leaves_other_columns() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    for (n, dim) in [(1, 2), (3, 14), (33, 20), (70, 64)] {
        // Queries of three heads, keys and values of two.
        let width = 7 * dim;
        let (x, w) = (random((n, width), &mut rng), vector(dim, &mut rng));
        let y = x.copy().unwrap();
        head_norm::forward_columns(&y, 3 * dim..5 * dim, &w, EPS).unwrap();
        let columns = |t: &Tensor, first: usize, heads: usize| t.narrow(1, first * dim, heads * dim).unwrap();
        let keys = columns(&x, 3, 2).contiguous().unwrap();
        assert_eq!(values(&columns(&y, 3, 2)), values(&head_norm::forward(&keys, &w, EPS).unwrap()));
        for (first, heads) in [(0, 3), (5, 2)] {
            assert_eq!(values(&columns(&y, first, heads)), values(&columns(&x, first, heads)));
        }
        // A head is a row of rms_norm.
        let rows = rms_norm::forward(&keys.reshape((n * 2, dim)).unwrap(), &w, EPS).unwrap();
        assert_eq!(values(&columns(&y, 3, 2)), values(&rows));
    }
}

#[test]
fn row_norm_gradients_equal_finite_differences() {
    let mut rng = ChaCha8Rng::seed_from_u64(4);
    for (v, d) in [(1, 3), (9, 5), (70, 33), (130, 8)] {
        let (w, g) = (random((v, d), &mut rng), random((v, d), &mut rng));
        let w = ((w.abs().unwrap() + 0.3).unwrap() * w.sign().unwrap()).unwrap();
        for length in values(&row_norm::forward(&w).unwrap().sqr().unwrap().sum(1).unwrap()) {
            assert!((length - 1.0).abs() < 1e-6, "{length}");
        }
        let dw = ones(&[v, d]);
        row_norm::backward(&w, &g, &dw).unwrap();
        differences(&w, &minus_ones(&dw), |w| scalar(&row_norm::forward(w).unwrap(), &g), "dw");
    }
}

#[test]
fn rows_of_zeros_stay_zeros_with_finite_gradients() {
    let w = Tensor::new(&[[0f32, 0.0, 0.0], [3.0, 0.0, 4.0], [1e-20, 0.0, 0.0]], &Device::Cpu).unwrap();
    let normed = values(&row_norm::forward(&w).unwrap());
    assert_eq!(normed[..6], [0.0, 0.0, 0.0, 0.6, 0.0, 0.8]);
    assert!((normed[6] / 1e-8 - 1.0).abs() < 1e-6, "{normed:?}");
    let (g, dw) = (ones(&[3, 3]), Tensor::zeros((3, 3), candle_core::DType::F32, &Device::Cpu).unwrap());
    row_norm::backward(&w, &g, &dw).unwrap();
    let dw = values(&dw);
    assert!(dw.iter().all(|x| x.is_finite()), "{dw:?}");
    // As in PyTorch: the divisor of a short row is the constant 1e-12.
    assert_eq!([dw[0], dw[8]], [1e12; 2]);
}

#[test]
fn shapes_that_do_not_fit_are_refused() {
    let t = |shape: &[usize]| ones(shape);
    assert!(bias::add(&t(&[2, 3]), &t(&[2])).is_err());
    assert!(bias::backward(&t(&[2, 3]), &t(&[3, 1])).is_err());
    assert!(head_norm::forward(&t(&[2, 9]), &t(&[4]), EPS).is_err());
    assert!(head_norm::forward(&t(&[2, 9]), &t(&[0]), EPS).is_err());
    for columns in [1..5, 0..6, 8..12] {
        assert!(head_norm::forward_columns(&t(&[2, 8]), columns, &t(&[4]), EPS).is_err());
    }
    assert!(head_norm::backward(&t(&[2, 8]), &t(&[4]), EPS, &t(&[2, 4]), &t(&[4])).is_err());
    assert!(row_norm::forward(&t(&[2])).is_err());
    assert!(row_norm::backward(&t(&[2, 3]), &t(&[2, 3]), &t(&[3, 2])).is_err());
}
