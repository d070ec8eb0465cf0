use candle_core::{DType, Device, Tensor};
use spag_emulator::Place;
use spag_ops::attention::{self, Heads, Mask, Sequences, Slopes};
use spag_ops::kernels::SumOrder;
use spag_ops::paged_attention::{PageShape, Plan, Span, append, append_rotated, copy, forward};
use spag_ops::rope::{Direction, Positions, RopeTable, rotate_leading};

use super::random::{Random, close, tolerance};

/// Keys and values of a layer on the CPU, and on the place in another number format and page layout.
struct Cache<'a> {
    place: &'a Place,
    dtype: DType,
    shape: PageShape,
    mask: Mask,
    cpu: (Tensor, Tensor),
    here: (Tensor, Tensor),
}

/// Spans of a pass: number of rows, position, sequence.
type Chunk<'a> = (usize, usize, &'a [u32]);

impl<'a> Cache<'a> {
    /// Unwritten slots are NaN and must not affect a result.
    fn new(place: &'a Place, dtype: DType, shape: PageShape, pages: usize, mask: Mask) -> Self {
        let size = (pages, shape.elements());
        let zeros = || Tensor::zeros(size, DType::F32, &Device::Cpu).unwrap();
        let unwritten = || place.put(&Tensor::full(f32::NAN, size, &Device::Cpu).unwrap(), dtype).unwrap();
        Self { place, dtype, shape, mask, cpu: (zeros(), zeros()), here: (unwritten(), unwritten()) }
    }

    /// Runs append and attention on both sides. `sharpness` scales queries and keys: larger values concentrate
    /// attention on fewer keys.
    fn pass(&self, random: &mut Random, chunks: &[Chunk<'_>], sharpness: f64) {
        let mut rows = 0;
        let mut spans = Vec::new();
        for (count, position, pages) in chunks {
            spans.push(Span { rows: rows..rows + count, position: *position, pages });
            rows += count;
        }
        let heads = self.shape.heads;
        let width = (heads.query + 2 * heads.kv) * heads.dim;
        let qkv = (random.tensor(&[rows, width]).unwrap() * sharpness).unwrap();
        let here = self.place.put(&qkv, self.dtype).unwrap();
        let (keys, values) = &self.cpu;
        let plan = Plan::new(&spans, keys, self.shape).unwrap();
        append(&qkv, keys, values, &plan).unwrap();
        let want = forward(&qkv, keys, values, &plan, &self.mask).unwrap();
        for order in [SumOrder::Any, SumOrder::Fixed] {
            let what = format!("{:?} {:?} {:?} {chunks:?} {order:?}", self.dtype, self.shape, self.mask);
            self.compare((&qkv, &here, &want), &spans, order, &what);
        }
    }

    /// Append and attention on this place, compared with the expected tensors.
    fn compare(&self, (qkv, here, want): (&Tensor, &Tensor, &Tensor), spans: &[Span<'_>], order: SumOrder, what: &str) {
        let (keys, values) = &self.here;
        let got = self.place.run(|| {
            let plan = Plan::padded(spans, 0, keys, (self.shape, order))?;
            append(here, keys, values, &plan)?;
            let first = forward(here, keys, values, &plan, &self.mask)?;
            let second = forward(here, keys, values, &plan, &self.mask)?;
            // The same plan gives bit-identical results.
            close(&first, &second, 0.0, "again");
            candle_core::Result::Ok(first)
        });
        let got = got.unwrap();
        assert_eq!(got.dtype(), self.dtype);
        close(&got, want, tolerance(self.dtype), what);
        if spans.iter().all(|span| span.rows.len() == 1) {
            close(&self.padded(qkv, spans, order), want, tolerance(self.dtype), &format!("{what} padded"));
        }
    }

    /// A decoding pass with three rows of padding, whose queries, keys and values are NaN.
    fn padded(&self, qkv: &Tensor, spans: &[Span<'_>], order: SumOrder) -> Tensor {
        let (rows, width) = qkv.dims2().unwrap();
        let padding = Tensor::full(f32::NAN, (3, width), &Device::Cpu).unwrap();
        let here = self.place.put(&Tensor::cat(&[qkv, &padding], 0).unwrap(), self.dtype).unwrap();
        let (keys, values) = &self.here;
        let attended = self.place.run(|| {
            let plan = Plan::padded(spans, rows + 3, keys, (self.shape, order))?;
            append(&here, keys, values, &plan)?;
            forward(&here, keys, values, &plan, &self.mask)?.narrow(0, 0, rows)?.contiguous()
        });
        attended.unwrap()
    }

    fn copy(&self, from: u32, to: u32, tokens: usize) {
        copy(&self.cpu.0, &self.cpu.1, from, to, tokens, self.shape).unwrap();
        self.place.run(|| copy(&self.here.0, &self.here.1, from, to, tokens, self.shape)).unwrap();
    }
}

/// Tolerances: f32 weights, and weights rounded to bf16.
#[test]
fn kernels_match_the_cpu() {
    let place = &Place::of_this_build();
    let mut random = Random::new(7);
    // Query heads, KV heads, head size, page size, number format: first those of the tensor-core kernels, then others.
    for (query, kv, dim, tokens, dtype) in [
        (4, 2, 128, 64, DType::BF16),
        (6, 2, 64, 16, DType::BF16),
        (1, 1, 64, 48, DType::BF16),
        (16, 1, 64, 64, DType::BF16),
        (4, 2, 128, 10, DType::BF16),
        (17, 1, 64, 16, DType::BF16),
        (3, 3, 33, 16, DType::BF16),
        (4, 2, 128, 64, DType::F32),
        (9, 1, 40, 7, DType::F32),
        (2, 2, 256, 16, DType::F32),
        (2, 1, 5, 1, DType::F32),
    ] {
        let shape = PageShape { tokens, heads: Heads { query, kv, dim } };
        scattered(place, &mut random, dtype, shape, &Mask::causal());
    }
    // Windows within a page and over several, and ALiBi, for every kernel.
    let slopes = |heads| Some(Slopes::alibi(heads));
    for (query, kv, dim, tokens, dtype, window, alibi) in [
        (4, 2, 128, 64, DType::BF16, Some(1), None),
        (6, 2, 64, 16, DType::BF16, Some(20), slopes(6)),
        (6, 6, 64, 16, DType::BF16, None, slopes(6)),
        (16, 1, 64, 64, DType::BF16, Some(70), None),
        (4, 4, 14, 7, DType::BF16, Some(5), None),
        (9, 1, 40, 7, DType::F32, Some(33), slopes(9)),
        (2, 1, 5, 16, DType::F32, Some(1000), None),
    ] {
        let shape = PageShape { tokens, heads: Heads { query, kv, dim } };
        scattered(place, &mut random, dtype, shape, &Mask::new(window, alibi).unwrap());
    }
    many_rows(place, &mut random);
}

/// Three sequences with scattered pages.
fn scattered(place: &Place, random: &mut Random, dtype: DType, shape: PageShape, mask: &Mask) {
    let tokens = shape.tokens;
    let pages = 150usize.div_ceil(tokens);
    let cache = Cache::new(place, dtype, shape, 3 * pages, mask.clone());
    // The second sequence continues where the fourth part of the first ends.
    let mut order: Vec<u32> = (0..3 * pages as u32).collect();
    for at in (1..order.len()).rev() {
        order.swap(at, random.below(at + 1));
    }
    let (first, rest) = order.split_at(pages);
    let (second, third) = rest.split_at(pages);
    let (mut second, third) = (second.to_vec(), third.to_vec());
    let common = tokens.min(11);
    cache.pass(random, &[(70, 0, first), (0, 0, &third), (1, 0, &third)], 1.0);
    cache.copy(first[0], second[0], common);
    cache.pass(random, &[(5, common, &second), (13, 70, first), (30, 1, &third)], 4.0);
    // Decoding only, the most frequent case; then the second sequence reads the first's page instead of its own.
    let length = common + 5;
    cache.pass(random, &[(1, 83, first), (1, length, &second), (1, 31, &third)], 1.0);
    if length + 1 >= tokens {
        second[0] = first[0];
        cache.pass(random, &[(1, 84, first), (1, length + 1, &second)], 4.0);
    }
}

/// Enough rows that keys are not split.
fn many_rows(place: &Place, random: &mut Random) {
    for (dim, dtype) in [(64, DType::BF16), (8, DType::F32)] {
        let shape = PageShape { tokens: 16, heads: Heads { query: 1, kv: 1, dim } };
        let cache = Cache::new(place, dtype, shape, 540, Mask::causal());
        let pages: Vec<u32> = (0..540).collect();
        let chunks: Vec<Chunk<'_>> = pages.iter().map(|page| (1, 0, std::slice::from_ref(page))).collect();
        cache.pass(random, &chunks, 1.0);
    }
}

/// With the fixed order, rows are bit-identical to the training pass, however they are divided into passes: prefill of parts
/// together with another sequence, then one row at a time.
#[test]
fn a_fixed_order_of_keys_has_the_bits_of_the_training_pass() {
    let place = &Place::of_this_build();
    let mut random = Random::new(9);
    let windows = [None, Some(70)];
    for ((query, kv, dim), window) in [(4, 2, 64), (2, 1, 128)].into_iter().zip(windows.into_iter().rev()) {
        let heads = Heads { query, kv, dim };
        let mask = Mask::new(window, None).unwrap();
        let (length, width) = (150, (query + 2 * kv) * dim);
        let qkv = (random.tensor(&[length, width]).unwrap() * 3.0).unwrap();
        let columns = |first: usize, count: usize| {
            let part = qkv.narrow(1, first * dim, count * dim).unwrap().contiguous().unwrap();
            place.put(&part, DType::BF16).unwrap()
        };
        let (q, k, v) = (columns(0, query), columns(query, kv), columns(query + kv, kv));
        let bits = |tensor: &Tensor| {
            let wide = tensor.to_device(&Device::Cpu).unwrap().to_dtype(DType::F32).unwrap();
            let rows = wide.to_vec2::<f32>().unwrap();
            rows.iter().map(|row| row.iter().map(|x| x.to_bits()).collect::<Vec<_>>()).collect::<Vec<_>>()
        };
        let learned = place.run(|| {
            let sequences = Sequences::new(&[0, length as u32], place.device())?;
            attention::forward(&q, &k, &v, &sequences, heads, &mask)
        });
        let learned = bits(&learned.unwrap().0);
        let shape = PageShape { tokens: 16, heads };
        let empty = Tensor::full(f32::NAN, (22, shape.elements()), &Device::Cpu).unwrap();
        let [keys, values] = [(); 2].map(|()| place.put(&empty, DType::BF16).unwrap());
        let (own, other): (Vec<u32>, Vec<u32>) = ((0..10).rev().collect(), (12..22).collect());
        let pass = |first: usize, count: usize| {
            // Batched with rows of another sequence: the same rows in another order.
            let rows = qkv.narrow(0, first, count).unwrap();
            let both =
                place.put(&Tensor::cat(&[&qkv.narrow(0, 0, 3).unwrap(), &rows], 0).unwrap(), DType::BF16).unwrap();
            let spans = [
                Span { rows: 0..3, position: 0, pages: &other },
                Span { rows: 3..3 + count, position: first, pages: &own },
            ];
            let out = place.run(|| {
                let plan = Plan::padded(&spans, 0, &keys, (shape, SumOrder::Fixed))?;
                append(&both, &keys, &values, &plan)?;
                forward(&both, &keys, &values, &plan, &mask)
            });
            assert_eq!(bits(&out.unwrap())[3..], learned[first..first + count], "{count} rows from {first}, {mask:?}");
        };
        for (first, count) in [(0, 1), (1, 70), (71, 50), (121, 7)] {
            pass(first, count);
        }
        (128..length).for_each(|row| pass(row, 1));
    }
}

/// One launch is bit-identical to two: whole vectors and single elements, padding rows, and a slot written by two rows.
#[test]
fn rotated_keys_have_the_bits_of_a_rotation_and_a_copy() {
    let place = &Place::of_this_build();
    let mut random = Random::new(8);
    for (query, kv, dim, part) in
        [(4, 2, 128, 128), (3, 3, 16, 16), (2, 1, 10, 10), (4, 2, 64, 32), (3, 3, 16, 12), (2, 1, 10, 4)]
    {
        let shape = PageShape { tokens: 4, heads: Heads { query, kv, dim } };
        let table = RopeTable::new((0..part / 2).map(|i| 0.3f32.powi(i)).collect(), 40).in_heads(dim).unwrap();
        let pages = [[2, 0], [1, 3]];
        // Rows 0 to 5 and 6, and a second span that writes the slot of row 6 again.
        let span = |rows, position, pages| Span { rows, position, pages };
        let spans = [span(0..6, 1, &pages[0][..]), span(6..7, 2, &pages[1][..]), span(7..8, 2, &pages[1][..])];
        let (rows, width) = (10, (query + 2 * kv) * dim);
        let mut qkv = random.tensor(&[rows, width]).unwrap();
        qkv = qkv.slice_assign(&[7..8, 0..width], &qkv.narrow(0, 6, 1).unwrap()).unwrap();
        let positions: Vec<u32> = vec![1, 2, 3, 4, 5, 6, 2, 2, 0, 0];
        for dtype in [DType::F32, DType::BF16] {
            let run = |fused: bool| {
                let here = place.put(&qkv, dtype).unwrap();
                let empty = Tensor::full(f32::NAN, (4, shape.elements()), &Device::Cpu).unwrap();
                let [keys, values] = [(); 2].map(|()| place.put(&empty, dtype).unwrap());
                place.run(|| {
                    let plan = Plan::padded(&spans, rows, &keys, (shape, SumOrder::Any)).unwrap();
                    let at = Positions::new(&positions, &table, place.device()).unwrap();
                    if fused {
                        append_rotated(&here, &keys, &values, &plan, (&at, &table)).unwrap();
                    } else {
                        rotate_leading(&here, (query + kv) * dim, &at, &table, Direction::Forward).unwrap();
                        append(&here, &keys, &values, &plan).unwrap();
                    }
                });
                let queries = here.narrow(0, 0, 8).unwrap().narrow(1, 0, query * dim).unwrap();
                [queries, keys, values].map(|tensor| {
                    let wide = tensor.to_device(&Device::Cpu).unwrap().to_dtype(DType::F32).unwrap();
                    let all = wide.flatten_all().unwrap().to_vec1::<f32>().unwrap();
                    all.iter().map(|value| value.to_bits()).collect::<Vec<_>>()
                })
            };
            assert!(run(true) == run(false), "{query} {kv} {dim} {dtype:?}");
        }
    }
}
