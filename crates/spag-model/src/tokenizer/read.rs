//! Reads a tokenizer from a folder or a file.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use spag_io::{catch_panic, quote, read_whole};
use tokenizers::Tokenizer as Pipeline;

use super::Tokenizer;
use super::bos::{self, BosRule};
use super::clean_up::CleanUp;
use super::definition::Definition;
use super::encoder::Encoder;
use super::files::{self, Files};
use super::gguf;
use super::roles::{Roles, SpecialIds};
use super::sentencepiece;
use crate::error::{Error, Result};
use crate::gguf::{Gguf, is_gguf};

impl Tokenizer {
    /// Reads the tokenizer of a folder: `tokenizer.json`, or else `tokenizer.model`, with the special tokens from its
    /// companion files.
    ///
    /// # Errors
    /// A missing or malformed file, unsupported settings, or no EOS token.
    pub fn from_dir(dir: impl AsRef<Path>, fallback: SpecialIds) -> Result<Self> {
        let dir = dir.as_ref();
        match Self::find(dir) {
            Some(name) => Self::from_file(dir.join(name), fallback),
            None => {
                let reason = "neither tokenizer.json nor tokenizer.model in this folder; playing, and training on text, \
                              need one";
                Err(Error::Tokenizer { path: dir.to_owned(), reason: reason.into() })
            }
        }
    }

    /// The name of a folder's main tokenizer file, if any.
    pub fn find(dir: impl AsRef<Path>) -> Option<&'static str> {
        // Only a nonexistent file counts as missing. Any other failure to read it is an error.
        let is_missing =
            |name: &str| dir.as_ref().join(name).symlink_metadata().is_err_and(|e| e.kind() == ErrorKind::NotFound);
        [files::JSON, files::PIECES].into_iter().find(|name| !is_missing(name))
    }

    /// Reads a `tokenizer.json`, or a SentencePiece model if the name ends in `.model`, with the special tokens from
    /// its companion files; or the tokenizer of a GGUF file.
    ///
    /// # Errors
    /// A missing, unreadable or malformed file, unsupported settings, or no EOS token.
    pub fn from_file(path: impl AsRef<Path>, fallback: SpecialIds) -> Result<Self> {
        let path = path.as_ref();
        if is_gguf(path) {
            return Self::from_files(path, gguf::files(&Gguf::open(path)?)?, fallback);
        }
        let dir = path.parent().unwrap_or(Path::new("."));
        let is_pieces = path.extension().is_some_and(|extension| extension == "model");
        let contents = read_whole(path, files::MAX_BYTES)?;
        let files = Files::read(dir, if is_pieces { files::PIECES } else { files::JSON }, contents)?;
        Self::from_files(path, files, fallback)
    }

    /// The tokenizer of these files; errors name `path`.
    fn from_files(path: &Path, files: Files, fallback: SpecialIds) -> Result<Self> {
        let name = if files.is_pieces() { files::PIECES } else { files::JSON };
        let roles = Roles::read(&files)?;
        let refuse = |reason: String| Error::Tokenizer { path: path.to_owned(), reason };
        let (definition, pieces) = if files.is_pieces() {
            sentencepiece::read(files.contents(), &roles)
        } else {
            Definition::read(files.contents(), &roles.all_named()).map(|definition| (definition, None))
        }
        .map_err(refuse)?;
        let invalid = |reason: String| refuse(format!("not a valid {name}: {}", quote(&reason)));
        let pipeline = catch_panic(|| Pipeline::from_bytes(&definition.json))
            .map_err(|panic| invalid(format!("the tokenizers library cannot read it ({panic})")))?
            .map_err(|e| invalid(e.to_string()))?;
        definition.check_added_tokens(&pipeline).map_err(refuse)?;

        let bos = match roles.has_no_bos() {
            true => None,
            false => token(&pipeline, roles.named("bos_token"), fallback.bos.as_slice(), "<s>"),
        };
        let own = token(&pipeline, roles.named("eos_token"), &fallback.eos, "</s>").ok_or_else(|| {
            refuse("this tokenizer has no eos_token; name one in tokenizer_config.json (a game needs one)".into())
        })?;
        let mut eos = vec![own];
        for id in fallback.eos.into_iter().chain(roles.ending.iter().copied()) {
            if !eos.contains(&id) {
                eos.push(id);
            }
        }
        let clean_up = CleanUp::of(Some(&roles.config));
        let unknown = definition.unknown.as_deref().or(roles.named("unk_token"));
        let unknown = unknown.and_then(|token| pipeline.token_to_id(token));
        let encoder = Encoder::new(pipeline, pieces, unknown);
        let bos_text = bos.and_then(|id| encoder.token(id));
        let Definition { expansion, last_id, first, .. } = definition;
        Ok(Self {
            eos_text: encoder.token(own),
            encoder: Arc::new(encoder),
            path: path.to_owned(),
            checkpoint: files.dir,
            bos,
            adds_bos: bos_text.is_some_and(|text| bos::is_added(&roles, &first, &text)),
            bos_rule: BosRule::AsTokenizer,
            eos,
            clean_up,
            expansion,
            last_id,
            embeddings: None,
            files: files.all.into(),
        })
    }
}

/// The token with a role: the one named by the tokenizer's files, else the first known one of `config.json`, else the
/// usual one.
fn token(pipeline: &Pipeline, named: Option<&str>, configured: &[u32], usual: &str) -> Option<u32> {
    let named = named.and_then(|token| pipeline.token_to_id(token));
    let known = || configured.iter().copied().find(|id| pipeline.id_to_token(*id).is_some());
    named.or_else(known).or_else(|| pipeline.token_to_id(usual))
}
