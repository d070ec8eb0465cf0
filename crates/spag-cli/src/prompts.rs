//! The wordings a program uses.

use std::path::Path;

use sha2::{Digest, Sha256};
use spag_game::PromptSet;

use crate::{Error, Result};

/// The wordings of a file, or the built-in ones where none is named.
///
/// # Errors
/// A file that is missing or is no set of wordings.
pub fn load(file: Option<&Path>) -> Result<PromptSet> {
    Ok(match file {
        Some(path) => PromptSet::load(path)?,
        None => PromptSet::default(),
    })
}

/// What records of games note of the wordings: games in others are not gone on with. 16 hexadecimal digits of the file's
/// SHA-256, or `built-in`.
///
/// # Errors
/// A file that cannot be read.
pub fn fingerprint(file: Option<&Path>) -> Result<String> {
    let Some(path) = file else { return Ok("built-in".to_owned()) };
    let bytes = std::fs::read(path).map_err(|source| Error::Io { path: path.to_owned(), source })?;
    Ok(Sha256::digest(&bytes).iter().take(8).map(|byte| format!("{byte:02x}")).collect())
}
