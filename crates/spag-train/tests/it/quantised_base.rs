//! Adapters over quantised weights: the bits of an adapter over the numbers that these stand for.

use std::fs;
use std::path::Path;

use crate::engine::{config, job, samples};
use spag_io::Silent;
use spag_model::checkpoint::{WriteOptions, load_config, load_quantised_layers, load_tokenizer};
use spag_model::dtype::WeightDtype;
use spag_model::model::BlockFormat;
use spag_model::params::FlatBuffers;
use spag_model::{Checkpoint, Model, ModelConfig};
use spag_tests::fixture;
use spag_train::{
    IntervalStrategy, RankMemory, ShardingPlan, Start, TargetModules, TrainConfig, TrainJob, TrainMethod, run,
};

fn lora(method: TrainMethod, quantize: Option<BlockFormat>) -> TrainConfig {
    TrainConfig {
        lora_r: Some(4),
        lora_target_modules: TargetModules::of(["all-linear"]),
        learning_rate: 1e-2,
        quantize,
        ..config(method)
    }
}

fn adapter(folder: &Path) -> Vec<u8> {
    fs::read(folder.join("adapter_model.safetensors")).unwrap()
}

/// A folder with the numbers that the quantised weights of the model stand for.
fn dequantised(format: BlockFormat, dtype: WeightDtype, to: &Path) {
    let from = fixture("tiny-llama");
    let layers = load_quantised_layers(&from, dtype, format).unwrap();
    assert_eq!(layers.format(), format);
    let model = Model::from_parameters(&load_config(&from).unwrap(), FlatBuffers::gathered(&layers).unwrap()).unwrap();
    let plain = Checkpoint::load(&from).unwrap().model.to_dtype(dtype).unwrap();
    let of = |model: &Model, name: &str| {
        let named = model.parameters().named().unwrap();
        let tensor = named.into_iter().find(|(other, _)| other == name).unwrap().1;
        tensor.to_dtype(candle_core::DType::F32).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap()
    };
    let same = |name: &str| of(&model, name) == of(&plain, name);
    // 172 inputs are not quantised.
    assert!(
        same("model.embed_tokens.weight") && same("model.norm.weight") && same("model.layers.1.mlp.down_proj.weight")
    );
    assert!(!same("lm_head.weight") && !same("model.layers.1.self_attn.k_proj.weight"));
    let checkpoint = Checkpoint { model, tokenizer: load_tokenizer(&from).unwrap() };
    checkpoint.save(to, WriteOptions::new(dtype)).unwrap();
}

#[test]
fn training_is_that_over_the_numbers_that_the_weights_stand_for() {
    for (format, method, bf16, recompute) in [
        (BlockFormat::Q8_0, TrainMethod::SftWithKl, false, false),
        (BlockFormat::Q4K, TrainMethod::OfflinePo, true, true),
        (BlockFormat::Q6K, TrainMethod::Sft, true, false),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let settings = |quantize| TrainConfig {
            bf16,
            gradient_checkpointing: recompute,
            save_strategy: IntervalStrategy::Steps,
            save_steps: 3,
            max_steps: Some(6),
            lm_kl_coeff: 0.1,
            ..lora(method, quantize)
        };
        let quantised = job(dir.path(), settings(Some(format)), &samples());
        let done = run(&quantised, &mut Silent).unwrap();
        let model = dir.path().join("dequantised");
        dequantised(format, quantised.config.dtype(), &model);
        let plain = TrainJob {
            model_name_or_path: model,
            output_dir: dir.path().join("plain"),
            config: settings(None),
            ..quantised.clone()
        };
        let expected = run(&plain, &mut Silent).unwrap();
        assert_eq!((done.first_loss, done.last_loss), (expected.first_loss, expected.last_loss), "{format}");
        assert!(adapter(&quantised.output_dir) == adapter(&plain.output_dir), "{format}");
        let resumed = TrainJob {
            start: Start::From(quantised.output_dir.join("checkpoint-3")),
            output_dir: dir.path().join("resumed"),
            ..quantised.clone()
        };
        assert_eq!(run(&resumed, &mut Silent).unwrap().resumed_at, 3);
        assert!(adapter(&quantised.output_dir) == adapter(&resumed.output_dir), "{format}");
    }
}

#[test]
fn memory_is_that_of_the_quantised_model_and_a_layer() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../configs/llama2-7b/config.json");
    let model = ModelConfig::from_file(path).unwrap();
    let of = |quantize| {
        let config = TrainConfig { bf16: true, per_device_train_batch_size: 1, ..lora(TrainMethod::Sft, quantize) };
        RankMemory::on_cpu(&model, &config, ShardingPlan::default(), 1).rows().map(|(_, bytes)| bytes)
    };
    let (plain, quantised) = (of(None), of(Some(BlockFormat::Q8_0)));
    // Blocks of 4 · 4096² + 3 · 4096 · 11008 weights and the head, at 34 bytes for 32; the embedding and norms in bf16; by hand.
    let (block, embedding) = (4 * 4096 * 4096 + 3 * 4096 * 11_008u64, 32_000 * 4096u64);
    let weights = (32 * block + embedding) * 34 / 32 + (embedding + 65 * 4096) * 2;
    let adapter = plain[0] - 13_476_831_232;
    assert_eq!((quantised[0], quantised[1]), (weights + adapter, (block + 2 * 4096) * 2));
    assert_eq!(quantised[2..], plain[2..]);
}

#[test]
fn quantised_weights_need_an_adapter() {
    let dir = tempfile::tempdir().unwrap();
    let without = TrainConfig {
        lora_r: None,
        lora_target_modules: TargetModules::default(),
        ..lora(TrainMethod::Sft, Some(BlockFormat::Q8_0))
    };
    let error = run(&job(dir.path(), without, &samples()), &mut Silent).unwrap_err().to_string();
    assert!(error.contains("`quantize`: quantised weights are trained by an adapter"), "{error}");
}
