//! Sequences packed as trees compared with the same sequences unpacked: log-probabilities bit by bit, and
//! gradients.

use candle_core::Device;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use spag_model::Model;
use spag_model::batch::{PackedBatch, Targets};
use spag_model::dtype::WeightDtype;
use spag_model::model::{Activations, Arithmetic};
use spag_model::params::FlatBuffers;

use crate::autograd::{configs, largest, perturb};

/// Sequences of few distinct tokens, so that many share prefixes: equal ones, prefixes of others, and unrelated
/// ones.
fn sequences(rng: &mut ChaCha8Rng) -> Vec<Vec<u32>> {
    let mut all: Vec<Vec<u32>> = Vec::new();
    for _ in 0..rng.random_range(2..8) {
        let kept = match all.len() {
            0 => Vec::new(),
            count => {
                let other = &all[rng.random_range(0..count)];
                other[..rng.random_range(0..=other.len())].to_vec()
            }
        };
        let more = rng.random_range(usize::from(kept.is_empty())..20);
        all.push(kept.into_iter().chain((0..more).map(|_| rng.random_range(0..50))).collect());
    }
    all
}

/// The targets of some positions of each sequence, given the row of each of its tokens.
fn targets(sequences: &[Vec<u32>], rows: &[Vec<u32>]) -> Targets {
    let mut targets = Targets::default();
    for (sequence, rows) in sequences.iter().zip(rows) {
        for at in (1..sequence.len()).filter(|at| at % 3 > 0) {
            targets.rows.push(rows[at - 1]);
            targets.tokens.push(sequence[at]);
        }
    }
    targets
}

/// The sequences unpacked and as a tree, each with its targets.
fn packed(sequences: &[Vec<u32>]) -> [(PackedBatch, Targets); 2] {
    let slices = || sequences.iter().map(Vec::as_slice);
    let mut next = 0;
    let apart: Vec<Vec<u32>> = slices()
        .map(|sequence| {
            next += sequence.len() as u32;
            (next - sequence.len() as u32..next).collect()
        })
        .collect();
    let (tree, of_tree) = PackedBatch::tree(slices());
    [(PackedBatch::new(slices()), targets(sequences, &apart)), (tree, targets(sequences, &of_tree))]
}

#[test]
fn trees_have_the_log_probabilities_and_gradients_of_sequences_apart() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut shared = 0;
    for config in configs() {
        let model = Model::init(&config, 11).unwrap();
        perturb(&model);
        let keys = serde_json::to_string(&config).unwrap();
        for case in 0..8 {
            let sequences = sequences(&mut rng);
            let [apart, tree] = packed(&sequences);
            shared += apart.0.len() - tree.0.len();
            let upstream: Vec<f32> = apart.1.rows.iter().map(|_| rng.random::<f32>() * 2.0 - 1.0).collect();
            let keep = if case % 2 == 0 { Activations::Keep } else { Activations::KeepLast(0) };
            let pass = |(batch, targets): (PackedBatch, Targets)| {
                let gradients = FlatBuffers::zeros(model.parameters().layout(), &Device::Cpu).unwrap();
                let forward = model.forward(batch, targets, keep).unwrap();
                let log_probs = forward.read_log_probs().unwrap();
                model.backward_from(forward, &upstream, &gradients).unwrap();
                (log_probs, gradients.named().unwrap())
            };
            let ((want, want_gradients), (found, gradients)) = (pass(apart), pass(tree));
            assert_eq!(found, want, "{sequences:?}, {keys}");
            // Both have rounding errors.
            for (name, found) in gradients {
                let want = &want_gradients.iter().find(|(other, _)| *other == name).unwrap().1;
                let worst = largest(&(&found - want).unwrap());
                assert!(
                    worst <= 5e-6 * largest(want),
                    "{name}: {worst:e} of {:e}: {sequences:?}, {keys}",
                    largest(want)
                );
            }
        }
    }
    assert!(shared > 1000, "{shared}");
}

#[test]
fn trees_of_bf16_have_the_log_probabilities_of_sequences_apart() {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    for config in configs() {
        let model = Model::init(&config, 11).unwrap();
        perturb(&model);
        let narrow = model.to_dtype(WeightDtype::Bf16).unwrap();
        for arithmetic in [Arithmetic::Bf16, Arithmetic::F32] {
            let network = model.network().clone().with_attention(arithmetic);
            for _ in 0..4 {
                let sequences = sequences(&mut rng);
                let [want, found] = packed(&sequences)
                    .map(|(batch, targets)| network.log_probs(narrow.parameters(), &batch, &targets).unwrap());
                assert_eq!(found, want, "{sequences:?}");
            }
        }
    }
}
