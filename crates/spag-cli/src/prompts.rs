//! The prompts that a program uses.

use std::path::Path;

use spag_game::PromptSet;

use crate::Result;

/// The prompts of a file, or the built-in ones if `file` is `None`.
///
/// # Errors
/// The file cannot be read or is not a set of prompts.
pub fn load(file: Option<&Path>) -> Result<PromptSet> {
    Ok(file.map(PromptSet::load).transpose()?.unwrap_or_default())
}

/// The first 16 hexadecimal digits of the file's SHA-256, or `built-in`. Records of games contain it, so that a run
/// resumes only with the prompts that it was started with.
///
/// # Errors
/// The file cannot be read.
pub fn fingerprint(file: Option<&Path>) -> Result<String> {
    let Some(path) = file else { return Ok("built-in".to_owned()) };
    let mut digest = spag_io::sha256_file(path)?;
    digest.truncate(16);
    Ok(digest)
}
