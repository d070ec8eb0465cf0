//! Generation on every CPU path: in bf16 independent of the batch and close to f32, in f32 bit-identical on all paths.

use std::path::Path;
use std::sync::Arc;

use crate::common::{cases, checkpoint, config, engine_config, requests};
use candle_core::Device;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use spag_model::batch::{PackedBatch, Targets};
use spag_model::checkpoint::{LoadOptions, WriteOptions, load_model, save_model};
use spag_model::dtype::WeightDtype;
use spag_model::generate::{LogProbs, PrefixSharing, PromptRange, Sampling};
use spag_model::{Checkpoint, Completion, Engine, EngineConfig, Generate, GenerationConfig, Request};
use spag_ops::{CpuPath, DeviceChoice};
use spag_tests::{fixture, test_process};

/// Prefix of the f32 bits in the output of the test on one path.
const BITS: &str = "bits of f32: ";

fn load(folder: &Path, dtype: WeightDtype) -> Checkpoint {
    Checkpoint::load_with(folder, &LoadOptions { device: Device::Cpu, dtype }).unwrap()
}

/// Tokens and log-probabilities.
fn bits(completion: &Completion) -> Vec<u32> {
    let log_probs = completion.model_log_probs.iter().map(|x| x.to_bits());
    completion.token_ids.iter().copied().chain(log_probs).collect()
}

/// Runs [`on_this_path`] in a process for each path: the path is fixed per process.
#[test]
fn every_path_generates() {
    let mut f32_bits = Vec::new();
    for path in CpuPath::ALL {
        let mut test = test_process("cpu_paths::on_this_path");
        test.env("SPAG_CPU", path.name());
        if !path.is_available() {
            eprintln!("{path}: this processor does not have it");
            test.env("SPAG_TEST_REFUSED", "1");
        }
        let output = test.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{path}: {text}\n{}", String::from_utf8_lossy(&output.stderr));
        if path.is_available() {
            eprintln!("{path}: tested");
            let bits = text.split_once(BITS).and_then(|(_, rest)| rest.lines().next()).unwrap();
            f32_bits.push((path, bits.to_owned()));
        }
    }
    assert!(f32_bits.windows(2).all(|pair| pair[0].1 == pair[1].1), "{f32_bits:?}");
}

/// Tests the path selected by `SPAG_CPU`, in a child process.
#[test]
fn on_this_path() {
    if std::env::var_os("SPAG_CPU").is_none() {
        return;
    }
    if std::env::var_os("SPAG_TEST_REFUSED").is_some() {
        let error = DeviceChoice::Cpu.open(0).unwrap_err().to_string();
        assert!(error.contains("device cpu: SPAG_CPU=") && error.contains("this processor has portable"), "{error}");
        return;
    }
    DeviceChoice::Cpu.open(0).unwrap();
    let completions = Engine::new(&checkpoint(), engine_config(16)).unwrap();
    let completions = { completions }.generate(requests(&config(Sampling::Greedy))).unwrap();
    let digest = completions.iter().flat_map(bits).fold(0u64, |sum, x| sum.wrapping_mul(31).wrapping_add(x.into()));
    println!("{BITS}{digest}");
    bf16_does_not_depend_on_the_batch();
    bf16_is_close_to_f32();
}

fn bf16_does_not_depend_on_the_batch() {
    let checkpoint = || load(&fixture("tiny-llama"), WeightDtype::Bf16);
    let all = requests(&config(Sampling::at_temperature(1.2)));
    let base = engine_config(16);
    let run = |setting, requests| Engine::new(&checkpoint(), setting).unwrap().generate(requests).unwrap();
    let alone = EngineConfig { prefix_sharing: PrefixSharing::Off, ..base };
    let alone: Vec<_> = all.iter().map(|request| bits(&run(alone, vec![request.clone()])[0])).collect();
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    for round in 0..6 {
        let mut order: Vec<usize> = (0..all.len()).collect();
        order.shuffle(&mut rng);
        let setting = EngineConfig {
            max_running: rng.random_range(1..=30),
            max_step_tokens: rng.random_range(1..=200),
            pages: if round % 3 == 0 { 24 } else { base.pages },
            ..base
        };
        let threads = rayon::ThreadPoolBuilder::new().num_threads(1 + round % 3).build().unwrap();
        let completions = threads.install(|| run(setting, order.iter().map(|index| all[*index].clone()).collect()));
        for (index, completion) in order.iter().zip(completions) {
            assert_eq!(bits(&completion), alone[*index], "request {index}, {setting:?}");
        }
    }
    // The weights are packed in place if the engine takes the checkpoint, and copied otherwise.
    let mut taken = Engine::from_checkpoint(checkpoint(), base).unwrap();
    let taken: Vec<_> = taken.generate(all).unwrap().iter().map(bits).collect();
    assert_eq!(taken, alone);
}

/// The same rounded weights, computed in f32 without an engine: only the rounding of activations differs.
fn bf16_is_close_to_f32() {
    let mut folders: Vec<_> =
        std::fs::read_dir(fixture("families")).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.retain(|path| path.is_dir());
    folders.push(fixture("tiny-llama"));
    for folder in folders {
        let checkpoint = load(&folder, WeightDtype::Bf16);
        let tokens = checkpoint.tokenizer.encode_prompt(&cases()[0].prompt, Default::default()).unwrap();
        let targets = Targets {
            rows: (0..tokens.len() as u32 - 1).collect(),
            tokens: tokens[1..].to_vec(),
            ..Targets::default()
        };
        let rounded = tempfile::tempdir().unwrap();
        save_model(&checkpoint.model, rounded.path(), WriteOptions::new(WeightDtype::Bf16)).unwrap();
        let want = load_model(rounded.path()).unwrap().log_probs(&PackedBatch::new([&tokens[..]]), &targets).unwrap();
        let log_probs = LogProbs { prompt: Some(PromptRange::All), top: 0 };
        let config = Arc::new(GenerationConfig { log_probs, max_new_tokens: 0, ..GenerationConfig::default() });
        let setting = EngineConfig { max_step_tokens: 17, max_length: 200, ..engine_config(16) };
        let request = Request { prompt: tokens.into(), seed: 0, config };
        let done = Engine::new(&checkpoint, setting).unwrap().generate(vec![request]).unwrap().remove(0);
        let scores = done.prompt_log_probs.unwrap();
        let errors =
            scores.iter().skip(1).zip(&want).map(|(found, want)| (found.as_ref().unwrap().log_prob - want).abs());
        let (count, worst, sum) = errors.fold((0, 0f32, 0f32), |(n, worst, sum), e| (n + 1, worst.max(e), sum + e));
        let mean = sum / count as f32;
        eprintln!("{}: log-probabilities differ by {mean:.4}, at most {worst:.4}", folder.display());
        assert!(worst > 0.0 && worst < 0.1 && mean < 0.02, "{}: {mean}, at most {worst}", folder.display());
    }
}
