//! Launches at the sizes of large models, validated against the limits of GPUs without running.

use std::sync::Arc;

use candle_core::{DType, Device, Tensor};
use serde_json::{Value, json};
use spag_emulator::Dry;
use spag_model::batch::{PackedBatch, Targets};
use spag_model::dtype::WeightDtype;
use spag_model::model::Activations;
use spag_model::params::{FlatBuffers, GradientSink, Layout};
use spag_model::{Model, ModelConfig};
use spag_ops::attention::{Heads, Mask};
use spag_ops::paged_attention::{PageShape, Plan, Span, append, forward};
use spag_ops::{kernels, sample};

/// GPUs of compute capabilities 8.0, 8.6 and 8.9, and 9.0, by their shared memory per block.
fn gpus() -> [Arc<Dry>; 3] {
    let [old, small, hopper] = [163, 99, 227].map(|kib| Dry::with_shared_bytes(kib << 10));
    [old, small, hopper.with_warpgroups(132)].map(Arc::new)
}

/// Tokens of a micro-batch and of a prefill pass.
const TOKENS: usize = 32_768;
const SEQUENCE: usize = 4096;
/// Decoding requests.
const REQUESTS: usize = 256;

/// One block of each shape; a second one would have the same launches.
fn models() -> Vec<Value> {
    let model = |keys: Value| {
        let mut all = json!({"num_hidden_layers": 1, "max_position_embeddings": 32768, "vocab_size": 32000});
        all.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
        all
    };
    vec![
        model(json!({"hidden_size": 4096, "intermediate_size": 11008, "num_attention_heads": 32})),
        model(json!({"hidden_size": 5120, "intermediate_size": 13824, "num_attention_heads": 40})),
        model(
            json!({"model_type": "qwen3", "hidden_size": 4096, "intermediate_size": 12288, "num_attention_heads": 32,
            "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 152_064, "tie_word_embeddings": true}),
        ),
        model(
            json!({"hidden_size": 2048, "intermediate_size": 5632, "num_attention_heads": 32, "num_key_value_heads": 4}),
        ),
    ]
}

/// Gradients in memory that is mapped on first use.
struct Gradients(FlatBuffers);

impl GradientSink for Gradients {
    fn layout(&self) -> &Layout {
        self.0.layout()
    }

    fn buffer(&self, layer: usize) -> spag_model::Result<Tensor> {
        Ok(self.0.layers()[layer].clone())
    }

    fn complete(&self, _: usize) -> spag_model::Result<()> {
        Ok(())
    }
}

#[test]
fn training_steps_of_large_models_fit_every_gpu() {
    for keys in models() {
        let config: ModelConfig = serde_json::from_value(keys.clone()).unwrap();
        let layout = Layout::new(&config.architecture);
        let parameters = FlatBuffers::zeros_of(&layout, WeightDtype::Bf16, &Device::Cpu).unwrap();
        let gradients = Gradients(FlatBuffers::zeros(&layout, &Device::Cpu).unwrap());
        let model = Model::from_parameters(&config, parameters).unwrap();
        for dry in gpus() {
            kernels::using(dry.clone(), || {
                let sequences = vec![(0..SEQUENCE as u32).collect::<Vec<_>>(); TOKENS / SEQUENCE];
                let batch = PackedBatch::new(sequences.iter().map(Vec::as_slice));
                let rows: Vec<u32> =
                    (0..TOKENS as u32).filter(|row| !(row + 1).is_multiple_of(SEQUENCE as u32)).collect();
                let targets = Targets { tokens: vec![5; rows.len()], rows, ..Targets::default() };
                let upstream = Tensor::zeros(targets.rows.len(), DType::F32, &Device::Cpu).unwrap();
                let forward = model.forward(batch, targets, Activations::KeepLast(0)).unwrap();
                model.backward(forward, &upstream, &gradients).unwrap();
            });
            assert_eq!(dry.kernels_of_large_tensors(), [""; 0], "{keys}");
        }
    }
}

/// Attention and sampling of the largest passes; a training step covers the rest.
#[test]
fn generation_of_large_models_fits_every_gpu() {
    for (query, kv, dim, vocabulary) in
        [(32, 32, 128, 32_000), (40, 40, 128, 32_000), (32, 8, 128, 152_064), (32, 4, 64, 32_000)]
    {
        let shape = PageShape { tokens: 64, heads: Heads { query, kv, dim } };
        let pages_of_request = SEQUENCE / shape.tokens;
        let pages = REQUESTS * pages_of_request;
        for dry in gpus() {
            kernels::using(dry.clone(), || {
                let bf16s =
                    |dims: &[usize]| kernels::of(&Device::Cpu).unwrap().unwrap().empty(dims, DType::BF16).unwrap();
                let (keys, values) = (bf16s(&[pages, shape.elements()]), bf16s(&[pages, shape.elements()]));
                let tables: Vec<Vec<u32>> = (0..REQUESTS)
                    .map(|at| (0..pages_of_request).map(|page| (at * pages_of_request + page) as u32).collect())
                    .collect();
                let decoding = |at: usize| Span { rows: at..at + 1, position: SEQUENCE - 1, pages: &tables[at] };
                let prefill =
                    |at: usize| Span { rows: at * SEQUENCE..(at + 1) * SEQUENCE, position: 0, pages: &tables[at] };
                let passes: [Vec<Span<'_>>; 2] =
                    [(0..REQUESTS).map(decoding).collect(), (0..TOKENS / SEQUENCE).map(prefill).collect()];
                for spans in passes {
                    let rows = spans.last().unwrap().rows.end;
                    let qkv = bf16s(&[rows, (query + 2 * kv) * dim]);
                    let plan = Plan::new(&spans, &keys, shape).unwrap();
                    append(&qkv, &keys, &values, &plan).unwrap();
                    forward(&qkv, &keys, &values, &plan, &Mask::causal()).unwrap();
                }
                let sampled =
                    sample::sample(&bf16s(&[REQUESTS, vocabulary]), &vec![sample::SampleParams::default(); REQUESTS]);
                assert_eq!(sampled.unwrap().len(), REQUESTS);
            });
            let large: &[&str] =
                &["paged_attention_append_bf16", "paged_attention_decode_128", "paged_attention_prefill_128"];
            assert_eq!(
                dry.kernels_of_large_tensors(),
                if kv * dim >= 4096 { large } else { &[] },
                "{query} {kv} {dim}"
            );
        }
    }
}
