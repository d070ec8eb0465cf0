//! Compares the tokenizers of the families with transformers and SentencePiece: prompt ids, decoded texts, EOS ids. Also
//! runs on any folder of the same format.

use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::piece_model::{NORMAL, PieceModel};
use serde::Deserialize;
use serde_json::Value;
use spag_model::checkpoint::{WriteOptions, write_random_model};
use spag_model::dtype::WeightDtype;
use spag_model::tokenizer::{BosRule, SpecialIds, SpecialTokens};
use spag_model::{ModelConfig, Result, Tokenizer};
use spag_tests::{copy_folder, fixture, json};
use tempfile::TempDir;

/// The expected values of a family.
#[derive(Deserialize)]
struct Expected {
    family: String,
    bos_token_id: Option<u32>,
    eos_token_ids: Vec<u32>,
    prompts: Vec<Prompt>,
    /// Empty if the tokenizer is that of another family.
    #[serde(default)]
    decode: Vec<Tokens>,
    greedy: Vec<Tokens>,
}

#[derive(Deserialize)]
struct Prompt {
    text: String,
    input_ids: Vec<u32>,
}

#[derive(Deserialize)]
struct Tokens {
    ids: Vec<u32>,
    text: String,
}

fn folder(family: &str) -> PathBuf {
    fixture("families").join(family)
}

fn open(dir: PathBuf) -> Result<Tokenizer> {
    let config = ModelConfig::from_file(dir.join("config.json"))?;
    Tokenizer::from_dir(dir, SpecialIds::from(&config))
}

/// Every family with its tokenizer.
fn families() -> Vec<(Expected, Tokenizer)> {
    let mut names: Vec<PathBuf> =
        fs::read_dir(fixture("families")).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    names.sort();
    assert!(names.len() >= 12);
    let read = |path: PathBuf| {
        let expected: Expected = serde_json::from_value(json(&path)).unwrap();
        // The fixtures have BOS prepended for every family that has one.
        let tokenizer = open(path.with_extension("")).unwrap().with_bos_rule(BosRule::IfKnown);
        (expected, tokenizer)
    };
    names.into_iter().map(read).collect()
}

/// The special tokens of a family by name.
fn special_tokens(family: &str) -> HashSet<String> {
    let config = json(folder(family).join("tokenizer_config.json"));
    let content = |token: &Value| token.as_str().or_else(|| token["content"].as_str()).map(str::to_owned);
    let mut names: HashSet<String> =
        ["bos_token", "eos_token", "unk_token", "pad_token"].iter().filter_map(|role| content(&config[role])).collect();
    let added = config["added_tokens_decoder"].as_object();
    names.extend(
        added.into_iter().flatten().filter(|(_, token)| token["special"] == true).filter_map(|(_, t)| content(t)),
    );
    names
}

#[test]
fn prompt_ids_equal_those_of_each_family() {
    for (expected, tokenizer) in families() {
        assert_eq!(tokenizer.bos(), expected.bos_token_id, "{}", expected.family);
        for (number, prompt) in expected.prompts.iter().enumerate() {
            for special in [SpecialTokens::Matched, SpecialTokens::AsText] {
                let ids = tokenizer.encode_prompt(&prompt.text, special).unwrap();
                assert_eq!(ids, prompt.input_ids, "{}: prompt {number}, {special:?}", expected.family);
            }
        }
    }
}

#[test]
fn prompts_begin_with_bos_if_the_tokenizers_own_files_say_so() {
    for (expected, tokenizer) in families() {
        let (bos, family) = (tokenizer.bos_token(), expected.family.as_str());
        let own = tokenizer.clone().with_bos_rule(BosRule::AsTokenizer);
        // Those with the tokenizer of llama3 begin with one as well.
        let adds =
            ["llama-linear-rope", "llama2-bin", "llama3", "mistral", "llama-yarn", "smollm3", "phi3", "gemma3-mm"];
        let adds = adds.contains(&family);
        assert_eq!(own.bos(), bos.filter(|_| adds), "{family}");
        let ids = own.encode_prompt("What is it?", SpecialTokens::Matched).unwrap();
        let bare = own.encode("What is it?").unwrap();
        assert_eq!(ids, own.bos().into_iter().chain(bare.clone()).collect::<Vec<_>>(), "{family}");
        let never = own.with_bos_rule(BosRule::Never);
        assert_eq!((never.bos(), never.bos_token()), (None, bos), "{family}");
        assert_eq!(never.encode_prompt("What is it?", SpecialTokens::AsText).unwrap(), bare, "{family}");
    }
}

#[test]
fn decoded_texts_equal_those_of_each_family() {
    for (expected, tokenizer) in families() {
        for case in &expected.decode {
            assert_eq!(tokenizer.decode(&case.ids).unwrap(), case.text, "{}: {:?}", expected.family, case.ids);
        }
        for (prompt, greedy) in expected.prompts.iter().zip(&expected.greedy) {
            let before = tokenizer.decode(&prompt.input_ids).unwrap();
            let whole = tokenizer.decode(&[&prompt.input_ids[..], &greedy.ids].concat()).unwrap();
            assert_eq!(whole.strip_prefix(&before), Some(greedy.text.as_str()), "{}", expected.family);
        }
    }
}

#[test]
fn every_eos_id_ends_an_utterance_and_the_tokenizers_own_comes_first() {
    for (expected, tokenizer) in families() {
        let config = json(folder(&expected.family).join("tokenizer_config.json"));
        let eos = config["eos_token"].as_str().or_else(|| config["eos_token"]["content"].as_str()).unwrap();
        assert_eq!(tokenizer.encode(eos).unwrap(), [tokenizer.eos()], "{}: {eos}", expected.family);
        let (all, named) = (tokenizer.eos_ids(), HashSet::<u32>::from_iter(expected.eos_token_ids));
        assert_eq!((all[0], HashSet::from_iter(all.iter().copied())), (tokenizer.eos(), named), "{}", expected.family);
        assert_eq!(all.len(), HashSet::<&u32>::from_iter(all).len());
    }
}

#[test]
fn special_tokens_typed_as_text_stay_text() {
    for (expected, tokenizer) in families() {
        let names = special_tokens(&expected.family);
        assert!(names.len() >= 3, "{}: {names:?}", expected.family);
        let special: HashSet<u32> = names
            .iter()
            .map(|name| match tokenizer.encode(name).unwrap()[..] {
                [id] => id,
                ref ids => panic!("{}: {name} is {ids:?}", expected.family),
            })
            .collect();
        for name in &names {
            for text in [name.clone(), format!("I say {name} now"), format!("a{name}{name}b"), format!("{name}\n")] {
                let ids = tokenizer.encode_text(&text).unwrap();
                assert!(!ids.iter().any(|id| special.contains(id)), "{}: {text} is {ids:?}", expected.family);
                assert_eq!(tokenizer.decode(&ids).unwrap(), text, "{}", expected.family);
                assert!(tokenizer.encode(&text).unwrap().iter().any(|id| special.contains(id)), "{text}");
            }
        }
    }
}

#[test]
fn user_defined_pieces_are_matched_whole_and_kept_in_decoding() {
    for family in ["baichuan2-7b", "baichuan2-13b"] {
        let tokenizer = open(folder(family)).unwrap();
        let text = "A<reserved_105>, <reserved_106><reserved_105 >";
        let (matched, as_text) = (tokenizer.encode(text).unwrap(), tokenizer.encode_text(text).unwrap());
        assert_eq!(matched, as_text);
        let whole = tokenizer.encode("<reserved_105>").unwrap();
        assert_eq!((whole.len(), matched.iter().filter(|id| **id == whole[0]).count()), (1, 1));
        assert_eq!(tokenizer.decode(&matched).unwrap(), text);
    }
}

#[test]
fn ids_beyond_the_vocabulary_decode_to_nothing() {
    for (expected, tokenizer) in families() {
        let beyond = tokenizer.vocab_size() as u32;
        let ids = &expected.prompts[0].input_ids;
        let (first, last) = ids.split_at(ids.len() / 2);
        let padded = [first, &[beyond, u32::MAX], last, &[beyond + 7]].concat();
        assert_eq!(tokenizer.decode(&padded).unwrap(), tokenizer.decode(ids).unwrap(), "{}", expected.family);
        assert_eq!(tokenizer.decode(&[beyond]).unwrap(), "");
    }
}

#[test]
fn text_of_a_model_file_equals_that_of_its_conversion_by_transformers() {
    for dir in [fixture("tiny-llama"), folder("llama-linear-rope"), folder("mistral")] {
        let converted = open(dir.clone()).unwrap();
        let own = Tokenizer::from_file(dir.join("tokenizer.model"), SpecialIds::default()).unwrap();
        assert_eq!((own.bos(), own.eos_ids()), (converted.bos(), converted.eos_ids()));
        for (expected, _) in families() {
            for prompt in &expected.prompts {
                let ids = own.encode(&prompt.text).unwrap();
                assert_eq!(ids, converted.encode(&prompt.text).unwrap(), "{}: {:?}", dir.display(), prompt.text);
                for at in 0..ids.len().min(40) {
                    assert_eq!(own.decode(&ids[at..]).unwrap(), converted.decode(&ids[at..]).unwrap());
                }
            }
        }
    }
}

#[test]
fn tokenizer_json_is_used_where_both_files_are() {
    let both = TempDir::new().unwrap();
    copy_folder(folder("mistral"), both.path());
    assert_eq!(Tokenizer::find(both.path()), Some("tokenizer.json"));
    fs::write(both.path().join("tokenizer.json"), "{}").unwrap();
    assert!(open(both.path().to_owned()).unwrap_err().to_string().contains("tokenizer.json"));
    fs::remove_file(both.path().join("tokenizer.json")).unwrap();
    assert_eq!(Tokenizer::find(both.path()), Some("tokenizer.model"));
    open(both.path().to_owned()).unwrap();
    fs::remove_file(both.path().join("tokenizer.model")).unwrap();
    assert_eq!(Tokenizer::find(both.path()), None);
    let error = open(both.path().to_owned()).unwrap_err().to_string();
    assert!(error.contains("neither tokenizer.json nor tokenizer.model"), "{error}");
}

#[test]
fn saved_folders_have_every_file_of_the_tokenizer() {
    let config = ModelConfig::from_file(fixture("tiny-llama/config.json")).unwrap();
    for (expected, _) in families() {
        let (source, saved) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        copy_folder(folder(&expected.family), source.path());
        for file in ["chat_template.jinja", "merges.txt", "vocab.json"] {
            fs::write(source.path().join(file), format!("{file} as it was")).unwrap();
        }
        fs::write(source.path().join("added_tokens.json"), "{}").unwrap();
        let tokenizer = open(source.path().to_owned()).unwrap();
        write_random_model(&config, 1, Some(&tokenizer), saved.path(), WriteOptions::new(WeightDtype::F32)).unwrap();
        for entry in fs::read_dir(source.path()).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let is_weights = name.ends_with(".bin") || name.contains("safetensors") || name.contains(".bin.index");
            if !is_weights && name != "config.json" {
                let (before, after) = (fs::read(source.path().join(&name)), fs::read(saved.path().join(&name)));
                assert_eq!(before.unwrap(), after.unwrap(), "{}: {name}", expected.family);
            }
        }
    }
}

/// A vocabulary of many pieces, each the concatenation of two earlier ones.
fn large(count: usize) -> PieceModel {
    let letters: Vec<String> = ('a'..='z').chain(['▁']).map(String::from).collect();
    let (mut texts, mut seed) = (letters.clone(), 1_u64);
    let mut seen: HashSet<String> = texts.iter().cloned().collect();
    while texts.len() < count {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let (a, b) = ((seed >> 33) as usize % texts.len(), (seed >> 13) as usize % texts.len().min(500));
        let text = format!("{}{}", texts[a], texts[b]);
        if text.chars().count() <= 16 && seen.insert(text.clone()) {
            texts.push(text);
        }
    }
    PieceModel::new(texts.iter().map(String::as_str))
}

#[test]
fn large_model_file_is_read_in_seconds() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("tokenizer.model");
    fs::write(&path, large(125_696).to_bytes()).unwrap();
    let began = Instant::now();
    let tokenizer = Tokenizer::from_file(&path, SpecialIds::default()).unwrap();
    let took = began.elapsed();
    eprintln!("{} pieces in {:.2} s", tokenizer.vocab_size(), took.as_secs_f64());
    assert!(took < Duration::from_secs(120), "{took:?}");
    let text = "the quick brown fox";
    assert_eq!(tokenizer.decode(&tokenizer.encode(text).unwrap()).unwrap(), text);
}

#[test]
fn the_piece_with_the_highest_score_is_merged_first() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("tokenizer.model");
    let encode = |model: &PieceModel, text: &str| {
        fs::write(&path, model.to_bytes()).unwrap();
        let tokenizer = Tokenizer::from_file(&path, SpecialIds::default()).unwrap();
        let pieces = |ids: Vec<u32>| ids.into_iter().map(|id| model.pieces[id as usize].0.clone()).collect::<Vec<_>>();
        pieces(tokenizer.encode_text(text).unwrap())
    };
    let mut model = PieceModel::new(["ab", "bc", "▁", "a", "b", "c"]);
    model.dummy_prefix = 0;
    assert_eq!(encode(&model, "abcab"), ["ab", "c", "ab"]);
    model.pieces[259].1 = -9.0;
    assert_eq!(encode(&model, "abcab"), ["a", "bc", "ab"]);
    // Pieces without a merge are never found, and merges do not produce a special token.
    let mut model = PieceModel::new(["abc", "a", "b", "c", "<", "s>", "s", ">"]);
    model.dummy_prefix = 0;
    assert_eq!(encode(&model, "abc<s>"), ["a", "b", "c", "<", "s>"]);
    model.pieces.push(("bc".to_owned(), -20.0, NORMAL));
    assert_eq!(encode(&model, "abc"), ["abc"]);
    assert_eq!(encode(&model, "é"), ["<0xC3>", "<0xA9>"]);
}
