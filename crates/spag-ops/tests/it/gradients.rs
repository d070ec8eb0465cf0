//! Compares every backward pass with central finite differences.

use crate::differences::{differences, minus_ones, ones, random, scalar, values};
use candle_core::{Device, Tensor};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use spag_ops::attention::{self, Heads, Mask, Sequences};
use spag_ops::glu::Activation;
use spag_ops::kernels::{Accumulate, SumOrder};
use spag_ops::log_prob::Targets;
use spag_ops::packed_linear::{self, PackedWeight};
use spag_ops::rope::{self, Direction, Positions, RopeTable};
use spag_ops::sample::{Distribution, Sampling};
use spag_ops::{embedding, log_prob, matmul, rms_norm, squared_norm};

#[test]
fn linear() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    for (n, i, o) in [(5, 7, 3), (1, 4, 9), (17, 16, 33)] {
        let (x, w, g) = (random((n, i), &mut rng), random((o, i), &mut rng), random((n, o), &mut rng));
        let dw = ones(&[o, i]);
        matmul::linear_backward_weight(&g, &x, (&dw, Accumulate::Yes), matmul::Arithmetic::F32).unwrap();
        let dx = matmul::linear_backward_input(&[(&g, &w)]).unwrap();
        differences(&x, &dx, |x| scalar(&matmul::linear(x, &w).unwrap(), &g), "dx");
        differences(&w, &minus_ones(&dw), |w| scalar(&matmul::linear(&x, w).unwrap(), &g), "dw");
    }
}

#[test]
fn rms_norm() {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    for (n, d) in [(3, 5), (70, 8), (1, 33)] {
        let (x, g, r) = (random((n, d), &mut rng), random((n, d), &mut rng), random((n, d), &mut rng));
        let w = random((1, d), &mut rng).flatten_all().unwrap();
        let dw = ones(&[d]);
        let dx = rms_norm::backward(&x, &w, 1e-5, &g, Some(&r), &dw).unwrap();
        let dx = (dx - r).unwrap();
        differences(&x, &dx, |x| scalar(&rms_norm::forward(x, &w, 1e-5).unwrap(), &g), "dx");
        differences(&w, &minus_ones(&dw), |w| scalar(&rms_norm::forward(&x, w, 1e-5).unwrap(), &g), "dw");
        // Stored weights relative to one.
        let norm = rms_norm::RmsNorm { eps: 1e-5, offset: 1.0 };
        let dw = ones(&[d]);
        let dx = rms_norm::backward(&x, &w, norm, &g, None, &dw).unwrap();
        differences(&x, &dx, |x| scalar(&rms_norm::forward(x, &w, norm).unwrap(), &g), "dx");
        differences(&w, &minus_ones(&dw), |w| scalar(&rms_norm::forward(&x, w, norm).unwrap(), &g), "dw");
        let factors = (&w + 1.0).unwrap();
        assert_eq!(
            values(&rms_norm::forward(&x, &w, norm).unwrap()),
            values(&rms_norm::forward(&x, &factors, 1e-5).unwrap())
        );
    }
}

#[test]
fn swiglu() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let (gate, up, g) = (random((4, 9), &mut rng), random((4, 9), &mut rng), random((4, 9), &mut rng));
    let (dgate, dup, y) = (gate.copy().unwrap(), up.copy().unwrap(), g.copy().unwrap());
    Activation::SwiGlu.backward(&dgate, &dup, &y).unwrap();
    assert_eq!(values(&y), values(&Activation::SwiGlu.forward(&gate, &up).unwrap()), "the output once more");
    differences(&gate, &dgate, |x| scalar(&Activation::SwiGlu.forward(x, &up).unwrap(), &g), "dgate");
    differences(&up, &dup, |x| scalar(&Activation::SwiGlu.forward(&gate, x).unwrap(), &g), "dup");
}

#[test]
fn geglu() {
    let mut rng = ChaCha8Rng::seed_from_u64(13);
    let (gate, up, g) = (random((4, 9), &mut rng), random((4, 9), &mut rng), random((4, 9), &mut rng));
    let (dgate, dup, y) = (gate.copy().unwrap(), up.copy().unwrap(), g.copy().unwrap());
    Activation::GeGlu.backward(&dgate, &dup, &y).unwrap();
    assert_eq!(values(&y), values(&Activation::GeGlu.forward(&gate, &up).unwrap()), "the output once more");
    differences(&gate, &dgate, |x| scalar(&Activation::GeGlu.forward(x, &up).unwrap(), &g), "dgate");
    differences(&up, &dup, |x| scalar(&Activation::GeGlu.forward(&gate, x).unwrap(), &g), "dup");
    let joined = Tensor::cat(&[&gate, &up], 1).unwrap();
    assert_eq!(
        values(&Activation::GeGlu.forward_joined(&joined).unwrap()),
        values(&Activation::GeGlu.forward(&gate, &up).unwrap())
    );
    // candle's gelu is the tanh approximation.
    let expected = (gate.gelu().unwrap() * &up).unwrap();
    for (found, expected) in values(&Activation::GeGlu.forward(&gate, &up).unwrap()).iter().zip(values(&expected)) {
        assert!((found - expected).abs() < 1e-6, "{found} {expected}");
    }
}

#[test]
fn rope() {
    let mut rng = ChaCha8Rng::seed_from_u64(4);
    let table = RopeTable::new((0..3).map(|i| 10_000f32.powf(-2.0 * i as f32 / 6.0)).collect(), 50);
    let positions = Positions::new(&[0, 3, 49, 7], &table, &Device::Cpu).unwrap();
    let turn = |x: &Tensor, direction| {
        let y = x.copy().unwrap();
        rope::rotate(&y, &positions, &table, direction).unwrap();
        y
    };
    let (x, g) = (random((4, 12), &mut rng), random((4, 12), &mut rng));
    let dx = turn(&g, Direction::Backward);
    differences(&x, &dx, |x| scalar(&turn(x, Direction::Forward), &g), "dx");
    assert!(Positions::new(&[0, 1, 2, 50], &table, &Device::Cpu).is_err(), "a position outside the table");
}

#[test]
fn attention() {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    // Grouped heads, and lengths around the block of 64, including an empty sequence.
    for (heads, bounds) in [
        (Heads { query: 2, kv: 2, dim: 4 }, vec![0, 3, 4, 9]),
        (Heads { query: 4, kv: 2, dim: 2 }, vec![0, 0, 6]),
        (Heads { query: 2, kv: 1, dim: 2 }, vec![0, 66, 69]),
    ] {
        let n = *bounds.last().unwrap() as usize;
        let (qd, kd) = (heads.query * heads.dim, heads.kv * heads.dim);
        let (q, k, v) = (random((n, qd), &mut rng), random((n, kd), &mut rng), random((n, kd), &mut rng));
        let g = random((n, qd), &mut rng);
        let sequences = Sequences::new(&bounds, &Device::Cpu).unwrap();
        let (out, lse) = attention::forward(&q, &k, &v, &sequences, heads, &Mask::causal()).unwrap();
        let (dq, dk, dv) = attention::backward(&q, &k, &v, &out, &lse, &g, &sequences, heads, &Mask::causal()).unwrap();
        let f = |q: &Tensor, k: &Tensor, v: &Tensor| {
            scalar(&attention::forward(q, k, v, &sequences, heads, &Mask::causal()).unwrap().0, &g)
        };
        differences(&q, &dq, |q| f(q, &k, &v), "dq");
        differences(&k, &dk, |k| f(&q, k, &v), "dk");
        differences(&v, &dv, |v| f(&q, &k, v), "dv");
    }
}

/// Output, and the gradients of q, k and v of one (sequence, query head) pair, all in f64.
fn attention_reference(q: &[f64], k: &[f64], v: &[f64], g: &[f64], dim: usize) -> [Vec<f64>; 4] {
    let len = q.len() / dim;
    let scale = 1.0 / (dim as f64).sqrt();
    let row = |x: &[f64], i: usize| x[i * dim..(i + 1) * dim].to_vec();
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let [mut out, mut dq, mut dk, mut dv] = [0; 4].map(|_| vec![0f64; len * dim]);
    let add = |to: &mut [f64], i: usize, factor: f64, from: &[f64]| {
        to[i * dim..(i + 1) * dim].iter_mut().zip(from).for_each(|(t, f)| *t += factor * f);
    };
    for i in 0..len {
        let weights: Vec<f64> = (0..=i).map(|j| (dot(&row(q, i), &row(k, j)) * scale).exp()).collect();
        let sum: f64 = weights.iter().sum();
        let p: Vec<f64> = weights.iter().map(|w| w / sum).collect();
        (0..=i).for_each(|j| add(&mut out, i, p[j], &row(v, j)));
        let delta = dot(&row(&out, i), &row(g, i));
        for (j, p) in p.iter().enumerate() {
            let ds = p * (dot(&row(g, i), &row(v, j)) - delta) * scale;
            add(&mut dq, i, ds, &row(k, j));
            add(&mut dk, j, ds, &row(q, i));
            add(&mut dv, j, *p, &row(g, i));
        }
    }
    [out, dq, dk, dv]
}

#[test]
fn attention_matches_f64_for_all_head_sizes() {
    let mut rng = ChaCha8Rng::seed_from_u64(12);
    let lengths = [0, 1, 8, 8, 55, 170];
    let sequences = Sequences::new(&lengths, &Device::Cpu).unwrap();
    for (query, kv, dim) in [(2, 2, 32), (4, 2, 64), (2, 1, 128), (3, 3, 20), (2, 2, 72), (1, 1, 1)] {
        let heads = Heads { query, kv, dim };
        let n = 170;
        let (q, g) = (random((n, query * dim), &mut rng), random((n, query * dim), &mut rng));
        let (k, v) = (random((n, kv * dim), &mut rng), random((n, kv * dim), &mut rng));
        let (out, lse) = attention::forward(&q, &k, &v, &sequences, heads, &Mask::causal()).unwrap();
        let (dq, dk, dv) = attention::backward(&q, &k, &v, &out, &lse, &g, &sequences, heads, &Mask::causal()).unwrap();
        let columns = |t: &Tensor, first: usize, bounds: &[u32]| -> Vec<f64> {
            let rows = t.narrow(0, bounds[0] as usize, (bounds[1] - bounds[0]) as usize).unwrap();
            let part = rows.narrow(1, first * dim, dim).unwrap().contiguous().unwrap();
            values(&part).into_iter().map(f64::from).collect()
        };
        for bounds in lengths.windows(2).filter(|b| b[0] < b[1]) {
            for head in 0..kv {
                let [mut dk_want, mut dv_want] = [0; 2].map(|_| vec![0f64; columns(&k, head, bounds).len()]);
                let close = |got: Vec<f64>, want: &[f64], what: &str| {
                    let scale = want.iter().fold(0.1f64, |m, x| m.max(x.abs()));
                    let worst = got.iter().zip(want).map(|(g, w)| (g - w).abs()).fold(0.0, f64::max);
                    assert!(worst <= 3e-6 * scale, "{heads:?} {bounds:?} {what}: {worst:e} of {scale}");
                };
                let group = query / kv;
                for of_group in head * group..(head + 1) * group {
                    let [o, dq_want, dk_part, dv_part] = attention_reference(
                        &columns(&q, of_group, bounds),
                        &columns(&k, head, bounds),
                        &columns(&v, head, bounds),
                        &columns(&g, of_group, bounds),
                        dim,
                    );
                    close(columns(&out, of_group, bounds), &o, "out");
                    close(columns(&dq, of_group, bounds), &dq_want, "dq");
                    dk_want.iter_mut().zip(dk_part).for_each(|(a, b)| *a += b);
                    dv_want.iter_mut().zip(dv_part).for_each(|(a, b)| *a += b);
                }
                close(columns(&dk, head, bounds), &dk_want, "dk");
                close(columns(&dv, head, bounds), &dv_want, "dv");
            }
        }
    }
}

#[test]
fn log_prob() {
    log_prob_under(&[]);
}

#[test]
fn log_prob_of_other_distributions() {
    let drawn = |temperature, top_k, top_p, banned: &[u32]| Distribution {
        sampling: Sampling::random(temperature, top_k, top_p),
        banned: banned.into(),
    };
    // The second and last targets are not among the most likely tokens, and the third is banned: targets are never excluded.
    log_prob_under(&[
        drawn(0.5, 0, None, &[]),
        drawn(1.0, 0, Some(0.5), &[]),
        drawn(2.0, 0, None, &[10, 4]),
        Distribution::of_model(),
        drawn(0.7, 2, None, &[]),
    ]);
}

fn log_prob_under(distributions: &[Distribution]) {
    let mut rng = ChaCha8Rng::seed_from_u64(6);
    let (hidden, head) = (random((5, 6), &mut rng), random((11, 6), &mut rng));
    let (tokens, upstream) = ([3, 0, 10, 3, 7], [0.5f32, -1.0, 2.0, 0.75, 0.25]);
    let targets = || Targets { tokens: &tokens, distributions };
    let given = Tensor::new(&upstream, &Device::Cpu).unwrap();
    let dhead = ones(&[11, 6]);
    let forward = log_prob::forward(&hidden, &head, targets()).unwrap();
    let dhidden = log_prob::backward(forward, &hidden, &head, targets(), &given, Some(&dhead)).unwrap();
    let f = |hidden: &Tensor, head: &Tensor| {
        let values = values(&log_prob::forward(hidden, head, targets()).unwrap().values);
        values.iter().zip(upstream).map(|(v, u)| f64::from(*v) * f64::from(u)).sum()
    };
    differences(&hidden, &dhidden, |x| f(x, &head), "dhidden");
    differences(&head, &minus_ones(&dhead), |x| f(&hidden, x), "dhead");
}

#[test]
fn chunked_log_prob_equals_unchunked() {
    // A vocabulary large enough that logits are chunked and recomputed.
    let restricted = Distribution { sampling: Sampling::random(0.8, 50, None), banned: [7].into() };
    for distribution in [Distribution::of_model(), restricted] {
        chunked_log_prob_under(&vec![distribution; 600]);
    }
}

fn chunked_log_prob_under(distributions: &[Distribution]) {
    let (m, d, v) = (600, 4, 40_000);
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let (hidden, head) = (random((m, d), &mut rng), random((v, d), &mut rng));
    let targets: Vec<u32> = (0..m).map(|_| rng.random_range(0..v as u32)).collect();
    let upstream: Vec<f32> = (0..m).map(|_| rng.random::<f32>() - 0.5).collect();
    let upstream = Tensor::new(upstream, &Device::Cpu).unwrap();
    let targets = Targets { tokens: &targets, distributions };
    let dhead = ones(&[v, d]);
    let forward = log_prob::forward(&hidden, &head, targets).unwrap();
    let forward_values = values(&forward.values);
    assert_eq!(values(&log_prob::values(&hidden, &head, targets).unwrap()), forward_values);
    let dhidden = log_prob::backward(forward, &hidden, &head, targets, &upstream, Some(&dhead)).unwrap();
    for row in [0, 1, 300, m - 1] {
        let one = hidden.narrow(0, row, 1).unwrap();
        let target = Targets { tokens: &targets.tokens[row..=row], distributions: &distributions[row..=row] };
        let want = log_prob::forward(&one, &head, target).unwrap();
        assert!((values(&want.values)[0] - forward_values[row]).abs() < 1e-5);
        let dhead = ones(&[v, d]);
        let given = upstream.narrow(0, row, 1).unwrap();
        let want = log_prob::backward(want, &one, &head, target, &given, Some(&dhead)).unwrap();
        let got = dhidden.narrow(0, row, 1).unwrap();
        assert!(values(&(got - want).unwrap()).iter().all(|d| d.abs() < 1e-5));
    }
}

#[test]
fn embedding() {
    let mut rng = ChaCha8Rng::seed_from_u64(8);
    let table = random((6, 3), &mut rng);
    let ids = [5, 0, 5, 5, 2];
    let g = random((5, 3), &mut rng);
    let dtable = ones(&[6, 3]);
    embedding::backward(&ids, &g, &dtable).unwrap();
    differences(&table, &minus_ones(&dtable), |t| scalar(&embedding::forward(&ids, t).unwrap(), &g), "dtable");
    assert!(embedding::forward(&[6], &table).is_err(), "a token outside the vocabulary");
}

#[test]
fn squared_norm() {
    let mut rng = ChaCha8Rng::seed_from_u64(9);
    let x = random((101, 97), &mut rng);
    let want: f64 = values(&x).iter().map(|x| f64::from(*x).powi(2)).sum();
    assert!((squared_norm::squared_norm(&x).unwrap() / want - 1.0).abs() < 1e-6);
}

#[test]
fn rows_do_not_depend_on_other_rows() {
    let mut rng = ChaCha8Rng::seed_from_u64(10);
    for (i, o) in [(64, 64), (64, 172), (172, 64), (128, 1000), (1100, 8), (1100, 300), (2050, 70)] {
        let (x, w) = (random((200, i), &mut rng), random((o, i), &mut rng));
        let packed = PackedWeight::new(&w).unwrap();
        let all = packed_linear::forward(&x, &packed, None, SumOrder::Any).unwrap();
        for n in (1..=80).chain([127, 128, 129, 200]) {
            let some = packed_linear::forward(&x.narrow(0, 200 - n, n).unwrap(), &packed, None, SumOrder::Any).unwrap();
            assert_eq!(values(&all.narrow(0, 200 - n, n).unwrap()), values(&some), "{i} → {o}, {n} rows");
        }
    }
}
