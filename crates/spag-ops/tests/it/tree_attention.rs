//! Attention of trees: sequences with shared rows, compared with the same sequences unpacked.

use crate::differences::{differences, random, scalar, values};
use candle_core::{DType, Device, Tensor};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use spag_ops::attention::{self, Heads, Mask, Sequences, Slopes};

/// Segments in depth-first order.
#[derive(Clone, Debug)]
struct Tree {
    bounds: Vec<u32>,
    parents: Vec<Option<u32>>,
}

impl Tree {
    /// Segments of up to `longest` rows, some of them empty.
    fn random(segments: u32, longest: u32, rng: &mut ChaCha8Rng) -> Self {
        let mut tree = Self { bounds: vec![0], parents: Vec::new() };
        let mut path: Vec<u32> = Vec::new();
        for index in 0..segments {
            path.truncate(rng.random_range(0..=path.len()));
            tree.parents.push(path.last().copied());
            tree.bounds.push(tree.bounds[index as usize] + rng.random_range(0..=longest));
            path.push(index);
        }
        tree
    }

    fn rows(&self) -> usize {
        *self.bounds.last().unwrap() as usize
    }

    fn sequences(&self) -> Sequences {
        Sequences::tree(&self.bounds, &self.parents, &Device::Cpu).unwrap()
    }

    /// The rows of a segment.
    fn own(&self, segment: usize) -> std::ops::Range<u32> {
        self.bounds[segment]..self.bounds[segment + 1]
    }

    /// The rows from the root to the end of a segment.
    fn path(&self, segment: usize) -> Vec<u32> {
        let before = self.parents[segment].map_or(Vec::new(), |parent| self.path(parent as usize));
        before.into_iter().chain(self.own(segment)).collect()
    }
}

/// The output and the gradients of q, k and v.
fn pass([q, k, v, g]: &[Tensor; 4], sequences: &Sequences, heads: Heads, mask: &Mask) -> [Tensor; 4] {
    let (out, lse) = attention::forward(q, k, v, sequences, heads, mask).unwrap();
    let (dq, dk, dv) = attention::backward(q, k, v, &out, &lse, g, sequences, heads, mask).unwrap();
    [out, dq, dk, dv]
}

fn inputs(n: usize, heads: Heads, dtype: DType, rng: &mut ChaCha8Rng) -> [Tensor; 4] {
    let (wide, narrow) = ((n, heads.query * heads.dim), (n, heads.kv * heads.dim));
    let [q, k, v] = [wide, narrow, narrow].map(|shape| random(shape, rng).to_dtype(dtype).unwrap());
    [q, k, v, random(wide, rng)]
}

fn masks(heads: Heads) -> Vec<Mask> {
    let slopes = [None, Some(Slopes::alibi(heads.query))];
    let windows = [None, Some(1), Some(3), Some(17), Some(60), Some(1000)];
    windows.iter().flat_map(|window| slopes.iter().map(|s| Mask::new(*window, s.clone()).unwrap())).collect()
}

fn wide(tensor: &Tensor) -> Vec<f32> {
    values(&tensor.to_dtype(DType::F32).unwrap())
}

/// Compares a tree with a separate sequence per segment, whose other rows have zero gradients.
fn check(tree: &Tree, heads: Heads, dtype: DType, mask: &Mask, rng: &mut ChaCha8Rng) {
    let tensors = inputs(tree.rows(), heads, dtype, rng);
    let found = pass(&tensors, &tree.sequences(), heads, mask);
    let mut sums: [Vec<f64>; 3] = [1, 2, 3].map(|index| vec![0.0; found[index].elem_count()]);
    for segment in 0..tree.parents.len() {
        let (path, own) = (tree.path(segment), tree.own(segment).len());
        if path.is_empty() {
            continue;
        }
        let rows = Tensor::new(path.as_slice(), &Device::Cpu).unwrap();
        let [q, k, v, g] = [0, 1, 2, 3].map(|index: usize| tensors[index].index_select(&rows, 0).unwrap());
        let before = path.len() - own;
        let none = Tensor::zeros((before, g.dim(1).unwrap()), DType::F32, &Device::Cpu).unwrap();
        let g = Tensor::cat(&[none, g.narrow(0, before, own).unwrap()], 0).unwrap();
        let alone = Sequences::new(&[0, path.len() as u32], &Device::Cpu).unwrap();
        let want = pass(&[q, k, v, g], &alone, heads, mask);
        assert_eq!(
            wide(&found[0].index_select(&rows, 0).unwrap()),
            wide(&want[0]),
            "{tree:?}, segment {segment}, {heads:?}, {mask:?}: the bits of outputs"
        );
        for (sum, part) in sums.iter_mut().zip(&want[1..]) {
            let width = part.dim(1).unwrap();
            for (row, part) in path.iter().zip(wide(part).chunks(width)) {
                let sum = &mut sum[*row as usize * width..][..width];
                sum.iter_mut().zip(part).for_each(|(sum, part)| *sum += f64::from(*part));
            }
        }
    }
    for ((sum, found), what) in sums.iter().zip(&found[1..]).zip(["dq", "dk", "dv"]) {
        // With a window of 1, dq and dk are zero, as differences of two sums of about 3.
        let scale = sum.iter().fold(0.3f64, |most, x| most.max(x.abs()));
        let worst = sum.iter().zip(wide(found)).map(|(sum, x)| (sum - f64::from(x)).abs()).fold(0.0, f64::max);
        assert!(worst <= 1e-6 * scale, "{tree:?}, {heads:?}, {mask:?}, {what}: {worst:e} of {scale}");
    }
}

#[test]
fn rows_of_a_tree_equal_those_of_sequences_apart() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    for (query, kv, dim) in [(2, 2, 16), (4, 2, 20), (2, 1, 64)] {
        let heads = Heads { query, kv, dim };
        for (segments, longest) in [(9, 3), (6, 20), (5, 70)] {
            for mask in masks(heads) {
                let tree = Tree::random(segments, longest, &mut rng);
                check(&tree, heads, DType::F32, &mask, &mut rng);
            }
        }
    }
}

#[test]
fn rows_of_a_tree_of_bf16_equal_those_of_sequences_apart() {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    // AMX tiles handle heads of size 32, pairs 24, and f32 15.
    for dim in [32, 24, 15] {
        let heads = Heads { query: 4, kv: 2, dim };
        for mask in masks(heads) {
            let tree = Tree::random(6, 90, &mut rng);
            check(&tree, heads, DType::BF16, &mask, &mut rng);
        }
    }
}

#[test]
fn gradients_of_a_tree_equal_finite_differences() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let heads = Heads { query: 4, kv: 2, dim: 2 };
    for (tree, window) in [
        (Tree { bounds: vec![0, 5, 8, 9, 13], parents: vec![None, Some(0), Some(1), Some(0)] }, None),
        (Tree { bounds: vec![0, 7, 12, 15, 20], parents: vec![None, Some(0), None, Some(2)] }, Some(3)),
    ] {
        let mask = Mask::new(window, Some(Slopes::alibi(heads.query))).unwrap();
        let [q, k, v, g] = inputs(tree.rows(), heads, DType::F32, &mut rng);
        let sequences = tree.sequences();
        let f = |q: &Tensor, k: &Tensor, v: &Tensor| {
            scalar(&attention::forward(q, k, v, &sequences, heads, &mask).unwrap().0, &g)
        };
        let [_, dq, dk, dv] = pass(&[q.clone(), k.clone(), v.clone(), g.clone()], &sequences, heads, &mask);
        differences(&q, &dq, |q| f(q, &k, &v), "dq");
        differences(&k, &dk, |k| f(&q, k, &v), "dk");
        differences(&v, &dv, |v| f(&q, &k, v), "dv");
    }
}

#[test]
fn a_tree_has_the_same_bits_with_any_number_of_threads() {
    let mut rng = ChaCha8Rng::seed_from_u64(4);
    let heads = Heads { query: 4, kv: 2, dim: 16 };
    let tree = Tree::random(20, 30, &mut rng);
    let tensors = inputs(tree.rows(), heads, DType::F32, &mut rng);
    let with = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| pass(&tensors, &tree.sequences(), heads, &Mask::causal())).map(|tensor| values(&tensor))
    };
    assert_eq!(with(1), with(3));
}
