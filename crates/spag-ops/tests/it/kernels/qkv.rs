//! Splitting and joining QKV: unrotated numbers keep their bits.

use candle_core::{DType, Tensor};
use spag_emulator::Place;
use spag_ops::attention::Heads;
use spag_ops::qkv::{join, split};
use spag_ops::rope::{Positions, RopeTable};

use super::random::{Random, close, tolerance};

#[test]
fn kernels_match_the_cpu() {
    let place = &Place::of_this_build();
    let mut random = Random::new(17);
    let n = 5;
    // Whole vectors, single elements, and sizes that are whole vectors only in total.
    for (query, kv, dim, part) in [
        (9, 3, 64, 64),
        (4, 4, 16, 16),
        (3, 1, 6, 6),
        (33, 11, 128, 128),
        (8, 2, 12, 12),
        // Partial rotations.
        (4, 2, 64, 32),
        (4, 2, 16, 12),
        (3, 1, 10, 4),
    ] {
        let heads = Heads { query, kv, dim };
        let frequencies = (0..part / 2).map(|i| 10_000f32.powf(-2.0 * i as f32 / part as f32)).collect();
        let table = RopeTable::new(frequencies, 50).in_heads(dim).unwrap();
        let positions: Vec<u32> = (0..n).map(|_| random.below(50) as u32).collect();
        let x = random.tensor(&[n, (query + 2 * kv) * dim]).unwrap();
        let at = Positions::new(&positions, &table, x.device()).unwrap();
        let at_here = place.run(|| Positions::new(&positions, &table, place.device())).unwrap();
        for dtype in [DType::F32, DType::BF16] {
            let here = place.put(&x, dtype).unwrap();
            let turned = place.run(|| split(&here, heads, Some((&at_here, &table)))).unwrap();
            let want = split(&x, heads, Some((&at, &table))).unwrap();
            for ((got, want), name) in turned.iter().zip(&want).zip(["q", "k", "v"]) {
                close(got, want, tolerance(dtype), name);
            }
            let back = place.run(|| join(turned.each_ref(), heads, Some((&at_here, &table)))).unwrap();
            close(&back, &x, tolerance(dtype), "x turned back");
            let apart = place.run(|| split(&here, heads, None)).unwrap();
            let again = place.run(|| join(apart.each_ref(), heads, None)).unwrap();
            close(&again, &here, 0.0, "x together again");
        }
    }
}

/// Odd head sizes cannot be rotated, but can be split.
#[test]
fn odd_heads_are_taken_apart() {
    let place = &Place::of_this_build();
    let heads = Heads { query: 3, kv: 1, dim: 5 };
    let x = Random::new(18).tensor(&[4, 25]).unwrap();
    let here = place.put(&x, DType::BF16).unwrap();
    let [q, k, v] = place.run(|| split(&here, heads, None)).unwrap();
    let all = Tensor::cat(&[&q, &k, &v], 1).unwrap();
    close(&all, &here, 0.0, "x");
    let table = RopeTable::new(vec![1.0; 2], 9);
    let positions = Positions::new(&[0; 4], &table, x.device()).unwrap();
    assert!(split(&x, heads, Some((&positions, &table))).is_err());
    assert!(split(&x, Heads { query: 2, kv: 1, dim: 5 }, None).is_err());
}
