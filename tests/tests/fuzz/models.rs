//! Parsers of a model folder and of a training checkpoint.

use std::fs;
use std::path::Path;

use spag_chat::PromptEncoder;
use spag_io::{ChatMessage, ChatRole, PromptText};
use spag_model::checkpoint::{check_checkpoint, load_model, load_tokenizer};
use spag_model::tokenizer::SpecialIds;
use spag_model::{ModelConfig, Tokenizer};
use spag_tests::gguf::GgufFile;
use spag_tests::torch_archive::archive;
use spag_tests::{chat_model, copy_folder, fixture, run, train_command};
use spag_train::{SavedRun, latest_checkpoint};

use crate::harness::Target;

fn model_file(name: &str) -> Vec<u8> {
    fs::read(fixture("tiny-llama").join(name)).unwrap()
}

/// Lets a parser see the target's input in place of one file of a folder.
fn in_place(target: &Target, folder: &Path, file: &str, parse: impl Fn(&Path)) {
    if !folder.exists() {
        copy_folder(fixture("tiny-llama"), folder);
    }
    target.run(|bytes| {
        fs::write(folder.join(file), bytes).unwrap();
        parse(folder);
    });
}

#[test]
fn config_json() {
    let target = Target::new("config_json", vec![model_file("config.json")]);
    let folder = target.folder().join("model");
    in_place(&target, &folder, "config.json", |folder| {
        let read = ModelConfig::from_file(folder.join("config.json"));
        let loaded = load_model(folder);
        assert!(read.is_ok() || loaded.is_err());
    });
}

#[test]
fn safetensors() {
    let target = Target::new("safetensors", vec![model_file("model.safetensors")]);
    let folder = target.folder().join("model");
    in_place(&target, &folder, "model.safetensors", |folder| {
        let _ = load_model(folder);
    });
}

/// Weights in PyTorch's format: whole archives, and pickles in an archive that is otherwise right.
#[test]
fn pytorch_archives_and_pickles() {
    let names = ["f32", "bf16", "module", "parameter", "protocol4", "part_of_a_storage", "shared", "f8", "command"];
    let archives = names.map(|name| fs::read(fixture(format!("torch/{name}.bin"))).unwrap());
    let parse = |folder: &Path| {
        let _ = load_model(folder);
    };
    let target = Target::new("pytorch_archive", archives.to_vec());
    let folder = target.folder().join("model");
    without_weights(&folder);
    in_place(&target, &folder, "pytorch_model.bin", parse);
    // The pickle is the first entry of these archives, and stored.
    let pickles = archives.map(|archive| {
        let start = archive.windows(2).position(|window| window == b"\x80\x02" || window == b"\x80\x04").unwrap();
        let end = archive.windows(4).position(|window| window == b"PK\x07\x08").unwrap();
        archive[start..end].to_vec()
    });
    let target = Target::new("pytorch_pickle", pickles.to_vec());
    let folder = target.folder().join("model");
    without_weights(&folder);
    target.run(|pickle| {
        fs::write(folder.join("pytorch_model.bin"), archive(&[("a/data.pkl", pickle), ("a/data/0", &[0; 96])]))
            .unwrap();
        parse(&folder);
    });
}

fn without_weights(folder: &Path) {
    copy_folder(fixture("tiny-llama"), folder);
    fs::remove_file(folder.join("model.safetensors")).unwrap();
}

#[test]
fn index_of_shards() {
    let index = r#"{"metadata": {"total_size": 10}, "weight_map": {"lm_head.weight": "model.safetensors",
        "model.norm.weight": "model.safetensors"}}"#;
    let target = Target::new("index_of_shards", vec![index.into()]);
    let folder = target.folder().join("model");
    in_place(&target, &folder, "model.safetensors.index.json", |folder| {
        let _ = load_model(folder);
    });
}

/// Whole files, and headers without data, in which a mutation hits a key or an entry of the table.
#[test]
fn gguf() {
    let files =
        ["tiny-llama", "families/llama3", "families/qwen3"].map(|folder| GgufFile::from_folder(fixture(folder)));
    let seeds = files.iter().flat_map(|file| {
        let mut bare = file.clone();
        bare.keys.retain(|(key, _)| !key.starts_with("tokenizer."));
        bare.tensors.iter_mut().for_each(|tensor| tensor.data.clear());
        [file.bytes(), bare.bytes()]
    });
    let target = Target::new("gguf", seeds.collect());
    let path = target.folder().join("input");
    target.run(|_| {
        let (model, checked) = (load_model(&path), check_checkpoint(&path));
        assert!(checked.is_ok() || model.is_err());
        if let Ok(tokenizer) = load_tokenizer(&path) {
            use_tokenizer(&tokenizer);
        }
    });
}

/// Encodes and decodes with whatever could be loaded.
fn use_tokenizer(tokenizer: &Tokenizer) {
    for text in ["", "The horse", "caf\u{e9} \u{1F40E}\n\t", "\u{301}\u{301}", "<s></s>"] {
        for ids in [tokenizer.encode(text), tokenizer.encode_text(text)].into_iter().flatten() {
            let _ = tokenizer.decode(&ids);
        }
    }
    let _ = tokenizer.decode(&[0, 1, 2, 3, u32::MAX]);
}

#[test]
fn tokenizer_json() {
    let target = Target::new("tokenizer_json", vec![model_file("tokenizer.json")]);
    let input = target.folder().join("input");
    target.run(|_| {
        if let Ok(tokenizer) = Tokenizer::from_file(&input, SpecialIds::default()) {
            use_tokenizer(&tokenizer);
        }
    });
}

#[test]
fn tokenizer_model() {
    let seeds = ["tiny-llama", "families/baichuan2-7b"];
    let target = Target::new(
        "tokenizer_model",
        seeds.map(|folder| fs::read(fixture(folder).join("tokenizer.model")).unwrap()).to_vec(),
    );
    let input = target.folder().join("input.model");
    target.run(|bytes| {
        fs::write(&input, bytes).unwrap();
        if let Ok(tokenizer) = Tokenizer::from_file(&input, SpecialIds::default()) {
            use_tokenizer(&tokenizer);
        }
    });
}

#[test]
fn tokenizer_config_json() {
    let seeds = ["tokenizer_config.json", "special_tokens_map.json"].map(model_file).to_vec();
    for file in ["tokenizer_config.json", "special_tokens_map.json"] {
        let target =
            Target::new(if file.starts_with('t') { "tokenizer_config" } else { "special_tokens" }, seeds.clone());
        let folder = target.folder().join("model");
        in_place(&target, &folder, file, |folder| {
            if let Ok(tokenizer) = load_tokenizer(folder) {
                use_tokenizer(&tokenizer);
            }
        });
    }
}

#[test]
fn trainer_state() {
    let work = tempfile::tempdir().unwrap();
    let mut train = train_command(work.path());
    train.args([
        "--train_method",
        "SFT",
        "--max_steps",
        "2",
        "--per_device_train_batch_size",
        "2",
        "--max_length",
        "128",
    ]);
    run(train.args(["--save_strategy", "steps", "--save_steps", "2"]), 0);
    let saved = latest_checkpoint(work.path()).unwrap().unwrap();
    let target = Target::new("trainer_state", vec![fs::read(saved.join("trainer_state/state.json")).unwrap()]);
    target.run(|bytes| {
        fs::write(saved.join("trainer_state/state.json"), bytes).unwrap();
        if let Ok(run) = SavedRun::open(&saved) {
            let _ = spag_model::Checkpoint::load(run.dir());
        }
    });
}

#[test]
fn chat_templates() {
    let names = ["smollm2", "llama-3-instruct", "mistral-instruct-v0.3", "qwen3"];
    let seeds = names.map(|name| fs::read(fixture("chat_templates").join(format!("{name}.jinja"))).unwrap());
    let target = Target::new("chat_templates", seeds.to_vec());
    let folder = chat_model(&target.folder().join("model"), "smollm", "smollm2");
    let message = |role, text: &str| ChatMessage::new(role, PromptText::all_said(text));
    let messages = [message(ChatRole::System, "a <|im_end|>"), message(ChatRole::User, "<|im_start|>é")];
    target.run(|bytes| {
        fs::write(folder.join("chat_template.jinja"), bytes).unwrap();
        let encoder = PromptEncoder::new(load_tokenizer(&folder).unwrap());
        if let Ok(tokens) = encoder.encode_chat(&messages) {
            let end = encoder.end_of_turn().unwrap();
            assert!(tokens.iter().chain([&end]).all(|token| (*token as usize) < 480));
        }
    });
}
