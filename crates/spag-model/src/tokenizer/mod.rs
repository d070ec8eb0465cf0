//! Tokenizers of Hugging Face folders (`tokenizer.json`, `tokenizer.model`) and of GGUF files, with their BOS and EOS
//! tokens.

mod after_prompt;
mod bos;
mod bytes;
mod clean_up;
mod definition;
mod detokenizer;
mod encoder;
mod expansion;
mod files;
mod gguf;
mod read;
mod roles;
mod said;
mod sentencepiece;
mod special_texts;
mod token_text;
mod vocabulary;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use spag_io::{catch_panic, quote};

use self::clean_up::CleanUp;
use self::encoder::Encoder;
use crate::error::{Error, Result};

pub use bos::BosRule;
pub use detokenizer::Detokenizer;
pub use roles::SpecialIds;
pub use special_texts::SpecialTokens;

/// Maximum bytes of a text after normalization.
const MAX_NORMALIZED: f64 = (1u64 << 27) as f64;

/// Encodes text to tokens and back, with BOS and EOS.
///
/// Limits what an input file can make the tokenizers library do: `truncation`, `padding` and the post-processor of
/// `tokenizer.json` are not applied, because a prompt is encoded whole and without special tokens; dropout is refused;
/// sizes are checked before the library reads the file; and a panic of the library becomes an error that names the
/// file.
#[derive(Clone)]
pub struct Tokenizer {
    encoder: Arc<Encoder>,
    path: PathBuf,
    /// The checkpoint that it belongs to: a folder or a GGUF file.
    checkpoint: PathBuf,
    /// The BOS token, if the tokenizer has one.
    bos: Option<u32>,
    /// Whether the tokenizer's files request BOS in prompts.
    adds_bos: bool,
    bos_rule: BosRule,
    /// Ids that end an utterance; the tokenizer's own EOS is the first.
    eos: Vec<u32>,
    /// The text of the tokenizer's own EOS; `None` if it is not in the vocabulary.
    eos_text: Option<String>,
    clean_up: CleanUp,
    /// Maximum factor by which normalization can lengthen a text.
    expansion: f64,
    /// The largest id of the vocabulary without added tokens.
    last_id: u32,
    /// Number of the model's embeddings, if known.
    embeddings: Option<usize>,
    files: Arc<[(String, Vec<u8>)]>,
}

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokenizer")
            .field("vocab", &self.vocab_size())
            .field("bos", &self.bos())
            .field("eos", &self.eos)
            .finish()
    }
}

impl Tokenizer {
    /// Checks the tokenizer against a model with this many embeddings.
    ///
    /// # Errors
    /// A token of the vocabulary has no embedding. Added tokens may lack one until a text contains them, and so may an EOS
    /// id that is not the tokenizer's own: the model never generates it.
    pub(crate) fn for_embeddings(mut self, embeddings: usize) -> Result<Self> {
        let eos = ("eos_token", self.eos());
        let last = ("the last token of the vocabulary", self.last_id);
        for (what, id) in self.bos.map(|id| ("bos_token", id)).into_iter().chain([eos, last]) {
            if id as usize >= embeddings {
                let reason = format!(
                    "{what} has id {id}, but the model has only {embeddings} embeddings; tokenizer and model do not \
                     belong together"
                );
                return Err(Error::Tokenizer { path: self.path, reason });
            }
        }
        self.eos.retain(|id| (*id as usize) < embeddings);
        Ok(Self { embeddings: Some(embeddings), ..self })
    }

    /// Encodes `text` without adding BOS or EOS. Special tokens in it are matched.
    ///
    /// # Errors
    /// The tokenizer cannot encode the text, or the text contains a token without an embedding.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>> {
        self.encode_with(text, SpecialTokens::Matched)
    }

    /// Encodes `text` without adding BOS or EOS, treating special tokens as ordinary text.
    ///
    /// # Errors
    /// As [`Tokenizer::encode`].
    pub fn encode_text(&self, text: &str) -> Result<Vec<u32>> {
        self.encode_with(text, SpecialTokens::AsText)
    }

    /// The tokens of a prompt: BOS, if prompts begin with it, followed by `text`.
    ///
    /// # Errors
    /// As [`Tokenizer::encode`].
    pub fn encode_prompt(&self, text: &str, special: SpecialTokens) -> Result<Vec<u32>> {
        let ids = self.encode_with(text, special)?;
        Ok(self.bos().into_iter().chain(ids).collect())
    }

    fn encode_with(&self, text: &str, special: SpecialTokens) -> Result<Vec<u32>> {
        if text.len() as f64 * self.expansion > MAX_NORMALIZED {
            return Err(self.failed("encode", format!("its {} bytes are too many; shorten it", text.len())));
        }
        let ids = self.attempt("encode", || self.encoder.encode(text, special))?;
        let embeddings = self.embeddings.unwrap_or(usize::MAX);
        match ids.iter().find(|id| **id as usize >= embeddings) {
            Some(id) => Err(self.failed(
                "encode",
                format!("it contains a token with id {id}, and the model has only {embeddings} embeddings"),
            )),
            None => Ok(ids),
        }
    }

    /// Decodes `ids`, skipping special tokens. Ids beyond the vocabulary, which a model with more embeddings than tokens
    /// can generate, have no text.
    ///
    /// # Errors
    /// The tokenizer cannot decode the tokens.
    pub fn decode(&self, ids: &[u32]) -> Result<String> {
        self.attempt("decode", || self.encoder.decode(ids))
    }

    /// Whether a token can have text; others are skipped in decoding.
    pub(crate) fn has_text(&self, id: u32) -> bool {
        self.encoder.has_text(id)
    }

    /// Calls the library and converts failures and panics to errors.
    fn attempt<T>(&self, action: &'static str, run: impl FnOnce() -> tokenizers::Result<T>) -> Result<T> {
        // A panic's text is not shown to the sender of the text.
        let outcome = catch_panic(run).map_err(|_| format!("the tokenizer's library cannot {action} it"));
        let outcome = outcome.and_then(|outcome| outcome.map_err(|error| error.to_string()));
        outcome.map_err(|reason| self.failed(action, reason))
    }

    fn failed(&self, action: &'static str, reason: String) -> Error {
        Error::Encoding { path: self.path.clone(), action, reason: quote(&reason) }
    }

    /// The checkpoint that it was read from: a folder or a GGUF file.
    pub fn checkpoint(&self) -> &Path {
        &self.checkpoint
    }

    /// The same tokenizer with another BOS rule.
    pub fn with_bos_rule(self, rule: BosRule) -> Self {
        Self { bos_rule: rule, ..self }
    }

    /// The beginning-of-sequence token, if prompts begin with one.
    pub fn bos(&self) -> Option<u32> {
        let is_added = match self.bos_rule {
            BosRule::AsTokenizer => self.adds_bos,
            BosRule::IfKnown => true,
            BosRule::Never => false,
        };
        self.bos.filter(|_| is_added)
    }

    /// The beginning-of-sequence token, if the tokenizer has one. Prompts need not begin with it.
    pub fn bos_token(&self) -> Option<u32> {
        self.bos
    }

    /// The tokenizer's own end-of-sequence token, which ends utterances in training.
    pub fn eos(&self) -> u32 {
        self.eos.first().copied().unwrap_or_default()
    }

    /// All ids that end an utterance: the tokenizer's own EOS, and those of `config.json` and `generation_config.json`.
    pub fn eos_ids(&self) -> &[u32] {
        &self.eos
    }

    /// Vocabulary size, including added tokens.
    pub fn vocab_size(&self) -> usize {
        self.encoder.plain.get_vocab_size(true)
    }

    /// Adds files, by name, to be copied to every checkpoint written with this tokenizer.
    pub fn with_files(self, more: Vec<(String, Vec<u8>)>) -> Self {
        Self { files: self.files.iter().cloned().chain(more).collect(), ..self }
    }

    /// The tokenizer's files as they were read: (name, contents).
    pub(crate) fn files(&self) -> &[(String, Vec<u8>)] {
        &self.files
    }
}
