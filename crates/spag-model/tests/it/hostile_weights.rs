//! Checkpoint folders with inconsistent configuration, weights and index, or invalid weights.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use spag_model::checkpoint::{
    WriteOptions, check_checkpoint, load_config, load_model, load_notes, save_model, write_random_model,
};
use spag_model::config::OutputHead;
use spag_model::dtype::WeightDtype;
use spag_model::generate::MemoryBudget;
use spag_model::{Checkpoint, Engine, EngineConfig, Error, Generate, GenerationConfig, Model, ModelConfig, Request};
use spag_tests::{copy_folder, fixture};
use tempfile::TempDir;

fn copy() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    copy_folder(fixture("tiny-llama"), folder.path());
    folder
}

/// The fixture with other values of keys of its config.json.
fn configured(changes: &[(&str, Value)]) -> TempDir {
    let folder = copy();
    let path = folder.path().join("config.json");
    let mut config: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    for (key, value) in changes {
        config[*key] = value.clone();
    }
    fs::write(&path, config.to_string()).unwrap();
    folder
}

fn refused(folder: &Path) -> String {
    let error = load_model(folder).map(|_| ()).unwrap_err().to_string();
    assert_eq!(check_checkpoint(folder).map(|_| ()).unwrap_err().to_string(), error, "the same before loading");
    assert!(error.len() < 2000, "{error}");
    error
}

/// Writes a safetensors file with this header.
fn write_file(path: &Path, header: &str, data: usize) {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.resize(bytes.len() + data, 0);
    fs::write(path, bytes).unwrap();
}

/// The header and the data of the fixture's weights.
fn parts() -> (Value, Vec<u8>) {
    let bytes = fs::read(fixture("tiny-llama/model.safetensors")).unwrap();
    let (length, rest) = bytes.split_first_chunk::<8>().unwrap();
    let (header, data) = rest.split_at(usize::try_from(u64::from_le_bytes(*length)).unwrap());
    (serde_json::from_slice(header).unwrap(), data.to_vec())
}

fn write_parts(path: &Path, header: &Value, data: &[u8]) {
    let header = header.to_string();
    let bytes = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), data].concat();
    fs::write(path, bytes).unwrap();
}

#[test]
fn every_tensor_is_used_or_named() {
    let error = refused(configured(&[("num_hidden_layers", json!(1))]).path());
    assert!(error.contains("`model.layers.1.input_layernorm.weight` (like 17 more)"), "{error}");
    assert!(error.contains("of 1 layers") && error.contains("model.safetensors"), "{error}");
    let error = refused(configured(&[("num_hidden_layers", json!(4))]).path());
    assert!(error.contains("`model.layers.3.") && error.contains("is missing"), "{error}");

    let folder = copy();
    let (mut header, data) = parts();
    let end = data.len();
    header["model.layers.0.self_attn.q_proj.bias"] =
        json!({"dtype": "F32", "shape": [1], "data_offsets": [end, end + 4]});
    write_parts(&folder.path().join("model.safetensors"), &header, &[&data[..], &[0; 4]].concat());
    assert!(refused(folder.path()).contains("`model.layers.0.self_attn.q_proj.bias` is not part"));
}

#[test]
fn buffers_that_follow_from_the_configuration_and_a_tied_head_are_accepted() {
    let folder = configured(&[("tie_word_embeddings", json!(true))]);
    let (mut header, data) = parts();
    let end = data.len();
    header["model.layers.0.self_attn.rotary_emb.inv_freq"] =
        json!({"dtype": "F32", "shape": [8], "data_offsets": [end, end + 32]});
    write_parts(&folder.path().join("model.safetensors"), &header, &[&data[..], &[0; 32]].concat());
    load_model(folder.path()).unwrap();
}

#[test]
fn pointers_and_compressed_files_are_named() {
    for (bytes, expected) in [
        (&b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"[..], "git lfs pull"),
        (b"\x1f\x8b\x08\0\0\0\0\0\0", "gunzip"),
    ] {
        for name in ["model.safetensors", "pytorch_model.bin", "config.json", "model.gguf"] {
            let folder = copy();
            let path = folder.path().join(name);
            if name == "pytorch_model.bin" {
                fs::remove_file(folder.path().join("model.safetensors")).unwrap();
            }
            fs::write(&path, bytes).unwrap();
            let error = refused(if name == "model.gguf" { &path } else { folder.path() });
            assert!(error.contains(name) && error.contains(expected), "{name}: {error}");
        }
    }
}

#[test]
fn head_of_its_own_is_used_though_the_configuration_ties_it() {
    let folder = configured(&[("tie_word_embeddings", json!(true))]);
    let model = load_model(folder.path()).unwrap();
    let note = load_notes(folder.path()).unwrap().remove(0);
    assert!(note.contains("lm_head.weight") && note.contains("config.json"), "{note}");
    assert!(load_notes(fixture("tiny-llama")).unwrap().is_empty());
    let is_same = |a: &Model, b: &Model| {
        let weights = |model: &Model| -> Vec<Vec<f32>> {
            model.parameters().layers().iter().map(|layer| layer.to_vec1().unwrap()).collect()
        };
        weights(a) == weights(b)
    };
    assert!(is_same(&model, &load_model(fixture("tiny-llama")).unwrap()));
    // The saved configuration says so.
    let saved = tempfile::tempdir().unwrap();
    save_model(&model, saved.path(), WriteOptions::new(WeightDtype::F32)).unwrap();
    assert_eq!(load_config(saved.path()).unwrap().keys()["tie_word_embeddings"], false);
    assert!(is_same(&model, &load_model(saved.path()).unwrap()));
    assert!(load_notes(saved.path()).unwrap().is_empty());
    // A head that equals the embedding is tied.
    let (header, mut data) = parts();
    let range = |name: &str| {
        let offsets: [usize; 2] = serde_json::from_value(header[name]["data_offsets"].clone()).unwrap();
        offsets[0]..offsets[1]
    };
    data.copy_within(range("model.embed_tokens.weight"), range("lm_head.weight").start);
    write_parts(&folder.path().join("model.safetensors"), &header, &data);
    assert_eq!(load_config(folder.path()).unwrap().architecture.head, OutputHead::Tied);
    assert!(load_notes(folder.path()).unwrap().is_empty());
    assert!(!is_same(&model, &load_model(folder.path()).unwrap()));
}

#[test]
fn tensors_for_images_are_skipped_with_a_note() {
    let notes = load_notes(fixture("families/gemma3-mm")).unwrap();
    assert!(notes.len() == 1 && notes[0].contains("tensors for images are skipped"), "{notes:?}");
    // Only those of a multimodal model.
    let folder = configured(&[]);
    let (mut header, data) = parts();
    let empty = json!({"dtype": "F32", "shape": [0], "data_offsets": [data.len(), data.len()]});
    header["vision_tower.bias"] = empty;
    write_parts(&folder.path().join("model.safetensors"), &header, &data);
    assert!(refused(folder.path()).contains("`vision_tower.bias`"));
}

#[test]
fn sizes_that_the_weights_do_not_have_are_refused_before_allocation() {
    for (key, value) in [
        ("num_hidden_layers", 1_u64 << 31),
        ("num_hidden_layers", 16_000),
        ("hidden_size", (1 << 31) - 64),
        ("hidden_size", 1 << 20),
        ("hidden_size", i64::MAX as u64),
        ("hidden_size", 65),
        ("vocab_size", 1 << 31),
        ("vocab_size", u64::MAX),
        ("intermediate_size", (1 << 31) - 1),
        ("num_attention_heads", 0),
        ("num_key_value_heads", 2),
        ("num_key_value_heads", 1 << 31),
        ("max_position_embeddings", 0),
    ] {
        let error = refused(configured(&[(key, json!(value))]).path());
        assert!(error.contains("config") || error.contains("tensor"), "{key} {value}: {error}");
    }
    // Positions have no weights: their memory depends only on the sequences.
    let folder = configured(&[("max_position_embeddings", json!(1_u64 << 31))]);
    load_model(folder.path()).unwrap();
}

#[test]
fn engines_that_do_not_fit_into_memory_are_refused() {
    let checkpoint = Checkpoint::load(configured(&[("max_position_embeddings", json!(1_u64 << 31))]).path()).unwrap();
    let model = checkpoint.model.config();
    let fitting = EngineConfig::with_max_length(model, 2, 64, MemoryBudget::host());
    for config in [
        EngineConfig::new(model, 4, MemoryBudget::host()),
        EngineConfig { pages: u32::MAX as usize, ..fitting },
        EngineConfig { pages: 1 << 20, page_size: usize::MAX, ..fitting },
        EngineConfig { max_running: usize::MAX, max_step_tokens: usize::MAX, pages: 1 << 30, page_size: 1, ..fitting },
    ] {
        let error = Engine::new(&checkpoint, config).map(|_| ()).unwrap_err();
        assert!(matches!(error, Error::Ops(spag_ops::Error::Memory(_))), "{error}");
        assert!(error.to_string().contains("--kv_cache_gib"), "{error}");
    }
    Engine::new(&checkpoint, fitting).unwrap();
}

#[test]
fn random_models_that_do_not_fit_are_refused_before_a_file_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let config: ModelConfig = serde_json::from_value(json!({"hidden_size": 1 << 20, "intermediate_size": 1 << 20,
        "vocab_size": 1000, "num_hidden_layers": 8, "num_attention_heads": 4}))
    .unwrap();
    let options = WriteOptions::new(WeightDtype::F32);
    let out = folder.path().join("a/b");
    let error = write_random_model(&config, 1, None, &out, options).unwrap_err();
    assert!(matches!(error, Error::Disk { .. } | Error::Ops(spag_ops::Error::Memory(_))), "{error}");
    assert!(!out.exists());
    assert!(matches!(spag_model::Model::init(&config, 1), Err(Error::Ops(spag_ops::Error::Memory(_)))));
}

#[test]
fn shards_outside_of_the_folder_are_refused_by_name() {
    let outside = copy();
    for shard in [
        "../model.safetensors",
        "/etc/passwd",
        "a/model.safetensors",
        "./model.safetensors",
        "..",
        "",
        "config.json",
        "a\nb\u{1b}[2J/../x.safetensors",
    ] {
        let folder = copy();
        fs::remove_file(folder.path().join("model.safetensors")).unwrap();
        let index = json!({"weight_map": {"lm_head.weight": shard}});
        fs::write(folder.path().join("model.safetensors.index.json"), index.to_string()).unwrap();
        let error = refused(folder.path());
        assert!(error.contains("model.safetensors.index.json") && error.contains("same folder"), "{error}");
        assert!(!error.contains('\n') && !error.contains('\u{1b}'), "{error:?}");
    }
    let absolute = outside.path().join("model.safetensors");
    let folder = copy();
    fs::remove_file(folder.path().join("model.safetensors")).unwrap();
    let index = json!({"weight_map": {"lm_head.weight": absolute}});
    fs::write(folder.path().join("model.safetensors.index.json"), index.to_string()).unwrap();
    assert!(refused(folder.path()).contains("same folder"));
    assert!(spag_model::checkpoint::weights_digest(folder.path()).is_err());
}

#[test]
fn an_index_that_differs_from_its_shards_is_refused() {
    let folder = copy();
    let model = load_model(folder.path()).unwrap();
    let sharded = tempfile::tempdir().unwrap();
    save_model(&model, sharded.path(), WriteOptions { dtype: WeightDtype::F32, max_shard_bytes: 300_000 }).unwrap();
    load_model(sharded.path()).unwrap();
    let path = sharded.path().join("model.safetensors.index.json");
    let mut index: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let shard = index["weight_map"]["lm_head.weight"].clone();
    index["weight_map"]["lost.weight"] = shard;
    fs::write(&path, index.to_string()).unwrap();
    assert!(refused(sharded.path()).contains("`lost.weight`"));
}

#[test]
fn malformed_headers_are_refused_without_panics() {
    let tensor = |offsets: &str| format!(r#"{{"dtype": "F32", "shape": [2], "data_offsets": {offsets}}}"#);
    let huge = r#"{"a": {"dtype": "F32", "shape": [18446744073709551615, 2], "data_offsets": [0, 8]}}"#.to_owned();
    let many = format!(r#"{{"a": {{"dtype": "F32", "shape": [{}1], "data_offsets": [0, 4]}}}}"#, "1, ".repeat(100_000));
    for (header, reason) in [
        (format!(r#"{{"a": {}, "b": {}}}"#, tensor("[0, 8]"), tensor("[4, 12]")), "invalid offset"),
        (format!(r#"{{"a": {}}}"#, tensor("[18446744073709551607, 18446744073709551615]")), "invalid offset"),
        (format!(r#"{{"a": {}}}"#, tensor("[8, 0]")), "invalid offset"),
        (format!(r#"{{"a": {}}}"#, tensor("[-8, 0]")), "invalid JSON"),
        (format!(r#"{{"a": {}, "a": {}}}"#, tensor("[0, 8]"), tensor("[0, 8]")), "there twice"),
        (huge, "overflow"),
        ("[".repeat(100_000), "invalid JSON"),
        (format!(r#"{{"a": {}}}"#, "[".repeat(100_000)), "invalid JSON"),
        (r#"{"a": {"dtype": "X9", "shape": [2], "data_offsets": [0, 8]}}"#.to_owned(), "invalid JSON"),
        (r#"{"__metadata__": 7}"#.to_owned(), "invalid JSON"),
        ("{}".to_owned(), "not fully covered"),
        (many, ""),
        ("null".to_owned(), "invalid JSON"),
        (String::new(), "invalid JSON"),
    ] {
        let folder = copy();
        write_file(&folder.path().join("model.safetensors"), &header, 8);
        let error = refused(folder.path());
        let shown = &header[..header.len().min(80)];
        assert!(error.to_lowercase().contains(&reason.to_lowercase()), "{shown}: {error}");
        assert!(error.contains("model.safetensors"), "{shown}: {error}");
    }
}

#[test]
fn other_number_formats_and_shapes_are_named() {
    let name = "model.layers.1.mlp.up_proj.weight";
    for (key, value, reason) in [
        ("dtype", json!("I32"), "number format I32"),
        ("shape", json!([64, 172]), "has shape [64, 172]"),
        ("shape", json!([172, 64, 1]), "has shape [172, 64, 1]"),
        ("shape", json!([172 * 64]), "has shape"),
    ] {
        let folder = copy();
        let (mut header, data) = parts();
        header[name][key] = value;
        write_parts(&folder.path().join("model.safetensors"), &header, &data);
        let error = refused(folder.path());
        assert!(error.contains(name) && error.contains(reason), "{error}");
    }
}

#[test]
fn weights_that_are_not_finite_are_named_with_file_and_tensor() {
    let name = "model.layers.2.mlp.down_proj.weight";
    for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let folder = copy();
        let (header, mut data) = parts();
        let start = usize::try_from(header[name]["data_offsets"][0].as_u64().unwrap()).unwrap() + 4 * 1234;
        data[start..start + 4].copy_from_slice(&value.to_le_bytes());
        write_parts(&folder.path().join("model.safetensors"), &header, &data);
        let error = load_model(folder.path()).map(|_| ()).unwrap_err();
        assert!(matches!(&error, Error::NotFinite { index: 1234, .. }), "{error}");
        assert!(error.to_string().contains(name) && error.to_string().contains("model.safetensors"), "{error}");
    }
}

#[test]
fn logits_that_overflow_name_the_folder() {
    let folder = copy();
    let (header, mut data) = parts();
    for name in ["model.norm.weight", "lm_head.weight"] {
        let at = |index: usize| usize::try_from(header[name]["data_offsets"][index].as_u64().unwrap()).unwrap();
        data[at(0)..at(1)].as_chunks_mut::<4>().0.iter_mut().for_each(|bytes| *bytes = 3e38f32.to_le_bytes());
    }
    write_parts(&folder.path().join("model.safetensors"), &header, &data);
    let checkpoint = Checkpoint::load(folder.path()).unwrap();
    let config = EngineConfig::new(checkpoint.model.config(), 1, MemoryBudget::host());
    let mut engine = Engine::new(&checkpoint, config).unwrap();
    let request = Request { prompt: "a horse".into(), seed: 1, config: GenerationConfig::default().into() };
    let error = engine.generate(vec![request]).unwrap_err().to_string();
    assert!(error.contains(&folder.path().display().to_string()) && error.contains("not finite"), "{error}");
}

#[cfg(unix)]
#[test]
fn loops_folders_and_devices_are_bad_input() {
    use spag_io::{Classify, ErrorClass};
    type Replace = fn(&Path);
    let replacements: [Replace; 3] = [
        |path| std::os::unix::fs::symlink(path.file_name().unwrap(), path).unwrap(),
        |path| fs::create_dir(path).unwrap(),
        |path| std::os::unix::fs::symlink("/dev/zero", path).unwrap(),
    ];
    for replace in replacements {
        for name in ["config.json", "model.safetensors", "tokenizer.json"] {
            let folder = copy();
            fs::remove_file(folder.path().join(name)).unwrap();
            replace(&folder.path().join(name));
            let error = Checkpoint::load(folder.path()).unwrap_err();
            assert_eq!(error.class(), ErrorClass::BadInput, "{error}");
            assert!(error.to_string().contains(name), "{error}");
        }
    }
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("a", folder.path().join("a")).unwrap();
    assert_eq!(load_model(folder.path().join("a")).map(|_| ()).unwrap_err().class(), ErrorClass::BadInput);
}
