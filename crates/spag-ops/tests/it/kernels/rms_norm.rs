use candle_core::DType;
use spag_emulator::Place;
use spag_ops::rms_norm::{self, RmsNorm};

use super::random::{PUTS, Random, close, tolerance};

const EPS: f32 = 1e-5;

#[test]
fn kernels_match_the_cpu() {
    let place = &Place::of_this_build();
    let mut random = Random::new(1);
    for (n, d) in [(1, 8), (3, 33), (5, 256), (300, 64), (7, 4096), (2, 5000), (3, 9000), (2, 16_380)] {
        let (x, w) = (random.tensor(&[n, d]).unwrap(), random.tensor(&[d]).unwrap());
        let (dy, residual) = (random.tensor(&[n, d]).unwrap(), random.tensor(&[n, d]).unwrap());
        let dw = random.tensor(&[d]).unwrap();
        // Weights stored as factors, and relative to one.
        let norms = [0.0, 1.0].map(|offset| RmsNorm { eps: EPS, offset });
        let formats = || PUTS.into_iter().flat_map(|put| [DType::F32, DType::BF16].map(|dtype| (put, dtype)));
        for ((put, dtype), norm) in formats().flat_map(|format| norms.map(|norm| (format, norm))) {
            let here = |t| put(place, t, dtype).unwrap();
            let (hx, hw, hdy, hresidual) = (here(&x), here(&w), here(&dy), here(&residual));
            let y = place.run(|| rms_norm::forward(&hx, &hw, norm)).unwrap();
            assert_eq!(y.dtype(), dtype);
            close(&y, &rms_norm::forward(&x, &w, norm).unwrap(), tolerance(dtype), "y");
            let sum = place.run(|| rms_norm::forward_add(&hresidual, &hx, &hw, norm)).unwrap();
            close(&sum, &rms_norm::forward_add(&residual, &x, &w, norm).unwrap(), tolerance(dtype), "the sum");
            let (y_again, copy) = place.run(|| rms_norm::forward_and_copy(&hx, &hw, norm)).unwrap();
            close(&y_again, &y, 0.0, "y beside a copy");
            close(&copy, &hx, 0.0, "the copy of x");
            for around in [None, Some((&hresidual, &residual))] {
                // Accumulated in f32 for every number format.
                let (hdw, want_dw) = (put(place, &dw, DType::F32).unwrap(), dw.copy().unwrap());
                let dx = place.run(|| rms_norm::backward(&hx, &hw, norm, &hdy, around.map(|a| a.0), &hdw)).unwrap();
                let want = rms_norm::backward(&x, &w, norm, &dy, around.map(|a| a.1), &want_dw).unwrap();
                close(&dx, &want, tolerance(dtype), "dx");
                close(&hdw, &want_dw, 2e-5, "dw");
                let Some((hresidual, residual)) = around else { continue };
                let both = |x, w, dy, residual, dw| rms_norm::backward_and_forward(x, w, norm, (dy, residual), dw);
                let (dx_again, y_again) = place.run(|| both(&hx, &hw, &hdy, hresidual, &hdw)).unwrap();
                close(&dx_again, &dx, 0.0, "dx beside y");
                close(&y_again, &y, 0.0, "y once more");
                let (dx, y) = both(&x, &w, &dy, residual, &want_dw).unwrap();
                close(&dx, &want, 0.0, "dx beside y on the CPU");
                close(&y, &rms_norm::forward(&x, &w, norm).unwrap(), 0.0, "y once more on the CPU");
                close(&hdw, &want_dw, 2e-5, "dw of both");
            }
        }
    }
}
