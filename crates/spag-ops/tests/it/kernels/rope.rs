use candle_core::DType;
use spag_emulator::Place;
use spag_ops::rope::{Direction, Positions, RopeTable, rotate, rotate_leading};

use super::random::{Random, close, tolerance};

#[test]
fn kernels_match_the_cpu() {
    let place = &Place::of_this_build();
    let mut random = Random::new(6);
    // Width, rotated columns, head size and the part of a head that is rotated: whole vectors, single elements, unaligned rows.
    for (width, columns, head, part) in [
        (64, 64, 16, 16),
        (96, 64, 32, 32),
        (18, 12, 6, 6),
        (4608, 4224, 128, 128),
        (33, 32, 16, 16),
        (160, 128, 64, 32),
        (64, 64, 16, 12),
        (30, 20, 10, 4),
    ] {
        let frequencies = (0..part / 2).map(|i| 10_000f32.powf(-2.0 * i as f32 / part as f32)).collect();
        let table = RopeTable::new(frequencies, 50).in_heads(head).unwrap();
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

/// The elements of a head after the rotated pairs keep their bits, and the others are those of a head that ends with the pairs.
#[test]
fn a_partial_rotation_leaves_the_rest_of_a_head() {
    let x = Random::new(7).tensor(&[3, 20]).unwrap();
    let (all, part) = (x.copy().unwrap(), x.narrow(1, 10, 4).unwrap().force_contiguous().unwrap());
    let table = RopeTable::new(vec![1.0, 0.3], 9);
    let positions = Positions::new(&[8, 0, 5], &table, x.device()).unwrap();
    rotate(&part, &positions, &table, Direction::Forward).unwrap();
    rotate(&all, &positions, &table.clone().in_heads(10).unwrap(), Direction::Forward).unwrap();
    let columns =
        |from: &candle_core::Tensor, first, count| from.narrow(1, first, count).unwrap().to_vec2::<f32>().unwrap();
    assert_eq!(columns(&all, 10, 4), part.to_vec2::<f32>().unwrap());
    assert_eq!(columns(&all, 14, 6), columns(&x, 14, 6));
    assert!(table.clone().in_heads(3).is_err() && table.in_heads(5).is_err());
}

/// Rows of a second set have its frequencies, and a factor scales what is rotated.
#[test]
fn sets_of_frequencies_are_chosen_by_row() {
    let x = Random::new(8).tensor(&[3, 4]).unwrap();
    let (slow, fast) = (RopeTable::new(vec![0.5, 0.1], 9), RopeTable::new(vec![2.0, 0.7], 9));
    let both = slow.clone().with_set(vec![2.0, 0.7]).unwrap().with_factor(2.0);
    let turned = |table: &RopeTable, rows: &[u32]| {
        let x = x.copy().unwrap();
        rotate(&x, &Positions::new(rows, table, x.device()).unwrap(), table, Direction::Forward).unwrap();
        x
    };
    for (set, table) in [(0, slow), (1, fast)] {
        let rows = [8, 0, 5].map(|position| both.row(position, set));
        let twice = (turned(&table, &[8, 0, 5]) * 2.0).unwrap();
        assert_eq!(turned(&both, &rows).to_vec2::<f32>().unwrap(), twice.to_vec2::<f32>().unwrap());
    }
    assert!(Positions::new(&[both.row(9, 0)], &both, x.device()).is_err());
    assert!(both.with_set(vec![1.0]).is_err());
}
