use candle_core::DType;
use spag_emulator::Place;
use spag_ops::kernels::SumOrder;
use spag_ops::packed_linear::{PackedWeight, forward, forward_f32};

use super::random::{Random, close, tolerance};

const ORDER: SumOrder = SumOrder::Any;

#[test]
fn kernels_match_the_cpu() {
    let place = &Place::of_this_build();
    let mut random = Random::new(3);
    let (n, i) = (9, 48);
    let x = random.tensor(&[n, i]).unwrap();
    for outputs in [32, 64] {
        let weight = random.tensor(&[outputs, i]).unwrap();
        let packed = PackedWeight::new(&weight).unwrap();
        let residual = random.tensor(&[n, packed.outputs()]).unwrap();
        for dtype in [DType::F32, DType::BF16] {
            let here = |t| place.put(t, dtype).unwrap();
            let (hx, hweight, hresidual) = (here(&x), here(&weight), here(&residual));
            let there = place.run(|| PackedWeight::new(&hweight)).unwrap();
            assert_eq!((there.inputs(), there.outputs()), (packed.inputs(), packed.outputs()));
            let y = place.run(|| forward_f32(&hx, &there, ORDER)).unwrap();
            assert_eq!(y.dtype(), DType::F32);
            close(&y, &forward(&x, &packed, None, ORDER).unwrap(), tolerance(dtype), "y in f32");
            for around in [None, Some((&hresidual, &residual))] {
                let y = place.run(|| forward(&hx, &there, around.map(|a| a.0), ORDER)).unwrap();
                close(&y, &forward(&x, &packed, around.map(|a| a.1), ORDER).unwrap(), tolerance(dtype), "y");
            }
        }
    }
}
