//! Memory of loading a quantised model, relative to the size of its weights.

use candle_core::Device;
use candle_core::quantized::{GgmlDType, QTensor};
use spag_model::ModelConfig;
use spag_model::checkpoint::{LoadOptions, WriteOptions, load_model_with, load_tokenizer, write_random_model};
use spag_model::dtype::WeightDtype;
use spag_tests::gguf::GgufFile;
use spag_tests::{fixture, test_process};

use crate::HELD;
use crate::gguf::write;

/// Set in the child process whose memory is measured: the file that it loads.
const FILE: &str = "SPAG_GGUF_MEMORY_TEST";

/// Loads two models, the smaller one first: the peak is that of the process's lifetime.
#[test]
fn a_quantised_model_takes_little_more_than_its_weights() {
    if let Some(path) = std::env::var_os(FILE) {
        for dtype in [WeightDtype::Bf16, WeightDtype::F32] {
            let before = HELD.allocated();
            let model = load_model_with(&path, &LoadOptions { device: Device::Cpu, dtype }).unwrap();
            let (taken, weights) = (HELD.max_allocated() - before, model.parameters().layout().len() * dtype.bytes());
            assert!(taken >= weights, "the highest mark is that of an earlier model");
            assert!(taken as f64 <= 1.15 * weights as f64, "{taken} bytes for weights of {weights} in {dtype}");
        }
        return;
    }
    let config: ModelConfig = serde_json::from_value(serde_json::json!({
        "model_type": "llama", "hidden_size": 256, "intermediate_size": 768, "vocab_size": 1000,
        "num_hidden_layers": 16, "rms_norm_eps": 1e-6, "num_attention_heads": 4, "max_position_embeddings": 256
    }))
    .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let tokenizer = load_tokenizer(fixture("tiny-llama")).unwrap();
    write_random_model(&config, 1, Some(&tokenizer), folder.path(), WriteOptions::new(WeightDtype::F32)).unwrap();
    let mut file = GgufFile::from_folder(folder.path());
    for tensor in file.tensors.iter_mut().filter(|tensor| tensor.sizes.len() == 2) {
        let numbers: Vec<f32> =
            tensor.data.chunks(4).map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect();
        let sizes = (tensor.sizes[1] as usize, tensor.sizes[0] as usize);
        let numbers = candle_core::Tensor::from_vec(numbers, sizes, &Device::Cpu).unwrap();
        tensor.data = QTensor::quantize(&numbers, GgmlDType::Q4K).unwrap().data().unwrap().into_owned();
        tensor.kind = 12;
    }
    let (_kept, path) = write(&file);
    let test = "gguf_memory::a_quantised_model_takes_little_more_than_its_weights";
    let output = test_process(test).env(FILE, path).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stdout));
}
