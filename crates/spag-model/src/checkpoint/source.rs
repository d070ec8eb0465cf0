//! The source of a checkpoint: a folder or a single file.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::missing::{missing, part_of_folder};
use super::source_files::python_files;
use super::tied_head::has_own_head;
use super::weight_files::{self, MODEL, WeightFiles};
use crate::config::{Modalities, ModelConfig};
use crate::error::Result;
use crate::gguf::Gguf;
use crate::tokenizer::{SpecialIds, Tokenizer};

/// An existing checkpoint.
#[derive(Clone, Copy)]
pub(super) enum Source<'a> {
    /// A Hugging Face folder.
    Folder(&'a Path),
    /// A GGUF file, which only holds the tensors of the model.
    Gguf(&'a Path),
}

impl<'a> Source<'a> {
    /// Finds the checkpoint at `path`. A regular file is read as GGUF.
    pub(super) fn find(path: &'a Path) -> Result<Self> {
        match std::fs::metadata(path) {
            Ok(found) if found.is_dir() => Ok(Self::Folder(path)),
            Ok(found) if found.is_file() => part_of_folder(path).map_or(Ok(Self::Gguf(path)), Err),
            Ok(_) => {
                let why = "a checkpoint is a folder or a GGUF file";
                Err(spag_io::Error::io(path)(std::io::Error::new(ErrorKind::NotADirectory, why)).into())
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Err(missing(path)),
            Err(error) => Err(spag_io::Error::io(path)(error).into()),
        }
    }

    /// The configuration, untied if the weights contain an output head.
    pub(super) fn config(self) -> Result<ModelConfig> {
        let config = self.stored_config()?;
        if self.has_own_head(&config)? { config.with("tie_word_embeddings", false) } else { Ok(config) }
    }

    /// Notes if the configuration ties an output head that the weights contain, and on tensors that are skipped.
    pub(super) fn notes(self) -> Result<Vec<String>> {
        let Self::Folder(dir) = self else { return Ok(Vec::new()) };
        let (path, config) = (dir.display(), self.stored_config()?);
        let mut notes = Vec::new();
        if self.has_own_head(&config)? {
            notes.push(format!(
                "{path}: lm_head.weight is used as it is, since it differs from the embedding, to which config.json ties it"
            ));
        }
        if config.architecture.modalities == Modalities::TextAndImages {
            // Damaged weights are reported when they are read.
            let skipped = WeightFiles::open(dir, MODEL).map_or(0, |files| files.count_of_images());
            notes.push(format!("{path}: the text model is read, and its {skipped} tensors for images are skipped"));
        }
        Ok(notes)
    }

    fn has_own_head(self, config: &ModelConfig) -> Result<bool> {
        match self {
            Self::Folder(dir) => has_own_head(dir, config),
            // A GGUF file's tensors determine whether the head is tied.
            Self::Gguf(_) => Ok(false),
        }
    }

    fn stored_config(self) -> Result<ModelConfig> {
        match self {
            Self::Folder(dir) => {
                let file = dir.join("config.json");
                if matches!(file.try_exists(), Ok(false)) { Err(missing(dir)) } else { ModelConfig::from_file(file) }
            }
            Self::Gguf(path) => Gguf::open(path)?.config(),
        }
    }

    /// The tokenizer, including the files copied when saving.
    pub(super) fn tokenizer(self, ids: SpecialIds) -> Result<Tokenizer> {
        match self {
            Self::Folder(dir) => Ok(Tokenizer::from_dir(dir, ids)?.with_files(python_files(dir)?)),
            Self::Gguf(path) => Tokenizer::from_file(path, ids),
        }
    }

    /// The model's weight files, with their headers.
    pub(super) fn weights(self) -> Result<WeightFiles> {
        match self {
            Self::Folder(dir) => WeightFiles::open(dir, MODEL),
            Self::Gguf(path) => WeightFiles::of_gguf(path),
        }
    }

    /// Paths of the configuration and weight files.
    pub(super) fn paths(self) -> Result<Vec<PathBuf>> {
        match self {
            Self::Folder(dir) => {
                let mut paths = vec![dir.join("config.json")];
                paths.extend(weight_files::paths(dir, MODEL)?);
                Ok(paths)
            }
            Self::Gguf(path) => Ok(vec![path.to_owned()]),
        }
    }
}
