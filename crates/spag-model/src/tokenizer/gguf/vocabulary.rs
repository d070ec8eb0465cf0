//! The vocabulary of a GGUF file: tokens, their types and roles.

use std::collections::HashSet;

use spag_io::quote;

use crate::gguf::Metadata;

/// End-of-turn tokens, for files that do not name one.
const ENDS_OF_TURNS: [&str; 4] = ["<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>"];
/// The token that ends a message before a tool call's result, for files that do not name one.
const END_OF_MESSAGE: &str = "<|eom_id|>";
/// The end-of-text token, which also stops models that end turns with another one.
const END_OF_TEXT: &str = "<|end_of_text|>";
/// The same for Qwen models. Others may use it only for padding.
const END_OF_TEXT_OF_QWEN: &str = "<|endoftext|>";

/// The kind of a vocabulary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Model {
    /// SentencePiece BPE, with scores.
    Pieces,
    /// Byte-level BPE, with merges.
    Bytes,
}

/// The type of a token, with its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Normal = 1,
    Unknown,
    /// Such as BOS and EOS.
    Control,
    UserDefined,
    /// Placeholder for an unused id.
    Unused,
    Byte,
}

/// A validated vocabulary.
pub(super) struct Vocabulary<'a> {
    /// All keys, including those specific to one kind of vocabulary.
    pub(super) metadata: &'a Metadata,
    pub(super) model: Model,
    /// In order of their ids.
    pub(super) tokens: &'a [String],
    kinds: Option<&'a [i64]>,
    pub(super) bos: Option<u32>,
    pub(super) eos: Option<u32>,
    pub(super) unknown: Option<u32>,
    pub(super) padding: Option<u32>,
    /// Other ids that end an utterance.
    pub(super) further_eos: Vec<u32>,
}

impl<'a> Vocabulary<'a> {
    pub(super) fn read(metadata: &'a Metadata) -> Result<Self, String> {
        let model = match metadata.text("tokenizer.ggml.model")? {
            Some("llama") => Model::Pieces,
            Some("gpt2") => Model::Bytes,
            Some(other) => {
                return Err(format!(
                    "`tokenizer.ggml.model` is \"{}\"; llama (SentencePiece) and gpt2 (byte-level BPE) are supported",
                    quote(other)
                ));
            }
            None => return Err("it has no `tokenizer.ggml.model`".into()),
        };
        let tokens = metadata.texts("tokenizer.ggml.tokens")?.ok_or("it has no `tokenizer.ggml.tokens`")?;
        let kinds = metadata.ints("tokenizer.ggml.token_type")?;
        if let Some(kinds) = kinds.filter(|kinds| kinds.len() != tokens.len()) {
            return Err(format!("it has {} tokens and types of {}", tokens.len(), kinds.len()));
        }
        let mut seen = HashSet::with_capacity(tokens.len());
        if let Some(token) = tokens.iter().find(|token| !token.is_empty() && !seen.insert(token.as_str())) {
            return Err(format!("token \"{}\" is there twice", quote(token)));
        }
        let id = |role: &str| match metadata.size(&format!("tokenizer.ggml.{role}_token_id"))? {
            Some(id) if id >= tokens.len() => {
                Err(format!("`tokenizer.ggml.{role}_token_id` is {id}, and there are {} tokens", tokens.len()))
            }
            id => Ok(id.and_then(|id| u32::try_from(id).ok())),
        };
        // llama.cpp's defaults for SentencePiece.
        let default = |id: u32| Some(id).filter(|id| model == Model::Pieces && (*id as usize) < tokens.len());
        let mut vocabulary = Self {
            metadata,
            model,
            tokens,
            kinds,
            bos: id("bos")?.or(default(1)),
            eos: id("eos")?.or(default(2)),
            unknown: id("unknown")?.or(default(0)),
            padding: id("padding")?,
            further_eos: Vec::new(),
        };
        let end_of_turn = id("eot")?.or_else(|| ENDS_OF_TURNS.iter().find_map(|name| vocabulary.special(name)));
        let end_of_message = id("eom")?.or_else(|| vocabulary.special(END_OF_MESSAGE));
        let of_qwen = metadata.text("tokenizer.ggml.pre")? == Some("qwen2");
        let end_of_text = vocabulary.special(if of_qwen { END_OF_TEXT_OF_QWEN } else { END_OF_TEXT });
        vocabulary.further_eos.extend(end_of_turn.into_iter().chain(end_of_message).chain(end_of_text));
        Ok(vocabulary)
    }

    /// The id of a control or user-defined token.
    fn special(&self, name: &str) -> Option<u32> {
        let id = self.tokens.iter().position(|token| token == name)?;
        matches!(self.kind(id), Kind::Control | Kind::UserDefined).then_some(u32::try_from(id).ok()?)
    }

    pub(super) fn kind(&self, id: usize) -> Kind {
        match self.kinds.and_then(|kinds| kinds.get(id)) {
            Some(2) => Kind::Unknown,
            Some(3) => Kind::Control,
            Some(4) => Kind::UserDefined,
            Some(5) => Kind::Unused,
            Some(6) => Kind::Byte,
            _ => Kind::Normal,
        }
    }

    /// The text of the token with a role.
    pub(super) fn text(&self, id: Option<u32>) -> Option<&'a str> {
        self.tokens.get(id? as usize).map(String::as_str)
    }

    /// Whether a token has a role.
    pub(super) fn has_role(&self, id: usize) -> bool {
        [self.bos, self.eos, self.unknown, self.padding].iter().flatten().any(|role| *role as usize == id)
    }

    /// A boolean key of the tokenizer, or `default`.
    pub(super) fn setting(&self, key: &str, default: bool) -> Result<bool, String> {
        Ok(self.metadata.truth(&format!("tokenizer.ggml.{key}"))?.unwrap_or(default))
    }
}
