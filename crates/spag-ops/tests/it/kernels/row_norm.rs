use candle_core::{DType, Device, Tensor};
use spag_emulator::Place;
use spag_ops::row_norm;

use super::random::{PUTS, Random, close, tolerance};

#[test]
fn kernels_match_the_cpu() {
    let place = &Place::of_this_build();
    let mut random = Random::new(23);
    for (v, d) in [(1, 8), (3, 33), (70, 64), (9, 4096), (2, 5001)] {
        let (w, dn) = (random.tensor(&[v, d]).unwrap(), random.tensor(&[v, d]).unwrap());
        let dw = random.tensor(&[v, d]).unwrap();
        for (put, dtype) in PUTS.into_iter().flat_map(|put| [DType::F32, DType::BF16].map(|dtype| (put, dtype))) {
            let here = put(place, &w, dtype).unwrap();
            let normed = place.run(|| row_norm::forward(&here)).unwrap();
            assert_eq!(normed.dtype(), dtype);
            close(&normed, &row_norm::forward(&w).unwrap(), tolerance(dtype), "normed");
            let (hdw, want) = (put(place, &dw, DType::F32).unwrap(), dw.copy().unwrap());
            let hdn = put(place, &dn, DType::F32).unwrap();
            place.run(|| row_norm::backward(&here, &hdn, &hdw)).unwrap();
            row_norm::backward(&w, &dn, &want).unwrap();
            close(&hdw, &want, 1e-5, "dw");
        }
    }
    // A zero row stays zero, and its gradient is finite.
    let zeros = place.put(&Tensor::zeros((2, 5), DType::F32, &Device::Cpu).unwrap(), DType::F32).unwrap();
    let ones = place.put(&Tensor::ones((2, 5), DType::F32, &Device::Cpu).unwrap(), DType::F32).unwrap();
    let dw = place.put(&zeros, DType::F32).unwrap();
    let normed = place.run(|| row_norm::forward(&zeros)).unwrap();
    place.run(|| row_norm::backward(&zeros, &ones, &dw)).unwrap();
    close(&normed, &Tensor::zeros((2, 5), DType::F32, &Device::Cpu).unwrap(), 0.0, "zeros");
    close(&dw, &Tensor::full(1e12f32, (2, 5), &Device::Cpu).unwrap(), 1e-6, "the gradient of zeros");
}
