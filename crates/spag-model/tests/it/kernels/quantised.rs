//! Engines with quantised weights on kernels.

use std::sync::Arc;

use candle_core::Device;
use spag_emulator::{Dry, Place};
use spag_model::checkpoint::{
    LoadOptions, WriteOptions, load_quantised, load_quantised_layers, load_tokenizer, write_random_model,
};
use spag_model::dtype::WeightDtype;
use spag_model::generate::{AdapterChoice, LogProbs, PrefixSharing, Prompt, PromptRange, SumOrder};
use spag_model::model::{BlockFormat, Quantisation};
use spag_model::params::{FlatBuffers, Layout};
use spag_model::{
    Checkpoint, Completion, Engine, EngineConfig, Generate, GenerationConfig, Model, ModelConfig, Request,
};
use spag_ops::kernels;
use spag_tests::fixture;

use super::{copied, small_engine};
use crate::common::{bits, checkpoint, random_adapter};

/// Prompts shorter and longer than the maximum rows multiplied with the codes.
fn requests() -> Vec<Request> {
    [AdapterChoice::Base, AdapterChoice::named("a")].into_iter().flat_map(requests_of).collect()
}

fn requests_of(adapter: AdapterChoice) -> Vec<Request> {
    let log_probs = LogProbs { prompt: Some(PromptRange::All), top: 0 };
    let config =
        GenerationConfig { max_new_tokens: 4, min_new_tokens: 4, log_probs, adapter, ..GenerationConfig::default() };
    let config = Arc::new(config);
    let request = |(first, length): (u32, u32)| Request {
        prompt: Prompt::Tokens((first..first + length).collect()),
        seed: 1,
        config: config.clone(),
    };
    [(1, 9), (30, 18), (5, 1)].map(request).into()
}

fn run(checkpoint: &Checkpoint, setting: EngineConfig, requests: Vec<Request>) -> Vec<Completion> {
    let mut engine = Engine::new(checkpoint, setting).unwrap();
    engine.add_adapter("a", &random_adapter(&checkpoint.model, 4, &["all-linear"], 2)).unwrap();
    let completions = engine.generate(requests).unwrap();
    assert_eq!(engine.capture_failure(), None);
    completions
}

/// The log-probabilities of a prompt except its first token, and of its answer.
fn log_probs(completion: &Completion) -> Vec<f32> {
    let prompt = completion.prompt_log_probs.iter().flatten().flatten().map(|token| token.log_prob);
    prompt.chain(completion.model_log_probs.iter().copied()).collect()
}

/// Compared with models with dequantised weights: in f32 the summation order differs; in bf16, up to 16 rows also use weights that are
/// not rounded to bf16.
#[test]
fn engines_compute_with_the_dequantised_weights() {
    let place = &Place::of_this_build();
    for (dtype, tolerance) in [(WeightDtype::F32, 1e-4), (WeightDtype::Bf16, 0.06)] {
        for format in BlockFormat::ON_GPUS {
            let path = fixture("tiny-llama");
            let layers = load_quantised_layers(&path, dtype, format).unwrap();
            let parameters = FlatBuffers::gathered(&layers).unwrap();
            let Checkpoint { model, tokenizer } = checkpoint();
            let dequantised = Model::from_parameters(model.config(), parameters).unwrap();
            let dequantised = Checkpoint { model: copied(&dequantised, place), tokenizer };
            let options = LoadOptions { device: place.device().clone(), dtype };
            let load = || load_quantised(&path, &options, Quantisation::To(format)).unwrap().0;
            let quantised = place.run(load);
            // Prompts in passes of many and of few rows.
            for max_step_tokens in [64, 8] {
                let setting = EngineConfig { max_step_tokens, ..small_engine(24, 4) };
                let requests = match dtype {
                    WeightDtype::F32 => requests(),
                    WeightDtype::Bf16 => requests_of(AdapterChoice::Base),
                };
                let of = |checkpoint| place.run(|| run(checkpoint, setting, requests.clone()));
                let mut worst = 0f32;
                for (found, wanted) in of(&quantised).iter().zip(&of(&dequantised)) {
                    let count = match dtype {
                        WeightDtype::F32 => {
                            assert_eq!(found.token_ids, wanted.token_ids, "{format}");
                            usize::MAX
                        }
                        // Answers in bf16 may differ.
                        WeightDtype::Bf16 => found.prompt_tokens - 1,
                    };
                    let pairs = log_probs(found).into_iter().zip(log_probs(wanted)).take(count);
                    worst = pairs.fold(worst, |worst, (found, wanted)| worst.max((found - wanted).abs()));
                }
                eprintln!("{format} {dtype}, {max_step_tokens} tokens a step: at most {worst}");
                assert!(worst < tolerance && (max_step_tokens > 16 || worst > 0.0), "{format} {dtype}: {worst}");
            }
        }
    }
}

/// With a tied head, biases, and a matrix that is not quantised: quantised while loading, from a shared model, and from one whose
/// layers are freed; alone and in a batch.
#[test]
fn results_depend_neither_on_the_way_of_loading_nor_on_the_batch() {
    let place = &Place::of_this_build();
    let config = serde_json::json!({
        "model_type": "qwen2", "hidden_size": 64, "intermediate_size": 80, "vocab_size": 1000, "num_hidden_layers": 2,
        "rms_norm_eps": 1e-6, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512,
        "initializer_range": 0.06, "tie_word_embeddings": true
    });
    let config: ModelConfig = serde_json::from_value(config).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let tokenizer = load_tokenizer(fixture("tiny-llama")).unwrap();
    write_random_model(&config, 1, Some(&tokenizer), folder.path(), WriteOptions::new(WeightDtype::F32)).unwrap();
    let setting = small_engine(24, 4);
    for format in BlockFormat::ON_GPUS {
        let options = LoadOptions { device: place.device().clone(), dtype: WeightDtype::F32 };
        let packed = || {
            let Checkpoint { model, tokenizer } = Checkpoint::load(folder.path()).unwrap();
            Checkpoint { model: copied(&model, place).quantised(format).unwrap(), tokenizer }
        };
        let [read, shared, taken, alone] = place.run(|| {
            let (read, _) = load_quantised(folder.path(), &options, Quantisation::To(format)).unwrap();
            assert_eq!(read.model.replaced_matrices(), packed().model.replaced_matrices());
            let alone = requests().into_iter().flat_map(|request| run(&read, setting, vec![request])).collect();
            let adapter = random_adapter(&read.model, 4, &["all-linear"], 2);
            let mut taken = Engine::from_checkpoint(packed(), setting).unwrap();
            taken.add_adapter("a", &adapter).unwrap();
            let taken = taken.generate(requests()).unwrap();
            [run(&read, setting, requests()), run(&packed(), setting, requests()), taken, alone]
        });
        let all = |completions: &[Completion]| completions.iter().map(bits).collect::<Vec<_>>();
        assert_eq!(all(&shared), all(&read), "{format}");
        assert_eq!(all(&taken), all(&read), "{format}");
        let tokens = |completions: &[Completion]| -> Vec<Vec<u32>> {
            completions.iter().map(|completion| completion.token_ids.clone()).collect()
        };
        assert_eq!(tokens(&alone), tokens(&read), "{format}");
    }
}

/// Complete decoding passes of one block and the head, on compute capabilities 8.0, 8.6 and 8.9, and 9.0. A second block would have
/// the same launches.
#[test]
fn decoding_with_large_models_fits_every_gpu() {
    let tokenizer = checkpoint().tokenizer;
    let config = GenerationConfig { max_new_tokens: 3, min_new_tokens: 3, ..GenerationConfig::default() };
    let config = Arc::new(config);
    let request = |seed| Request { prompt: Prompt::Tokens(vec![7]), seed, config: config.clone() };
    for (hidden, intermediate, heads) in [(4096, 11008, 32), (5120, 13824, 40)] {
        let keys = serde_json::json!({
            "hidden_size": hidden, "intermediate_size": intermediate, "num_attention_heads": heads, "num_hidden_layers": 1,
            "max_position_embeddings": 4096, "vocab_size": 32000
        });
        let keys: ModelConfig = serde_json::from_value(keys).unwrap();
        let layout = Layout::new(&keys.architecture);
        let parameters = FlatBuffers::zeros_of(&layout, WeightDtype::Bf16, &Device::Cpu).unwrap();
        let model = Model::from_parameters(&keys, parameters).unwrap();
        for (shared_bytes, format) in
            [(163, BlockFormat::Q8_0), (163, BlockFormat::Q4_0), (99, BlockFormat::Q4_0), (227, BlockFormat::Q4_0)]
        {
            let dry = Arc::new(Dry::with_shared_bytes(shared_bytes << 10));
            kernels::using(dry.clone(), || {
                let model = model.clone().quantised(format).unwrap();
                let setting = EngineConfig {
                    max_length: 64,
                    page_size: 16,
                    pages: 300,
                    max_running: 256,
                    max_step_tokens: 512,
                    prefix_sharing: PrefixSharing::Off,
                    sum_order: SumOrder::Any,
                };
                let checkpoint = Checkpoint { model, tokenizer: tokenizer.clone() };
                let mut engine = Engine::new(&checkpoint, setting).unwrap();
                for requests in [1, 2, 4, 8, 16, 24, 256] {
                    engine.generate((0..requests).map(request).collect()).unwrap();
                }
            });
            assert_eq!(dry.kernels_of_large_tensors(), [""; 0], "{hidden} {format}");
        }
    }
}

#[test]
fn other_formats_are_refused_by_name() {
    let place = Place::of_this_build();
    let model = copied(&checkpoint().model, &place);
    let other = BlockFormat::ALL.into_iter().filter(|format| !BlockFormat::ON_GPUS.contains(format));
    for format in other {
        let error = place.run(|| model.clone().quantised(format)).unwrap_err().to_string();
        let wanted =
            format!("weights quantised to {format} are for a CPU; on a GPU use --quantize q8_0 or --quantize q4_0");
        assert!(error.contains(&wanted), "{error}");
    }
    let options = LoadOptions { device: place.device().clone(), dtype: WeightDtype::F32 };
    let error = place.run(|| load_quantised(fixture("tiny-llama"), &options, Quantisation::Stored)).unwrap_err();
    assert!(error.to_string().contains("quantised to stored are for a CPU"), "{error}");
}
