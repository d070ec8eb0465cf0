use candle_core::DType;
use spag_emulator::Place;
use spag_ops::rope::{Direction, Positions, RopeTable, rotate, rotate_leading};

use super::random::{Random, close, tolerance};

#[test]
fn kernels_match_the_cpu() {
    let place = &Place::of_this_build();
    let mut random = Random::new(6);
    // Width, rotated columns and head size: whole vectors, single elements, and unaligned rows.
    for (width, columns, head) in [(64, 64, 16), (96, 64, 32), (18, 12, 6), (4608, 4224, 128), (33, 32, 16)] {
        let frequencies = (0..head / 2).map(|i| 10_000f32.powf(-2.0 * i as f32 / head as f32)).collect();
        let table = RopeTable::new(frequencies, 50);
        let n = 5;
        let positions: Vec<u32> = (0..n).map(|_| random.below(50) as u32).collect();
        let x = random.tensor(&[n, width]).unwrap();
        let at = Positions::new(&positions, &table, x.device()).unwrap();
        for dtype in [DType::F32, DType::BF16] {
            let here = place.put(&x, dtype).unwrap();
            let at_here = place.run(|| Positions::new(&positions, &table, place.device())).unwrap();
            for direction in [Direction::Forward, Direction::Backward] {
                let (turned, want) = (place.put(&x, dtype).unwrap(), x.copy().unwrap());
                place.run(|| rotate_leading(&turned, columns, &at_here, &table, direction)).unwrap();
                rotate_leading(&want, columns, &at, &table, direction).unwrap();
                close(&turned, &want, tolerance(dtype), "x");
            }
            if columns == width {
                // Forward and backward.
                place.run(|| rotate(&here, &at_here, &table, Direction::Forward)).unwrap();
                place.run(|| rotate(&here, &at_here, &table, Direction::Backward)).unwrap();
                close(&here, &x, tolerance(dtype), "x turned back");
            }
        }
    }
}
