//! Attention with windows and ALiBi: finite differences, a dense implementation on candle's ops and autograd, and paged
//! attention with pages in f32 and bf16.

use crate::differences::{differences, random, scalar, values};
use candle_core::{D, DType, Device, Tensor, Var};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use spag_ops::attention::{self, Heads, Mask, Sequences, Slopes};
use spag_ops::paged_attention::{self, PageShape, Plan, Span};

fn heads(query: usize, kv: usize, dim: usize) -> Heads {
    Heads { query, kv, dim }
}

/// Every combination of some windows with and without ALiBi.
fn masks(windows: &[Option<usize>], heads: Heads) -> Vec<Mask> {
    let slopes = [None, Some(Slopes::alibi(heads.query))];
    windows.iter().flat_map(|w| slopes.iter().map(|s| Mask::new(*w, s.clone()).unwrap())).collect()
}

/// q, k, v and the gradient of the output.
fn inputs(n: usize, heads: Heads, rng: &mut ChaCha8Rng) -> [Tensor; 4] {
    let (wide, narrow) = ((n, heads.query * heads.dim), (n, heads.kv * heads.dim));
    [random(wide, rng), random(narrow, rng), random(narrow, rng), random(wide, rng)]
}

#[test]
fn gradients_equal_finite_differences() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    for (heads, bounds, windows) in [
        (heads(2, 2, 4), vec![0, 3, 4, 9], &[Some(1), Some(2), Some(1000)][..]),
        (heads(6, 2, 2), vec![0, 0, 7], &[None, Some(3)]),
        // Around the blocks of 48 queries and the registers of 16 keys.
        (heads(2, 1, 2), vec![0, 66, 69], &[Some(5), Some(17)]),
    ] {
        let n = *bounds.last().unwrap() as usize;
        let [q, k, v, g] = inputs(n, heads, &mut rng);
        let sequences = Sequences::new(&bounds, &Device::Cpu).unwrap();
        for mask in masks(windows, heads) {
            let (out, lse) = attention::forward(&q, &k, &v, &sequences, heads, &mask).unwrap();
            let (dq, dk, dv) = attention::backward(&q, &k, &v, &out, &lse, &g, &sequences, heads, &mask).unwrap();
            let f = |q: &Tensor, k: &Tensor, v: &Tensor| {
                scalar(&attention::forward(q, k, v, &sequences, heads, &mask).unwrap().0, &g)
            };
            differences(&q, &dq, |q| f(q, &k, &v), &format!("dq, {mask:?}"));
            differences(&k, &dk, |k| f(&q, k, &v), &format!("dk, {mask:?}"));
            differences(&v, &dv, |v| f(&q, &k, v), &format!("dv, {mask:?}"));
        }
    }
}

/// The output and the gradients of q, k and v of one sequence in f64: the T×T matrix, softmax and autograd.
fn dense([q, k, v, g]: &[Tensor; 4], heads: Heads, window: Option<usize>, slopes: Option<&[f32]>) -> [Tensor; 4] {
    let t = q.dim(0).unwrap();
    let var = |x: &Tensor| Var::from_tensor(&x.to_dtype(DType::F64).unwrap()).unwrap();
    let (q, k, v) = (var(q), var(k), var(v));
    let split = |x: &Tensor, h: usize| x.reshape((t, h, heads.dim)).unwrap().transpose(0, 1).unwrap();
    let repeated = |x: &Tensor| {
        let group = heads.query / heads.kv;
        let x = split(x, heads.kv).contiguous().unwrap().unsqueeze(1).unwrap();
        x.expand((heads.kv, group, t, heads.dim)).unwrap().reshape((heads.query, t, heads.dim)).unwrap()
    };
    let scores = split(&q, heads.query).contiguous().unwrap().matmul(&repeated(&k).t().unwrap()).unwrap();
    let added: Vec<f64> = (0..heads.query)
        .flat_map(|h| (0..t).flat_map(move |i| (0..t).map(move |j| (h, i, j))))
        .map(|(h, i, j)| {
            let seen = j <= i && window.is_none_or(|w| i < j + w);
            let slope = slopes.map_or(0.0, |s| f64::from(s[h]));
            if seen { slope * (j as f64 - i as f64) } else { f64::NEG_INFINITY }
        })
        .collect();
    let added = Tensor::from_vec(added, (heads.query, t, t), &Device::Cpu).unwrap();
    let scores = ((scores * (1.0 / (heads.dim as f64).sqrt())).unwrap() + added).unwrap();
    let p = candle_nn::ops::softmax(&scores, D::Minus1).unwrap();
    let out = p.matmul(&repeated(&v)).unwrap().transpose(0, 1).unwrap().contiguous().unwrap();
    let out = out.reshape((t, heads.query * heads.dim)).unwrap();
    let store = (&out * g.to_dtype(DType::F64).unwrap()).unwrap().sum_all().unwrap().backward().unwrap();
    let [dq, dk, dv] = [&q, &k, &v].map(|var| store.get(var).unwrap().clone());
    [out.detach(), dq, dk, dv]
}

#[test]
fn masked_attention_equals_a_dense_implementation() {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    let bounds = [0, 1, 8, 8, 55, 170];
    let sequences = Sequences::new(&bounds, &Device::Cpu).unwrap();
    for heads in [heads(6, 2, 8), heads(3, 3, 20), heads(2, 1, 64), heads(1, 1, 2)] {
        let inputs = inputs(170, heads, &mut rng);
        let [q, k, v, g] = &inputs;
        let alibi = Slopes::alibi(heads.query);
        for window in [None, Some(1), Some(2), Some(16), Some(33), Some(100), Some(170), Some(usize::MAX)] {
            for slopes in [None, Some(&alibi)] {
                let mask = Mask::new(window, slopes.cloned()).unwrap();
                let (out, lse) = attention::forward(q, k, v, &sequences, heads, &mask).unwrap();
                let (dq, dk, dv) = attention::backward(q, k, v, &out, &lse, g, &sequences, heads, &mask).unwrap();
                for bound in bounds.windows(2).filter(|b| b[0] < b[1]) {
                    let rows = |t: &Tensor| t.narrow(0, bound[0] as usize, (bound[1] - bound[0]) as usize).unwrap();
                    let part = [0, 1, 2, 3].map(|i| rows(&inputs[i]));
                    let want = dense(&part, heads, window.map(|w| w.min(1 << 30)), slopes.map(Slopes::values));
                    for ((got, want), what) in [&out, &dq, &dk, &dv].iter().zip(want).zip(["out", "dq", "dk", "dv"]) {
                        let want: Vec<f64> = want.flatten_all().unwrap().to_vec1().unwrap();
                        // With a window of 1, dq and dk are zero, as differences of two sums of about 3.
                        let scale = want.iter().fold(0.3f64, |m, x| m.max(x.abs()));
                        let far = |(g, w): (f32, &f64)| (f64::from(g) - w).abs();
                        let worst = values(&rows(got)).into_iter().zip(&want).map(far).fold(0.0, f64::max);
                        assert!(worst <= 3e-6 * scale, "{heads:?} {window:?} {bound:?} {what}: {worst:e} of {scale}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_window_of_the_whole_sequence_changes_no_bit() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let heads = heads(4, 2, 20);
    let [q, k, v, g] = inputs(130, heads, &mut rng);
    let sequences = Sequences::new(&[0, 29, 130], &Device::Cpu).unwrap();
    let all = |mask: &Mask| {
        let (out, lse) = attention::forward(&q, &k, &v, &sequences, heads, mask).unwrap();
        let (dq, dk, dv) = attention::backward(&q, &k, &v, &out, &lse, &g, &sequences, heads, mask).unwrap();
        [out, dq, dk, dv].map(|t| values(&t))
    };
    assert_eq!(all(&Mask::new(Some(101), None).unwrap()), all(&Mask::causal()));
    assert_ne!(all(&Mask::new(Some(100), None).unwrap()), all(&Mask::causal()));
}

/// Keys and values of a layer, filled span by span.
struct Cache {
    shape: PageShape,
    keys: Tensor,
    values: Tensor,
}

impl Cache {
    fn new(shape: PageShape, pages: usize) -> Self {
        Self::of(DType::F32, shape, pages)
    }

    fn of(dtype: DType, shape: PageShape, pages: usize) -> Self {
        let empty = || Tensor::zeros((pages, shape.elements()), dtype, &Device::Cpu).unwrap();
        Self { shape, keys: empty(), values: empty() }
    }

    /// The rows of spans (count, position, pages), whose tokens are rows of `qkv` from the position on.
    fn pass(&self, qkv: &Tensor, spans: &[(usize, usize, &[u32])], mask: &Mask) -> Vec<f32> {
        let mut rows = 0;
        let mut parts = Vec::new();
        let mut all = Vec::new();
        for &(count, position, pages) in spans {
            parts.push(qkv.narrow(0, position, count).unwrap());
            all.push(Span { rows: rows..rows + count, position, pages });
            rows += count;
        }
        let qkv = Tensor::cat(&parts, 0).unwrap();
        let plan = Plan::new(&all, &self.keys, self.shape).unwrap();
        paged_attention::append(&qkv, &self.keys, &self.values, &plan).unwrap();
        values(&paged_attention::forward(&qkv, &self.keys, &self.values, &plan, mask).unwrap())
    }
}

#[test]
fn paged_attention_equals_the_packed_one_however_it_is_chunked() {
    let mut rng = ChaCha8Rng::seed_from_u64(4);
    let n = 75;
    for (heads, tokens) in [(heads(6, 2, 8), 16), (heads(4, 4, 14), 7), (heads(2, 1, 20), 64)] {
        let (wide, narrow) = (heads.query * heads.dim, heads.kv * heads.dim);
        let qkv = random((n, wide + 2 * narrow), &mut rng);
        let part = |at, width| qkv.narrow(1, at, width).unwrap().contiguous().unwrap();
        let (q, k, v) = (part(0, wide), part(wide, narrow), part(wide + narrow, narrow));
        let sequences = Sequences::new(&[0, n as u32], &Device::Cpu).unwrap();
        let shape = PageShape { tokens, heads };
        let pages: Vec<u32> = (0..n.div_ceil(tokens) as u32).rev().collect();
        for mask in masks(&[None, Some(1), Some(3), Some(16), Some(40), Some(500)], heads) {
            let want = values(&attention::forward(&q, &k, &v, &sequences, heads, &mask).unwrap().0);
            let once = Cache::new(shape, pages.len()).pass(&qkv, &[(n, 0, &pages)], &mask);
            for (got, want) in once.iter().zip(&want) {
                assert!((got - want).abs() <= 2e-6, "{heads:?} {mask:?}: {got} against {want}");
            }
            // Bit by bit: in chunks, then one by one.
            let cache = Cache::new(shape, pages.len());
            let mut parts = Vec::new();
            for (from, to) in [(0, 1), (1, 20), (20, 50), (50, 57)] {
                parts.extend(cache.pass(&qkv, &[(to - from, from, &pages)], &mask));
            }
            for at in 57..n {
                parts.extend(cache.pass(&qkv, &[(1, at, &pages)], &mask));
            }
            assert!(parts == once, "{heads:?} {tokens} {mask:?}: chunks change the result");
        }
    }
}

#[test]
fn decoding_rows_do_not_depend_on_the_rows_that_share_their_pages() {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let (heads, n) = (heads(6, 2, 8), 200);
    let qkv = random((n, (6 + 2 * 2) * 8), &mut rng);
    for tokens in [5, 16] {
        let shape = PageShape { tokens, heads };
        let count = n.div_ceil(tokens) as u32;
        // Two page tables with the first 40 tokens in common.
        let first: Vec<u32> = (0..count).collect();
        let shared = 40 / tokens;
        let second: Vec<u32> = first.iter().map(|p| if (*p as usize) < shared { *p } else { p + count }).collect();
        for mask in masks(&[None, Some(1), Some(7), Some(30), Some(90)], heads) {
            let cache = Cache::new(shape, 2 * count as usize);
            cache.pass(&qkv, &[(n, 0, &first)], &mask);
            cache.pass(&qkv, &[(n - shared * tokens, shared * tokens, &second)], &mask);
            let spans: [(usize, usize, &[u32]); 7] = [
                (1, 44, &first),
                (1, 45, &second),
                (1, 199, &first),
                (1, 60, &second),
                (1, 120, &first),
                (1, 41, &second),
                (1, 198, &second),
            ];
            let together = cache.pass(&qkv, &spans, &mask);
            let alone: Vec<f32> = spans.iter().flat_map(|span| cache.pass(&qkv, &[*span], &mask)).collect();
            assert!(together == alone, "{tokens} {mask:?}");
        }
    }
}

/// Bit-identical to f32 pages with rounded keys and values: prompts in chunks, decoding alone and batched, copied
/// pages.
#[test]
fn pages_in_bf16_hold_the_nearest_numbers() {
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let n = 75;
    for (heads, tokens) in [(heads(6, 2, 8), 16), (heads(4, 4, 14), 7), (heads(2, 1, 20), 64), (heads(3, 1, 70), 33)] {
        let (wide, narrow) = (heads.query * heads.dim, heads.kv * heads.dim);
        let qkv = random((n, wide + 2 * narrow), &mut rng);
        let [queries, stored] = [(0, wide), (wide, 2 * narrow)].map(|(at, width)| qkv.narrow(1, at, width).unwrap());
        let stored = stored.to_dtype(DType::BF16).unwrap().to_dtype(DType::F32).unwrap();
        let rounded = Tensor::cat(&[&queries, &stored], 1).unwrap().contiguous().unwrap();
        let shape = PageShape { tokens, heads };
        let count = n.div_ceil(tokens) as u32;
        let pages: Vec<u32> = (0..count).rev().collect();
        for mask in masks(&[None, Some(3), Some(40)], heads) {
            let (narrow, wide) =
                (Cache::of(DType::BF16, shape, count as usize + 1), Cache::new(shape, count as usize + 1));
            let same = |spans: &[(usize, usize, &[u32])]| {
                let (found, want) = (narrow.pass(&qkv, spans, &mask), wide.pass(&rounded, spans, &mask));
                assert!(found.iter().all(|x| x.is_finite()) && found == want, "{heads:?} {tokens} {mask:?} {spans:?}");
            };
            same(&[(50, 0, &pages)]);
            same(&[(24, 50, &pages)]);
            same(&[(1, 74, &pages)]);
            // Moves the first page.
            for cache in [&narrow, &wide] {
                paged_attention::copy(&cache.keys, &cache.values, pages[0], count, tokens.min(6), shape).unwrap();
            }
            let copied: Vec<u32> = std::iter::once(count).chain(pages[1..].iter().copied()).collect();
            same(&[(1, 74, &pages), (1, 6, &copied), (1, 7, &copied), (1, 73, &pages)]);
        }
    }
    let shape = PageShape { tokens: 4, heads: heads(1, 1, 4) };
    let (f32s, bf16s) = (Cache::new(shape, 1), Cache::of(DType::BF16, shape, 1));
    let plan = Plan::new(&[Span { rows: 0..1, position: 0, pages: &[0] }], &f32s.keys, shape).unwrap();
    let qkv = random((1, 12), &mut rng);
    let error = paged_attention::append(&qkv, &f32s.keys, &bf16s.values, &plan).unwrap_err().to_string();
    assert!(error.contains("F32 with keys F32 and values BF16"), "{error}");
}

#[test]
fn masks_that_do_not_fit_are_refused() {
    let heads = heads(2, 1, 4);
    let [q, k, v, _] = inputs(3, heads, &mut ChaCha8Rng::seed_from_u64(6));
    let sequences = Sequences::new(&[0, 3], &Device::Cpu).unwrap();
    let mask = Mask::new(None, Some(Slopes::alibi(3))).unwrap();
    let error = attention::forward(&q, &k, &v, &sequences, heads, &mask).unwrap_err().to_string();
    assert!(error.contains("3 ALiBi slopes for 2 query heads"), "{error}");
}
