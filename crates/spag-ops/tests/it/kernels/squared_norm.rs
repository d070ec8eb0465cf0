//! Sums in f64 over f32 sums of four squares: far more precise than f32.

use candle_core::{DType, Device, Tensor};
use spag_emulator::Place;
use spag_ops::squared_norm::{squared_norm, squared_norm_into};

use super::random::{Random, close};

#[test]
fn kernels_match_the_cpu() {
    let place = &Place::of_this_build();
    let mut random = Random::new(8);
    // The last size exceeds what all blocks process at once.
    for count in [1, 7, 1000, 1_200_003] {
        let x = random.tensor(&[count]).unwrap();
        let exact: f64 = x.to_vec1::<f32>().unwrap().iter().map(|x| f64::from(*x).powi(2)).sum();
        let here = place.put(&x, DType::F32).unwrap();
        let got = place.run(|| squared_norm(&here)).unwrap();
        assert!((got / exact - 1.0).abs() < 2e-7, "{got} against {exact}");
        let sum = place.put(&Tensor::new(&[2.5f64], &Device::Cpu).unwrap(), DType::F64).unwrap();
        let on_cpu = Tensor::new(&[2.5f64], &Device::Cpu).unwrap();
        // Twice, with an empty tensor between.
        let twice = |x: &Tensor| [x.clone(), x.narrow(0, 0, 0).unwrap(), x.clone()];
        place.run(|| squared_norm_into(&twice(&here), &sum)).unwrap();
        squared_norm_into(&twice(&x), &on_cpu).unwrap();
        let want = Tensor::new(&[2.5 + 2.0 * exact], &Device::Cpu).unwrap();
        close(&sum, &want, 2e-7, "the running sum");
        // The CPU version sums 4096 squares in f32.
        close(&on_cpu, &want, 1e-6, "the running sum of the CPU version");
        if count > 100 {
            // A view that is not 16-byte aligned.
            let part = |x: &Tensor| x.narrow(0, 1, 999).unwrap();
            let got = place.run(|| squared_norm(&part(&here))).unwrap();
            let want = squared_norm(&part(&x)).unwrap();
            assert!((got / want - 1.0).abs() < 1e-6, "{got} against {want}");
        }
    }
}
