//! The products of linear layers. They differ from the CPU version in the order of sums of at most 200 products and in
//! rounding to bf16, once per layer for sums over layers.

use candle_core::DType;
use spag_emulator::Place;
use spag_ops::kernels::Accumulate;
use spag_ops::matmul::{self, Arithmetic};

use super::random::{Random, close, tolerance};

#[test]
fn kernels_match_the_cpu() {
    let place = &Place::of_this_build();
    let mut random = Random::new(2);
    for (n, i, o) in [(1, 8, 8), (5, 33, 17), (64, 96, 200)] {
        let (x, w) = (random.tensor(&[n, i]).unwrap(), random.tensor(&[o, i]).unwrap());
        let (dy, residual) = (random.tensor(&[n, o]).unwrap(), random.tensor(&[n, o]).unwrap());
        let (other_w, dw) = (random.tensor(&[o, i]).unwrap(), random.tensor(&[o, i]).unwrap());
        for dtype in [DType::F32, DType::BF16] {
            let here = |t| place.put(t, dtype).unwrap();
            let (hx, hw, hdy, hresidual, hother) = (here(&x), here(&w), here(&dy), here(&residual), here(&other_w));
            let y = place.run(|| matmul::linear(&hx, &hw)).unwrap();
            assert_eq!(y.dtype(), dtype);
            close(&y, &matmul::linear(&x, &w).unwrap(), tolerance(dtype), "y");
            let y = place.run(|| matmul::linear_add(&hresidual, &hx, &hw)).unwrap();
            close(&y, &matmul::linear_add(&residual, &x, &w).unwrap(), tolerance(dtype), "y with a residual");
            close(&hresidual, &residual, 0.0, "the residual as it was");
            let sums = (hresidual.copy().unwrap(), residual.copy().unwrap());
            place.run(|| matmul::linear_onto(&sums.0, &hx, &hw)).unwrap();
            matmul::linear_onto(&sums.1, &x, &w).unwrap();
            close(&sums.0, &y, 0.0, "y onto a residual");
            close(&sums.1, &matmul::linear_add(&residual, &x, &w).unwrap(), 0.0, "y onto a residual on the CPU");
            let dx = place.run(|| matmul::linear_backward_input(&[(&hdy, &hw), (&hresidual, &hother)])).unwrap();
            let want = matmul::linear_backward_input(&[(&dy, &w), (&residual, &other_w)]).unwrap();
            close(&dx, &want, tolerance(dtype), "dx");
            let (hdw, want) = (place.put(&dw, DType::F32).unwrap(), dw.copy().unwrap());
            place.run(|| matmul::linear_backward_weight(&hdy, &hx, (&hdw, Accumulate::Yes), Arithmetic::F32)).unwrap();
            matmul::linear_backward_weight(&dy, &x, (&want, Accumulate::Yes), Arithmetic::F32).unwrap();
            close(&hdw, &want, 2e-5, "dw");
        }
    }
}
