//! Passes by tokens: the losses and gradients of micro-batches, fewer collectives, and even ranks.

use std::path::Path;
use std::sync::Arc;

use spag_dist::ProcessGroup;
use spag_model::Model;
use spag_model::checkpoint::{LoadOptions, WriteOptions, save_model};
use spag_model::dtype::WeightDtype;
use spag_rewards::SampleKind;
use spag_tests::reserve_port;
use spag_train::{
    Learner, ModelShard, Packing, ShardingPlan, Span, StepRecord, TrainConfig, TrainMethod, Trajectory, ZeroStage,
};

use crate::memory::join;
use crate::training_fixture::cases;

/// Samples of games and of general text, of lengths that differ.
fn samples() -> Vec<Trajectory> {
    let lengths = [90, 7, 61, 12, 33, 80, 9, 48, 25, 71, 18, 54, 40, 11, 66, 29];
    let sample = |(row, length): (usize, usize)| {
        let kind = if row % 4 == 1 { SampleKind::Sft } else { SampleKind::Game };
        let span = Span { kind, ref_log_prob: Some(-4.0), ..Span::new(length / 2..length, 0.1 * row as f64 - 0.5) };
        Trajectory { row, ids: (0..length).map(|at| ((at * 7 + row) % 90) as u32).collect(), spans: vec![span] }
    };
    lengths.into_iter().enumerate().map(sample).collect()
}

fn config(method: TrainMethod, max_tokens_per_pass: Option<usize>) -> TrainConfig {
    TrainConfig {
        method,
        lm_kl_coeff: 0.2,
        lm_sft_coeff: 0.5,
        per_device_train_batch_size: 2,
        max_length: 96,
        max_tokens_per_pass,
        learning_rate: 1e-4,
        ..TrainConfig::default()
    }
}

fn copy_of(dir: &Path) -> Model {
    spag_model::checkpoint::load_model(dir).unwrap()
}

fn saved() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    save_model(&cases(WeightDtype::F32)[0].checkpoint.model, dir.path(), WriteOptions::new(WeightDtype::F32)).unwrap();
    dir
}

fn near(got: &StepRecord, want: &StepRecord, what: &str) {
    for (got, want) in [(got.loss, want.loss), (got.grad_norm, want.grad_norm)] {
        assert!((got - want).abs() <= 2e-6 * want.abs(), "{what}: {got} against {want}");
    }
    for ((name, got), (_, want)) in got.metrics.iter().zip(want.metrics.iter()) {
        assert!((got - want).abs() <= 2e-5 * want.abs().max(0.1), "{what}, {name}: {got} against {want}");
    }
}

#[test]
fn passes_have_the_loss_of_micro_batches() {
    let dir = saved();
    for method in [TrainMethod::Sft, TrainMethod::SftWithKl, TrainMethod::OfflinePo] {
        let step = |most, packing| {
            let config = TrainConfig { packing: Some(packing), ..config(method, most) };
            Learner::new(&copy_of(dir.path()), &config, 1).unwrap().step(&samples()).unwrap()
        };
        let want = step(Some(0), Packing::None);
        for (most, packing) in [(None, Packing::None), (Some(97), Packing::None), (Some(5000), Packing::Tree)] {
            near(&step(most, packing), &want, &format!("{method:?}, {most:?}, {packing:?}"));
        }
    }
}

/// Where a step is one micro-batch, the order of sums is the same.
#[test]
fn one_micro_batch_has_the_same_bits() {
    let dir = saved();
    let of = |most| {
        let mut config = config(TrainMethod::OfflinePo, most);
        config.per_device_train_batch_size = 16;
        let mut learner = Learner::new(&copy_of(dir.path()), &config, 2).unwrap();
        [0, 1].map(|_| learner.step(&samples()).unwrap())
    };
    assert_eq!(of(None), of(Some(0)));
}

#[test]
fn four_ranks_are_even_and_gather_less_often() {
    let dir = saved();
    let alone = Learner::new(&copy_of(dir.path()), &config(TrainMethod::OfflinePo, None), 1).unwrap().step(&samples());
    let alone = alone.unwrap();
    let run = |most: Option<usize>| -> Vec<(StepRecord, u64)> {
        let port = reserve_port();
        let of_rank = |rank: usize| {
            let group: Arc<dyn ProcessGroup> = Arc::new(join(rank, 4, port));
            let plan = ShardingPlan { stage: ZeroStage::try_from(3).unwrap(), ..ShardingPlan::default() };
            let options = LoadOptions::default();
            let shard = ModelShard { dir: dir.path(), adapter: None, options: &options, plan, group: group.clone() };
            let threads = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
            threads.install(|| {
                let mut learner = Learner::load(shard, &config(TrainMethod::OfflinePo, most), 1).unwrap();
                // Each rank has made samples of its own.
                let own: Vec<Trajectory> = samples().into_iter().skip(4 * rank).take(4).collect();
                let before = group.traffic().sent;
                (learner.step(&own).unwrap(), group.traffic().sent - before)
            })
        };
        std::thread::scope(|scope| {
            let ranks: Vec<_> = (0..4).map(|rank| scope.spawn(move || of_rank(rank))).collect();
            ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
        })
    };
    let (even, dealt) = (run(None), run(Some(0)));
    for (step, _) in even.iter().chain(&dealt) {
        near(step, &alone, "four ranks");
    }
    assert!(
        even[0].0.rank_load <= 1.1 && dealt[0].0.rank_load > 1.2,
        "{} {}",
        even[0].0.rank_load,
        dealt[0].0.rank_load
    );
    // One round instead of two: the layers are gathered and reduced half as often.
    for ((_, even), (_, dealt)) in even.iter().zip(&dealt) {
        let ratio = *dealt as f64 / *even as f64;
        assert!((1.8..2.05).contains(&ratio), "{dealt} and {even} bytes");
    }
}

#[test]
fn a_pass_that_holds_no_sample_is_refused() {
    let said = config(TrainMethod::Sft, Some(95)).check().unwrap_err().to_string();
    assert!(said.contains("max_tokens_per_pass") && said.contains("96 tokens"), "{said}");
    assert!(config(TrainMethod::Sft, Some(96)).check().is_ok());
}
