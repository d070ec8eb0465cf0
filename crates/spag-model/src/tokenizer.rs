//! Hugging Face tokenizers (`tokenizer.json`) with their BOS and EOS tokens.

use std::path::Path;

use serde_json::Value;

use crate::error::{Error, Result};

/// Tokenizer files of a checkpoint folder. They are copied unchanged into every checkpoint that is written.
const FILES: [&str; 6] = [
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "generation_config.json",
];

/// Encodes text to tokens and back, with BOS and EOS.
#[derive(Clone)]
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    bos: u32,
    eos: u32,
    files: Vec<(String, Vec<u8>)>,
}

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokenizer")
            .field("vocab", &self.vocab_size())
            .field("bos", &self.bos)
            .field("eos", &self.eos)
            .finish()
    }
}

/// Fallback ids from `config.json`, used if no tokenizer file names the special tokens.
#[derive(Clone, Copy, Debug, Default)]
pub struct SpecialIds {
    /// Begin of sequence.
    pub bos: Option<u32>,
    /// End of sequence.
    pub eos: Option<u32>,
}

impl Tokenizer {
    /// Reads `tokenizer.json` of a checkpoint folder, and the special tokens from the files beside it.
    ///
    /// # Errors
    /// A missing or malformed file, or no BOS or EOS token.
    pub fn from_dir(dir: impl AsRef<Path>, fallback: SpecialIds) -> Result<Self> {
        let dir = dir.as_ref();
        let path = dir.join("tokenizer.json");
        if !path.is_file() {
            let reason = if dir.join("tokenizer.model").is_file() {
                "there is tokenizer.model here but no tokenizer.json; save one with transformers: \
                 AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR)"
            } else {
                "no tokenizer.json in this folder; playing, and training on text, need one"
            };
            return Err(Error::Tokenizer { path: dir.to_owned(), reason: reason.into() });
        }
        Self::from_file(path, fallback)
    }

    /// Reads a `tokenizer.json`, and the special tokens from the files beside it.
    ///
    /// # Errors
    /// A missing or malformed file, or no BOS or EOS token.
    pub fn from_file(path: impl AsRef<Path>, fallback: SpecialIds) -> Result<Self> {
        let path = path.as_ref();
        let dir = path.parent().unwrap_or(Path::new("."));
        let bytes = std::fs::read(path).map_err(spag_io::Error::io(path))?;
        let inner = tokenizers::Tokenizer::from_bytes(&bytes).map_err(|e| Error::Tokenizer {
            path: path.to_owned(),
            reason: format!("not a valid tokenizer.json: {e}"),
        })?;
        let mut files = vec![("tokenizer.json".to_owned(), bytes)];
        for name in FILES.iter().skip(1) {
            let companion = dir.join(name);
            if companion.is_file() {
                files.push(((*name).to_owned(), std::fs::read(&companion).map_err(spag_io::Error::io(&companion))?));
            }
        }
        let named = |role: &str| -> Result<Option<String>> {
            for file in ["tokenizer_config.json", "special_tokens_map.json"] {
                let Some((_, bytes)) = files.iter().find(|(n, _)| n == file) else { continue };
                let json: Value = serde_json::from_slice(bytes).map_err(|source| Error::Json {
                    path: dir.join(file),
                    what: "tokenizer configuration",
                    source,
                })?;
                let token =
                    json.get(role).and_then(|t| t.as_str().or_else(|| t.get("content").and_then(Value::as_str)));
                if let Some(token) = token {
                    return Ok(Some(token.to_owned()));
                }
            }
            Ok(None)
        };
        let find = |role: &str, fallback: Option<u32>, usual: &str| -> Result<u32> {
            let by_name = named(role)?.and_then(|token| inner.token_to_id(&token));
            let known = fallback.filter(|id| inner.id_to_token(*id).is_some());
            by_name.or(known).or_else(|| inner.token_to_id(usual)).ok_or_else(|| Error::Tokenizer {
                path: path.to_owned(),
                reason: format!(
                    "this tokenizer has no {role}; name one in tokenizer_config.json (a game needs both bos_token and eos_token)"
                ),
            })
        };
        let (bos, eos) = (find("bos_token", fallback.bos, "<s>")?, find("eos_token", fallback.eos, "</s>")?);
        Ok(Self { inner, bos, eos, files })
    }

    /// Encodes `text` without adding BOS or EOS.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>> {
        let encoding = self.inner.encode_fast(text, false).map_err(|e| Error::Encoding(e.to_string()))?;
        Ok(encoding.get_ids().to_vec())
    }

    /// Decodes `ids`, skipping special tokens.
    pub fn decode(&self, ids: &[u32]) -> Result<String> {
        self.inner.decode(ids, true).map_err(|e| Error::Encoding(e.to_string()))
    }

    /// The beginning-of-sequence token.
    pub fn bos(&self) -> u32 {
        self.bos
    }

    /// The end-of-sequence token.
    pub fn eos(&self) -> u32 {
        self.eos
    }

    /// Vocabulary size, including added tokens.
    pub fn vocab_size(&self) -> usize {
        self.inner.get_vocab_size(true)
    }

    /// The tokenizer's files as they were read: (name, contents).
    pub(crate) fn files(&self) -> &[(String, Vec<u8>)] {
        &self.files
    }
}

/// Decoders emit this character for incomplete UTF-8.
const REPLACEMENT: char = '\u{fffd}';

/// Incremental detokenizer. Text that was returned never changes and is always valid UTF-8.
///
/// A character can span several tokens (byte fallback, byte-level tokens); its bytes are held back until it is
/// complete. A token's text can depend on its neighbours (a leading blank is dropped at the start of a text), so each
/// token is decoded together with the few before it, and their text is removed from the result.
///
/// All returned pieces and [`Detokenizer::finish`] together equal the decoding of all tokens at once.
#[derive(Clone, Debug, Default)]
pub struct Detokenizer {
    ids: Vec<u32>,
    /// Index of the first token that is decoded together with the next.
    context: usize,
    /// Number of tokens whose text was returned.
    emitted: usize,
}

impl Detokenizer {
    /// Appends a token and returns the new text, which may be empty.
    pub fn push(&mut self, tokenizer: &Tokenizer, id: u32) -> Result<String> {
        self.ids.push(id);
        let before = tokenizer.decode(&self.ids[self.context..self.emitted])?;
        let now = tokenizer.decode(&self.ids[self.context..])?;
        match now.strip_prefix(before.as_str()) {
            Some(new) if !new.is_empty() && !new.ends_with(REPLACEMENT) => {
                let new = new.to_owned();
                self.context = self.emitted;
                self.emitted = self.ids.len();
                Ok(new)
            }
            _ => Ok(String::new()),
        }
    }

    /// Returns the text held back. Incomplete characters become replacement characters.
    pub fn finish(&self, tokenizer: &Tokenizer) -> Result<String> {
        let before = tokenizer.decode(&self.ids[self.context..self.emitted])?;
        let now = tokenizer.decode(&self.ids[self.context..])?;
        Ok(now.strip_prefix(before.as_str()).unwrap_or_default().to_owned())
    }
}
