//! A tokenizer from `tokenizer.json` with the special tokens that the game needs.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::error::{Error, Result};

/// Files of a checkpoint folder that belong to the tokenizer and travel with it unchanged.
const COMPANIONS: [&str; 6] = [
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "generation_config.json",
];

/// Text to tokens and back, with BOS and EOS.
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

/// Ids to fall back on when no file names the special tokens: those of `config.json`.
#[derive(Clone, Copy, Debug, Default)]
pub struct SpecialIds {
    /// Begin of sequence.
    pub bos: Option<u32>,
    /// End of sequence.
    pub eos: Option<u32>,
}

impl Tokenizer {
    /// Reads `tokenizer.json` of a checkpoint folder and the special tokens that the files beside it name.
    ///
    /// # Errors
    /// No `tokenizer.json`, a malformed file, or no BOS or EOS to be found.
    pub fn from_dir(dir: impl AsRef<Path>, fallback: SpecialIds) -> Result<Self> {
        let dir = dir.as_ref();
        let path = dir.join("tokenizer.json");
        if !path.is_file() {
            let hint = match dir.join("tokenizer.model").is_file() {
                true => {
                    "there is tokenizer.model here but no tokenizer.json; save one with transformers: \
                         AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR)"
                }
                false => "no tokenizer.json in this folder; playing, and training on text, need one",
            };
            return Err(Error::Tokenizer { path: dir.to_owned(), reason: hint.into() });
        }
        Self::from_file(path, fallback)
    }

    /// Reads a `tokenizer.json`, and `tokenizer_config.json` and its kin if they lie beside it.
    ///
    /// # Errors
    /// A missing or malformed file, or no BOS or EOS to be found.
    pub fn from_file(path: impl AsRef<Path>, fallback: SpecialIds) -> Result<Self> {
        let path = path.as_ref();
        let dir = path.parent().unwrap_or(Path::new("."));
        let bytes = std::fs::read(path).map_err(Error::io(path))?;
        let inner = tokenizers::Tokenizer::from_bytes(&bytes).map_err(|e| Error::Tokenizer {
            path: path.to_owned(),
            reason: format!("not a valid tokenizer.json: {e}"),
        })?;
        let mut files = vec![("tokenizer.json".to_owned(), bytes)];
        for name in COMPANIONS.iter().skip(1) {
            let companion = dir.join(name);
            if companion.is_file() {
                files.push(((*name).to_owned(), std::fs::read(&companion).map_err(Error::io(&companion))?));
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

    /// Tokens of `text` alone, without BOS or EOS.
    ///
    /// # Errors
    /// The tokenizer's model refuses the text.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>> {
        let encoding = self.inner.encode_fast(text, false).map_err(|e| Error::Encoding(e.to_string()))?;
        Ok(encoding.get_ids().to_vec())
    }

    /// Text of `ids` without special tokens.
    ///
    /// # Errors
    /// The decoder refuses the tokens.
    pub fn decode(&self, ids: &[u32]) -> Result<String> {
        self.inner.decode(ids, true).map_err(|e| Error::Encoding(e.to_string()))
    }

    /// The token that begins every sequence.
    pub fn bos(&self) -> u32 {
        self.bos
    }

    /// The token that ends a response.
    pub fn eos(&self) -> u32 {
        self.eos
    }

    /// Number of pieces, added tokens included.
    pub fn vocab_size(&self) -> usize {
        self.inner.get_vocab_size(true)
    }

    /// The tokenizer's files, byte for byte as they were read: (name, contents).
    pub fn files(&self) -> &[(String, Vec<u8>)] {
        &self.files
    }

    /// Where a folder keeps its tokenizer.
    pub fn path_in(dir: &Path) -> PathBuf {
        dir.join("tokenizer.json")
    }
}
