//! Quantised tensors of every supported format, compared with candle's.

use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};
use serde_json::json;
use spag_model::checkpoint::{LoadOptions, load_model, load_model_with};
use spag_model::dtype::WeightDtype;
use spag_model::{Model, ModelConfig};
use spag_tests::gguf::{GgufFile, Value, interleave};

use crate::gguf::write;

/// Every format with its ggml number.
const FORMATS: [(GgmlDType, u32); 15] = [
    (GgmlDType::F32, 0),
    (GgmlDType::F16, 1),
    (GgmlDType::BF16, 30),
    (GgmlDType::Q4_0, 2),
    (GgmlDType::Q4_1, 3),
    (GgmlDType::Q5_0, 6),
    (GgmlDType::Q5_1, 7),
    (GgmlDType::Q8_0, 8),
    (GgmlDType::Q8_1, 9),
    (GgmlDType::Q2K, 10),
    (GgmlDType::Q3K, 11),
    (GgmlDType::Q4K, 12),
    (GgmlDType::Q5K, 13),
    (GgmlDType::Q6K, 14),
    (GgmlDType::Q8K, 15),
];

/// A model whose rows are whole blocks of 256.
pub(crate) fn model() -> Model {
    let config: ModelConfig = serde_json::from_value(json!({
        "model_type": "llama", "hidden_size": 256, "intermediate_size": 512, "vocab_size": 96, "num_hidden_layers": 1,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128, "rms_norm_eps": 1e-5
    }))
    .unwrap();
    Model::init(&config, 7).unwrap()
}

/// llama.cpp's names in the order of the model's parameters.
const NAMES: [&str; 12] = [
    "token_embd.weight",
    "blk.0.attn_norm.weight",
    "blk.0.attn_q.weight",
    "blk.0.attn_k.weight",
    "blk.0.attn_v.weight",
    "blk.0.attn_output.weight",
    "blk.0.ffn_norm.weight",
    "blk.0.ffn_gate.weight",
    "blk.0.ffn_up.weight",
    "blk.0.ffn_down.weight",
    "output_norm.weight",
    "output.weight",
];

/// Hugging Face's names in the same order.
fn names_of_parameters() -> Vec<String> {
    let in_block = |part: &str| format!("model.layers.0.{part}.weight");
    let mut names = vec!["model.embed_tokens.weight".to_owned()];
    names.extend(["input_layernorm", "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"].map(in_block));
    names.extend(["self_attn.o_proj", "post_attention_layernorm", "mlp.gate_proj", "mlp.up_proj"].map(in_block));
    names.push(in_block("mlp.down_proj"));
    names.extend(["model.norm.weight".to_owned(), "lm_head.weight".to_owned()]);
    names
}

/// The file of the model with matrices in a format, and their dequantised values, by name.
pub(crate) fn quantised(model: &Model, format: (GgmlDType, u32)) -> (GgufFile, Vec<(String, Vec<f32>)>) {
    let mut file = GgufFile::default();
    for (key, value) in [
        ("general.architecture", Value::Text("llama".into())),
        ("llama.embedding_length", Value::Int(256)),
        ("llama.block_count", Value::Int(1)),
        ("llama.feed_forward_length", Value::Int(512)),
        ("llama.attention.head_count", Value::Int(4)),
        ("llama.attention.head_count_kv", Value::Int(2)),
        ("llama.context_length", Value::Int(128)),
        ("llama.rope.dimension_count", Value::Int(64)),
        ("llama.attention.layer_norm_rms_epsilon", Value::Float(1e-5)),
    ] {
        file.set(key, value);
    }
    let parameters = model.parameters().named().unwrap();
    let mut expected = Vec::new();
    for (name, ggml) in names_of_parameters().into_iter().zip(NAMES) {
        let (_, tensor) = parameters.iter().find(|(other, _)| *other == name).unwrap();
        let sizes: Vec<u64> = tensor.dims().iter().rev().map(|size| *size as u64).collect();
        let (kind, data, numbers) = match tensor.dims() {
            [rows, _] => {
                // A copy: candle quantises all of a buffer.
                let own = Tensor::from_vec(flat(tensor), tensor.dims(), &Device::Cpu).unwrap();
                let quantised = QTensor::quantize(&own, format.0).unwrap();
                let data = quantised.data().unwrap().into_owned();
                let numbers = flat(&quantised.dequantize(&Device::Cpu).unwrap());
                let heads = [("attn_q", 4), ("attn_k", 2)].into_iter().find(|(part, _)| ggml.contains(part));
                (format.1, heads.map_or(data.clone(), |(_, heads)| interleave(&data, *rows, heads)), numbers)
            }
            _ => (0, flat(tensor).iter().flat_map(|number| number.to_le_bytes()).collect(), flat(tensor)),
        };
        file.tensors.push(spag_tests::gguf::Tensor { name: ggml.into(), sizes, kind, data });
        expected.push((name, numbers));
    }
    (file, expected)
}

fn flat(tensor: &Tensor) -> Vec<f32> {
    tensor.to_dtype(candle_core::DType::F32).unwrap().flatten_all().unwrap().to_vec1().unwrap()
}

#[test]
fn blocks_of_every_format_stand_for_the_numbers_of_candle() {
    let model = model();
    for format in FORMATS {
        let (file, expected) = quantised(&model, format);
        let (_kept, path) = write(&file);
        let found = load_model(&path).unwrap().parameters().named().unwrap();
        let options = LoadOptions { dtype: WeightDtype::Bf16, ..LoadOptions::default() };
        let rounded = load_model_with(&path, &options).unwrap().parameters().named().unwrap();
        for (name, expected) in expected {
            let of = |all: &[(String, Tensor)]| flat(&all.iter().find(|(other, _)| *other == name).unwrap().1);
            assert_eq!(of(&found), expected, "{:?}: {name}", format.0);
            let half: Vec<f32> = expected.iter().map(|number| half::bf16::from_f32(*number).to_f32()).collect();
            assert_eq!(of(&rounded), half, "{:?}: {name}", format.0);
        }
    }
}
