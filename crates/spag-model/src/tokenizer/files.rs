//! The files of a tokenizer: read once, and copied unchanged to every written checkpoint.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde_json::Value;
use spag_io::{quote, read_whole};

use crate::error::{Error, Result};

/// Maximum bytes of a file. Those of published models have at most some 40 MB.
pub(super) const MAX_BYTES: u64 = 128 << 20;

/// The tokenizer in the tokenizers library's format, preferred if both exist.
pub(super) const JSON: &str = "tokenizer.json";
/// The tokenizer in SentencePiece's format.
pub(super) const PIECES: &str = "tokenizer.model";
/// Names of special tokens, and settings of transformers.
pub(super) const CONFIG: &str = "tokenizer_config.json";
/// Names of special tokens.
pub(super) const SPECIAL_TOKENS: &str = "special_tokens_map.json";
/// Ids of tokens added to the vocabulary.
pub(super) const ADDED_TOKENS: &str = "added_tokens.json";
/// Generation settings, including the ids that end generation.
pub(super) const GENERATION: &str = "generation_config.json";

/// Companion files of the tokenizer's main file.
const COMPANIONS: [&str; 9] =
    [JSON, PIECES, CONFIG, SPECIAL_TOKENS, ADDED_TOKENS, GENERATION, "vocab.json", "merges.txt", "chat_template.jinja"];

/// The files of a tokenizer as read.
pub(super) struct Files {
    /// The folder, or the GGUF file from which they were generated.
    pub(super) dir: PathBuf,
    /// Names and contents, the tokenizer first.
    pub(super) all: Vec<(String, Vec<u8>)>,
}

impl Files {
    /// The file named `name` in a saved folder, with `contents`, and its companions. If a `tokenizer.model` was
    /// requested, `tokenizer.json` is left out, since it would take precedence when a saved folder is opened.
    pub(super) fn read(dir: &Path, name: &str, contents: Vec<u8>) -> Result<Self> {
        let mut all = vec![(name.to_owned(), contents)];
        for companion in COMPANIONS.iter().filter(|companion| ![name, JSON].contains(companion)) {
            match read_whole(dir.join(companion), MAX_BYTES) {
                Ok(contents) => all.push(((*companion).to_owned(), contents)),
                Err(spag_io::Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Self { dir: dir.to_owned(), all })
    }

    /// The content of the main file.
    pub(super) fn contents(&self) -> &[u8] {
        self.all.first().map_or(&[], |(_, contents)| contents)
    }

    /// Whether the main file is a `tokenizer.model`.
    pub(super) fn is_pieces(&self) -> bool {
        self.all.first().is_some_and(|(name, _)| name == PIECES)
    }

    /// Parses a JSON file, if present.
    pub(super) fn json(&self, name: &str) -> Result<Option<Value>> {
        let Some((_, bytes)) = self.all.iter().find(|(found, _)| found == name) else { return Ok(None) };
        let json = serde_json::from_slice(bytes).map_err(|e| Error::Json {
            path: self.dir.join(name),
            what: if name == GENERATION { "generation configuration" } else { "tokenizer configuration" },
            reason: quote(&e.to_string()),
        })?;
        Ok(Some(json))
    }
}
