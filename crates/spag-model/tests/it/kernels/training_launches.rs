//! Launches of a training pass: layers with the same input share one product, and no kernel only copies, adds a residual or rotates.

use candle_core::{DType, Tensor};
use spag_emulator::Place;
use spag_model::batch::{PackedBatch, Targets};
use spag_model::dtype::WeightDtype;
use spag_model::model::Activations;
use spag_model::params::FlatBuffers;
use spag_model::{Model, ModelConfig};
use spag_ops::kernels::{self, Launched};

use super::copied;
use crate::autograd::perturb;

fn config(layers: usize, keys: &serde_json::Value) -> ModelConfig {
    let mut all = serde_json::json!({
        "hidden_size": 32, "intermediate_size": 48, "vocab_size": 50, "num_hidden_layers": layers,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64, "initializer_range": 0.3,
    });
    all.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
    serde_json::from_value(all).unwrap()
}

/// The launches of a forward and a backward pass, and the gradients.
fn pass(place: &Place, config: &ModelConfig, keep: Activations, passes: usize) -> (Launched, Vec<Tensor>) {
    let model = Model::init(config, 11).unwrap();
    perturb(&model);
    let model = copied(&model.to_dtype(WeightDtype::Bf16).unwrap(), place);
    let batch = PackedBatch::new([&[1u32, 5, 9, 30, 2, 7, 7][..], &[1, 49]]);
    let targets = Targets { rows: vec![2, 3, 5, 7], tokens: vec![30, 2, 7, 49], ..Targets::default() };
    place.run(|| {
        let kernels = kernels::of(place.device()).unwrap().unwrap();
        let gradients = FlatBuffers::zeros(model.parameters().layout(), place.device()).unwrap();
        let before = kernels.launched();
        for _ in 0..passes {
            let forward = model.forward(batch.clone(), targets.clone(), keep).unwrap();
            model.backward_from(forward, &[0.3, -1.0, 0.7, 1.5], &gradients).unwrap();
        }
        let after = kernels.launched();
        let launched = Launched { kernels: after.kernels - before.kernels, products: after.products - before.products };
        let read = |layer: &Tensor| layer.to_dtype(DType::F64).unwrap().to_device(&candle_core::Device::Cpu).unwrap();
        (launched, gradients.layers().iter().map(read).collect())
    })
}

/// The launches of one block.
fn block(keys: &serde_json::Value, keep: Activations) -> (u64, u64) {
    let place = Place::of_this_build();
    let [two, three] = [2, 3].map(|layers| pass(&place, &config(layers, keys), keep, 1).0);
    (three.kernels - two.kernels, three.products - two.products)
}

#[test]
fn a_block_has_few_launches() {
    let (llama, qwen3) = (serde_json::json!({}), serde_json::json!({"model_type": "qwen3", "head_dim": 8}));
    // Forward: two norms, QKV split, attention, activation. Backward: three attention kernels, QKV join, activation, and for each
    // norm its gradients and the sum of its weight's gradients.
    assert_eq!(block(&llama, Activations::Keep), (5 + 9, 4 + 8));
    // All but the activation and the last product.
    assert_eq!(block(&llama, Activations::KeepLast(0)), (5 + 4 + 9, 4 + 3 + 8));
    // Two more norms and two rotations each way, and two sums.
    assert_eq!(block(&qwen3, Activations::Keep), (5 + 4 + 9 + 6, 4 + 8));
}

/// Memory of a pass is reused by later blocks and passes. Two passes accumulate twice the gradients of one.
#[test]
fn memory_that_is_used_again_changes_nothing() {
    let place = Place::of_this_build();
    for keys in [serde_json::json!({}), serde_json::json!({"model_type": "olmo2"})] {
        let config = config(3, &keys);
        let kept = pass(&place, &config, Activations::Keep, 1).1;
        let recomputed = pass(&place, &config, Activations::KeepLast(0), 1).1;
        let twice = pass(&place, &config, Activations::KeepLast(0), 2).1;
        for ((kept, recomputed), twice) in kept.iter().zip(&recomputed).zip(&twice) {
            let values = |x: &Tensor| x.to_vec1::<f64>().unwrap();
            assert_eq!(values(kept), values(recomputed));
            let doubled = (recomputed * 2.0).unwrap();
            let largest = values(&doubled).iter().fold(0.0, |most: f64, x| most.max(x.abs()));
            let near = values(&(twice - doubled).unwrap()).iter().all(|x| x.abs() < 1e-5 * largest);
            assert!(near && largest > 0.0, "{keys}");
        }
    }
}
