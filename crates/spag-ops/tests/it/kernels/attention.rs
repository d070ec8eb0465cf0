use candle_core::{DType, Device, Result, Tensor};
use spag_emulator::Place;
use spag_ops::attention::{self, Heads, Mask, Sequences, Slopes};

use super::random::{Random, close};

/// Sequence lengths around tile boundaries (64 keys, 128 queries), including 0 and 1.
const LENGTHS: [usize; 9] = [1, 7, 0, 47, 130, 63, 65, 128, 129];

/// Tolerance relative to the largest expected element.
///
/// f32: sums in another order. bf16: probabilities and score gradients are rounded to bf16 (2⁻⁹) before they are
/// multiplied, as are the result and the output that delta is computed from.
fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::BF16 => 1e-2,
        _ => 1e-5,
    }
}

fn bounds(lengths: &[usize]) -> Vec<u32> {
    let ends = lengths.iter().scan(0, |end, length| {
        *end += *length as u32;
        Some(*end)
    });
    std::iter::once(0).chain(ends).collect()
}

#[test]
fn kernels_match_the_cpu() {
    let place = &Place::of_this_build();
    let mut random = Random::new(2);
    let of = |query, kv, dim| Heads { query, kv, dim };
    // Both variants: tiles on tensor cores (bf16, 64 and 128), and row by row.
    for heads in [of(2, 2, 64), of(4, 2, 64), of(2, 1, 128)] {
        check_heads(place, &mut random, heads, &LENGTHS, &[DType::BF16], NONE);
    }
    check_heads(place, &mut random, of(1, 1, 128), &[300], &[DType::BF16], NONE);
    let lengths: Vec<usize> = (0..4).map(|_| random.below(150)).collect();
    check_heads(place, &mut random, of(3, 1, 64), &lengths, &[DType::BF16], NONE);
    for heads in [of(2, 1, 64), of(3, 3, 20), of(1, 1, 2), of(1, 1, 1), of(4, 2, 33), of(1, 1, 256)] {
        check_heads(place, &mut random, heads, &[1, 7, 0, 47, 130], &[DType::F32, DType::BF16], NONE);
    }
    // Windows shorter and longer than tiles, with whole tiles before them, and ALiBi.
    for special in [
        Special { window: Some(1), alibi: false },
        Special { window: Some(16), alibi: true },
        Special { window: Some(70), alibi: false },
        Special { window: Some(1000), alibi: false },
        Special { window: None, alibi: true },
    ] {
        check_heads(place, &mut random, of(2, 1, 64), &[1, 0, 130, 65, 300], &[DType::BF16], special);
        // With a window of 1, dq and dk are zero up to f32 rounding.
        let dtypes = if special.window == Some(1) { &[DType::BF16][..] } else { &[DType::F32, DType::BF16] };
        check_heads(place, &mut random, of(6, 2, 8), &[1, 7, 0, 47, 130], dtypes, special);
    }
    check_heads(
        place,
        &mut random,
        of(3, 3, 128),
        &[3, 200],
        &[DType::BF16],
        Special { window: Some(33), alibi: true },
    );
    for (heads, special) in [
        (of(2, 2, 64), NONE),
        (of(4, 2, 64), Special { window: Some(70), alibi: true }),
        (of(2, 1, 128), NONE),
        (of(6, 2, 8), NONE),
        (of(6, 2, 8), Special { window: Some(16), alibi: true }),
    ] {
        check_tree(place, &mut random, heads, special);
    }
    check_repeats(place, &mut random);
    refusals(place);
}

/// Warpgroup kernels, with blocks that process several pieces of work. In the emulator, even in a GPU build.
#[test]
fn kernels_by_warpgroups_match_the_cpu() {
    let place = &Place::with_warpgroups(3);
    let mut random = Random::new(6);
    let of = |query, kv, dim| Heads { query, kv, dim };
    for (heads, lengths, special) in [
        (of(4, 2, 64), &LENGTHS[..], NONE),
        (of(2, 1, 128), &[1, 7, 0, 47, 130, 65], NONE),
        (of(1, 1, 128), &[300], NONE),
        (of(2, 1, 64), &[1, 0, 130, 65], Special { window: Some(1), alibi: false }),
        (of(2, 1, 64), &[1, 0, 65, 300], Special { window: Some(70), alibi: false }),
        (of(2, 1, 64), &[130, 40], Special { window: None, alibi: true }),
        (of(3, 3, 128), &[3, 200], Special { window: Some(33), alibi: true }),
    ] {
        check_heads(place, &mut random, heads, lengths, &[DType::BF16], special);
    }
    // With a window of 16, some key tiles of a path are not seen by any query of its last segment.
    check_tree(place, &mut random, of(2, 1, 64), NONE);
    check_tree(place, &mut random, of(2, 1, 64), Special { window: Some(16), alibi: true });
    check_tree(place, &mut random, of(1, 1, 128), Special { window: Some(70), alibi: false });
    check_repeats(place, &mut random);
}

/// Mask settings in addition to causality.
#[derive(Clone, Copy, Debug)]
struct Special {
    window: Option<usize>,
    alibi: bool,
}

const NONE: Special = Special { window: None, alibi: false };

impl Special {
    fn slopes(self, heads: Heads) -> Option<Slopes> {
        self.alibi.then(|| Slopes::alibi(heads.query))
    }

    fn mask(self, heads: Heads) -> Mask {
        Mask::new(self.window, self.slopes(heads)).unwrap()
    }
}

fn check_heads(
    place: &Place,
    random: &mut Random,
    heads: Heads,
    lengths: &[usize],
    dtypes: &[DType],
    special: Special,
) {
    let mask = special.mask(heads);
    let bounds = bounds(lengths);
    let n = lengths.iter().sum();
    let (wide, narrow) = ([n, heads.query * heads.dim], [n, heads.kv * heads.dim]);
    let [q, dout] = [(); 2].map(|()| random.tensor(&wide).unwrap());
    let [k, v] = [(); 2].map(|()| random.tensor(&narrow).unwrap());
    // Scores up to ±8, so that a few keys dominate; products are exact in both formats.
    let q = q.affine(8.0, 0.0).unwrap();
    let sequences = Sequences::new(&bounds, &Device::Cpu).unwrap();
    let (out, lse) = attention::forward(&q, &k, &v, &sequences, heads, &mask).unwrap();
    let (dq, dk, dv) = attention::backward(&q, &k, &v, &out, &lse, &dout, &sequences, heads, &mask).unwrap();
    let exact = reference([&q, &k, &v, &dout], &bounds, heads, special);
    for &dtype in dtypes {
        let [hq, hk, hv, hdout] = [&q, &k, &v, &dout].map(|t| place.put(t, dtype).unwrap());
        let got = place.run(|| both_ways(place, [&hq, &hk, &hv, &hdout], &bounds, heads, &mask)).unwrap();
        for (((got, want), exact), what) in
            got.iter().zip([&out, &dq, &dk, &dv]).zip(&exact).zip(["out", "dq", "dk", "dv"])
        {
            let what = format!("{what} of {heads:?} in {dtype:?}, {special:?}");
            assert_eq!(got.dtype(), dtype, "{what}");
            close(got, want, tolerance(dtype), &what);
            close(got, exact, tolerance(dtype), &format!("{what}, against f64"));
        }
    }
}

/// Trees compared with the CPU: segments around tile boundaries, an empty one, and long and short paths.
fn check_tree(place: &Place, random: &mut Random, heads: Heads, special: Special) {
    let mask = special.mask(heads);
    let bounds = bounds(&[130, 1, 65, 0, 64, 7, 140, 33]);
    let parents = [None, Some(0), Some(1), Some(2), Some(3), Some(0), None, Some(6)];
    let n = *bounds.last().unwrap() as usize;
    let (wide, narrow) = ([n, heads.query * heads.dim], [n, heads.kv * heads.dim]);
    let [q, dout] = [(); 2].map(|()| random.tensor(&wide).unwrap());
    let [k, v] = [(); 2].map(|()| random.tensor(&narrow).unwrap());
    let q = q.affine(8.0, 0.0).unwrap();
    let pass = |device: &Device, [q, k, v, dout]: [&Tensor; 4]| {
        let sequences = Sequences::tree(&bounds, &parents, device)?;
        let (out, lse) = attention::forward(q, k, v, &sequences, heads, &mask)?;
        let (dq, dk, dv) = attention::backward(q, k, v, &out, &lse, dout, &sequences, heads, &mask)?;
        Ok::<_, candle_core::Error>([out, dq, dk, dv])
    };
    let want = pass(&Device::Cpu, [&q, &k, &v, &dout]).unwrap();
    // Tensor core tiles support only bf16.
    let dtypes = if heads.dim < 64 { &[DType::F32, DType::BF16][..] } else { &[DType::BF16] };
    for &dtype in dtypes {
        let [q, k, v, dout] = [&q, &k, &v, &dout].map(|t| place.put(t, dtype).unwrap());
        let got = place.run(|| pass(place.device(), [&q, &k, &v, &dout])).unwrap();
        for ((got, want), what) in got.iter().zip(&want).zip(["out", "dq", "dk", "dv"]) {
            assert_eq!(got.dtype(), dtype);
            close(got, want, tolerance(dtype), &format!("{what} of a tree, {heads:?} in {dtype:?}, {special:?}"));
        }
    }
}

/// The output and the gradients of q, k and v.
fn both_ways(
    place: &Place,
    [q, k, v, dout]: [&Tensor; 4],
    bounds: &[u32],
    heads: Heads,
    mask: &Mask,
) -> Result<[Tensor; 4]> {
    let sequences = Sequences::new(bounds, place.device())?;
    let (out, lse) = attention::forward(q, k, v, &sequences, heads, mask)?;
    let (dq, dk, dv) = attention::backward(q, k, v, &out, &lse, dout, &sequences, heads, mask)?;
    Ok([out, dq, dk, dv])
}

/// Results do not depend on the order of blocks, which the emulator changes every time.
fn check_repeats(place: &Place, random: &mut Random) {
    let bounds = bounds(&[1, 130, 0, 65]);
    for (heads, dtype) in
        [(Heads { query: 2, kv: 1, dim: 64 }, DType::BF16), (Heads { query: 2, kv: 1, dim: 6 }, DType::F32)]
    {
        let mut tensor =
            |heads: usize, dim: usize| place.put(&random.tensor(&[196, heads * dim]).unwrap(), dtype).unwrap();
        let [q, dout] = [(); 2].map(|()| tensor(heads.query, heads.dim));
        let [k, v] = [(); 2].map(|()| tensor(heads.kv, heads.dim));
        let [once, again] = [(); 2]
            .map(|()| place.run(|| both_ways(place, [&q, &k, &v, &dout], &bounds, heads, &Mask::causal())).unwrap());
        for (once, again) in once.iter().zip(&again) {
            close(again, once, 0.0, "the same once more");
        }
    }
}

/// Kernels for devices with less shared memory are bit-identical to the others. In the emulator, even in a GPU build.
#[test]
fn little_shared_memory_gives_the_same_bits() {
    let places = [99, 227].map(|kib| Place::with_shared_bytes(kib << 10));
    let mut random = Random::new(5);
    let heads = Heads { query: 2, kv: 1, dim: 128 };
    for (special, bounds, parents) in [
        (NONE, bounds(&LENGTHS), None),
        (Special { window: Some(70), alibi: true }, bounds(&[1, 130, 0, 65]), None),
        (NONE, bounds(&[70, 1, 65, 140]), Some([None, Some(0), Some(1), Some(0)])),
    ] {
        let (mask, n) = (special.mask(heads), *bounds.last().unwrap() as usize);
        let mut tensor = |heads: usize| places[0].put(&random.tensor(&[n, heads * 128]).unwrap(), DType::BF16).unwrap();
        let ([q, dout], [k, v]) = ([(); 2].map(|()| tensor(heads.query)), [(); 2].map(|()| tensor(heads.kv)));
        let pass = || {
            let sequences = match parents {
                Some(parents) => Sequences::tree(&bounds, &parents, &Device::Cpu)?,
                None => Sequences::new(&bounds, &Device::Cpu)?,
            };
            let (out, lse) = attention::forward(&q, &k, &v, &sequences, heads, &mask)?;
            let (dq, dk, dv) = attention::backward(&q, &k, &v, &out, &lse, &dout, &sequences, heads, &mask)?;
            Ok::<_, candle_core::Error>([out, dq, dk, dv])
        };
        let [less, more] = places.each_ref().map(|place| place.run(pass).unwrap());
        for ((less, more), what) in less.iter().zip(&more).zip(["out", "dq", "dk", "dv"]) {
            close(less, more, 0.0, &format!("{what} of {bounds:?}, {special:?}"));
        }
    }
}

/// The output and the gradients of q, k and v in f64, by definition.
fn reference([q, k, v, dout]: [&Tensor; 4], bounds: &[u32], heads: Heads, special: Special) -> [Tensor; 4] {
    let slopes = special.slopes(heads);
    let Heads { query, kv, dim } = heads;
    let scale = 1.0 / (dim as f64).sqrt();
    let values = |t: &Tensor| -> Vec<f64> { t.to_dtype(DType::F64).unwrap().flatten_all().unwrap().to_vec1().unwrap() };
    let [q, k, v, dout] = [q, k, v, dout].map(values);
    let [mut out, mut dq] = [(); 2].map(|()| vec![0f64; q.len()]);
    let [mut dk, mut dv] = [(); 2].map(|()| vec![0f64; k.len()]);
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let add = |to: &mut [f64], factor: f64, from: &[f64]| to.iter_mut().zip(from).for_each(|(t, f)| *t += factor * f);
    for span in bounds.windows(2) {
        for (i, head) in (span[0] as usize..span[1] as usize).flat_map(|i| (0..query).map(move |head| (i, head))) {
            let own = (i * query + head) * dim..(i * query + head + 1) * dim;
            let of = |j: usize| (j * kv + head / (query / kv)) * dim..(j * kv + head / (query / kv) + 1) * dim;
            let seen = special.window.map_or(0, |w| (i + 1).saturating_sub(w)).max(span[0] as usize)..i + 1;
            let slope = slopes.as_ref().map_or(0.0, |slopes| f64::from(slopes.values()[head]));
            let score = |j: usize| dot(&q[own.clone()], &k[of(j)]) * scale - slope * (i - j) as f64;
            let weights: Vec<f64> = seen.clone().map(|j| score(j).exp()).collect();
            let sum: f64 = weights.iter().sum();
            for (j, weight) in seen.clone().zip(&weights) {
                add(&mut out[own.clone()], weight / sum, &v[of(j)]);
            }
            let delta = dot(&out[own.clone()], &dout[own.clone()]);
            for (j, weight) in seen.zip(&weights) {
                let p = weight / sum;
                let ds = p * (dot(&dout[own.clone()], &v[of(j)]) - delta) * scale;
                add(&mut dq[own.clone()], ds, &k[of(j)]);
                add(&mut dk[of(j)], ds, &q[own.clone()]);
                add(&mut dv[of(j)], p, &dout[own.clone()]);
            }
        }
    }
    let rows = *bounds.last().unwrap_or(&0) as usize;
    [(out, query), (dq, query), (dk, kv), (dv, kv)]
        .map(|(values, heads)| Tensor::from_vec(values, (rows, heads * dim), &Device::Cpu).unwrap())
}

/// Unsupported inputs are rejected.
fn refusals(place: &Place) {
    let heads = Heads { query: 1, kv: 1, dim: 257 };
    let x = place.put(&Tensor::zeros((2, 257), DType::F32, &Device::Cpu).unwrap(), DType::F32).unwrap();
    let run =
        || attention::forward(&x, &x, &x, &Sequences::new(&[0, 2], place.device())?, heads, &Mask::causal()).map(drop);
    let error = place.run(run).unwrap_err().to_string();
    assert!(error.contains("257"), "{error}");
}
