//! Tokenizer files with which the tokenizers library would panic, exhaust memory, or encode wrongly.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use spag_model::checkpoint::load_tokenizer;
use spag_model::tokenizer::SpecialIds;
use spag_model::{Error, Tokenizer};
use spag_tests::{copy_folder, fixture};
use tempfile::TempDir;

const TEXT: &str = "I know the word! It is a horse, isn't it? \u{e9} 日本語";

/// The fixture with `change` applied to its tokenizer.json.
fn changed(change: impl FnOnce(&mut Value)) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    copy_folder(fixture("tiny-llama"), folder.path());
    let path = folder.path().join("tokenizer.json");
    let mut json: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    change(&mut json);
    fs::write(&path, json.to_string()).unwrap();
    folder
}

fn load(folder: &TempDir) -> spag_model::Result<Tokenizer> {
    Tokenizer::from_dir(folder.path(), SpecialIds::default())
}

/// The error of loading, or else of encoding and decoding.
fn failure(change: impl FnOnce(&mut Value)) -> String {
    let folder = changed(change);
    let used = load(&folder).and_then(|tokenizer| {
        let ids = tokenizer.encode(TEXT)?;
        tokenizer.decode(&ids)?;
        tokenizer.decode(&(0..1000).collect::<Vec<_>>())
    });
    let error = used.expect_err("the file is refused or cannot be used").to_string();
    assert!(error.contains("tokenizer.json") && error.len() < 2000, "{error}");
    error
}

/// A Unigram model of the printable characters.
fn unigram() -> Value {
    let characters = (' '..='~').map(|c| json!([c.to_string(), -2.0]));
    let vocab: Vec<Value> =
        ["<unk>", "<s>", "</s>"].iter().map(|token| json!([token, 0.0])).chain(characters).collect();
    json!({"type": "Unigram", "unk_id": 0, "vocab": vocab})
}

#[test]
fn truncation_padding_and_templates_are_not_applied() {
    let tokenizer = load_tokenizer(fixture("tiny-llama")).unwrap();
    let expected = tokenizer.encode(TEXT).unwrap();
    for (key, value) in [
        ("truncation", json!({"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0})),
        ("truncation", json!({"direction": "Left", "max_length": 2, "strategy": "LongestFirst", "stride": 9})),
        (
            "padding",
            json!({"strategy": {"Fixed": 100_000_000_000_000_u64}, "direction": "Right", "pad_to_multiple_of": null,
                   "pad_id": 0, "pad_type_id": 0, "pad_token": "<unk>"}),
        ),
        (
            "padding",
            json!({"strategy": "BatchLongest", "direction": "Right", "pad_to_multiple_of": 0, "pad_id": 0,
                   "pad_type_id": 0, "pad_token": "<unk>"}),
        ),
        ("post_processor", json!({"type": "TemplateProcessing", "single": [], "pair": [], "special_tokens": {}})),
        ("post_processor", json!({"type": "Sequence", "processors": []})),
    ] {
        let folder = changed(|json| json[key] = value.clone());
        let tokenizer = load(&folder).unwrap();
        assert_eq!(tokenizer.encode(TEXT).unwrap(), expected, "{key}: {value}");
    }
}

#[test]
fn random_or_ambiguous_encodings_are_refused_by_name() {
    assert!(failure(|json| json["model"]["dropout"] = json!(0.1)).contains("`dropout` is 0.1"));
    assert!(failure(|json| json["model"]["dropout"] = json!("0.1")).contains("`dropout`"));
    load(&changed(|json| json["model"]["dropout"] = json!(0.0))).unwrap();
    let same = failure(|json| json["model"]["vocab"]["▁the"] = json!(17));
    assert!(same.contains("have the same id 17"), "{same}");
    let moved = failure(|json| json["added_tokens"][1]["id"] = json!(7));
    assert!(moved.contains("\"<s>\" has id 7") && moved.contains("gives it 1"), "{moved}");
    let scores = failure(|json| {
        json["model"] = unigram();
        json["model"]["vocab"].as_array_mut().unwrap().push(json!(["a", -1.0]));
    });
    assert!(scores.contains("\"a\" is there twice"), "{scores}");
}

#[test]
fn special_tokens_that_a_text_can_spell_stay_text() {
    type Change = fn(&mut Value);
    let changes: [(&str, Change); 4] = [
        ("merges that lead to them", |json| {
            let vocab = json["model"]["vocab"].as_object_mut().unwrap();
            for (piece, id) in ["<", "/", ">", "s>", "/s>"].into_iter().zip(1000..) {
                vocab.insert(piece.to_owned(), json!(id));
            }
            let merges = json["model"]["merges"].as_array_mut().unwrap();
            merges.extend([json!(["s", ">"]), json!(["/", "s>"]), json!(["<", "s>"]), json!(["<", "/s>"])]);
            for merge in merges.iter_mut() {
                if let Some((a, b)) = merge.as_str().and_then(|pair| pair.split_once(' ')) {
                    *merge = json!([a, b]);
                }
            }
        }),
        ("whole words that are looked up", |json| {
            json["model"]["ignore_merges"] = json!(true);
            json["normalizer"] = Value::Null;
            json["pre_tokenizer"] = json!({"type": "WhitespaceSplit"});
        }),
        ("a Unigram model", |json| {
            json["model"] = unigram();
            json["normalizer"] = Value::Null;
        }),
        ("an EOS that is not marked as special", |json| json["added_tokens"][2]["special"] = json!(false)),
    ];
    for (name, change) in changes {
        let tokenizer = load(&changed(change)).unwrap();
        for text in ["<s>", "a </s> b", "</s></s>", "x <s> </s>"] {
            let ids = tokenizer.encode_text(text).unwrap();
            assert!(!ids.contains(&1) && !ids.contains(&2), "{name}: {text} is {ids:?}");
            let without = |text: String| text.replace(' ', "");
            assert_eq!(without(tokenizer.decode(&ids).unwrap()), without(text.to_owned()), "{name}");
            let matched = tokenizer.encode(text).unwrap();
            assert!(matched.contains(&1) || matched.contains(&2), "{name}: {text} is {matched:?}");
        }
        assert_eq!(tokenizer.decode(&[1, 2]).unwrap(), "", "{name}");
    }
}

#[test]
fn panics_of_the_library_become_errors_that_name_the_file() {
    type Change = fn(&mut Value);
    let changes: [(&str, Change); 9] = [
        ("FixedLength 0", |json| json["pre_tokenizer"] = json!({"type": "FixedLength", "length": 0})),
        ("a prefix that no merge has", |json| json["model"]["continuing_subword_prefix"] = json!("#########")),
        ("a prefix within a character", |json| {
            json["model"]["continuing_subword_prefix"] = json!("é");
        }),
        ("a merge longer than any token", |json| {
            let merges = json["model"]["merges"].as_array_mut().unwrap();
            let long = merges[0].clone();
            let word = |value: &Value| value.as_str().map(str::to_owned);
            if word(&long).is_some() {
                merges.push(json!("<0x00> <0x01>"));
                merges.push(json!("<unk> <0x01>"));
            }
            json["model"]["vocab"] = json!({"<unk>": 0, "<s>": 1, "</s>": 2, "<0x00>": 3, "<0x01>": 4});
        }),
        ("a stripped end longer than the token", |json| {
            json["decoder"] = json!({"type": "Strip", "content": "▁", "start": 0, "stop": 1000});
        }),
        ("a Unigram model without an unknown token", |json| {
            json["model"] = unigram();
            json["model"]["unk_id"] = Value::Null;
            json["normalizer"] = Value::Null;
        }),
        ("a character map that leaves its trie", |json| {
            // A trie of one unit, whose offset is out of range.
            json["normalizer"] = json!({"type": "Precompiled", "precompiled_charsmap": "BAAAAP///39hAA=="});
        }),
        ("a character map shorter than its trie", |json| {
            json["normalizer"] = json!({"type": "Precompiled", "precompiled_charsmap": "/////w=="});
        }),
        ("a character map that is not base64", |json| {
            json["normalizer"] = json!({"type": "Precompiled", "precompiled_charsmap": "\u{d7ff}"});
        }),
    ];
    for (name, change) in changes {
        let error = failure(change);
        assert!(!error.is_empty(), "{name}");
    }
}

#[test]
fn texts_cannot_grow_without_bound() {
    let double = json!({"type": "Replace", "pattern": {"String": "a"}, "content": "aa"});
    let normalizers = json!({"type": "Sequence", "normalizers": vec![double.clone(); 40]});
    assert!(failure(|json| json["normalizer"] = normalizers).contains("without bound"));
    let decoders = json!({"type": "Sequence", "decoders": vec![double; 40]});
    assert!(failure(|json| json["decoder"] = decoders).contains("without bound"));
    let everywhere = json!({"type": "Replace", "pattern": {"Regex": ""}, "content": "x".repeat(5000)});
    assert!(failure(|json| json["normalizer"] = everywhere).contains("without bound"));
    let prefix = json!({"type": "Prepend", "prepend": "x".repeat(1 << 20)});
    assert!(failure(|json| json["normalizer"] = prefix).contains("without bound"));
    // The text is too long, not the file: the fixture's normalizer takes 12 bytes per byte.
    let long = load(&changed(|_| ())).unwrap().encode(&"x".repeat(40 << 20)).unwrap_err().to_string();
    assert!(long.contains("cannot encode a text") && long.contains("shorten it"), "{long}");
}

#[test]
fn deep_long_and_unknown_parts_are_refused() {
    let nested = (0..40).fold(json!({"type": "NFC"}), |part, _| json!({"type": "Sequence", "normalizers": [part]}));
    assert!(failure(|json| json["normalizer"] = nested).contains("deep"));
    assert!(failure(|json| json["normalizer"] = json!({"type": "Later"})).contains("\"Later\" is not supported"));
    assert!(failure(|json| json["normalizer"] = json!([])).contains("no type"));
    assert!(failure(|json| json["model"]["vocab"]["x".repeat(1 << 20)] = json!(5000)).contains("bytes"));
    let deep = json!([["a".repeat(1 << 20), -1.0]]);
    assert!(failure(|json| json["model"] = json!({"type": "Unigram", "unk_id": 0, "vocab": deep})).contains("bytes"));
    let repeats = json!({"type": "Split", "pattern": {"Regex": r"((?:(a)\2){1000}){1000}"}, "behavior": "Isolated",
                         "invert": false});
    assert!(failure(|json| json["pre_tokenizer"] = repeats).contains("repeats more than"));
    let open =
        json!({"type": "Split", "pattern": {"Regex": "(".repeat(8000)}, "behavior": "Isolated", "invert": false});
    failure(|json| json["pre_tokenizer"] = open);
    let long =
        json!({"type": "Split", "pattern": {"Regex": "a".repeat(1 << 20)}, "behavior": "Isolated", "invert": false});
    assert!(failure(|json| json["pre_tokenizer"] = long).contains("longer than"));
    let longest = load(&changed(|json| {
        json["model"] = unigram();
        json["model"]["vocab"].as_array_mut().unwrap().push(json!(["a".repeat(2048), -1.0]));
        json["normalizer"] = Value::Null;
        json["decoder"] = Value::Null;
    }));
    // Loaded and dropped on a small stack.
    std::thread::Builder::new().stack_size(1 << 20).spawn(move || drop(longest.unwrap())).unwrap().join().unwrap();
}

#[test]
fn tokens_without_an_embedding_are_named() {
    let folder = changed(|json| json["model"]["vocab"]["zzzzz"] = json!(70_000));
    let error = load_tokenizer(folder.path()).unwrap_err().to_string();
    assert!(error.contains("id 70000") && error.contains("1000 embeddings"), "{error}");
    // An added token without an embedding is harmless until a text contains it.
    let folder = changed(|json| {
        let pad = json!({"id": 1000, "content": "[PAD]", "single_word": false, "lstrip": false, "rstrip": false,
                         "normalized": false, "special": true});
        json["added_tokens"].as_array_mut().unwrap().push(pad);
    });
    let tokenizer = load_tokenizer(folder.path()).unwrap();
    tokenizer.encode(TEXT).unwrap();
    let error = tokenizer.encode("a [PAD] b").unwrap_err();
    assert!(matches!(error, Error::Encoding { .. }) && error.to_string().contains("id 1000"), "{error}");
}

#[test]
fn optional_files_are_missing_only_if_they_do_not_exist() {
    for name in ["tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "generation_config.json"] {
        let folder = changed(|_| ());
        let path: PathBuf = folder.path().join(name);
        let _ = fs::remove_file(&path);
        load(&folder).unwrap();
        fs::create_dir(&path).unwrap();
        let error = load(&folder).unwrap_err().to_string();
        assert!(error.contains(name) && error.contains("folder"), "{error}");
        #[cfg(unix)]
        {
            fs::remove_dir(&path).unwrap();
            std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
            let error = load(&folder).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains("regular file"), "{error}");
        }
    }
    let folder = changed(|_| ());
    fs::remove_file(folder.path().join("tokenizer.json")).unwrap();
    fs::create_dir(folder.path().join("tokenizer.json")).unwrap();
    assert!(load(&folder).unwrap_err().to_string().contains("this is a folder"));
}
