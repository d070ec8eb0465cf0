use candle_core::{DType, Result, Tensor};
use spag_emulator::Place;
use spag_ops::{geglu, swiglu};

use super::random::{Random, close, tolerance};

/// The functions of a gated activation.
struct Gated {
    forward: fn(&Tensor, &Tensor) -> Result<Tensor>,
    joined: fn(&Tensor) -> Result<Tensor>,
    backward: fn(&Tensor, &Tensor, &Tensor) -> Result<()>,
}

#[test]
fn swiglu_matches_the_cpu() {
    let (forward, joined, backward) = (swiglu::forward, swiglu::forward_joined, swiglu::backward);
    check(&Gated { forward, joined, backward });
}

#[test]
fn geglu_matches_the_cpu() {
    let (forward, joined, backward) = (geglu::forward, geglu::forward_joined, geglu::backward);
    check(&Gated { forward, joined, backward });
}

fn check(gated: &Gated) {
    let place = &Place::of_this_build();
    let mut random = Random::new(4);
    for (n, f) in [(1, 8), (3, 33), (5, 1000), (2, 4100), (70, 64)] {
        // Gates up to ±24, where the sigmoid is 0 or 1 in f32.
        let wide = |t: Tensor| (t * 24.0).unwrap();
        let (gate, up) = (wide(random.tensor(&[n, f]).unwrap()), random.tensor(&[n, f]).unwrap());
        let dy = random.tensor(&[n, f]).unwrap();
        let joined = Tensor::cat(&[&gate, &up], 1).unwrap();
        for dtype in [DType::F32, DType::BF16] {
            let here = |t| place.put(t, dtype).unwrap();
            let (hgate, hup, hdy) = (here(&gate), here(&up), here(&dy));
            let want = (gated.forward)(&gate, &up).unwrap();
            let y = place.run(|| (gated.forward)(&hgate, &hup)).unwrap();
            assert_eq!(y.dtype(), dtype);
            close(&y, &want, tolerance(dtype), "y");
            let y = place.run(|| (gated.joined)(&here(&joined))).unwrap();
            close(&y, &want, tolerance(dtype), "y of joined");
            let (dgate, dup, output) = (gate.copy().unwrap(), up.copy().unwrap(), dy.copy().unwrap());
            (gated.backward)(&dgate, &dup, &output).unwrap();
            place.run(|| (gated.backward)(&hgate, &hup, &hdy)).unwrap();
            close(&hgate, &dgate, tolerance(dtype), "dgate");
            close(&hup, &dup, tolerance(dtype), "dup");
            close(&hdy, &output, tolerance(dtype), "the output once more");
        }
    }
}
