//! Gathering is exact. Scattering sums up to a few hundred rows in f32; a bf16 table is rounded once.

use candle_core::{DType, Tensor};
use spag_emulator::Place;
use spag_ops::embedding;

use super::random::{Random, close, tolerance};

#[test]
fn kernels_match_the_cpu() {
    let place = &Place::of_this_build();
    let mut random = Random::new(5);
    for (v, d, n) in [(7, 8, 5), (11, 33, 40), (300, 264, 500), (4, 2056, 9)] {
        let (table, dx) = (random.tensor(&[v, d]).unwrap(), random.tensor(&[n, d]).unwrap());
        // Half of the tokens are equal, for a long run.
        let ids: Vec<u32> = (0..n).map(|at| if at % 2 == 0 { 3 } else { random.below(v) as u32 }).collect();
        let dtable = random.tensor(&[v, d]).unwrap();
        for (dtype, sums) in [(DType::F32, DType::F32), (DType::BF16, DType::F32), (DType::BF16, DType::BF16)] {
            let htable = place.put(&table, dtype).unwrap();
            let x = place.run(|| embedding::forward(&ids, &htable)).unwrap();
            assert_eq!(x.dtype(), dtype);
            close(&x, &embedding::forward(&ids, &table).unwrap(), 0.0, "x");
            let (hdx, hdtable, want) =
                (place.put(&dx, dtype).unwrap(), place.put(&dtable, sums).unwrap(), dtable.copy().unwrap());
            place.run(|| embedding::backward(&ids, &hdx, &hdtable)).unwrap();
            embedding::backward(&ids, &dx, &want).unwrap();
            close(&hdtable, &want, tolerance(sums), "dtable");
        }
    }
    let nothing =
        place.put(&Tensor::zeros((4, 8), DType::F32, &candle_core::Device::Cpu).unwrap(), DType::F32).unwrap();
    let none = place.run(|| embedding::forward(&[], &nothing)).unwrap();
    place.run(|| embedding::backward(&[], &none, &nothing)).unwrap();
}
