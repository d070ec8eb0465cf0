//! Models quantised while loading, and GGUF files whose tensors are kept.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};
use spag_model::batch::PackedBatch;
use spag_model::checkpoint::{LoadOptions, WriteOptions, load_quantised, load_tokenizer, write_random_model};
use spag_model::dtype::WeightDtype;
use spag_model::generate::{AdapterChoice, LogProbs, PromptRange};
use spag_model::model::{BlockFormat, Quantisation};
use spag_model::{Checkpoint, Engine, EngineConfig, Generate, GenerationConfig, ModelConfig, Request};
use spag_tests::gguf::GgufFile;
use spag_tests::{fixture, test_process};
use tempfile::TempDir;

use crate::HELD;
use crate::common::{bits, engine_config, mixed_requests};
use crate::gguf::write;

/// A folder with a random model of two layers, or of many, with these keys in its configuration.
fn folder(keys: serde_json::Value) -> TempDir {
    let mut config = serde_json::json!({
        "model_type": "llama", "hidden_size": 256, "intermediate_size": 512, "vocab_size": 1000, "num_hidden_layers": 2,
        "rms_norm_eps": 1e-6, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512,
        "initializer_range": 0.06
    });
    config.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
    let config: ModelConfig = serde_json::from_value(config).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let tokenizer = load_tokenizer(fixture("tiny-llama")).unwrap();
    write_random_model(&config, 1, Some(&tokenizer), folder.path(), WriteOptions::new(WeightDtype::F32)).unwrap();
    folder
}

/// The GGUF file of a folder, with each matrix in the format returned by `format`, with its ggml number.
fn gguf(folder: &Path, format: impl Fn(&str) -> (GgmlDType, u32)) -> GgufFile {
    let mut file = GgufFile::from_folder(folder);
    for tensor in file.tensors.iter_mut().filter(|tensor| tensor.sizes.len() == 2) {
        let numbers: Vec<f32> = tensor.data.as_chunks().0.iter().map(|four| f32::from_le_bytes(*four)).collect();
        let sizes = (tensor.sizes[1] as usize, tensor.sizes[0] as usize);
        let numbers = Tensor::from_vec(numbers, sizes, &Device::Cpu).unwrap();
        let (dtype, kind) = format(&tensor.name);
        tensor.data = QTensor::quantize(&numbers, dtype).unwrap().data().unwrap().into_owned();
        tensor.kind = kind;
    }
    file
}

fn setting() -> EngineConfig {
    EngineConfig { max_length: 200, ..engine_config(16) }
}

fn completions(checkpoint: &Checkpoint) -> Vec<(Vec<u32>, Vec<Vec<u32>>)> {
    let requests = mixed_requests(&AdapterChoice::Base, 2, 2);
    Engine::new(checkpoint, setting()).unwrap().generate(requests).unwrap().iter().map(bits).collect()
}

fn on_cpu(dtype: WeightDtype) -> LoadOptions {
    LoadOptions { device: Device::Cpu, dtype }
}

fn load(path: impl AsRef<Path>, dtype: WeightDtype, quantisation: Quantisation) -> Checkpoint {
    load_quantised(path, &on_cpu(dtype), quantisation).unwrap().0
}

/// Includes models with different heads, norms and biases.
#[test]
fn weights_quantised_as_they_are_read_are_those_quantised_as_they_are_packed() {
    let [plain, tied] = [false, true].map(|tied| folder(serde_json::json!({"tie_word_embeddings": tied})));
    let mut folders: Vec<PathBuf> = ["qwen2", "smollm", "baichuan2-7b", "gemma3", "granite", "phi3"]
        .map(|name| fixture("families").join(name))
        .into();
    folders.extend([fixture("tiny-llama"), plain.path().into(), tied.path().into()]);
    for folder in &folders {
        for (format, dtype) in
            BlockFormat::ALL.into_iter().zip([WeightDtype::F32, WeightDtype::Bf16].into_iter().cycle())
        {
            let Checkpoint { model, tokenizer } = Checkpoint::load(folder).unwrap();
            let Ok(model) = model.to_dtype(dtype).unwrap().quantised(format) else {
                let error = load_quantised(folder, &on_cpu(dtype), Quantisation::To(format)).unwrap_err().to_string();
                assert!(error.contains("no matrix can be quantised"), "{error}");
                continue;
            };
            let read = load(folder, dtype, Quantisation::To(format));
            assert_eq!(read.model.replaced_matrices(), model.replaced_matrices());
            let expected = completions(&Checkpoint { model, tokenizer });
            assert!(completions(&read) == expected, "{format}: {}", folder.display());
        }
    }
}

/// ln p of the tokens of a text.
fn scores(checkpoint: &Checkpoint) -> Vec<f32> {
    let log_probs = LogProbs { prompt: Some(PromptRange::All), top: 0 };
    let config = Arc::new(GenerationConfig { log_probs, max_new_tokens: 0, ..GenerationConfig::default() });
    let tokens: Vec<u32> = (0..150).map(|i| (i * 37 + 5) % 900).collect();
    let request = Request { prompt: tokens.into(), seed: 0, config };
    let done = Engine::new(checkpoint, setting()).unwrap().generate(vec![request]).unwrap().remove(0);
    done.prompt_log_probs.iter().flatten().flatten().map(|token| token.log_prob).collect()
}

/// All formats, several in one file and in one stack of matrices, and others that are dequantised.
#[test]
fn tensors_of_a_file_stay_as_they_are() {
    let [plain, tied] = [false, true].map(|tied| folder(serde_json::json!({"tie_word_embeddings": tied})));
    let all = |format: (GgmlDType, u32)| move |_: &str| format;
    let mixed = |name: &str| match name {
        name if name.contains("attn_v") => (GgmlDType::Q6K, 14),
        name if name.contains("ffn_down") => (GgmlDType::F16, 1),
        name if name.contains("ffn_up") => (GgmlDType::Q5K, 13),
        name if name.contains("output.weight") => (GgmlDType::Q8_0, 8),
        _ => (GgmlDType::Q4K, 12),
    };
    for folder in [&plain, &tied] {
        let mut files: Vec<(String, GgufFile)> = [
            (GgmlDType::Q8_0, 8),
            (GgmlDType::Q6K, 14),
            (GgmlDType::Q5_0, 6),
            (GgmlDType::Q4_1, 3),
            (GgmlDType::Q4_0, 2),
            (GgmlDType::Q4K, 12),
        ]
        .map(|format| (format!("{:?}", format.0), gguf(folder.path(), all(format))))
        .into();
        files.push(("mixed".into(), gguf(folder.path(), mixed)));
        for (name, file) in files {
            let (_kept, path) = write(&file);
            let (stored, dequantised) = load_quantised(&path, &on_cpu(WeightDtype::F32), Quantisation::Stored).unwrap();
            let counted: Vec<_> = dequantised.iter().map(|(format, count)| (format.as_str(), *count)).collect();
            assert_eq!(counted, if name == "mixed" { vec![("F16", 2), ("Q5K", 2)] } else { Vec::new() });
            // Only the error of 8-bit activations remains.
            let (found, wanted) = (scores(&stored), scores(&Checkpoint::load(&path).unwrap()));
            let worst = found.iter().zip(&wanted).fold(0f32, |worst, (a, b)| worst.max((a - b).abs()));
            let mean = found.iter().zip(&wanted).map(|(a, b)| (a - b).abs()).sum::<f32>() / found.len() as f32;
            eprintln!("{name}: {mean:.4}, at most {worst:.4}");
            assert!(worst > 0.0 && worst < 0.2 && mean < 0.04, "{name}: {mean}, at most {worst}");
        }
    }
}

/// Engines of one model share one copy of its weights, which nothing else can use.
#[test]
fn weights_are_shared_by_engines_and_of_no_other_use() {
    let folder = folder(serde_json::json!({}));
    let checkpoint = load(folder.path(), WeightDtype::F32, Quantisation::To(BlockFormat::Q8_0));
    let first = completions(&checkpoint);
    let before = HELD.allocated();
    let engine = Engine::new(&checkpoint, EngineConfig { pages: 16, ..setting() }).unwrap();
    // Keys and values of 16 pages take 0.5 MB; the weights 1.6 MB.
    let taken = HELD.allocated() - before;
    drop(engine);
    assert!(taken < 1_000_000 || cfg!(not(target_os = "linux")), "{taken} bytes");
    assert!(first == completions(&checkpoint));
    let batch = PackedBatch::new([&[1u32, 2, 3][..]]);
    let error = checkpoint.model.logits(&batch, &[0]).unwrap_err().to_string();
    assert!(error.contains("are in an engine, or quantised, and nothing else can use them"), "{error}");
}

#[test]
fn files_that_cannot_stay_as_they_are_are_refused_by_name() {
    let folder = folder(serde_json::json!({}));
    let error =
        |path: &Path| load_quantised(path, &on_cpu(WeightDtype::F32), Quantisation::Stored).unwrap_err().to_string();
    assert!(error(folder.path()).contains("it is a folder, whose weights are not quantised"));
    let (_kept, path) = write(&gguf(folder.path(), |_| (GgmlDType::F16, 1)));
    assert!(error(&path).contains("it is a GGUF file without a matrix in Q8_0"));
    let mut file = gguf(folder.path(), |_| (GgmlDType::Q4K, 12));
    let tensor = file.tensors.iter_mut().find(|tensor| tensor.name == "blk.1.ffn_up.weight").unwrap();
    // The minimum of the fourth superblock, in the order of rows.
    tensor.data[3 * 144 + 2..3 * 144 + 4].copy_from_slice(&[0x00, 0x7c]);
    let (_kept, path) = write(&file);
    let error = error(&path);
    assert!(error.contains("model.layers.1.mlp.up_proj.weight") && error.contains("768"), "{error}");
}

/// Set in the child process whose memory is measured: the model that it loads, and how.
const MODEL: &str = "SPAG_QUANTISED_MEMORY_TEST";

/// Loading takes the packed weights and one layer in its stored format, not the whole model.
#[test]
fn loading_takes_little_more_than_the_quantised_weights() {
    if let Some(model) = std::env::var_os(MODEL) {
        let model = model.into_string().unwrap();
        let (quantisation, path) = model.split_once(' ').unwrap();
        let before = HELD.allocated();
        let checkpoint = load(path, WeightDtype::Bf16, quantisation.parse().unwrap());
        let (most, kept) = (HELD.max_allocated() - before, HELD.allocated() - before);
        // 32 layers of 720,896 weights of 4.6 bits, two embeddings, and a tokenizer of about 1 MB.
        let weights = 32 * 720_896 * 37 / 64;
        assert!(kept > weights && kept < weights + 3_500_000, "{quantisation}: {kept} bytes stay");
        assert!(most < kept + 4_500_000, "{quantisation}: {most} bytes for {kept}");
        drop(checkpoint);
        return;
    }
    let folder = folder(serde_json::json!({"num_hidden_layers": 32, "intermediate_size": 768}));
    let (_kept, path) = write(&gguf(folder.path(), |_| (GgmlDType::Q4K, 12)));
    for model in [format!("q4_k {}", folder.path().display()), format!("stored {}", path.display())] {
        let test = "quantised_files::loading_takes_little_more_than_the_quantised_weights";
        let output = test_process(test).env(MODEL, &model).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{model}: {text}\n{}", String::from_utf8_lossy(&output.stdout));
    }
}
