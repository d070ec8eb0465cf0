//! Training of adapters: runs and their folders, resuming, ranks, and settings that are refused.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use crate::engine::{config, job, samples};
use crate::memory::join;
use serde_json::json;
use spag_dist::ProcessGroup;
use spag_io::Silent;
use spag_model::adapter::Adapter;
use spag_model::checkpoint::{LoadOptions, WriteOptions, load_model};
use spag_model::dtype::WeightDtype;
use spag_model::params::FlatBuffers;
use spag_model::{Checkpoint, ModelConfig};
use spag_tests::{fixture, json, reserve_port};
use spag_train::{
    DataOrder, IntervalStrategy, Learner, ModelShard, RankMemory, SchedulerType, ShardingPlan, Span, Start,
    TargetModules, TrainConfig, TrainJob, TrainMethod, Trajectory, ZeroStage, run,
};

fn lora(method: TrainMethod) -> TrainConfig {
    let modules = TargetModules::of(["q_proj, v_proj", "down_proj"]);
    TrainConfig {
        lora_r: Some(4),
        lora_alpha: 16.0,
        lora_target_modules: modules,
        learning_rate: 1e-2,
        ..config(method)
    }
}

fn weights(folder: &Path) -> Vec<u8> {
    fs::read(folder.join("adapter_model.safetensors")).unwrap()
}

#[test]
fn run_learns_an_adapter_and_resumes_with_the_same_bits() {
    for (method, bf16, recompute) in
        [(TrainMethod::Sft, false, false), (TrainMethod::OfflinePo, false, true), (TrainMethod::Sft, true, false)]
    {
        let dir = tempfile::tempdir().unwrap();
        let config = TrainConfig {
            bf16,
            gradient_checkpointing: recompute,
            save_strategy: IntervalStrategy::Steps,
            save_steps: 3,
            max_steps: Some(6),
            ..lora(method)
        };
        let whole = job(dir.path(), config, &samples());
        let done = run(&whole, &mut Silent).unwrap();
        assert_eq!(done.skipped_steps, 0);
        assert!(method != TrainMethod::Sft || done.last_loss < done.first_loss, "{done:?}");
        let checkpoint = dir.path().join("out/checkpoint-3");
        let resumed = TrainJob {
            start: Start::From(checkpoint.clone()),
            output_dir: dir.path().join("resumed"),
            ..whole.clone()
        };
        assert_eq!(run(&resumed, &mut Silent).unwrap().resumed_at, 3);
        let (out, again) = (dir.path().join("out"), dir.path().join("resumed"));
        assert!(weights(&out) == weights(&again), "{method} bf16 {bf16}");
        assert!(weights(&out) != weights(&checkpoint));
        // A folder of PEFT, without the model.
        assert!(!out.join("model.safetensors").exists() && !checkpoint.join("model.safetensors").exists());
        let keys = json(out.join("adapter_config.json"));
        assert_eq!((&keys["r"], &keys["lora_alpha"]), (&json!(4), &json!(16.0)));
        assert_eq!(keys["target_modules"], json!(["q_proj", "v_proj", "down_proj"]));
        let model = load_model(fixture("tiny-llama")).unwrap();
        let adapter = Adapter::load(&out, &model.config().architecture).unwrap();
        assert_eq!(adapter.len(), 3 * (2 * 2 * 4 * 64 + 4 * (172 + 64)));
        // Another base of the same shape, other settings.
        let resumed = TrainJob { output_dir: dir.path().join("other"), ..resumed };
        let other = TrainJob { model_name_or_path: fixture("tiny-llama/ref"), ..resumed.clone() };
        let said = run(&other, &mut Silent).unwrap_err().to_string();
        assert!(said.contains("checkpoint-3") && said.contains("digest"), "{said}");
        let other = TrainJob { config: TrainConfig { lora_r: Some(8), ..resumed.config.clone() }, ..resumed.clone() };
        assert!(run(&other, &mut Silent).unwrap_err().to_string().contains("lora_r"));
    }
}

/// The first model of a job is the adapter's base, and its sum with the adapter is written where a job names a folder for the model.
#[test]
fn sum_is_written_where_the_model_goes() {
    let dir = tempfile::tempdir().unwrap();
    let config = TrainConfig { max_steps: Some(3), ..lora(TrainMethod::Sft) };
    let whole = TrainJob { model_dir: Some(dir.path().join("model")), ..job(dir.path(), config, &samples()) };
    run(&whole, &mut Silent).unwrap();
    let (base, sum) = (load_model(fixture("tiny-llama")).unwrap(), load_model(dir.path().join("model")).unwrap());
    let adapter = Adapter::load(dir.path().join("out"), &base.config().architecture).unwrap();
    let apart =
        base.parameters().named().unwrap().into_iter().zip(sum.parameters().named().unwrap()).filter(|(one, other)| {
            let bits = |tensor: &candle_core::Tensor| tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap();
            bits(&one.1) != bits(&other.1)
        });
    let apart: Vec<String> = apart.map(|(_, (name, _))| name).collect();
    assert_eq!(apart.len(), 9, "{apart:?}");
    assert!(apart.iter().all(|name| ["q_proj", "v_proj", "down_proj"].iter().any(|module| name.contains(module))));
    adapter.merge_into(base.parameters()).unwrap();
    for (one, other) in base.parameters().layers().iter().zip(sum.parameters().layers()) {
        assert_eq!(one.to_vec1::<f32>().unwrap(), other.to_vec1::<f32>().unwrap());
    }
}

/// The first loss of a run that starts with the adapter in a folder.
fn continued(dir: &Path, adapter: &Path, change: TrainConfig) -> spag_train::Result<f64> {
    let job = TrainJob { adapter: Some(adapter.to_owned()), ..job(dir, change, &samples()) };
    Ok(run(&job, &mut Silent)?.first_loss)
}

#[test]
fn training_continues_an_adapter_with_its_settings() {
    let order = DataOrder::Sequential;
    let plain = TrainConfig { max_steps: Some(2), data_order: order, ..config(TrainMethod::Sft) };
    for name in ["patterns", "expressions"] {
        let (dir, whole) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let first = fixture("peft").join(name);
        // No step changes the bits if the learning rate is 0.
        let still = TrainConfig { learning_rate: 0.0, ..plain.clone() };
        let loss = continued(dir.path(), &first, still.clone()).unwrap();
        let out = dir.path().join("out");
        let architecture = load_model(fixture("tiny-llama")).unwrap().config().architecture.clone();
        let load = |folder: &Path| Adapter::load(folder, &architecture).unwrap();
        let bits = |adapter: &Adapter| {
            let layers = adapter.weights().layers().iter();
            layers.flat_map(|layer| layer.to_vec1::<f32>().unwrap()).map(f32::to_bits).collect::<Vec<_>>()
        };
        assert_eq!(bits(&load(&out)), bits(&load(&first)), "{name}");
        assert_eq!(load(&out).config(), load(&first).config(), "{name}");
        // The first loss is that of the sum.
        let (base, sum) = (Checkpoint::load(fixture("tiny-llama")).unwrap(), dir.path().join("sum"));
        load(&first).merge_into(base.model.parameters()).unwrap();
        base.save(&sum, WriteOptions::new(WeightDtype::F32)).unwrap();
        let of_sum = TrainJob { model_name_or_path: sum, ..job(whole.path(), still, &samples()) };
        let of_sum = run(&of_sum, &mut Silent).unwrap().first_loss;
        assert!((loss - of_sum).abs() < 1e-5, "{name}: {loss} {of_sum}");
        let of_base = run(
            &TrainJob { output_dir: dir.path().join("b"), ..job(dir.path(), plain.clone(), &samples()) },
            &mut Silent,
        );
        assert!((loss - of_base.unwrap().first_loss).abs() > 1e-3, "{name}");
        // And it learns, from a folder that this program wrote.
        let more = dir.path().join("more");
        std::fs::create_dir(&more).unwrap();
        continued(&more, &out, plain.clone()).unwrap();
        assert_ne!(bits(&load(&more.join("out"))), bits(&load(&first)), "{name}");
    }
}

#[test]
fn continued_run_resumes_with_the_same_bits() {
    let dir = tempfile::tempdir().unwrap();
    let config = TrainConfig {
        max_steps: Some(4),
        save_strategy: IntervalStrategy::Steps,
        save_steps: 2,
        ..config(TrainMethod::Sft)
    };
    let whole = TrainJob { adapter: Some(fixture("peft/patterns")), ..job(dir.path(), config, &samples()) };
    run(&whole, &mut Silent).unwrap();
    let (out, again) = (dir.path().join("out"), dir.path().join("resumed"));
    let resumed = TrainJob { start: Start::From(out.join("checkpoint-2")), output_dir: again.clone(), ..whole.clone() };
    assert_eq!(run(&resumed, &mut Silent).unwrap().resumed_at, 2);
    assert!(weights(&out) == weights(&again) && weights(&out) != weights(&out.join("checkpoint-2")));
}

#[test]
fn settings_that_contradict_the_first_adapter_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let of = |change: TrainConfig| {
        continued(dir.path(), &fixture("peft/attention"), TrainConfig { max_steps: Some(1), ..change })
    };
    let plain = config(TrainMethod::Sft);
    for (change, expected) in [
        (TrainConfig { lora_r: Some(8), ..plain.clone() }, ["lora_r", "8", "4"]),
        (TrainConfig { lora_alpha: 3.0, ..plain.clone() }, ["lora_alpha", "3", "8"]),
        (
            TrainConfig { lora_target_modules: TargetModules::of(["q_proj"]), ..plain.clone() },
            ["lora_target_modules", "q_proj", "v_proj"],
        ),
    ] {
        let said = of(change).unwrap_err().to_string();
        assert!(expected.iter().all(|word| said.contains(word)) && said.contains("peft/attention"), "{said}");
    }
    let modules = TargetModules::of(["v_proj", "q_proj"]);
    of(TrainConfig { lora_r: Some(4), lora_target_modules: modules, ..plain.clone() }).unwrap();
    let other = continued(dir.path(), dir.path(), plain).unwrap_err().to_string();
    assert!(other.contains("adapter_config.json"), "{other}");
}

/// The matrices after three steps of two ranks, in f32.
fn after_steps(ranks: usize, stage: u64) -> Vec<Vec<f32>> {
    let (port, dir, config) = (reserve_port(), &fixture("tiny-llama"), &lora(TrainMethod::Sft));
    let trajectory = |first: u32| Trajectory {
        row: 0,
        ids: vec![1, first, 9, 33, first + 7, 21, 7],
        spans: vec![Span::new(3..7, 1.0)],
    };
    let learn = move |rank: usize| {
        let group: Arc<dyn ProcessGroup> = match ranks {
            1 => Arc::new(spag_dist::Single),
            _ => Arc::new(join(rank, ranks, port)),
        };
        let plan = ShardingPlan { stage: ZeroStage::try_from(stage).unwrap(), ..ShardingPlan::default() };
        let shard = ModelShard { dir, adapter: None, options: &LoadOptions::default(), plan, group };
        let mut learner = Learner::load(shard, config, 3).unwrap();
        let own: Vec<Trajectory> =
            (0..4).filter(|at| at % ranks == rank).map(|at| trajectory(40 + at as u32)).collect();
        for _ in 0..3 {
            learner.step(&own).unwrap();
        }
        let adapter = learner.trained_adapter().unwrap().unwrap();
        let sum = FlatBuffers::gathered(&adapter.merged_with(learner.frozen().unwrap())).unwrap();
        let adapted = learner.weights();
        let matrices = FlatBuffers::gathered(adapted.adapter().unwrap().weights).unwrap();
        let layers = [matrices.layers(), sum.layers()].concat();
        layers.iter().map(|layer| layer.to_vec1::<f32>().unwrap()).collect::<Vec<_>>()
    };
    let mut all: Vec<_> = std::thread::scope(|scope| {
        // A pool each: a thread that waits for the other rank in a collective must not be the one that computes it.
        let pool = || rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        let threads: Vec<_> = (0..ranks).map(|rank| scope.spawn(move || pool().install(|| learn(rank)))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let first = all.remove(0);
    assert!(all.iter().all(|other| *other == first), "ranks differ");
    first
}

#[test]
fn every_stage_gives_the_same_bits() {
    let expected = after_steps(2, 0);
    for stage in [1, 2, 3] {
        assert!(after_steps(2, stage) == expected, "stage {stage}");
    }
    let alone = after_steps(1, 0);
    let farthest =
        alone.iter().flatten().zip(expected.iter().flatten()).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(farthest < 1e-4, "{farthest}");
}

#[test]
fn memory_is_that_of_the_model_and_of_a_small_optimizer() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../configs/llama2-7b/config.json");
    let model = ModelConfig::from_file(path).unwrap();
    let of = |lora_r| {
        let config = TrainConfig {
            lora_r,
            lora_target_modules: lora_r.map_or_else(TargetModules::default, |_| TargetModules::of(["all-linear"])),
            bf16: true,
            gradient_checkpointing: true,
            per_device_train_batch_size: 1,
            max_length: 2048,
            ..TrainConfig::default()
        };
        RankMemory::on_gpu(&model, &config, ShardingPlan::default(), 1)
    };
    let (whole, adapter) = (of(None), of(Some(16)));
    let rows = |memory: &RankMemory| memory.rows().map(|(_, bytes)| bytes);
    // 16 · (4 · 2 · 4096 + 3 · (4096 + 11 008)) in each of 32 blocks, by hand.
    let parameters = 32 * 16 * (4 * 2 * 4096 + 3 * (4096 + 11_008)) as u64;
    assert_eq!(parameters, 39_976_960);
    assert_eq!(rows(&adapter)[0], 13_476_831_232 + 2 * parameters);
    assert_eq!((rows(&adapter)[2], rows(&adapter)[4]), (4 * parameters, 12 * parameters));
    assert!(whole.on_device() > 110 << 30 && adapter.on_device() < 17 << 30, "{adapter}");
}

#[test]
fn settings_of_adapters_that_cannot_be_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let modules = |names: &str| TargetModules::of([names]);
    for (change, expected) in [
        (TrainConfig { lora_target_modules: modules("query"), ..lora(TrainMethod::Sft) }, "\"query\""),
        (TrainConfig { lora_target_modules: modules(" , "), ..lora(TrainMethod::Sft) }, "lora_target_modules"),
        (TrainConfig { lora_r: None, ..lora(TrainMethod::Sft) }, "lora_r"),
        (TrainConfig { lora_r: Some(0), ..lora(TrainMethod::Sft) }, "lora_r"),
        (TrainConfig { lora_dropout: 0.1, ..lora(TrainMethod::Sft) }, "lora_dropout"),
    ] {
        let said = run(&job(dir.path(), change, &samples()), &mut Silent).unwrap_err().to_string();
        assert!(said.contains(expected), "{said}");
    }
}

/// Twelve steps of OfflinePO by PEFT 0.21.2 with PyTorch from the same first adapter, by `scripts/compare-with-pytorch.py`.
#[test]
fn losses_and_gradients_are_those_of_peft() {
    let dir = tempfile::tempdir().unwrap();
    let config = TrainConfig {
        lora_r: Some(8),
        lora_target_modules: TargetModules::of(["all-linear"]),
        learning_rate: 3e-3,
        lr_scheduler_type: SchedulerType::Cosine,
        warmup_ratio: 0.1,
        weight_decay: 0.01,
        gradient_accumulation_steps: 2,
        data_order: DataOrder::Sequential,
        max_steps: Some(12),
        ..lora(TrainMethod::OfflinePo)
    };
    run(&job(dir.path(), config, &samples()), &mut Silent).unwrap();
    let expected = json(fixture("peft/training.json"));
    let metrics = fs::read_to_string(dir.path().join("out/metrics.jsonl")).unwrap();
    let lines: Vec<serde_json::Value> = metrics.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 12);
    for (at, line) in lines.iter().enumerate() {
        for (key, recorded) in [("loss", "losses"), ("grad_norm", "grad_norms")] {
            let (found, wanted) = (line[key].as_f64().unwrap(), expected[recorded][at].as_f64().unwrap());
            assert!((found - wanted).abs() < 1e-5 * wanted.abs().max(1e-3), "step {at}, {key}: {found} {wanted}");
        }
    }
}
