//! Memory of loading and generation, relative to the size of the weights.

use candle_core::Device;
use spag_model::checkpoint::{LoadOptions, WriteOptions, load_tokenizer, write_random_model};
use spag_model::dtype::WeightDtype;
use spag_model::generate::{GenerationMemory, GenerationMemorySettings, MemoryBudget, PromptLogProbs};
use spag_model::params::Layout;
use spag_model::{Checkpoint, Engine, EngineConfig, Generate, GenerationConfig, ModelConfig, Request};
use spag_tests::{fixture, test_process};

use crate::HELD;

/// Set in the child process whose memory is measured, without that of other tests.
const ALONE: &str = "SPAG_MEMORY_TEST_ALONE";

/// A model in which the vocabulary takes a quarter, as in small current models, in whole panels of 64 rows, as in all of
/// them.
fn config(family: &str, layers: usize, tied: bool) -> ModelConfig {
    let mut keys = serde_json::json!({
        "model_type": family, "hidden_size": 256, "intermediate_size": 704, "vocab_size": 12_800,
        "num_hidden_layers": layers, "num_attention_heads": 4, "max_position_embeddings": 256
    });
    if family == "llama" {
        keys["tie_word_embeddings"] = tied.into();
    }
    serde_json::from_value(keys).unwrap()
}

/// Loads the model of a folder and generates. Returns the peak above the memory held before, minus what the engine plans for
/// its pages and one pass, which it tries to allocate at the start.
fn taken(folder: &std::path::Path, dtype: WeightDtype) -> usize {
    let (before, mark) = (HELD.allocated(), HELD.max_allocated());
    let checkpoint = Checkpoint::load_with(folder, &LoadOptions { device: Device::Cpu, dtype }).unwrap();
    let model = checkpoint.model.config().clone();
    let engine = EngineConfig::with_max_length(&model, 2, 64, MemoryBudget::host());
    let settings = GenerationMemorySettings {
        dtype,
        activations: WeightDtype::F32,
        cached_tokens: engine.pages * engine.page_size,
        running: engine.max_running,
        step_tokens: engine.max_running * engine.max_length,
        prompt_log_probs: PromptLogProbs::Computed,
    };
    let planned = GenerationMemory::new(&model, &settings);
    let planned = (planned.total() - planned.parameters) as usize;
    let mut engine = Engine::from_checkpoint(checkpoint, engine).unwrap();
    let config = GenerationConfig { max_new_tokens: 8, min_new_tokens: 8, ..GenerationConfig::default() };
    let request = Request { prompt: "The horse".into(), seed: 1, config: config.into() };
    engine.generate(vec![request]).unwrap();
    assert!(HELD.max_allocated() > mark, "the highest mark is that of an earlier model");
    HELD.max_allocated() - before - planned
}

/// In one test, smaller models first: the peak is that of the process's lifetime.
#[test]
fn weights_are_held_once() {
    if std::env::var_os(ALONE).is_none() {
        let output = test_process("generation_memory::weights_are_held_once").env(ALONE, "1").output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stdout));
        eprintln!("{text}");
        return;
    }
    let tokenizer = load_tokenizer(fixture("tiny-llama")).unwrap();
    let (tied, plain, normalised) =
        (config("llama", 14, true), config("llama", 14, false), config("baichuan", 20, false));
    for (config, dtype) in [
        (&tied, WeightDtype::Bf16),
        (&normalised, WeightDtype::Bf16),
        (&tied, WeightDtype::F32),
        (&plain, WeightDtype::F32),
        (&normalised, WeightDtype::F32),
    ] {
        let folder = tempfile::tempdir().unwrap();
        write_random_model(config, 1, Some(&tokenizer), folder.path(), WriteOptions::new(WeightDtype::Bf16)).unwrap();
        let taken = taken(folder.path(), dtype);
        let weights = Layout::new(&config.architecture).len() * dtype.bytes();
        let head = config.architecture.head;
        eprintln!("{dtype}, {head:?}: {taken} bytes for weights of {weights}: {:.3}", taken as f64 / weights as f64);
        assert!(taken as f64 <= 1.15 * weights as f64, "{taken} bytes for weights of {weights} in {dtype}, {head:?}");
    }
}
