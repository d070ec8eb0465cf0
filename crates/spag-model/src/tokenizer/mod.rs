//! Hugging Face tokenizers (`tokenizer.json`) with their BOS and EOS tokens.

mod after_prompt;
mod definition;
mod detokenizer;
mod expansion;
mod vocabulary;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde_json::Value;
use spag_io::{catch_panic, quote, read_whole};

use self::after_prompt::CleanUp;
use self::definition::Definition;
use crate::error::{Error, Result};

pub use detokenizer::Detokenizer;

/// Bytes of a tokenizer's file, at most. Those of published models have at most some 40 MB.
const MAX_BYTES: u64 = 128 << 20;
/// Bytes of a text after normalization, at most.
const MAX_NORMALIZED: f64 = (1u64 << 27) as f64;

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
///
/// What an input file can make the tokenizers library do is limited: `truncation`, `padding` and the post-processor of
/// `tokenizer.json` are not applied, because a prompt is encoded whole and without special tokens; dropout is refused;
/// sizes are checked before the library reads the file; and a panic of the library is an error that names the file.
#[derive(Clone)]
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    path: PathBuf,
    bos: u32,
    eos: u32,
    /// The text of EOS; `None` if the vocabulary has no such token.
    eos_text: Option<String>,
    clean_up: CleanUp,
    /// The largest factor by which normalization can lengthen a text.
    expansion: f64,
    /// The largest id of the vocabulary without added tokens.
    last_id: u32,
    /// Embeddings of the model, if known.
    embeddings: Option<usize>,
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
        let missing = |name: &str| dir.join(name).symlink_metadata().is_err_and(|e| e.kind() == ErrorKind::NotFound);
        if missing("tokenizer.json") {
            let reason = if missing("tokenizer.model") {
                "no tokenizer.json in this folder; playing, and training on text, need one"
            } else {
                "there is tokenizer.model here but no tokenizer.json; save one with transformers: \
                 AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR)"
            };
            return Err(Error::Tokenizer { path: dir.to_owned(), reason: reason.into() });
        }
        Self::from_file(dir.join("tokenizer.json"), fallback)
    }

    /// Reads a `tokenizer.json`, and the special tokens from the files beside it.
    ///
    /// # Errors
    /// A missing, unreadable or malformed file, settings that are not supported, or no BOS or EOS token.
    pub fn from_file(path: impl AsRef<Path>, fallback: SpecialIds) -> Result<Self> {
        let path = path.as_ref();
        let dir = path.parent().unwrap_or(Path::new("."));
        let bytes = read_whole(path, MAX_BYTES)?;
        let refuse = |reason: String| Error::Tokenizer { path: path.to_owned(), reason };
        let invalid = |reason: String| refuse(format!("not a valid tokenizer.json: {}", quote(&reason)));
        let definition = Definition::read(&bytes).map_err(refuse)?;
        let inner = catch_panic(|| tokenizers::Tokenizer::from_bytes(&definition.json))
            .map_err(|panic| invalid(format!("the tokenizers library cannot read it ({panic})")))?
            .map_err(|e| invalid(e.to_string()))?;
        definition.check_added_tokens(&inner).map_err(refuse)?;
        let mut files = vec![("tokenizer.json".to_owned(), bytes)];
        for name in FILES.iter().skip(1) {
            match read_whole(dir.join(name), MAX_BYTES) {
                Ok(contents) => files.push(((*name).to_owned(), contents)),
                Err(spag_io::Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error.into()),
            }
        }
        let find = |role: &str, fallback: Option<u32>, usual: &str| -> Result<u32> {
            let by_name = named(&files, dir, role)?.and_then(|token| inner.token_to_id(&token));
            let known = fallback.filter(|id| inner.id_to_token(*id).is_some());
            by_name.or(known).or_else(|| inner.token_to_id(usual)).ok_or_else(|| {
                refuse(format!(
                    "this tokenizer has no {role}; name one in tokenizer_config.json (a game needs both bos_token and eos_token)"
                ))
            })
        };
        let (bos, eos) = (find("bos_token", fallback.bos, "<s>")?, find("eos_token", fallback.eos, "</s>")?);
        let Definition { expansion, last_id, .. } = definition;
        let eos_text = inner.id_to_token(eos);
        let clean_up = CleanUp::of(companion(&files, dir, "tokenizer_config.json")?.as_ref());
        let path = path.to_owned();
        Ok(Self { inner, path, bos, eos, eos_text, clean_up, expansion, last_id, embeddings: None, files })
    }

    /// The tokenizer of a model with this many embeddings.
    ///
    /// # Errors
    /// A token of the vocabulary without an embedding. Added tokens may lack one until a text contains them.
    pub(crate) fn for_embeddings(self, embeddings: usize) -> Result<Self> {
        for (what, id) in
            [("bos_token", self.bos), ("eos_token", self.eos), ("the last token of the vocabulary", self.last_id)]
        {
            if id as usize >= embeddings {
                let reason = format!(
                    "{what} has id {id}, but the model has only {embeddings} embeddings; tokenizer and model do not \
                     belong together"
                );
                return Err(Error::Tokenizer { path: self.path, reason });
            }
        }
        Ok(Self { embeddings: Some(embeddings), ..self })
    }

    /// Encodes `text` without adding BOS or EOS.
    ///
    /// # Errors
    /// A text that this tokenizer cannot encode, or that contains a token without an embedding.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>> {
        if text.len() as f64 * self.expansion > MAX_NORMALIZED {
            return Err(self.failed("encode", format!("its {} bytes are too many; shorten it", text.len())));
        }
        let encoding = catch_panic(|| self.inner.encode_fast(text, false))
            .map_err(|panic| self.failed("encode", panic))?
            .map_err(|e| self.failed("encode", e.to_string()))?;
        let ids = encoding.get_ids();
        let embeddings = self.embeddings.unwrap_or(usize::MAX);
        match ids.iter().find(|id| **id as usize >= embeddings) {
            Some(id) => Err(self.failed(
                "encode",
                format!("it contains a token with id {id}, and the model has only {embeddings} embeddings"),
            )),
            None => Ok(ids.to_vec()),
        }
    }

    /// Decodes `ids`, skipping special tokens.
    ///
    /// # Errors
    /// Tokens that this tokenizer cannot decode.
    pub fn decode(&self, ids: &[u32]) -> Result<String> {
        catch_panic(|| self.inner.decode(ids, true))
            .map_err(|panic| self.failed("decode", panic))?
            .map_err(|e| self.failed("decode", e.to_string()))
    }

    fn failed(&self, action: &'static str, reason: String) -> Error {
        Error::Encoding { path: self.path.clone(), action, reason: quote(&reason) }
    }

    /// The folder that it was read from: that of the checkpoint.
    pub(crate) fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(&self.path)
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

    /// Carries further files, by name, into every checkpoint that is written with this tokenizer.
    pub fn with_files(self, more: Vec<(String, Vec<u8>)>) -> Self {
        Self { files: self.files.iter().cloned().chain(more).collect(), ..self }
    }

    /// The tokenizer's files as they were read: (name, contents).
    pub(crate) fn files(&self) -> &[(String, Vec<u8>)] {
        &self.files
    }
}

/// The special token that the files beside `tokenizer.json` name for `role`.
fn named(files: &[(String, Vec<u8>)], dir: &Path, role: &str) -> Result<Option<String>> {
    for file in ["tokenizer_config.json", "special_tokens_map.json"] {
        let Some(json) = companion(files, dir, file)? else { continue };
        let token = json.get(role).and_then(|t| t.as_str().or_else(|| t.get("content").and_then(Value::as_str)));
        if let Some(token) = token {
            return Ok(Some(token.to_owned()));
        }
    }
    Ok(None)
}

/// The JSON of a file beside `tokenizer.json`.
fn companion(files: &[(String, Vec<u8>)], dir: &Path, file: &str) -> Result<Option<Value>> {
    let Some((_, bytes)) = files.iter().find(|(n, _)| n == file) else { return Ok(None) };
    let json = serde_json::from_slice(bytes).map_err(|e| Error::Json {
        path: dir.join(file),
        what: "tokenizer configuration",
        reason: quote(&e.to_string()),
    })?;
    Ok(Some(json))
}
