//! What loading a model and generating takes, against the size of its weights.

use candle_core::Device;
use cap::Cap;
use spag_model::{
    Checkpoint, Completion, Engine, EngineConfig, Generate, GenerationConfig, Layout, LoadOptions, MemoryBudget,
    ModelConfig, Request, WeightDtype, WriteOptions, load_tokenizer, write_random_model,
};
use spag_tests::fixture;

/// Counts every byte that is held.
#[global_allocator]
static HELD: Cap<std::alloc::System> = Cap::new(std::alloc::System, usize::MAX);

/// A model whose largest layer is a small part of it, as in real ones.
fn config(tied: bool) -> ModelConfig {
    serde_json::from_value(serde_json::json!({
        "hidden_size": 256, "intermediate_size": 688, "vocab_size": 1000, "num_hidden_layers": 14,
        "num_attention_heads": 4, "max_position_embeddings": 256, "tie_word_embeddings": tied
    }))
    .unwrap()
}

/// Loads the model of a folder and generates. Returns the highest mark above what was held before, less the pages.
fn taken(folder: &std::path::Path, dtype: WeightDtype) -> (usize, Vec<Completion>) {
    let before = HELD.allocated();
    let checkpoint = Checkpoint::load_with(folder, &LoadOptions { device: Device::Cpu, dtype }).unwrap();
    let model = checkpoint.model.config().clone();
    let engine = EngineConfig::with_max_length(&model, 2, 64, MemoryBudget::host());
    let pages = engine.pages * engine.page_size * EngineConfig::bytes_per_token(&model, 4);
    let mut engine = Engine::from_checkpoint(checkpoint, engine).unwrap();
    let config = GenerationConfig { max_new_tokens: 8, min_new_tokens: 8, ..GenerationConfig::default() };
    let request = Request { prompt: "The horse".into(), seed: 1, config: config.into() };
    let completions = engine.generate(vec![request]).unwrap();
    (HELD.max_allocated() - before - pages, completions)
}

/// In one test: the highest mark is that of the process's life, so smaller models come first.
#[test]
fn weights_are_held_once() {
    let tokenizer = load_tokenizer(fixture("tiny-llama")).unwrap();
    for tied in [true, false] {
        let config = config(tied);
        let folder = tempfile::tempdir().unwrap();
        let options = WriteOptions::new(WeightDtype::Bf16);
        write_random_model(&config, 1, Some(&tokenizer), folder.path(), options).unwrap();
        let parameters = Layout::new(&config.architecture).len();
        let mut outputs = Vec::new();
        for dtype in [WeightDtype::Bf16, WeightDtype::F32] {
            let (taken, completions) = taken(folder.path(), dtype);
            let weights = parameters * dtype.bytes();
            eprintln!(
                "{dtype}, tied {tied}: {taken} bytes for weights of {weights}: {:.3}",
                taken as f64 / weights as f64
            );
            // The marks of the second model's run in bf16 are below those of the first in f32.
            if tied || dtype == WeightDtype::F32 {
                assert!(
                    taken as f64 <= 1.15 * weights as f64 + 1e6,
                    "{taken} bytes for weights of {weights} in {dtype}"
                );
            }
            outputs.push(completions);
        }
        // bf16 weights are widened, which is exact, and everything else is f32.
        assert_eq!(outputs[0], outputs[1]);
        let bits = |completion: &Completion| completion.model_log_probs.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&outputs[0][0]), bits(&outputs[1][0]));
    }
}
