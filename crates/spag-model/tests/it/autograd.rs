//! Compares the backward pass of whole models with candle's autograd.

use candle_core::{Device, Tensor};
use spag_model::batch::{PackedBatch, Targets};
use spag_model::model::Activations;
use spag_model::params::{FlatBuffers, Layout, Part, Update};
use spag_model::{Model, ModelConfig};

fn values(t: &Tensor) -> Vec<f32> {
    t.flatten_all().unwrap().to_vec1().unwrap()
}

/// The largest absolute value.
pub(crate) fn largest(t: &Tensor) -> f32 {
    values(t).into_iter().fold(0.0, |most, x| most.max(x.abs()))
}

/// A small model with some keys changed.
fn config(keys: serde_json::Value) -> ModelConfig {
    let mut all = serde_json::json!({
        "hidden_size": 24, "intermediate_size": 40, "vocab_size": 50, "num_hidden_layers": 3,
        "num_attention_heads": 4, "num_key_value_heads": 4, "max_position_embeddings": 64, "initializer_range": 0.3,
    });
    all.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
    serde_json::from_value(all).unwrap()
}

/// Every option of an architecture, alone and combined.
pub(crate) fn configs() -> Vec<ModelConfig> {
    use serde_json::json;
    [
        json!({}),
        json!({"num_key_value_heads": 2}),
        json!({"num_key_value_heads": 1, "tie_word_embeddings": true}),
        json!({"head_dim": 10, "num_key_value_heads": 2, "rope_scaling": {"type": "linear", "factor": 3.0}}),
        json!({"attention_bias": true, "mlp_bias": true, "num_key_value_heads": 2}),
        json!({"model_type": "mistral", "sliding_window": 3}),
        json!({"model_type": "mistral", "sliding_window": 2, "num_key_value_heads": 1}),
        json!({"model_type": "qwen2", "use_sliding_window": true, "sliding_window": 2, "max_window_layers": 1}),
        json!({"model_type": "qwen3", "head_dim": 10, "num_key_value_heads": 2, "attention_bias": true}),
        json!({"model_type": "baichuan", "num_attention_heads": 6, "num_key_value_heads": 6,
            "max_position_embeddings": null}),
        json!({"model_type": "baichuan"}),
        json!({"model_type": "olmo2", "num_key_value_heads": 2}),
        json!({"model_type": "olmo2", "attention_bias": true, "tie_word_embeddings": true}),
        json!({"model_type": "gemma3_text", "num_key_value_heads": 2, "head_dim": 10, "query_pre_attn_scalar": 24,
            "sliding_window": 3, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}),
        json!({"model_type": "gemma3_text", "head_dim": 6, "query_pre_attn_scalar": 6, "sliding_window": 2,
            "sliding_window_pattern": 2, "attention_bias": true, "tie_word_embeddings": false}),
        json!({"rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8}}),
        json!({"model_type": "olmo3", "sliding_window": 3, "rope_theta": 100,
            "rope_scaling": {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 8}}),
        json!({"model_type": "smollm3", "num_key_value_heads": 2, "no_rope_layers": [0, 1, 0],
            "use_sliding_window": true, "sliding_window": 3}),
        json!({"model_type": "granite", "attention_bias": true, "mlp_bias": true, "embedding_multiplier": 3.5,
            "residual_multiplier": 0.4, "attention_multiplier": 0.2, "logits_scaling": 1.7}),
        json!({"model_type": "granite", "tie_word_embeddings": true, "residual_multiplier": 0.3}),
        json!({"model_type": "phi3", "num_key_value_heads": 2, "head_dim": 10, "partial_rotary_factor": 0.6}),
        json!({"model_type": "phi3", "num_key_value_heads": 1, "sliding_window": 3, "tie_word_embeddings": true}),
    ]
    .map(config)
    .to_vec()
}

/// Adds noise to tensors initialised to ones and zeros, so that no gradient vanishes by accident.
pub(crate) fn perturb(model: &Model) {
    for (layer, views) in model.parameters().layout().layers.iter().enumerate() {
        for (index, view) in views.views.iter().enumerate().filter(|(_, view)| view.shape.len() == 1) {
            let noise: Vec<f32> = (0..view.len()).map(|i| 0.3 * (1.7 * (i + 3 * index) as f32).sin()).collect();
            let old = model.parameters().view(layer, index).unwrap();
            let new = (old + Tensor::from_vec(noise, view.len(), &Device::Cpu).unwrap()).unwrap();
            model.parameters().set_view(layer, index, &new).unwrap();
        }
    }
}

#[test]
fn all_parameter_gradients_equal_autograd() {
    for config in configs() {
        let model = Model::init(&config, 11).unwrap();
        perturb(&model);
        let keys = serde_json::to_string(&config).unwrap();
        let sequences: [&[u32]; 3] = [&[1, 5, 9, 30, 2, 7, 7], &[1, 49], &[1, 3, 3, 3, 8]];
        let batch = PackedBatch::new(sequences);
        let targets = Targets { rows: vec![2, 3, 5, 7, 9, 12], tokens: vec![30, 2, 7, 49, 3, 8], ..Targets::default() };
        let upstream = [0.3f32, -1.0, 0.7, 1.5, -0.2, 0.9];
        let gradients = FlatBuffers::zeros(model.parameters().layout(), &Device::Cpu).unwrap();
        for keep in [Activations::Keep, Activations::KeepLast(0)] {
            gradients.set_zero().unwrap();
            let forward = model.forward(batch.clone(), targets.clone(), keep).unwrap();
            let want = crate::oracle::gradients(&model, &sequences, &targets, &upstream);
            for (got, want) in forward.read_log_probs().unwrap().iter().zip(&want.log_probs) {
                assert!((got - want).abs() < 1e-5, "{got} {want}: {keys}");
            }
            model.backward_from(forward, &upstream, &gradients).unwrap();
            for (name, got) in gradients.named().unwrap() {
                let want = &want.by_name[&name];
                let scale = largest(want);
                assert!(scale > 0.0, "{name} has no gradient in the oracle: {keys}");
                let worst = largest(&(&got - want).unwrap()) / scale;
                assert!(worst < 1e-5, "{name}: {worst:e} of the largest element: {keys}");
            }
        }
    }
}

/// Frozen tensors keep their gradient, and trained ones get the gradient of a fully trained model.
#[test]
fn frozen_parts_get_no_gradient() {
    for config in configs() {
        let model = Model::init(&config, 11).unwrap();
        perturb(&model);
        let batch = PackedBatch::new([&[1u32, 5, 9, 30, 2, 7, 7][..], &[1, 49]]);
        let targets = Targets { rows: vec![2, 3, 5, 7], tokens: vec![30, 2, 7, 49], ..Targets::default() };
        let gradients = |layout: &Layout| {
            let gradients = FlatBuffers::zeros(layout, &Device::Cpu).unwrap();
            let forward = model.forward(batch.clone(), targets.clone(), Activations::Keep).unwrap();
            model.backward_from(forward, &[0.3, -1.0, 0.7, 1.5], &gradients).unwrap();
            gradients.named().unwrap()
        };
        let layout = model.parameters().layout();
        let (all, parts) =
            (gradients(layout), layout.layers.iter().flat_map(|layer| &layer.views).map(|view| view.part));
        let mut one_by_one: Vec<Part> = Vec::new();
        for part in parts {
            if !one_by_one.contains(&part) {
                one_by_one.push(part);
            }
        }
        let everything = |_: Part| true;
        for frozen in one_by_one {
            let some = layout.clone().freeze(|part| part == frozen);
            let views = some.layers.iter().flat_map(|layer| &layer.views);
            for (((name, found), (_, full)), view) in gradients(&some).into_iter().zip(&all).zip(views) {
                let kept = view.update == Update::Frozen;
                assert_eq!(kept, view.part == frozen);
                let expected = if kept { vec![0.0; view.len()] } else { values(full) };
                assert_eq!(values(&found), expected, "{name} with {frozen:?} frozen");
                assert!(values(full).iter().any(|x| *x != 0.0), "{name}");
            }
        }
        for (name, found) in gradients(&layout.clone().freeze(everything)) {
            assert!(values(&found).iter().all(|x| *x == 0.0), "{name}");
        }
    }
}
