//! GGUF files that are damaged, hostile or unsupported.

use std::fs;
use std::path::Path;

use spag_model::Checkpoint;
use spag_model::checkpoint::{check_checkpoint, load_config, load_model, load_tokenizer};
use spag_tests::fixture;
use spag_tests::gguf::{GgufFile, Tensor, Value, text};

use crate::gguf::write;

fn tiny() -> GgufFile {
    GgufFile::from_folder(fixture("tiny-llama"))
}

/// The error of a file, which must be the same before its weights are read.
fn refused_bytes(bytes: &[u8]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    fs::write(&path, bytes).unwrap();
    let error = Checkpoint::load(&path).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("model.gguf") && error.len() < 2000 && !error.contains('\n'), "{error}");
    error
}

fn refused(file: &GgufFile) -> String {
    refused_bytes(&file.bytes())
}

#[test]
fn files_that_end_early_are_refused_wherever_they_end() {
    let bytes = tiny().bytes();
    for length in (0..200).chain((200..bytes.len()).step_by(997)) {
        let error = refused_bytes(&bytes[..length]);
        assert!(error.contains("incomplete") || error.contains("does not begin") || error.contains("fit"), "{error}");
    }
}

#[test]
fn other_formats_and_versions_are_named() {
    let bytes = tiny().bytes();
    for (begin, reason) in [
        (&b"GGML\x03\0\0\0"[..], "does not begin as a GGUF file"),
        (b"GGUF\x01\0\0\0", "version 1"),
        (b"GGUF\x04\0\0\0", "version 4"),
        (b"GGUF\0\0\0\x03", "big-endian"),
    ] {
        let error = refused_bytes(&[begin, &bytes[8..]].concat());
        assert!(error.contains(reason), "{error}");
    }
    let error = load_model(fixture("tiny-llama/tokenizer.json")).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("tokenizer.json") && error.contains("its folder"), "{error}");
    let error = load_model(fixture("missing.gguf")).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("no such checkpoint folder or GGUF file"), "{error}");
    // Version 2 is supported.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("two.gguf");
    fs::write(&path, [&b"GGUF\x02\0\0\0"[..], &bytes[8..]].concat()).unwrap();
    load_model(&path).unwrap();
}

/// A header with these counts, followed by `rest`.
fn header(tensors: u64, keys: u64, rest: &[u8]) -> Vec<u8> {
    [b"GGUF\x03\0\0\0", &tensors.to_le_bytes()[..], &keys.to_le_bytes(), rest].concat()
}

#[test]
fn absurd_counts_and_lengths_are_refused_before_allocation() {
    let huge = (1u64 << 63).to_le_bytes();
    let key = |kind: u32, rest: &[u8]| [&text("a")[..], &kind.to_le_bytes(), rest].concat();
    let array =
        |kind: u32, count: u64, rest: &[u8]| key(9, &[&kind.to_le_bytes()[..], &count.to_le_bytes(), rest].concat());
    let nested =
        (0..1000).fold(Vec::new(), |inner: Vec<u8>, _| [&9u32.to_le_bytes()[..], &1u64.to_le_bytes(), &inner].concat());
    for (bytes, reason) in [
        (header(1 << 63, 0, &[]), "tensors"),
        (header(0, 1 << 63, &[]), "keys"),
        (header(0, 1, &[]), "incomplete"),
        (header(0, 1, &huge), "more than fits"),
        (header(0, 1, &key(8, &huge)), "more than fits"),
        (header(0, 1, &key(13, &[0; 8])), "type 13"),
        (header(0, 1, &key(7, &[2])), "truth value"),
        (header(0, 1, &array(4, 1 << 62, &[0; 64])), "elements"),
        (header(0, 1, &array(8, u64::MAX, &[0; 64])), "elements"),
        (header(0, 1, &array(0, 1 << 40, &[0; 64])), "elements"),
        (header(0, 1, &array(0, 5 << 20, &vec![0; 5 << 20])), "together"),
        (header(0, 1, &key(9, &nested)), "array of arrays"),
        (header(0, 1, &array(77, 1, &[0; 8])), "type 77"),
    ] {
        let error = refused_bytes(&bytes);
        assert!(error.contains(reason), "{reason}: {error}");
    }
}

#[test]
fn keys_and_tensors_are_there_once() {
    let mut file = tiny();
    file.keys.push(file.keys[3].clone());
    assert!(refused(&file).contains("there twice"));
    let mut file = tiny();
    file.tensors.push(file.tensors[1].clone());
    assert!(refused(&file).contains("there twice"));
    let mut file = tiny();
    let head = file.tensors.iter().find(|tensor| tensor.name == "output.weight").unwrap().clone();
    file.tensors.push(Tensor { name: "lm_head.weight".into(), ..head });
    assert!(refused(&file).contains("under two names"));
}

#[test]
fn places_of_tensors_are_checked() {
    let whole = tiny();
    let mut file = whole.clone();
    // The data is shorter than the sizes say.
    file.tensors.last_mut().unwrap().data.truncate(8);
    assert!(refused(&file).contains("incomplete"));
    let mut file = whole.clone();
    file.tensors[1].data.truncate(8);
    let error = refused(&file);
    assert!(error.contains("share bytes") || error.contains("incomplete"), "{error}");
    for (sizes, kind, reason) in [
        (vec![u64::MAX, 2], 0, "sizes"),
        (vec![0, 64], 0, "sizes"),
        (vec![1 << 62, 1], 0, "sizes"),
        (vec![1 << 40, 1], 0, "incomplete"),
        (vec![16, 64], 2, "blocks of 32"),
        (vec![64, 64], 12, "blocks of 256"),
        (vec![1; 5], 0, "5 dimensions"),
    ] {
        let mut file = whole.clone();
        let tensor = file.tensors.iter_mut().find(|tensor| tensor.name == "blk.0.attn_v.weight").unwrap();
        (tensor.sizes, tensor.kind) = (sizes, kind);
        let error = refused(&file);
        assert!(error.contains(reason), "{reason}: {error}");
    }
    let mut file = whole.clone();
    file.set("general.alignment", Value::Int(48));
    assert!(refused(&file).contains("power of two"));
    file.set("general.alignment", Value::Int(0));
    assert!(refused(&file).contains("power of two"));
    // Written for 32: with another alignment, the data is not where the table says.
    file.set("general.alignment", Value::Int(1 << 18));
    let error = refused(&file);
    assert!(error.contains("multiple") || error.contains("incomplete"), "{error}");
}

#[test]
fn what_is_not_supported_is_named() {
    for (key, value, named) in [
        ("general.architecture", Value::Text("gemma2".into()), "\"gemma2\""),
        ("general.architecture", Value::Text("a\nb\u{1b}[2J".into()), "\\n"),
        ("general.type", Value::Text("adapter".into()), "\"adapter\""),
        ("split.count", Value::Int(3), "one of 3 files"),
        ("llama.expert_count", Value::Int(8), "`llama.expert_count`"),
        ("llama.logit_scale", Value::Float(0.5), "`llama.logit_scale`"),
        ("llama.attention.causal", Value::Bool(false), "`llama.attention.causal`"),
        ("llama.rope.dimension_count", Value::Int(8), "`llama.rope.dimension_count`"),
        ("llama.attention.value_length", Value::Int(8), "`llama.attention.value_length`"),
        ("llama.attention.head_count", Value::Int(0), "multiple"),
        ("llama.attention.head_count", Value::Ints(vec![4, 4, 2]), "`llama.attention.head_count`"),
        ("llama.embedding_length", Value::Float(64.0), "`llama.embedding_length`"),
        ("llama.block_count", Value::Int(u32::MAX), "num_hidden_layers"),
        ("llama.attention.layer_norm_rms_epsilon", Value::Float(f32::NAN), "finite"),
        ("llama.rope.freq_base", Value::Float(0.0), "rope_theta"),
        ("tokenizer.ggml.model", Value::Text("rwkv".into()), "\"rwkv\""),
        ("tokenizer.ggml.eos_token_id", Value::Int(5000), "`tokenizer.ggml.eos_token_id` is 5000"),
        ("tokenizer.ggml.scores", Value::Floats(vec![0.0; 7]), "scores of 7"),
        ("tokenizer.ggml.scores", Value::Floats(vec![f32::NAN; 1000]), "score"),
        ("tokenizer.ggml.scores", Value::Floats(vec![-1000.0; 1000]), "same score"),
        ("tokenizer.ggml.token_type", Value::Ints(vec![1; 7]), "types of 7"),
        ("tokenizer.ggml.tokens", Value::Texts(vec!["a".into(); 1000]), "\"a\" is there twice"),
    ] {
        let mut file = tiny();
        file.set(key, value);
        let error = refused(&file);
        assert!(error.contains(named), "{key}: {error}");
    }
    for key in ["llama.embedding_length", "llama.context_length", "tokenizer.ggml.tokens", "tokenizer.ggml.model"] {
        let mut file = tiny();
        file.remove(key);
        assert!(refused(&file).contains(&format!("`{key}`")), "{key}");
    }
    let mut file = GgufFile::from_folder(fixture("families/smollm"));
    for (key, value, named) in [
        ("tokenizer.ggml.pre", Some(Value::Text("kimi-k2".into())), "\"kimi-k2\""),
        ("tokenizer.ggml.pre", None, "`tokenizer.ggml.pre`"),
        ("tokenizer.ggml.merges", Some(Value::Texts(vec!["ab".into()])), "\"ab\""),
        ("tokenizer.ggml.merges", None, "`tokenizer.ggml.merges`"),
    ] {
        let kept = file.clone();
        file.remove(key);
        if let Some(value) = value {
            file.set(key, value);
        }
        let error = refused(&file);
        assert!(error.contains(named), "{key}: {error}");
        file = kept;
    }
}

#[test]
fn formats_and_tensors_that_are_not_read_are_named() {
    let mut file = tiny();
    file.tensors.iter_mut().find(|tensor| tensor.name == "blk.1.ffn_up.weight").unwrap().kind = 20;
    let error = refused(&file);
    assert!(error.contains("`model.layers.1.mlp.up_proj.weight`") && error.contains("IQ4_NL"), "{error}");
    assert!(error.contains("K-quants"), "{error}");
    let mut file = tiny();
    file.add_f32("blk.0.ffn_gate_inp.weight", &[8], &[0.0; 8]);
    assert!(refused(&file).contains("`blk.0.ffn_gate_inp.weight`"));
    let mut file = tiny();
    file.tensors.retain(|tensor| tensor.name != "blk.2.attn_k.weight");
    assert!(refused(&file).contains("`model.layers.2.self_attn.k_proj.weight` is missing"));
    let mut file = tiny();
    file.tensors.retain(|tensor| tensor.name != "token_embd.weight");
    assert!(refused(&file).contains("`token_embd.weight` is missing"));
}

#[test]
fn weights_that_are_not_finite_are_refused() {
    let model = crate::gguf_blocks::model();
    let (mut file, _) = crate::gguf_blocks::quantised(&model, (candle_core::quantized::GgmlDType::Q4K, 12));
    let tensor = file.tensors.iter_mut().find(|tensor| tensor.name == "blk.0.ffn_down.weight").unwrap();
    // The scale of the third block.
    tensor.data[2 * 144..][..2].copy_from_slice(&half::f16::NAN.to_le_bytes());
    let (_kept, path) = write(&file);
    let error = load_model(&path).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("`model.layers.0.mlp.down_proj.weight`, element 512"), "{error}");
    check_checkpoint(&path).unwrap();
}

/// A model without a tokenizer can still be loaded, as from a folder.
#[test]
fn a_file_without_a_tokenizer_is_a_model() {
    let mut file = tiny();
    file.keys.retain(|(key, _)| !key.starts_with("tokenizer."));
    let (_kept, path) = write(&file);
    load_model(&path).unwrap();
    assert!(load_config(&path).unwrap().eos_token_ids.is_empty());
    assert!(load_tokenizer(&path).unwrap_err().to_string().contains("tokenizer.ggml.model"));
    assert!(load_model(Path::new("/dev/null")).is_err());
}
