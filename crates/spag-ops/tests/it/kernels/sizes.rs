//! Kernels at the sizes of a 7B model, which would take minutes on a CPU: bf16 tensor core kernels compared with f32 row kernels
//! on the same device. In the emulator, with fewer rows and heads.

use candle_core::{DType, Result, Tensor};
use spag_emulator::Place;
use spag_ops::attention::{self, Heads, Mask, Sequences};
use spag_ops::kernels::Accumulate;
use spag_ops::matmul::{self, Arithmetic};
use spag_ops::paged_attention::{PageShape, Plan, Span, append, forward};

use super::random::{Random, close};

/// Inputs are the same in both formats. In bf16, weights and score gradients are rounded before products, and results after them.
const TOLERANCE: f64 = 1e-2;

/// The results of `pass` with these inputs in bf16 and in f32.
fn in_both<const N: usize>(
    place: &Place,
    inputs: [&Tensor; N],
    pass: impl Fn([Tensor; N]) -> Result<Vec<Tensor>>,
) -> [Vec<Tensor>; 2] {
    [DType::BF16, DType::F32].map(|dtype| {
        let inputs = inputs.map(|tensor| place.put(tensor, dtype).unwrap());
        place.run(|| pass(inputs)).unwrap()
    })
}

fn check([tiles, rows]: [Vec<Tensor>; 2], names: &[&str]) {
    assert_eq!((tiles.len(), rows.len()), (names.len(), names.len()));
    for ((tiles, rows), name) in tiles.iter().zip(&rows).zip(names) {
        close(tiles, rows, TOLERANCE, name);
    }
}

#[test]
fn attention_of_whole_sequences() {
    let place = &Place::of_this_build();
    let mut random = Random::new(11);
    let (length, heads) = if place.is_emulated() { (190, 1) } else { (2048, 32) };
    let heads = Heads { query: heads, kv: heads, dim: 128 };
    let bounds = [0, length, 2 * length];
    let [q, k, v, dout] = [(); 4].map(|()| random.tensor(&[2 * length as usize, heads.query * heads.dim]).unwrap());
    let results = in_both(place, [&q, &k, &v, &dout], |[q, k, v, dout]| {
        let sequences = Sequences::new(&bounds, place.device())?;
        let (out, lse) = attention::forward(&q, &k, &v, &sequences, heads, &Mask::causal())?;
        let (dq, dk, dv) = attention::backward(&q, &k, &v, &out, &lse, &dout, &sequences, heads, &Mask::causal())?;
        Ok(vec![out, dq, dk, dv])
    });
    check(results, &["the output", "dq", "dk", "dv"]);
}

#[test]
fn attention_with_pages() {
    let place = &Place::of_this_build();
    let mut random = Random::new(12);
    let (sequences, length, heads) = if place.is_emulated() { (2, 150, 1) } else { (64, 700, 32) };
    let shape = PageShape { tokens: 64, heads: Heads { query: heads, kv: heads, dim: 128 } };
    let pages = (length + 1usize).div_ceil(shape.tokens);
    let own = |sequence: usize| (sequence * pages..(sequence + 1) * pages).map(|page| page as u32).collect::<Vec<_>>();
    let own: Vec<Vec<u32>> = (0..sequences).map(own).collect();
    let width = 3 * heads * shape.heads.dim;
    let size = [sequences * pages, shape.elements()];
    let prompts = random.tensor(&[sequences * length, width]).unwrap();
    let next = random.tensor(&[sequences, width]).unwrap();
    let empty = random.tensor(&size).unwrap();
    let results = in_both(place, [&prompts, &next, &empty, &empty], |[prompts, next, keys, values]| {
        // Prefill, and then a token of each sequence.
        [(prompts, 0, length), (next, length, 1)]
            .into_iter()
            .map(|(qkv, position, rows)| {
                let span = |(at, pages): (usize, &'_ Vec<u32>)| (at * rows..(at + 1) * rows, pages.clone());
                let spans: Vec<_> = own.iter().enumerate().map(span).collect();
                let spans: Vec<_> =
                    spans.iter().map(|(rows, pages)| Span { rows: rows.clone(), position, pages }).collect();
                let plan = Plan::new(&spans, &keys, shape)?;
                append(&qkv, &keys, &values, &plan)?;
                forward(&qkv, &keys, &values, &plan, &Mask::causal())
            })
            .collect()
    });
    check(results, &["prefill", "a token each"]);
}

#[test]
fn products_and_their_gradients() {
    let place = &Place::of_this_build();
    let mut random = Random::new(13);
    let [rows, inputs, outputs] = if place.is_emulated() { [70, 40, 50] } else { [4096, 4096, 11_008] };
    let x = random.tensor(&[rows, inputs]).unwrap();
    let w = random.tensor(&[outputs, inputs]).unwrap();
    let dy = random.tensor(&[rows, outputs]).unwrap();
    let results = in_both(place, [&x, &w, &dy], |[x, w, dy]| {
        let y = matmul::linear(&x, &w)?;
        let dx = matmul::linear_backward_input(&[(&dy, &w)])?;
        let dw = Tensor::zeros(w.dims(), DType::F32, place.device())?;
        matmul::linear_backward_weight(&dy, &x, (&dw, Accumulate::Yes), Arithmetic::F32)?;
        Ok(vec![y, dx, dw])
    });
    check(results, &["the product", "dx", "dw"]);
}
