//! AdamW must match the CPU version bit by bit: both round after every operation.

use candle_core::{DType, Tensor};
use spag_emulator::Place;
use spag_ops::adamw::{AdamWStep, Weights, adamw};

use super::random::{Random, close};

/// Weights of an update.
#[derive(Clone, Copy, Debug)]
enum Mode {
    F32,
    Master,
    Stochastic,
}

/// Parameters, their bf16 copy, the gradient and both moments, on one place.
struct Buffers {
    wide: Tensor,
    narrow: Tensor,
    gradient: Tensor,
    first: Tensor,
    second: Tensor,
}

impl Buffers {
    fn part(&self, start: usize, count: usize) -> Self {
        let part = |t: &Tensor| t.narrow(0, start, count).unwrap();
        Self {
            wide: part(&self.wide),
            narrow: part(&self.narrow),
            gradient: part(&self.gradient),
            first: part(&self.first),
            second: part(&self.second),
        }
    }

    fn update(&self, mode: Mode, first: u64, step: u64) {
        let at = AdamWStep {
            step,
            learning_rate: 0.02,
            beta1: 0.9,
            beta2: 0.99,
            epsilon: 1e-8,
            weight_decay: 0.1,
            gradient_scale: 0.7,
        };
        let weights = match mode {
            Mode::F32 => Weights::F32(&self.wide),
            Mode::Master => Weights::Master { wide: &self.wide, rounded: &self.narrow },
            Mode::Stochastic => Weights::Stochastic { narrow: &self.narrow, seed: 11, first },
        };
        adamw(weights, &self.gradient, &self.first, &self.second, &at).unwrap();
    }
}

#[test]
fn kernels_match_the_cpu() {
    let place = &Place::of_this_build();
    let mut random = Random::new(9);
    for count in [1, 8, 1027, 40_000] {
        let [wide, gradient, first] = [(); 3].map(|()| random.tensor(&[count]).unwrap());
        let second = random.tensor(&[count]).unwrap().sqr().unwrap();
        let at = |put: &dyn Fn(&Tensor, DType) -> Tensor| Buffers {
            wide: put(&wide, DType::F32),
            narrow: put(&wide, DType::BF16),
            gradient: put(&gradient, DType::F32),
            first: put(&first, DType::F32),
            second: put(&second, DType::F32),
        };
        for mode in [Mode::F32, Mode::Master, Mode::Stochastic] {
            let here = at(&|t, dtype| place.put(t, dtype).unwrap());
            let mut want = at(&|t, dtype| t.to_dtype(dtype).unwrap().copy().unwrap());
            // The random gradients are exact in bf16, a format that the CPU also accepts.
            want.gradient = want.gradient.to_dtype(if count == 8 { DType::F32 } else { DType::BF16 }).unwrap();
            // Twice as a whole, and once in two parts, the second of which is not 16-byte aligned.
            for step in [1, 2] {
                place.run(|| here.update(mode, 5, step));
                want.update(mode, 5, step);
            }
            let cut = count / 3 + 1;
            place.run(|| here.part(0, cut).update(mode, 5, 3));
            place.run(|| here.part(cut, count - cut).update(mode, 5 + cut as u64, 3));
            want.update(mode, 5, 3);
            let what = |name: &str| format!("{name}, {mode:?}");
            close(&here.wide, &want.wide, 0.0, &what("weights"));
            close(&here.narrow, &want.narrow, 0.0, &what("bf16 weights"));
            close(&here.first, &want.first, 0.0, &what("first moment"));
            close(&here.second, &want.second, 0.0, &what("second moment"));
        }
    }
}
