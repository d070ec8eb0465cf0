use candle_core::DType;
use spag_emulator::Place;
use spag_ops::head_norm;

use super::random::{PUTS, Random, close, tolerance};

const EPS: f32 = 1e-6;

#[test]
fn kernels_match_the_cpu() {
    let place = &Place::of_this_build();
    let mut random = Random::new(22);
    for (n, heads, dim) in [(1, 1, 2), (3, 6, 14), (5, 2, 20), (70, 4, 64), (300, 3, 128), (7, 2, 256), (2, 1, 1000)] {
        let (x, dy) = (random.tensor(&[n, heads * dim]).unwrap(), random.tensor(&[n, heads * dim]).unwrap());
        let (w, dw) = (random.tensor(&[dim]).unwrap(), random.tensor(&[dim]).unwrap());
        // A joint tensor with two more heads before and one after, and an odd number of columns at its end.
        let width = (heads + 3) * dim + 1;
        let (joint, columns) = (random.tensor(&[n, width]).unwrap(), 2 * dim..(heads + 2) * dim);
        for (put, dtype) in PUTS.into_iter().flat_map(|put| [DType::F32, DType::BF16].map(|dtype| (put, dtype))) {
            let here = |t| put(place, t, dtype).unwrap();
            let (hx, hw, hjoint) = (here(&x), here(&w), here(&joint));
            let y = place.run(|| head_norm::forward(&hx, &hw, EPS)).unwrap();
            assert_eq!(y.dtype(), dtype);
            close(&y, &head_norm::forward(&x, &w, EPS).unwrap(), tolerance(dtype), "y");
            let want = joint.copy().unwrap();
            head_norm::forward_columns(&want, columns.clone(), &w, EPS).unwrap();
            let inside = hjoint.narrow(1, columns.start, columns.len()).unwrap().contiguous().unwrap();
            let alone = place.run(|| head_norm::forward(&inside, &hw, EPS)).unwrap();
            place.run(|| head_norm::forward_columns(&hjoint, columns.clone(), &hw, EPS)).unwrap();
            close(&hjoint, &want, tolerance(dtype), "columns");
            let inside = hjoint.narrow(1, columns.start, columns.len()).unwrap().contiguous().unwrap();
            close(&inside, &alone, 0.0, "the bits of both forward functions");
            // Accumulated in f32 for every number format.
            let (hdw, want_dw) = (put(place, &dw, DType::F32).unwrap(), dw.copy().unwrap());
            let dx = place.run(|| head_norm::backward(&hx, &hw, EPS, &here(&dy), &hdw)).unwrap();
            let want = head_norm::backward(&x, &w, EPS, &dy, &want_dw).unwrap();
            close(&dx, &want, tolerance(dtype), "dx");
            close(&hdw, &want_dw, 2e-5, "dw");
        }
    }
}
