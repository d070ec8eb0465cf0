//! The wordings a program uses.

use std::path::Path;

use spag_game::PromptSet;

use crate::Result;

/// The wordings of a file, or the built-in ones where none is named.
///
/// # Errors
/// A file that is missing or is no set of wordings.
pub(crate) fn load(file: Option<&Path>) -> Result<PromptSet> {
    Ok(match file {
        Some(path) => PromptSet::load(path)?,
        None => PromptSet::default(),
    })
}
