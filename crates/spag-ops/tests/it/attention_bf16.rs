//! Attention with bf16 tensors compared with the same numbers in f32, forward and backward. They differ only by the
//! rounding of probabilities, score gradients and outputs.

use crate::differences::{random, values};
use candle_core::{DType, Device, Tensor};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use spag_ops::attention::{self, Heads, Mask, Sequences, Slopes};

/// The relative error of rounding to bf16's 8 bits.
const ROUNDING: f32 = 1.0 / 256.0;

/// q, k and v in bf16 and in f32, and the gradient of the output.
struct Inputs {
    narrow: [Tensor; 3],
    wide: [Tensor; 3],
    gradient: Tensor,
}

impl Inputs {
    fn new(n: usize, heads: Heads, rng: &mut ChaCha8Rng) -> Self {
        let (q, kv) = ((n, heads.query * heads.dim), (n, heads.kv * heads.dim));
        let narrow = [q, kv, kv].map(|shape| random(shape, rng).to_dtype(DType::BF16).unwrap());
        let wide = [0, 1, 2].map(|i: usize| narrow[i].to_dtype(DType::F32).unwrap());
        Self { narrow, wide, gradient: random(q, rng) }
    }
}

/// The output and the gradients of q, k and v.
fn pass(tensors: &[Tensor; 3], gradient: &Tensor, bounds: &[u32], heads: Heads, mask: &Mask) -> [Tensor; 4] {
    let [q, k, v] = tensors;
    let sequences = Sequences::new(bounds, &Device::Cpu).unwrap();
    let (out, lse) = attention::forward(q, k, v, &sequences, heads, mask).unwrap();
    let (dq, dk, dv) = attention::backward(q, k, v, &out, &lse, gradient, &sequences, heads, mask).unwrap();
    [out, dq, dk, dv]
}

fn wide(tensor: &Tensor) -> Vec<f32> {
    values(&tensor.to_dtype(DType::F32).unwrap())
}

fn masks(heads: Heads) -> Vec<Mask> {
    let slopes = [None, Some(Slopes::alibi(heads.query))];
    // With a window of 1, the gradients of queries and keys are 0.
    let windows = [None, Some(3), Some(17), Some(60), Some(1000)];
    windows.iter().flat_map(|window| slopes.iter().map(|s| Mask::new(*window, s.clone()).unwrap())).collect()
}

#[test]
fn bf16_is_as_close_to_f32_as_its_rounding() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    for (query, kv, dim) in [(2, 2, 32), (6, 2, 64), (4, 1, 20), (2, 1, 70), (1, 1, 128), (3, 3, 15)] {
        let heads = Heads { query, kv, dim };
        // Lengths around tiles of 6 or 32 queries, registers of 16 keys, and blocks of 48 or 128 queries.
        let bounds = [0, 1, 3, 3, 20, 69, 164, 325];
        let inputs = Inputs::new(325, heads, &mut rng);
        for mask in masks(heads) {
            let found = pass(&inputs.narrow, &inputs.gradient, &bounds, heads, &mask);
            let want = pass(&inputs.wide, &inputs.gradient, &bounds, heads, &mask);
            assert_eq!(found[0].dtype(), DType::BF16);
            let [q, k, v] = inputs.wide.clone();
            let sizes = pass(&[q, k, v.abs().unwrap()], &inputs.gradient, &bounds, heads, &mask);
            for ((found, want), size) in wide(&found[0]).iter().zip(wide(&want[0])).zip(wide(&sizes[0])) {
                // Roundings of each probability and of the output.
                let limit = 2.02 * ROUNDING * size;
                assert!(
                    (found - want).abs() <= limit,
                    "{heads:?} {mask:?}: {found}, {want} in f32, at most {limit} apart"
                );
            }
            for (name, index) in [("dq", 1), ("dk", 2), ("dv", 3)] {
                let (found, want) = (wide(&found[index]), wide(&want[index]));
                let norm = |x: &mut dyn Iterator<Item = f32>| x.map(|x| f64::from(x).powi(2)).sum::<f64>().sqrt();
                let distance = norm(&mut found.iter().zip(&want).map(|(a, b)| a - b));
                let length = norm(&mut want.iter().copied());
                assert!(
                    distance <= 2.0 * f64::from(ROUNDING) * length,
                    "{heads:?} {mask:?} {name}: {distance} of {length}"
                );
            }
        }
    }
}

#[test]
fn sequences_do_not_depend_on_those_beside_them_nor_on_threads() {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    // AMX tiles handle heads of size 32, and pairs the others.
    for heads in [24, 32].map(|dim| Heads { query: 4, kv: 2, dim }) {
        let inputs = Inputs::new(130, heads, &mut rng);
        for mask in masks(heads) {
            sequences_stand_alone(&inputs, heads, &mask);
        }
    }
}

fn sequences_stand_alone(inputs: &Inputs, heads: Heads, mask: &Mask) {
    let bounds = [0u32, 29, 60, 130];
    let together = pass(&inputs.narrow, &inputs.gradient, &bounds, heads, mask);
    for ends in bounds.windows(2) {
        let (start, len) = (ends[0] as usize, (ends[1] - ends[0]) as usize);
        let part = |tensor: &Tensor| tensor.narrow(0, start, len).unwrap().contiguous().unwrap();
        let narrow = [0, 1, 2].map(|i: usize| part(&inputs.narrow[i]));
        let threads = rayon::ThreadPoolBuilder::new().num_threads(1 + start % 3).build().unwrap();
        let gradient = part(&inputs.gradient);
        let alone = threads.install(|| pass(&narrow, &gradient, &[0, len as u32], heads, mask));
        for (alone, together) in alone.iter().zip(&together) {
            assert_eq!(wide(alone), wide(&part(together)), "{mask:?}");
        }
    }
}

#[test]
fn a_window_of_the_whole_sequence_changes_no_bit_of_bf16() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    for heads in [20, 32].map(|dim| Heads { query: 4, kv: 2, dim }) {
        let inputs = Inputs::new(130, heads, &mut rng);
        let all = |mask: &Mask| {
            pass(&inputs.narrow, &inputs.gradient, &[0, 29, 130], heads, mask).map(|tensor| wide(&tensor))
        };
        assert_eq!(all(&Mask::new(Some(101), None).unwrap()), all(&Mask::causal()));
        assert_ne!(all(&Mask::new(Some(100), None).unwrap()), all(&Mask::causal()));
    }
}
