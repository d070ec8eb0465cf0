//! The digest of an adapter's base model.

use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use spag_io::{hex, quote, read_excerpts, read_whole, write_json_atomically};

use crate::error::{Error, Result};

/// The record in an adapter's folder. A separate file, since earlier versions of PEFT reject unknown keys in
/// `adapter_config.json`.
const FILE: &str = "spag-base.json";
/// Maximum bytes of a record.
const MAX_BYTES: u64 = 1 << 12;
/// Digits shown in messages.
const SHOWN: usize = 16;

/// Identifies the weights of a model: SHA-256, in hexadecimal, of the sizes of its weight files and of 4 MiB of each, evenly spaced.
///
/// Every training step and every merged adapter changes it. It depends on the files: the same weights with other shards, in another
/// number format or in a GGUF file have another digest. Configuration and tokenizer do not matter.
/// format or in a GGUF file have another digest. Configuration and tokenizer do not matter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BaseDigest(String);

/// The content of the record.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    base_weights_sampled_sha256: BaseDigest,
}

impl BaseDigest {
    /// The digest of the model in a folder, or in a GGUF file. Reads at most 4 MiB of each file.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn of(model: impl AsRef<Path>) -> Result<Self> {
        let model = model.as_ref();
        let files = if model.is_dir() { weight_files(model)? } else { vec![model.to_owned()] };
        let mut hash = Sha256::new();
        for file in files {
            read_excerpts(file, |bytes| hash.update(bytes))?;
        }
        Ok(Self(hex(&hash.finalize())))
    }

    /// The digest recorded in an adapter's folder; `None` if another program wrote the adapter.
    pub(super) fn recorded(adapter: &Path) -> Result<Option<Self>> {
        let path = adapter.join(FILE);
        let bytes = match read_whole(&path, MAX_BYTES) {
            Err(spag_io::Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => return Ok(None),
            read => read?,
        };
        let record = serde_json::from_slice::<Record>(&bytes).map_err(|error| {
            let reason =
                format!("{}; delete it to use the adapter with any model that it fits", quote(&error.to_string()));
            Error::Json { path, what: FILE, reason }
        })?;
        Ok(Some(record.base_weights_sampled_sha256))
    }

    /// Writes the record of an adapter's folder, or deletes that of an earlier adapter.
    pub(super) fn record(digest: Option<&Self>, adapter: &Path) -> Result<()> {
        let path = adapter.join(FILE);
        if let Some(digest) = digest {
            return Ok(write_json_atomically(&path, &Record { base_weights_sampled_sha256: digest.clone() })?);
        }
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(spag_io::Error::io(&path)(error).into()),
            _ => Ok(()),
        }
    }

    /// The error message for an adapter trained on `recorded` and used with this model.
    pub(super) fn refusal(&self, recorded: &Self, named: Option<&str>) -> String {
        let named = named.map(|name| format!(", \"{}\",", quote(name))).unwrap_or_default();
        format!(
            "it was trained on a model{named} whose weights have the digest {recorded}, and those of this one have {self}; use that \
             model, or delete {FILE} from the adapter's folder if both are the same weights in other files"
        )
    }
}

impl fmt::Display for BaseDigest {
    /// Shows the first digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&quote(self.0.get(..SHOWN).unwrap_or(&self.0)))
    }
}

/// The weight files of a folder, sorted by name: those of safetensors, or else of PyTorch.
fn weight_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let io = spag_io::Error::io(folder);
    let (mut safetensors, mut torch) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(folder).map_err(io)? {
        let path = entry.map_err(io)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with("model") && name.ends_with(".safetensors") {
            safetensors.push(path);
        } else if name.starts_with("pytorch_model") && name.ends_with(".bin") {
            torch.push(path);
        }
    }
    let mut files = if safetensors.is_empty() { torch } else { safetensors };
    files.sort();
    Ok(files)
}
