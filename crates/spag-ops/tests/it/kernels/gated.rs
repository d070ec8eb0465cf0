use candle_core::{DType, Tensor};
use spag_emulator::Place;
use spag_ops::glu::Activation;

use super::random::{Random, close, tolerance};

#[test]
fn swiglu_matches_the_cpu() {
    check(Activation::SwiGlu);
}

#[test]
fn geglu_matches_the_cpu() {
    check(Activation::GeGlu);
}

fn check(activation: Activation) {
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
            let want = activation.forward(&gate, &up).unwrap();
            let y = place.run(|| activation.forward(&hgate, &hup)).unwrap();
            assert_eq!(y.dtype(), dtype);
            close(&y, &want, tolerance(dtype), "y");
            let y = place.run(|| activation.forward_joined(&here(&joined))).unwrap();
            close(&y, &want, tolerance(dtype), "y of joined");
            let (dgate, dup, output) = (gate.copy().unwrap(), up.copy().unwrap(), dy.copy().unwrap());
            activation.backward(&dgate, &dup, &output).unwrap();
            place.run(|| activation.backward(&hgate, &hup, &hdy)).unwrap();
            close(&hgate, &dgate, tolerance(dtype), "dgate");
            close(&hup, &dup, tolerance(dtype), "dup");
            close(&hdy, &output, tolerance(dtype), "the output once more");
            let gradients = Tensor::cat(&[&dgate, &dup], 1).unwrap();
            let (hjoined, hdy) = (here(&joined), here(&dy));
            place.run(|| activation.backward_joined(&hjoined, &hdy)).unwrap();
            close(&hjoined, &gradients, tolerance(dtype), "dgate and dup of joined");
            close(&hdy, &output, tolerance(dtype), "the output of joined once more");
            let (on_cpu, dy) = (joined.copy().unwrap(), dy.copy().unwrap());
            activation.backward_joined(&on_cpu, &dy).unwrap();
            close(&on_cpu, &gradients, 0.0, "dgate and dup of joined on the CPU");
        }
    }
}
