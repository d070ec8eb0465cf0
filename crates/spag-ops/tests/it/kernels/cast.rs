//! Rounding must be identical on every device.

use candle_core::{DType, Tensor};
use spag_emulator::Place;
use spag_ops::cast::{round_in_place, round_into, widened};

use super::random::{Random, close};

#[test]
fn kernels_match_the_cpu() {
    let place = &Place::of_this_build();
    let mut random = Random::new(7);
    for count in [1, 8, 4099, 20_000] {
        // Thirds need rounding, unlike the random tensors.
        let wide = (random.tensor(&[count]).unwrap() / 3.0).unwrap();
        let want = Tensor::zeros(count, DType::BF16, wide.device()).unwrap();
        round_into(&wide, &want).unwrap();
        let narrow = place.put(&wide.zeros_like().unwrap(), DType::BF16).unwrap();
        let there = place.put(&wide, DType::F32).unwrap();
        place.run(|| round_into(&there, &narrow)).unwrap();
        close(&narrow, &want, 0.0, "rounded");
        close(&place.run(|| widened(&narrow)).unwrap(), &want, 0.0, "widened again");
        if count > 100 {
            // A view that is not 16-byte aligned.
            let narrow = place.put(&wide.zeros_like().unwrap(), DType::BF16).unwrap();
            let part = |t: &Tensor| t.narrow(0, 3, count - 5).unwrap();
            place.run(|| round_into(&part(&there), &part(&narrow))).unwrap();
            close(&part(&narrow), &part(&want), 0.0, "rounded in part");
        }
    }
}

#[test]
fn kernels_round_in_place_to_the_same_numbers() {
    let place = &Place::of_this_build();
    let mut random = Random::new(8);
    // The last two as views that are not 16-byte aligned.
    for (count, start) in [(1, 0), (5, 0), (40_003, 0), (4, 1), (20_000, 3)] {
        let wide = (random.tensor(&[start + count + 2]).unwrap() / 3.0).unwrap();
        let part = |t: &Tensor| t.narrow(0, start, count).unwrap();
        let rounded = Tensor::zeros(count, DType::BF16, wide.device()).unwrap();
        round_into(&part(&wide), &rounded).unwrap();
        let want = wide.copy().unwrap();
        want.slice_set(&widened(&rounded).unwrap(), 0, start).unwrap();
        let (here, there) = (wide.copy().unwrap(), place.put(&wide, DType::F32).unwrap());
        round_in_place(&part(&here)).unwrap();
        place.run(|| round_in_place(&part(&there))).unwrap();
        close(&here, &want, 0.0, "on the CPU");
        close(&there, &want, 0.0, "on the device");
    }
}
