use candle_core::DType;
use spag_emulator::Place;
use spag_ops::bias;

use super::random::{PUTS, Random, close, tolerance};

#[test]
fn kernels_match_the_cpu() {
    let place = &Place::of_this_build();
    let mut random = Random::new(21);
    for (n, o) in [(1, 8), (3, 33), (5, 256), (600, 64), (7, 4096), (2, 5001)] {
        let (y, dy) = (random.tensor(&[n, o]).unwrap(), random.tensor(&[n, o]).unwrap());
        let (b, db) = (random.tensor(&[o]).unwrap(), random.tensor(&[o]).unwrap());
        for (put, dtype) in PUTS.into_iter().flat_map(|put| [DType::F32, DType::BF16].map(|dtype| (put, dtype))) {
            let here = |t| put(place, t, dtype).unwrap();
            let (hy, want) = (here(&y), y.copy().unwrap());
            place.run(|| bias::add(&hy, &here(&b))).unwrap();
            bias::add(&want, &b).unwrap();
            close(&hy, &want, tolerance(dtype), "y");
            // Accumulated in f32 for every number format.
            let (hdb, want) = (put(place, &db, DType::F32).unwrap(), db.copy().unwrap());
            place.run(|| bias::backward(&here(&dy), &hdb)).unwrap();
            bias::backward(&dy, &want).unwrap();
            close(&hdb, &want, 1e-5, "db");
        }
    }
}
