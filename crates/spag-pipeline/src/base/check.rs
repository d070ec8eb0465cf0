//! Checks before a base model is made, which takes long.

use std::fs;
use std::path::Path;

use spag_io::{Contents, format_gib};
use spag_model::ModelConfig;
use spag_model::params::Layout;
use spag_ops::{OpenDevice, free_memory};

use crate::config::BaseConfig;
use crate::error::{Error, Result};

/// Bytes of a parameter with its gradient and both moments of AdamW, in f32.
const PARAMETER_BYTES: u64 = 16;
/// Bytes of a document as text, as a sample and as tokens: some 200 tokens.
const DOCUMENT_BYTES: u64 = 2048;

/// Rejects an output folder that cannot be replaced, or that holds something else than a base model: what is there is
/// deleted when the new model is complete.
pub(super) fn output(folder: &Path) -> Result<()> {
    let bad = |message: &str| {
        let message = format!("{} {message}; name a new folder", folder.display());
        Err(Error::BadSetting { setting: "output_dir", message })
    };
    if folder.file_name().is_none() {
        return bad("has no name to be created under");
    }
    match fs::metadata(folder) {
        Ok(found) if !found.is_dir() => bad("is a file"),
        Ok(_) => {
            let io = || Error::io("list it", folder);
            for entry in fs::read_dir(folder).map_err(io())? {
                let name = entry.map_err(io())?.file_name();
                if !Contents::Model.has(&name.to_string_lossy()) {
                    return bad(&format!("has {}, which is no file of a model", name.display()));
                }
            }
            Ok(())
        }
        // A missing folder is created; another error is reported then.
        Err(_) => Ok(()),
    }
}

/// Rejects settings that take more memory than is free.
pub(super) fn memory(config: &BaseConfig) -> Result<()> {
    let shape = ModelConfig::from_keys(config.model.llama_keys(config.tokenizer.pieces))?;
    let parameters = Layout::new(&shape.architecture).len() as u64;
    let documents = config.documents.count.max(config.tokenizer.documents) as u64;
    let free = free_memory(OpenDevice::cpu().device())?.free;
    for (setting, what, needed) in [
        ("model", format!("training {parameters} parameters"), parameters.saturating_mul(PARAMETER_BYTES)),
        ("documents.count", format!("{documents} documents"), documents.saturating_mul(DOCUMENT_BYTES)),
    ] {
        if needed > free {
            let (needed, free) = (format_gib(needed), format_gib(free));
            return Err(Error::BadSetting { setting, message: format!("{what} takes {needed}, and {free} are free") });
        }
    }
    Ok(())
}
