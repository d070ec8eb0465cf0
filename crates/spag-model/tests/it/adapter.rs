//! Adapters in PEFT's format, compared with the log-probabilities of PEFT 0.21.2 with PyTorch
//! (`tests/fixtures/peft`, by `scripts/peft-fixtures.py`).

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use candle_core::{Device, Tensor};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::{Map, Value, json};
use spag_model::Checkpoint;
use spag_model::adapter::Adapter;
use spag_model::batch::{PackedBatch, Targets};
use spag_model::checkpoint::LoadOptions;
use spag_model::dtype::WeightDtype;
use spag_model::model::Activations;
use spag_model::params::{Adapted, AdapterWeights, FlatBuffers, Layout, WeightSource};
use spag_tests::fixture;
use tempfile::TempDir;

fn base() -> Checkpoint {
    Checkpoint::load(fixture("tiny-llama")).unwrap()
}

fn keys(name: &str) -> Map<String, Value> {
    let path = fixture("peft").join(name).join("adapter_config.json");
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn log_probs(model: &Checkpoint, ids: &[u32]) -> Vec<f32> {
    let rows = (0..ids.len() as u32 - 1).collect();
    let targets = Targets { rows, tokens: ids[1..].to_vec(), ..Targets::default() };
    model.model.log_probs(&PackedBatch::new([ids]), &targets).unwrap()
}

/// Half of the linear layers; all of them, with ranks and alphas by pattern and `use_rslora`; those matched by a regular
/// expression, with ranks and alphas by expressions; all but excluded ones, in PyTorch's format; and those of one block.
#[test]
fn merged_model_has_the_log_probabilities_of_peft() {
    for name in ["attention", "patterns", "expressions", "excluded", "layers"] {
        let folder = fixture("peft").join(name);
        let expected: Value = serde_json::from_slice(&fs::read(folder.join("expected.json")).unwrap()).unwrap();
        let ids: Vec<u32> = serde_json::from_value(expected["ids"].clone()).unwrap();
        let wanted: Vec<f64> = serde_json::from_value(expected["log_probs"].clone()).unwrap();
        for (dtype, tolerance) in [(WeightDtype::F32, 1e-5), (WeightDtype::Bf16, 0.1)] {
            let options = LoadOptions { dtype, ..LoadOptions::default() };
            let checkpoint = Checkpoint::load_with(fixture("tiny-llama"), &options).unwrap();
            let before = log_probs(&checkpoint, &ids);
            let adapter = Adapter::load(&folder, &checkpoint.model.config().architecture).unwrap();
            assert_eq!(adapter.config().base(), Some("tiny-llama"));
            adapter.merge_into(checkpoint.model.parameters()).unwrap();
            let merged = log_probs(&checkpoint, &ids);
            let error = |found: &[f32]| {
                found.iter().zip(&wanted).map(|(a, b)| (f64::from(*a) - b).abs() / b.abs()).fold(0.0, f64::max)
            };
            assert!(error(&merged) < tolerance && error(&before) > 0.02, "{name} {dtype}: {}", error(&merged));
        }
    }
}

/// A copy of a fixture whose settings `change` alters.
fn altered(name: &str, change: impl FnOnce(&mut Map<String, Value>)) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let from = fixture("peft").join(name);
    fs::copy(from.join("adapter_model.safetensors"), folder.path().join("adapter_model.safetensors")).unwrap();
    let mut keys = keys(name);
    change(&mut keys);
    fs::write(folder.path().join("adapter_config.json"), serde_json::to_vec(&keys).unwrap()).unwrap();
    folder
}

fn refused(folder: &Path) -> String {
    Adapter::load(folder, &base().model.config().architecture).unwrap_err().to_string()
}

#[test]
fn settings_that_are_not_supported_are_refused_by_name() {
    for (key, value, expected) in [
        ("peft_type", json!("IA3"), "peft_type"),
        ("r", json!(0), "r: expected a whole number from 1"),
        ("r", json!(1e30), "r: expected"),
        ("r", Value::Null, "r: it is not set"),
        ("lora_alpha", json!("8"), "lora_alpha"),
        ("use_dora", json!(true), "use_dora"),
        ("fan_in_fan_out", json!(true), "fan_in_fan_out"),
        ("bias", json!("all"), "bias"),
        ("modules_to_save", json!(["lm_head"]), "modules_to_save"),
        ("init_lora_weights", json!("pissa"), "init_lora_weights"),
        ("target_modules", json!(["q_proj", "query"]), "\"query\", which is no linear layer"),
        ("target_modules", json!(["lm_head"]), "\"lm_head\""),
        ("target_modules", json!(".*_proj("), "regular expression \".*_proj(\""),
        ("target_modules", json!("[qv]_proj"), "\"[qv]_proj\", which matches no linear layer"),
        ("target_modules", json!(r".*\.q_proj"), "v_proj.lora_A.weight"),
        ("target_modules", json!(r".*\.[qkv]_proj"), "k_proj.lora_A.weight"),
        ("target_modules", json!([]), "target_modules"),
        ("exclude_modules", json!(["v_proj", "q_proj"]), "exclude_modules and layers_to_transform leave out"),
        ("exclude_modules", json!("*"), "exclude_modules: the regular expression"),
        ("layers_to_transform", json!([0, "1"]), "layers_to_transform has \"1\""),
        ("layers_to_transform", json!(7), "layers_to_transform leave out"),
        ("rank_pattern", json!({"layers.[01.*": 2}), "regular expression"),
        ("rank_pattern", json!({"q_proj": -2}), "rank_pattern"),
        ("a_key_of_the_future", json!(3), "a_key_of_the_future"),
    ] {
        let folder = altered("attention", |keys| {
            keys.insert(key.to_owned(), value.clone());
        });
        let said = refused(folder.path());
        assert!(said.contains(expected) && said.contains(folder.path().to_str().unwrap()), "{key} {value}: {said}");
    }
    // Ignored by PEFT.
    let unknown = altered("attention", |keys| {
        keys.extend([("a_key_of_the_future".to_owned(), Value::Null), ("another".to_owned(), json!(false))]);
    });
    assert!(Adapter::load(unknown.path(), &base().model.config().architecture).is_ok());
}

/// Settings that exclude modules survive a round trip, also for a regular expression and a single number.
#[test]
fn modules_that_are_left_out_have_no_matrices() {
    let architecture = base().model.config().architecture.clone();
    let load = |folder: &Path| Adapter::load(folder, &architecture).map_err(|error| error.to_string());
    for name in ["excluded", "layers"] {
        let folder = tempfile::tempdir().unwrap();
        let adapter = load(&fixture("peft").join(name)).unwrap();
        adapter
            .save(adapter.weights(), folder.path(), spag_model::checkpoint::WriteOptions::new(WeightDtype::F32))
            .unwrap();
        assert_eq!(load(folder.path()).unwrap().config(), adapter.config());
        // Without the setting, more matrices are required.
        let key = if name == "excluded" { "exclude_modules" } else { "layers_to_transform" };
        let mut keys = keys(name);
        assert!(keys.remove(key).is_some());
        fs::write(folder.path().join("adapter_config.json"), serde_json::to_vec(&keys).unwrap()).unwrap();
        assert!(load(folder.path()).unwrap_err().contains("its weights lack"), "{name}");
    }
    for (name, key, value) in [
        ("excluded", "exclude_modules", json!(r".*\.(?:k|down)_proj")),
        ("layers", "layers_to_transform", json!(1)),
        ("layers", "layers_pattern", Value::Null),
    ] {
        let folder = tempfile::tempdir().unwrap();
        spag_tests::copy_folder(fixture("peft").join(name), folder.path());
        let mut keys = keys(name);
        keys.insert(key.to_owned(), value);
        fs::write(folder.path().join("adapter_config.json"), serde_json::to_vec(&keys).unwrap()).unwrap();
        load(folder.path()).unwrap();
    }
    let pattern = altered("expressions", |keys| drop(keys.insert("layers_to_transform".to_owned(), json!([1]))));
    assert!(refused(pattern.path()).contains("layers_to_transform needs a list"));
    let elsewhere = altered("attention", |keys| {
        keys.extend([("layers_to_transform".to_owned(), json!([1])), ("layers_pattern".to_owned(), json!(["h"]))]);
    });
    assert!(refused(elsewhere.path()).contains("layers_pattern is [\"h\"]"));
}

#[test]
fn matrices_that_do_not_fit_the_settings_are_named() {
    let other_rank = altered("attention", |keys| {
        keys.insert("r".to_owned(), json!(8));
    });
    let said = refused(other_rank.path());
    assert!(said.contains("lora_A.weight") && said.contains("[4, 64]") && said.contains("[8, 64]"), "{said}");
    let more = altered("attention", |keys| {
        keys.insert("target_modules".to_owned(), json!(["q_proj", "v_proj", "o_proj"]));
    });
    assert!(refused(more.path()).contains("self_attn.o_proj.lora_A.weight"));
    let fewer = altered("attention", |keys| {
        keys.insert("target_modules".to_owned(), json!(["q_proj"]));
    });
    assert!(refused(fewer.path()).contains("v_proj.lora_A.weight"));
    let without = tempfile::tempdir().unwrap();
    assert!(refused(without.path()).contains("adapter_config.json"));
    // A model with other sizes.
    let family = fs::read_dir(fixture("families")).unwrap().map(|entry| entry.unwrap().path());
    let family = family.filter(|path| path.join("config.json").exists()).min().unwrap();
    let other = spag_model::checkpoint::load_config(&family).unwrap();
    assert!(Adapter::load(fixture("peft").join("attention"), &other.architecture).is_err());
}

/// An adapter with random matrices for modules of a model, in `folder`.
fn random_adapter(folder: &Path, model: &Checkpoint, modules: &[&str]) -> Adapter {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let mut tensors = HashMap::new();
    let mut random = |rows: usize, columns: usize| {
        let values: Vec<f32> = (0..rows * columns).map(|_| rng.random::<f32>() * 0.4 - 0.2).collect();
        Tensor::from_vec(values, (rows, columns), &Device::Cpu).unwrap()
    };
    let architecture = &model.model.config().architecture;
    for view in Layout::new(architecture).layers.iter().flat_map(|layer| &layer.views) {
        let module = view.name.trim_end_matches(".weight");
        if modules.iter().any(|name| module.ends_with(&format!(".{name}"))) {
            let key = |matrix| format!("base_model.model.{module}.lora_{matrix}.weight");
            tensors.insert(key("A"), random(3, view.shape[1]));
            tensors.insert(key("B"), random(view.shape[0], 3));
        }
    }
    let keys = json!({"peft_type": "LORA", "r": 3, "lora_alpha": 4.5, "target_modules": modules});
    fs::write(folder.join("adapter_config.json"), keys.to_string()).unwrap();
    candle_core::safetensors::save(&tensors, folder.join("adapter_model.safetensors")).unwrap();
    Adapter::load(folder, architecture).unwrap()
}

fn adapted<'a>(base: &'a Checkpoint, adapter: &'a Adapter, weights: &'a dyn WeightSource) -> Adapted<'a> {
    Adapted { base: base.model.parameters(), adapter: AdapterWeights { places: adapter.places(), weights } }
}

/// A batch of three sequences, and the gradients of its log-probabilities.
fn batch() -> (PackedBatch, Targets, Tensor) {
    let sequences: [&[u32]; 3] = [&[1, 5, 9, 33, 47, 21, 7, 3], &[1, 8, 8, 40], &[1, 17, 4, 31, 12]];
    let rows = vec![2, 3, 4, 5, 6, 9, 10, 13, 14, 15];
    let upstream = Tensor::new(&[0.5f32, -1.0, 0.25, 1.5, -0.5, 0.75, 1.0, -0.25, 0.5, 1.0], &Device::Cpu).unwrap();
    let targets = Targets { rows, tokens: vec![33, 47, 21, 7, 3, 8, 40, 4, 31, 12], ..Targets::default() };
    (PackedBatch::new(sequences), targets, upstream)
}

/// The log-probabilities of a batch and the gradients in `layout`.
fn pass(model: &Checkpoint, weights: &dyn WeightSource, layout: &Layout, keep: Activations) -> (Vec<f32>, FlatBuffers) {
    let (packed, targets, upstream) = batch();
    let network = model.model.network();
    let forward = network.forward(weights, packed, targets, keep).unwrap();
    let log_probs = forward.read_log_probs().unwrap();
    let gradients = FlatBuffers::zeros(layout, &Device::Cpu).unwrap();
    network.backward(weights, forward, &upstream, &gradients).unwrap();
    (log_probs, gradients)
}

fn close(found: &Tensor, wanted: &Tensor, what: &str) {
    let values = |tensor: &Tensor| tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap();
    let (found, wanted) = (values(found), values(wanted));
    let scale = wanted.iter().fold(1e-3f32, |most, value| most.max(value.abs()));
    assert_eq!(found.len(), wanted.len());
    for (found, wanted) in found.iter().zip(&wanted) {
        assert!((found - wanted).abs() < 2e-5 * scale, "{what}: {found} {wanted}, of {scale}");
    }
}

/// With separate linear layers, with fused ones, and with head norms.
#[test]
fn passes_with_an_adapter_are_those_of_the_sum() {
    for (family, modules) in [
        ("llama", &["q_proj", "v_proj", "o_proj", "gate_proj", "down_proj"][..]),
        ("baichuan2", &["W_pack", "up_proj", "down_proj"]),
        ("phi3", &["qkv_proj", "o_proj", "gate_up_proj"]),
        ("granite", &["q_proj", "o_proj", "up_proj", "down_proj"]),
        ("qwen3", &["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]),
    ] {
        let folder = match family {
            "llama" => fixture("tiny-llama"),
            _ => fs::read_dir(fixture("families"))
                .unwrap()
                .map(|entry| entry.unwrap().path())
                .filter(|path| path.file_name().unwrap().to_string_lossy().starts_with(family))
                .min()
                .unwrap_or_else(|| panic!("no family {family}")),
        };
        let (base, sum) = (Checkpoint::load(&folder).unwrap(), Checkpoint::load(&folder).unwrap());
        let of_adapter = tempfile::tempdir().unwrap();
        let adapter = random_adapter(of_adapter.path(), &base, modules);
        adapter.merge_into(sum.model.parameters()).unwrap();
        let by_layer = FlatBuffers::gathered(&adapter.merged_with(base.model.parameters())).unwrap();
        for (one, all) in by_layer.layers().iter().zip(sum.model.parameters().layers()) {
            assert_eq!(one.to_vec1::<f32>().unwrap(), all.to_vec1::<f32>().unwrap(), "{family}");
        }
        let adapted = adapted(&base, &adapter, adapter.weights());
        let layout = adapter.places().layout();
        let (log_probs, gradients) = pass(&base, &adapted, layout, Activations::Keep);
        let (of_sum, of_weights) = pass(&sum, sum.model.parameters(), sum.model.network().layout(), Activations::Keep);
        let tensor = |values: &[f32]| Tensor::new(values, &Device::Cpu).unwrap();
        close(&tensor(&log_probs), &tensor(&of_sum), family);
        // W = W₀ + s·B·A, so dA = s·Bᵀ·dW and dB = s·dW·Aᵀ.
        let scale = 4.5 / 3.0;
        for (layer, own) in layout.layers.iter().enumerate() {
            for at in (0..own.views.len()).step_by(2) {
                let name = own.views[at].name.trim_start_matches("base_model.model.");
                let name = format!("{}.weight", name.trim_end_matches(".lora_A.weight"));
                let views = &of_weights.layout().layers[layer].views;
                let of_weight = views.iter().position(|view| view.name == name).unwrap();
                let dw = of_weights.view(layer, of_weight).unwrap();
                let matrix = |at| adapter.weights().view(layer, at).unwrap();
                let da = (matrix(at + 1).t().unwrap().matmul(&dw).unwrap() * scale).unwrap();
                let db = (dw.matmul(&matrix(at).t().unwrap()).unwrap() * scale).unwrap();
                close(&gradients.view(layer, at).unwrap(), &da, &format!("{family} dA of {name}"));
                close(&gradients.view(layer, at + 1).unwrap(), &db, &format!("{family} dB of {name}"));
            }
        }
        let (_, again) = pass(&base, &adapted, layout, Activations::KeepLast(0));
        for (kept, recomputed) in gradients.layers().iter().zip(again.layers()) {
            let bits =
                |tensor: &Tensor| tensor.to_vec1::<f32>().unwrap().into_iter().map(f32::to_bits).collect::<Vec<_>>();
            assert_eq!(bits(kept), bits(recomputed), "{family}");
        }
    }
}

#[test]
fn gradients_of_an_adapter_are_differences() {
    let base = base();
    let folder = tempfile::tempdir().unwrap();
    let adapter =
        random_adapter(folder.path(), &base, &["q_proj", "k_proj", "v_proj", "o_proj", "up_proj", "down_proj"]);
    let layout = adapter.places().layout();
    let (_, gradients) = pass(&base, &adapted(&base, &adapter, adapter.weights()), layout, Activations::Keep);
    let (_, _, upstream) = batch();
    let upstream = upstream.to_vec1::<f32>().unwrap();
    // The sum whose gradient was computed, with one element of a layer changed.
    let at = |layer: usize, element: usize, by: f32| {
        let moved = FlatBuffers::zeros(layout, &Device::Cpu).unwrap();
        for (index, own) in layout.layers.iter().enumerate() {
            for view in 0..own.views.len() {
                moved.set_view(index, view, &adapter.weights().view(index, view).unwrap()).unwrap();
            }
        }
        let view = layout.layers[layer].views.iter().position(|view| element < view.offset + view.len()).unwrap();
        let inside = element - layout.layers[layer].views[view].offset;
        let tensor = moved.view(layer, view).unwrap();
        let mut values = tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        values[inside] += by;
        moved.set_view(layer, view, &Tensor::from_vec(values, tensor.dims(), &Device::Cpu).unwrap()).unwrap();
        let (packed, targets, _) = batch();
        let log_probs = base.model.network().log_probs(&adapted(&base, &adapter, &moved), &packed, &targets).unwrap();
        log_probs.iter().zip(&upstream).map(|(value, weight)| f64::from(*value) * f64::from(*weight)).sum::<f64>()
    };
    let mut rng = ChaCha8Rng::seed_from_u64(9);
    for layer in 1..=3 {
        let length = layout.layers[layer].len;
        let gradient = gradients.layers()[layer].to_vec1::<f32>().unwrap();
        let scale = gradient[..length].iter().fold(0f32, |most, value| most.max(value.abs()));
        for _ in 0..24 {
            let element = rng.random_range(0..length);
            let h = 2e-2f32;
            let (h1, h2) = (
                at(layer, element, h) - at(layer, element, -h),
                at(layer, element, 2.0 * h) - at(layer, element, -2.0 * h),
            );
            let numeric = (8.0 * h1 - h2) / (12.0 * f64::from(h));
            let error = (numeric - f64::from(gradient[element])).abs();
            assert!(error < 2e-3 * f64::from(scale), "layer {layer}, {element}: {numeric} {}", gradient[element]);
        }
    }
}
