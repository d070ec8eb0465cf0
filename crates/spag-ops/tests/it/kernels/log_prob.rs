//! The output head. Logits are f32 sums for every number format, so log-probabilities agree to f32 precision; gradients
//! of logits are rounded to the format before they are multiplied.

use candle_core::{DType, Device, Tensor};
use spag_emulator::Place;
use spag_ops::log_prob::{self, Targets};
use spag_ops::sample::{Distribution, Sampling};

use super::random::{Random, close, tolerance};

#[test]
fn kernels_match_the_cpu() {
    let place = &Place::of_this_build();
    let mut random = Random::new(10);
    for (m, d, v) in [(1, 8, 16), (5, 6, 33), (9, 16, 3000), (3, 4, 5001)] {
        // Logits of a few tens, so that some probabilities underflow.
        let hidden = (random.tensor(&[m, d]).unwrap() * 8.0).unwrap();
        let (head, upstream) = (random.tensor(&[v, d]).unwrap(), random.tensor(&[m]).unwrap());
        let tokens: Vec<u32> = (0..m).map(|_| random.below(v) as u32).collect();
        let dhead = random.tensor(&[v, d]).unwrap();
        let drawn = drawn(m, v);
        let formats = [DType::F32, DType::BF16];
        for (dtype, distributions) in formats.into_iter().flat_map(|dtype| [(dtype, &[][..]), (dtype, &drawn)]) {
            let targets = Targets { tokens: &tokens, distributions };
            let here = |t| place.put(t, dtype).unwrap();
            let (hhidden, hhead) = (here(&hidden), here(&head));
            let hupstream = place.put(&upstream, DType::F32).unwrap();
            let (hdhead, want_dhead) = (place.put(&dhead, DType::F32).unwrap(), dhead.copy().unwrap());
            let want = log_prob::forward(&hidden, &head, targets).unwrap();
            let values = place.run(|| log_prob::values(&hhidden, &hhead, targets)).unwrap();
            close(&values, &want.values, 1e-5, "values");
            let forward = place.run(|| log_prob::forward(&hhidden, &hhead, targets)).unwrap();
            close(&forward.values, &want.values, 1e-5, "values");
            let dhidden = place
                .run(|| log_prob::backward(forward, &hhidden, &hhead, targets, &hupstream, Some(&hdhead)).unwrap());
            assert_eq!(dhidden.dtype(), dtype);
            let want = log_prob::backward(want, &hidden, &head, targets, &upstream, Some(&want_dhead)).unwrap();
            close(&dhidden, &want, tolerance(dtype), "dhidden");
            close(&hdhead, &want_dhead, tolerance(dtype), "dhead");
        }
    }
    let none =
        |rows: usize| place.put(&Tensor::zeros((rows, 8), DType::F32, &Device::Cpu).unwrap(), DType::F32).unwrap();
    let (hidden, head) = (none(0), none(3));
    let forward = place.run(|| log_prob::forward(&hidden, &head, &[])).unwrap();
    let upstream = forward.values.clone();
    let dhidden = place.run(|| log_prob::backward(forward, &hidden, &head, &[], &upstream, Some(&none(3)))).unwrap();
    assert_eq!(dhidden.dims(), [0, 8]);
}

/// Distributions of all kinds, some of which exclude the target.
fn drawn(rows: usize, vocabulary: usize) -> Vec<Distribution> {
    let of = |temperature, top_k, top_p, banned: &[u32]| Distribution {
        sampling: Sampling::random(temperature, top_k, top_p),
        banned: banned.iter().copied().filter(|_| vocabulary > 16).collect(),
    };
    let kinds = [
        of(0.7, 0, None, &[]),
        of(1.0, 5, None, &[1, 3]),
        of(1.2, 0, Some(0.9), &[]),
        Distribution::of_model(),
        of(1.0, 0, None, &[0, 2, 32]),
        of(0.9, 700, Some(0.95), &[]),
    ];
    kinds.into_iter().cycle().take(rows).collect()
}
