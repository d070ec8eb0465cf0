//! A Hugging Face folder as a GGUF file, as llama.cpp's converter makes it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value as Json;

use super::{GgufFile, Tensor, Value};
use crate::json;

impl GgufFile {
    /// The model and the tokenizer of a folder with safetensors and a `tokenizer.json`.
    pub fn from_folder(folder: impl AsRef<Path>) -> Self {
        let folder = folder.as_ref();
        let config = json(folder.join("config.json"));
        let mut file = Self::default();
        metadata(&mut file, &config);
        tokenizer(&mut file, folder, &config);
        let heads = |key: &str| config[key].as_u64().or(config["num_attention_heads"].as_u64()).unwrap();
        let heads = [("q_proj", heads("num_attention_heads")), ("k_proj", heads("num_key_value_heads"))];
        for (name, (kind, shape, data)) in stored(folder) {
            let of_head = heads.iter().find(|(part, _)| name.contains(&format!(".{part}.")));
            let data = match of_head {
                Some((_, heads)) if architecture(&config) == "llama" => interleave(&data, shape[0], *heads as usize),
                _ => data,
            };
            let (kind, data) = match architecture(&config) == "gemma3" && name.ends_with("norm.weight") {
                true => (0, plus_one(kind, &data)),
                false => (kind, data),
            };
            let sizes = shape.iter().rev().map(|size| *size as u64).collect();
            file.tensors.push(Tensor { name: ggml_name(architecture(&config), &name), sizes, kind, data });
        }
        file
    }
}

fn architecture(config: &Json) -> &str {
    match config["model_type"].as_str().unwrap() {
        "mistral" => "llama",
        "gemma3_text" => "gemma3",
        other => other,
    }
}

fn metadata(file: &mut GgufFile, config: &Json) {
    let of = architecture(config);
    let int = |key: &str| config[key].as_u64().map(|size| Value::Int(size as u32));
    file.set("general.architecture", Value::Text(of.into()));
    let heads = int("num_attention_heads");
    for (key, value) in [
        ("embedding_length", int("hidden_size")),
        ("block_count", int("num_hidden_layers")),
        ("feed_forward_length", int("intermediate_size")),
        ("attention.head_count", heads.clone()),
        ("attention.head_count_kv", int("num_key_value_heads").or(heads)),
        ("attention.key_length", int("head_dim")),
        ("attention.value_length", int("head_dim")),
        ("context_length", int("max_position_embeddings")),
        ("attention.sliding_window", int("sliding_window").filter(|_| ["llama", "gemma3"].contains(&of))),
    ] {
        if let Some(value) = value {
            file.set(&format!("{of}.{key}"), value);
        }
    }
    let rope = if config["rope_parameters"].is_object() { &config["rope_parameters"] } else { &config["rope_scaling"] };
    let rope = if rope["full_attention"].is_object() { &rope["full_attention"] } else { rope };
    let theta = config["rope_theta"].as_f64().or(rope["rope_theta"].as_f64()).unwrap_or(1e4);
    file.set(&format!("{of}.rope.freq_base"), Value::Float(theta as f32));
    let eps = config["rms_norm_eps"].as_f64().unwrap() as f32;
    file.set(&format!("{of}.attention.layer_norm_rms_epsilon"), Value::Float(eps));
    let head = config["head_dim"]
        .as_u64()
        .unwrap_or_else(|| config["hidden_size"].as_u64().unwrap() / config["num_attention_heads"].as_u64().unwrap());
    match rope["rope_type"].as_str().or(rope["type"].as_str()) {
        Some("linear") => {
            file.set(&format!("{of}.rope.scaling.type"), Value::Text("linear".into()));
            file.set(&format!("{of}.rope.scaling.factor"), Value::Float(rope["factor"].as_f64().unwrap() as f32));
        }
        Some("llama3") => file.add_f32("rope_freqs.weight", &[head / 2], &llama3_factors(rope, theta, head)),
        _ => {}
    }
}

/// What `convert_hf_to_gguf.py` writes for each frequency.
fn llama3_factors(rope: &Json, theta: f64, head: u64) -> Vec<f32> {
    let number = |key: &str| rope[key].as_f64().unwrap();
    let (factor, low, high) = (number("factor"), number("low_freq_factor"), number("high_freq_factor"));
    let original = number("original_max_position_embeddings");
    let of = |i: u64| {
        let wavelength = std::f64::consts::TAU * theta.powf(2.0 * i as f64 / head as f64);
        if wavelength < original / high {
            1.0
        } else if wavelength > original / low {
            factor
        } else {
            let smooth = (original / wavelength - low) / (high - low);
            1.0 / ((1.0 - smooth) / factor + smooth)
        }
    };
    (0..head / 2).map(|i| of(i) as f32).collect()
}

fn tokenizer(file: &mut GgufFile, folder: &Path, config: &Json) {
    let definition = json(folder.join("tokenizer.json"));
    let settings = json(folder.join("tokenizer_config.json"));
    let mut tokens: BTreeMap<u64, (String, i32)> = BTreeMap::new();
    let vocab = definition["model"]["vocab"].as_object().unwrap();
    tokens.extend(vocab.iter().map(|(token, id)| {
        let kind = if token.starts_with("<0x") && token.len() == 6 { 6 } else { 1 };
        (id.as_u64().unwrap(), (token.clone(), kind))
    }));
    for token in definition["added_tokens"].as_array().unwrap() {
        let (content, special) = (token["content"].as_str().unwrap(), token["special"] == true);
        let kind = if content == "<unk>" {
            2
        } else if special {
            3
        } else {
            4
        };
        tokens.insert(token["id"].as_u64().unwrap(), (content.to_owned(), kind));
    }
    let rows = config["vocab_size"].as_u64().unwrap();
    for id in 0..rows {
        tokens.entry(id).or_insert_with(|| (format!("[PAD{id}]"), 5));
    }
    file.set("tokenizer.ggml.token_type", Value::Ints(tokens.values().map(|(_, kind)| *kind).collect()));
    file.set("tokenizer.ggml.tokens", Value::Texts(tokens.values().map(|(token, _)| token.clone()).collect()));
    let is_bytes = definition["decoder"]["type"] == "ByteLevel";
    file.set("tokenizer.ggml.model", Value::Text(if is_bytes { "gpt2" } else { "llama" }.into()));
    if is_bytes {
        let merges = definition["model"]["merges"].as_array().unwrap().iter();
        let merge = |merge: &Json| match merge.as_array() {
            Some(parts) => format!("{} {}", parts[0].as_str().unwrap(), parts[1].as_str().unwrap()),
            None => merge.as_str().unwrap().to_owned(),
        };
        file.set("tokenizer.ggml.merges", Value::Texts(merges.map(merge).collect()));
        let pre = match definition["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"].as_str() {
            Some(pattern) if pattern.contains("{1,3}") => "llama-bpe",
            Some(_) => "qwen2",
            None => "smollm",
        };
        file.set("tokenizer.ggml.pre", Value::Text(pre.into()));
    } else {
        // SentencePiece numbers pieces in the order of their scores.
        let score = |(id, (_, kind)): (&u64, &(String, i32))| if *kind == 1 { -(*id as f32) } else { 0.0 };
        file.set("tokenizer.ggml.scores", Value::Floats(tokens.iter().map(score).collect()));
    }
    let mut eos: Vec<u64> = match &config["eos_token_id"] {
        Json::Array(ids) => ids.iter().map(|id| id.as_u64().unwrap()).collect(),
        id => id.as_u64().into_iter().collect(),
    };
    // The tokenizer's own is the first.
    let own = settings["eos_token"].as_str().or(settings["eos_token"]["content"].as_str()).unwrap();
    eos.sort_by_key(|id| tokens[id].0 != own);
    let ids = eos.iter().copied().zip(["eos", "eom", "eot"]).map(|(id, role)| (role, Some(id)));
    let others = [("bos", &config["bos_token_id"]), ("padding", &config["pad_token_id"])];
    for (role, id) in ids.chain(others.map(|(role, id)| (role, id.as_u64()))) {
        if let Some(id) = id {
            file.set(&format!("tokenizer.ggml.{role}_token_id"), Value::Int(id as u32));
        }
    }
    if let Some(adds) = settings["add_bos_token"].as_bool() {
        file.set("tokenizer.ggml.add_bos_token", Value::Bool(adds));
    }
    if let Some(template) = settings["chat_template"].as_str() {
        file.set("tokenizer.chat_template", Value::Text(template.into()));
    }
}

/// Norm weights of Gemma in F32, as llama.cpp multiplies by them.
fn plus_one(kind: u32, data: &[u8]) -> Vec<u8> {
    assert_eq!(kind, 30, "the fixture is in BF16");
    let number = |bytes: &[u8]| f32::from_bits(u32::from(u16::from_le_bytes([bytes[0], bytes[1]])) << 16);
    data.chunks(2).flat_map(|bytes| (number(bytes) + 1.0).to_le_bytes()).collect()
}

/// The name of llama.cpp.
fn ggml_name(architecture: &str, name: &str) -> String {
    let whole = [("model.embed_tokens", "token_embd"), ("model.norm", "output_norm"), ("lm_head", "output")];
    if let Some((from, to)) = whole.iter().find(|(from, _)| name.starts_with(from)) {
        return name.replace(from, to);
    }
    let after_attention = if architecture == "gemma3" { "post_attention_norm" } else { "ffn_norm" };
    let parts = [
        ("input_layernorm", "attn_norm"),
        ("post_attention_layernorm", after_attention),
        ("pre_feedforward_layernorm", "ffn_norm"),
        ("post_feedforward_layernorm", "post_ffw_norm"),
        ("self_attn.q_norm", "attn_q_norm"),
        ("self_attn.k_norm", "attn_k_norm"),
        ("self_attn.q_proj", "attn_q"),
        ("self_attn.k_proj", "attn_k"),
        ("self_attn.v_proj", "attn_v"),
        ("self_attn.o_proj", "attn_output"),
        ("mlp.gate_proj", "ffn_gate"),
        ("mlp.up_proj", "ffn_up"),
        ("mlp.down_proj", "ffn_down"),
        ("model.layers.", "blk."),
    ];
    parts.iter().fold(name.to_owned(), |name, (from, to)| name.replace(from, to))
}

/// Rows as the converter orders those of queries and keys: `reshape(heads, 2, head / 2).swapaxes(1, 2)`.
pub fn interleave(data: &[u8], rows: usize, heads: usize) -> Vec<u8> {
    let (row, head) = (data.len() / rows, rows / heads);
    let mut out = Vec::with_capacity(data.len());
    for h in 0..heads {
        for pair in 0..head / 2 {
            for half in 0..2 {
                let from = h * head + half * (head / 2) + pair;
                out.extend(&data[from * row..][..row]);
            }
        }
    }
    out
}

/// All tensors of a folder's safetensors: the number of their format in ggml, their shape and their bytes.
fn stored(folder: &Path) -> BTreeMap<String, (u32, Vec<usize>, Vec<u8>)> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let is_weights = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "safetensors");
    let mut tensors = BTreeMap::new();
    for path in files.filter(is_weights) {
        let bytes = fs::read(&path).unwrap();
        let header = 8 + usize::try_from(u64::from_le_bytes(bytes[..8].try_into().unwrap())).unwrap();
        let listed: Json = serde_json::from_slice(&bytes[8..header]).unwrap();
        for (name, info) in listed.as_object().unwrap().iter().filter(|(name, _)| *name != "__metadata__") {
            let sizes = |key: &str| -> Vec<usize> {
                info[key].as_array().unwrap().iter().map(|size| size.as_u64().unwrap() as usize).collect()
            };
            let kind = match info["dtype"].as_str().unwrap() {
                "F32" => 0,
                "F16" => 1,
                "BF16" => 30,
                other => panic!("{name} is {other}"),
            };
            let at = sizes("data_offsets");
            tensors.insert(name.clone(), (kind, sizes("shape"), bytes[header..][at[0]..at[1]].to_vec()));
        }
    }
    tensors
}
