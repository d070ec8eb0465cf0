//! Optimizers: Muon against torch and the published algorithm, and runs, checkpoints and memory of each.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use crate::engine::{config, job, samples};
use crate::memory::join;
use candle_core::{Device, Tensor};
use serde::Deserialize;
use spag_dist::ProcessGroup;
use spag_io::Silent;
use spag_model::ModelConfig;
use spag_model::checkpoint::LoadOptions;
use spag_model::dtype::WeightDtype;
use spag_tests::{fixture, json, reserve_port};
use spag_train::optimizer::{AdamW, Muon, Optimizer, Sgd, UpdateStep, Weights};
use spag_train::{
    IntervalStrategy, Learner, ModelShard, Optim, RankMemory, ShardingPlan, Span, Start, TrainConfig, TrainJob,
    TrainMethod, Trajectory, ZeroStage, run,
};

const ALL: [Optim; 3] = [Optim::AdamW, Optim::Sgd, Optim::Muon];

/// Three updates of a matrix by torch 2.15's `Muon` (`match_rms_adamw`, weight decay), which orthogonalises in bf16, and by the
/// same formulas in f64.
#[derive(Deserialize)]
struct MuonCase {
    shape: (usize, usize),
    weights: Vec<f32>,
    gradients: Vec<Vec<f32>>,
    torch: Vec<Vec<f32>>,
    exact: Vec<Vec<f32>>,
    learning_rate: f64,
    weight_decay: f64,
}

fn tensor(values: &[f32]) -> Tensor {
    Tensor::new(values, &Device::Cpu).unwrap()
}

fn step(count: u64, learning_rate: f64, matrix: Option<(usize, usize)>) -> UpdateStep {
    UpdateStep { count, learning_rate, gradient_scale: 1.0, decay: true, matrix }
}

fn farthest(got: &Tensor, want: &[f32]) -> f32 {
    got.to_vec1::<f32>().unwrap().iter().zip(want).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

#[test]
fn muon_matches_torch_and_the_published_algorithm() {
    let cases: Vec<MuonCase> = serde_json::from_value(json(fixture("training/muon.json"))).unwrap();
    assert_eq!(cases.len(), 3);
    for case in cases {
        let others = AdamW { beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weight_decay: case.weight_decay };
        let muon = Muon { momentum: Muon::MOMENTUM, others };
        let (weights, momentum) = (tensor(&case.weights), tensor(&vec![0.0; case.weights.len()]));
        for (at, gradient) in case.gradients.iter().enumerate() {
            let step = step(at as u64 + 1, case.learning_rate, Some(case.shape));
            muon.update(&step, Weights::F32(&weights), &tensor(gradient), std::slice::from_ref(&momentum)).unwrap();
            assert!(farthest(&weights, &case.exact[at]) < 2e-6, "{:?}, update {at}", case.shape);
            // An update moves weights by up to 5e-3.
            assert!(farthest(&weights, &case.torch[at]) < 5e-4, "{:?}, update {at}", case.shape);
        }
    }
}

#[test]
fn sgd_moves_against_gradient_and_decayed_weights() {
    let weights = tensor(&[1.0, -2.0]);
    let sgd = Sgd { weight_decay: 0.5 };
    sgd.update(&step(1, 0.1, None), Weights::F32(&weights), &tensor(&[10.0, 4.0]), &[]).unwrap();
    assert!(farthest(&weights, &[1.0 - 0.1 * (10.0 + 0.5), -2.0 - 0.1 * (4.0 - 1.0)]) < 1e-6);
}

/// Runs of every optimizer learn, and their checkpoints have all of their state.
#[test]
fn resumed_runs_of_every_optimizer_give_the_same_bits() {
    for optim in ALL {
        for (bf16, optim_grad_dtype) in
            [(false, WeightDtype::F32), (true, WeightDtype::F32), (false, WeightDtype::Bf16)]
        {
            let dir = tempfile::tempdir().unwrap();
            let learning_rate = if optim == Optim::Sgd { 0.1 } else { 1e-3 };
            let save = (IntervalStrategy::Steps, 3);
            let config = TrainConfig {
                optim,
                bf16,
                optim_grad_dtype,
                learning_rate,
                weight_decay: 0.1,
                save_strategy: save.0,
                save_steps: save.1,
                max_steps: Some(6),
                ..config(TrainMethod::Sft)
            };
            let whole = job(dir.path(), config, &samples());
            let done = run(&whole, &mut Silent).unwrap();
            assert!(done.last_loss < done.first_loss && done.skipped_steps == 0, "{optim}: {done:?}");
            let checkpoint = dir.path().join("out/checkpoint-3");
            let resumed = TrainJob {
                start: Start::From(checkpoint.clone()),
                output_dir: dir.path().join("resumed"),
                ..whole.clone()
            };
            assert_eq!(run(&resumed, &mut Silent).unwrap().resumed_at, 3);
            let model = |folder: &str| fs::read(dir.path().join(folder).join("model.safetensors")).unwrap();
            assert!(model("out") == model("resumed"), "{optim}, bf16 {bf16}: other weights");
            assert_eq!(state_bytes(&checkpoint, bf16), expected_bytes(optim), "{optim}, bf16 {bf16}");
        }
    }
}

/// Bytes of the optimizer's tensors in a checkpoint, without master weights.
fn state_bytes(checkpoint: &Path, bf16: bool) -> usize {
    let state = checkpoint.join("trainer_state");
    assert_eq!(state.join("master.safetensors").exists(), bf16);
    let bytes = |name: &str| {
        let Ok(file) = fs::read(state.join(name)) else { return 0 };
        let tensors = candle_core::safetensors::load_buffer(&file, &Device::Cpu).unwrap();
        tensors.values().map(|tensor| tensor.elem_count() * tensor.dtype().size_in_bytes()).sum()
    };
    bytes("exp_avg.safetensors") + bytes("exp_avg_sq.safetensors")
}

/// What memory plans count for the same state.
fn expected_bytes(optim: Optim) -> usize {
    let model = ModelConfig::from_file(fixture("tiny-llama/config.json")).unwrap();
    let planned = |optim| {
        let config = TrainConfig { optim, ..TrainConfig::default() };
        RankMemory::on_cpu(&model, &config, ShardingPlan::default(), 1).on_device()
    };
    (planned(optim) - planned(Optim::Sgd)) as usize
}

#[test]
fn state_that_is_not_declared_is_not_planned() {
    let [adamw, sgd, muon] = ALL.map(expected_bytes);
    // The moments of embedding, head and norms remain with Muon.
    assert!(sgd == 0 && adamw / 2 < muon && muon < adamw, "{adamw} {muon}");
}

#[test]
fn muon_needs_whole_matrices() {
    let dir = fixture("tiny-llama");
    let config = TrainConfig { optim: Optim::Muon, ..TrainConfig::default() };
    let trajectory = Trajectory { row: 0, ids: vec![1, 2, 3], spans: vec![Span::new(1..3, 1.0)] };
    for stage in [0u64, 1, 3] {
        let (port, dir, config, trajectory) = (reserve_port(), &dir, &config, &trajectory);
        let learn = |rank: usize| {
            let group: Arc<dyn ProcessGroup> = Arc::new(join(rank, 2, port));
            let plan = ShardingPlan { stage: ZeroStage::try_from(stage).unwrap(), ..ShardingPlan::default() };
            let shard = ModelShard { dir, adapter: None, options: &LoadOptions::default(), plan, group };
            let learner = Learner::load(shard, config, 3);
            learner.and_then(|mut learner| learner.step(std::slice::from_ref(trajectory))).map_err(|e| e.to_string())
        };
        let results: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..2).map(|rank| scope.spawn(move || learn(rank))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        for result in results {
            match (stage, result) {
                (0, Ok(step)) => assert!(!step.skipped),
                (0, Err(error)) => panic!("{error}"),
                (_, result) => {
                    let said = result.unwrap_err();
                    assert!(
                        said.contains("`optim`: muon updates whole matrices") && said.contains("--zero_stage 0"),
                        "{said}"
                    );
                }
            }
        }
    }
}

#[test]
fn deepspeed_files_have_adamw_only() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("zero.json");
    fs::write(&file, r#"{"zero_optimization": {"stage": 0}}"#).unwrap();
    let with = |optim| {
        let config = TrainConfig { optim, max_steps: Some(1), ..config(TrainMethod::Sft) };
        let job = job(dir.path(), config, &samples());
        run(&TrainJob { deepspeed: Some(file.clone()), start: Start::Overwrite, ..job }, &mut Silent)
    };
    assert!(with(Optim::AdamW).is_ok());
    assert!(with(Optim::Sgd).unwrap_err().to_string().contains("`optim`: sgd is not the AdamW of a DeepSpeed file"));
}
