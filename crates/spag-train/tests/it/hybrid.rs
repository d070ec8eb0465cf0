//! Shards within hosts: ranks of this machine as hosts, 2 × 2 and 2 × 4. Bytes of each kind of link, and the bits of all stages.

use std::path::Path;
use std::sync::Arc;

use spag_dist::{HostGroups, JoinOptions, LaunchEnv, ProcessGroup, Rendezvous, TcpGroup, Token, Traffic};
use spag_model::checkpoint::LoadOptions;
use spag_model::dtype::WeightDtype;
use spag_model::params::{FlatBuffers, Layout};
use spag_tests::{fixture, reserve_port};
use spag_train::{
    Learner, ModelShard, ShardWithin, ShardingPlan, Span, StepRecord, TrainConfig, TrainMethod, Trajectory, ZeroStage,
};

/// Samples of a step, each a pass.
const SAMPLES: usize = 16;
const STEPS: usize = 2;

fn sample(row: usize) -> Trajectory {
    let length = [30, 7, 21, 12, 33, 27, 9, 18][row % 8];
    let span = Span { ref_log_prob: Some(-4.0), ..Span::new(length / 2..length, 0.1 * row as f64 - 0.5) };
    Trajectory { row, ids: (0..length).map(|at| ((at * 7 + row) % 90) as u32).collect(), spans: vec![span] }
}

fn config() -> TrainConfig {
    TrainConfig {
        method: TrainMethod::OfflinePo,
        lm_kl_coeff: 0.2,
        lm_sft_coeff: 0.5,
        per_device_train_batch_size: 1,
        max_length: 96,
        max_tokens_per_pass: Some(0),
        learning_rate: 1e-4,
        ..TrainConfig::default()
    }
}

/// Hosts with these numbers of ranks.
fn join(rank: usize, hosts: &[usize], port: u16) -> TcpGroup {
    let places = hosts.iter().flat_map(|local| (0..*local).map(move |local_rank| (local_rank, *local)));
    let (local_rank, local_size) = places.clone().nth(rank).unwrap();
    // 127.0.0.1 is refused as the address of several machines.
    let rendezvous = Some(Rendezvous { address: "0.0.0.0".into(), port });
    let env =
        LaunchEnv { rendezvous, local_rank, local_size, ..LaunchEnv::on_this_machine(rank, places.count(), port) };
    let token = Some(Token::new("the token of this test").unwrap());
    TcpGroup::join(&env, &JoinOptions { token, ..JoinOptions::default() }).unwrap()
}

fn plan(stage: u64, within: ShardWithin) -> ShardingPlan {
    ShardingPlan { stage: ZeroStage::try_from(stage).unwrap(), within, ..ShardingPlan::default() }
}

/// What a rank has after its steps.
#[derive(Clone, Debug, PartialEq)]
struct Trained {
    steps: Vec<StepRecord>,
    weights: Vec<Vec<f32>>,
}

/// Trains on all ranks; also returns what rank 0 moved in the last step, within its host and between hosts, and the layout of what is
/// trained.
fn train(hosts: [usize; 2], plan: ShardingPlan, config: &TrainConfig) -> (Trained, [Traffic; 2], Layout) {
    let (port, dir): (u16, &Path) = (reserve_port(), &fixture("tiny-llama"));
    let ranks: usize = hosts.iter().sum();
    let of_rank = |rank: usize| {
        let group: Arc<dyn ProcessGroup> = Arc::new(join(rank, &hosts, port));
        let HostGroups { within, between } = group.by_host().unwrap().unwrap();
        let options = LoadOptions::default();
        let shard = ModelShard { dir, adapter: None, options: &options, plan, group: group.clone() };
        let mut learner = Learner::load(shard, config, STEPS).unwrap();
        let own: Vec<Trajectory> = (0..SAMPLES / ranks).map(|at| sample(at * ranks + rank)).collect();
        let mut moved = [Traffic::default(); 2];
        let mut steps = Vec::new();
        for _ in 0..STEPS {
            let before = [within.traffic(), between.traffic()];
            steps.push(learner.step(&own).unwrap());
            moved = [within.traffic().since(before[0]), between.traffic().since(before[1])];
        }
        let weights = learner.weights();
        let trained = weights.adapter().map_or(&*weights, |adapter| adapter.weights);
        let gathered = FlatBuffers::gathered(trained).unwrap();
        let weights = gathered.layers().iter().map(|layer| layer.to_vec1::<f32>().unwrap()).collect();
        (Trained { steps, weights }, moved, trained.layout().clone())
    };
    let mut all: Vec<_> = std::thread::scope(|scope| {
        // A pool each: a thread that waits for another rank must not be the one that computes it.
        let pool = || rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        let threads: Vec<_> = (0..ranks).map(|rank| scope.spawn(move || pool().install(|| of_rank(rank)))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let first = all.remove(0);
    for (trained, moved, _) in &all {
        assert!(*trained == first.0, "ranks differ");
        assert_eq!(*moved, first.1, "ranks of the middle of a ring move as much as the first");
    }
    first
}

/// Bytes of all gradients (f32), each layer padded to shards of multiples of 64 elements.
fn bytes(layout: &Layout, local: usize) -> u64 {
    layout.layers.iter().map(|layer| layer.len.next_multiple_of(64 * local) as u64 * 4).sum()
}

fn assert_near(got: &Trained, want: &Trained, what: &str) {
    for (got, want) in got.steps.iter().zip(&want.steps) {
        for (got, want) in [(got.loss, want.loss), (got.grad_norm, want.grad_norm)] {
            assert!((got - want).abs() <= 1e-6 * want.abs().max(1.0), "{what}: {got} against {want}");
        }
    }
}

#[test]
fn stages_have_the_same_bits_and_move_the_bytes_of_the_formula() {
    for local in [2, 4] {
        let hosts = [local, local];
        let (over_all, between, _) = train(hosts, plan(1, ShardWithin::All), &config());
        assert_eq!(between, [Traffic::default(); 2], "nothing is reduced by host");
        let mut first = None;
        for stage in 0..=3 {
            let (trained, [within, between], layout) = train(hosts, plan(stage, ShardWithin::Host), &config());
            assert_near(&trained, &over_all, &format!("2 × {local}, stage {stage}"));
            let first = first.get_or_insert_with(|| trained.clone());
            assert!(*first == trained, "2 × {local}, stage {stage}: other bits than stage 0");
            // Once a step: 2·(H − 1)/H of the own shards.
            let (all, own) = (bytes(&layout, local), bytes(&layout, local) / local as u64);
            assert_eq!((between.sent, between.sent_between_hosts), (own, own), "2 × {local}, stage {stage}");
            assert_eq!((within.sent_between_hosts, within.received_between_hosts), (0, 0));
            // Each pass reduces the gradients; the update gathers gradients in stage 0, and parameters in stages 1 and 2.
            let passes = SAMPLES / (2 * local);
            let once = all / local as u64 * (local as u64 - 1);
            if stage < 3 {
                assert_eq!(within.sent, (passes as u64 + 1) * once, "2 × {local}, stage {stage}");
            } else {
                // Gathers, too, of layers that did not stay from the pass before.
                let passes = passes as u64;
                assert!(within.sent > passes * once && within.sent <= 3 * passes * once, "{within:?}");
            }
        }
    }
}

#[test]
fn adapters_have_the_same_bits_in_all_stages() {
    let config = TrainConfig { lora_r: Some(4), learning_rate: 1e-2, ..config() };
    let (over_all, ..) = train([2, 2], plan(2, ShardWithin::All), &config);
    let mut first = None;
    for stage in 0..=3 {
        let (trained, [_, between], layout) = train([2, 2], plan(stage, ShardWithin::Host), &config);
        assert_near(&trained, &over_all, &format!("adapter, stage {stage}"));
        assert!(*first.get_or_insert_with(|| trained.clone()) == trained, "stage {stage}: other bits than stage 0");
        assert_eq!(between.sent, bytes(&layout, 2) / 2, "stage {stage}");
    }
}

#[test]
fn bf16_halves_the_bytes_of_sums_and_all_stages_have_the_same_bits() {
    let (exact, ..) = train([2, 2], plan(1, ShardWithin::Host), &config());
    let config = TrainConfig { reduce_dtype: WeightDtype::Bf16, ..config() };
    let mut first = None;
    for stage in 0..=3 {
        let (trained, [within, between], layout) = train([2, 2], plan(stage, ShardWithin::Host), &config);
        assert!(*first.get_or_insert_with(|| trained.clone()) == trained, "stage {stage}: other bits than stage 0");
        let all = bytes(&layout, 2);
        assert_eq!(between.sent, all / 2 / 2, "stage {stage}");
        if stage < 3 {
            // Four passes in bf16, and one gather in f32.
            assert_eq!(within.sent, 4 * all / 4 + all / 2, "stage {stage}");
        }
        for (got, want) in trained.steps.iter().zip(&exact.steps) {
            assert!((got.grad_norm - want.grad_norm).abs() <= 1e-2 * want.grad_norm, "{got:?} {want:?}");
            assert!(got.grad_norm != want.grad_norm, "nothing is rounded");
        }
    }
}

#[test]
fn hosts_of_unequal_size_are_refused() {
    let (port, dir): (u16, &Path) = (reserve_port(), &fixture("tiny-llama"));
    let refusal = |rank: usize| {
        let group: Arc<dyn ProcessGroup> = Arc::new(join(rank, &[2, 1], port));
        let (options, plan) = (LoadOptions::default(), plan(3, ShardWithin::Host));
        let shard = ModelShard { dir, adapter: None, options: &options, plan, group };
        Learner::load(shard, &config(), STEPS).err().unwrap().to_string()
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3).map(|rank| scope.spawn(move || refusal(rank))).collect();
        for thread in threads {
            let said = thread.join().unwrap();
            assert!(said.contains("rank 2 is on a host with 1 ranks, and rank 0 on one with 2"), "{said}");
        }
    });
}
