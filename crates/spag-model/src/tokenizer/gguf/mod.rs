//! Converts the tokenizer of a GGUF file to the files of a Hugging Face folder, which are also written when saving.

mod bytes;
mod pieces;
mod splits;
mod vocabulary;

use serde_json::{Map, Value, json};

use self::vocabulary::{Model, Vocabulary};
use super::files::{CONFIG, Files, GENERATION, JSON};
use super::roles::Roles;
use crate::error::Result;
use crate::gguf::Gguf;

/// `tokenizer.json`, `tokenizer_config.json` and `generation_config.json` with the content of the GGUF file.
///
/// # Errors
/// [`Error::WeightFile`](crate::Error::Gguf): the kind of tokenizer or pre-tokenizer is not supported, or keys are missing or
/// contradictory.
pub(super) fn files(gguf: &Gguf) -> Result<Files> {
    let made = || -> Result<_, String> {
        let vocabulary = Vocabulary::read(&gguf.metadata)?;
        let (config, definition) = match vocabulary.model {
            Model::Bytes => {
                let splits = bytes::splits(&vocabulary)?;
                (config(&vocabulary, gguf, splits.add_bos)?, bytes::definition(&vocabulary, &splits)?)
            }
            Model::Pieces => {
                let config = config(&vocabulary, gguf, true)?;
                let definition = pieces::definition(&vocabulary, &Roles::of_config(config.clone()))?;
                (config, definition)
            }
        };
        let definition = with_bos(with_joined_merges(definition), &config, vocabulary.bos);
        let generation = generation(&vocabulary);
        let written = [
            (JSON, serde_json::to_vec(&definition)),
            (CONFIG, serde_json::to_vec_pretty(&config)),
            (GENERATION, serde_json::to_vec_pretty(&generation)),
        ];
        let file = |(name, text): (&str, serde_json::Result<Vec<u8>>)| match text {
            Ok(text) => Ok((name.to_owned(), text)),
            Err(error) => Err(error.to_string()),
        };
        written.into_iter().map(file).collect::<Result<Vec<_>, String>>()
    };
    Ok(Files { dir: gguf.path.clone(), all: made().map_err(|reason| gguf.invalid(reason))? })
}

/// `tokenizer_config.json`. The class is one that uses `tokenizer.json` unchanged in every version of transformers.
fn config(vocabulary: &Vocabulary<'_>, gguf: &Gguf, add_bos: bool) -> Result<Value, String> {
    let mut config = json!({
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": vocabulary.text(vocabulary.bos),
        "eos_token": vocabulary.text(vocabulary.eos),
        "add_bos_token": vocabulary.setting("add_bos_token", add_bos)?,
        "add_eos_token": vocabulary.setting("add_eos_token", false)?,
        "clean_up_tokenization_spaces": false,
    });
    for (role, id) in [("unk_token", vocabulary.unknown), ("pad_token", vocabulary.padding)] {
        if let Some(token) = vocabulary.text(id) {
            config[role] = token.into();
        }
    }
    if let Some(template) = gguf.metadata.text("tokenizer.chat_template")? {
        config["chat_template"] = template.into();
    }
    Ok(config)
}

/// `generation_config.json`, with every id that ends an utterance.
fn generation(vocabulary: &Vocabulary<'_>) -> Value {
    let mut eos: Vec<u32> = Vec::new();
    for id in vocabulary.eos.iter().chain(&vocabulary.further_eos) {
        if !eos.contains(id) {
            eos.push(*id);
        }
    }
    let mut config = json!({"_from_model_config": true, "eos_token_id": eos});
    for (key, id) in [("bos_token_id", vocabulary.bos), ("pad_token_id", vocabulary.padding)] {
        if let Some(id) = id {
            config[key] = id.into();
        }
    }
    config
}

/// Joins merges to texts, as older versions of the tokenizers library expect, if no part contains a blank.
fn with_joined_merges(mut definition: Map<String, Value>) -> Map<String, Value> {
    let merges = definition.get_mut("model").and_then(|model| model.get_mut("merges")).and_then(Value::as_array_mut);
    let joined = |merge: &Value| match [merge.get(0)?.as_str()?, merge.get(1)?.as_str()?] {
        parts if parts.iter().any(|part| part.contains(' ')) => None,
        parts => Some(Value::from(parts.join(" "))),
    };
    if let Some(merges) = merges
        && let Some(texts) = merges.iter().map(joined).collect::<Option<Vec<Value>>>()
    {
        *merges = texts;
    }
    definition
}

/// Adds a post-processor that prepends BOS, if the configuration requests it.
fn with_bos(mut definition: Map<String, Value>, config: &Value, bos: Option<u32>) -> Value {
    if let (Some(id), Some(token), true) = (bos, config["bos_token"].as_str(), config["add_bos_token"] == true) {
        let special = |kind: u8| json!({"SpecialToken": {"id": token, "type_id": kind}});
        let text = |name: &str, kind: u8| json!({"Sequence": {"id": name, "type_id": kind}});
        let mut tokens = Map::new();
        tokens.insert(token.to_owned(), json!({"id": token, "ids": [id], "tokens": [token]}));
        let processor = json!({
            "type": "TemplateProcessing",
            "single": [special(0), text("A", 0)],
            "pair": [special(0), text("A", 0), special(1), text("B", 1)],
            "special_tokens": tokens,
        });
        definition.insert("post_processor".to_owned(), processor);
    }
    Value::Object(definition)
}
