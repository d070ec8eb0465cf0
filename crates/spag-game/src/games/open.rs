//! Games by their names.

use std::path::Path;
use std::sync::Arc;

use spag_io::PromptFormat;

use crate::error::{Error, Result};
use crate::game::Game;
use crate::games::LABELS;
use crate::labels::Labels;

/// What files, reports and pages call the parts of the game of this name.
pub fn game_labels(name: &str) -> Option<&'static Labels> {
    LABELS.iter().copied().find(|labels| labels.name == name)
}

/// The game of this name. `options` are NAME=VALUE, separated by blanks; `data` is the file that some games need; prompts have
/// the form of `format`.
///
/// # Errors
/// The game is unknown, an option is invalid, or a file that the game needs is missing or invalid.
pub fn open_game(name: &str, options: &str, data: Option<&Path>, format: PromptFormat) -> Result<Arc<dyn Game>> {
    let _ = (options, data, format);
    Err(Error::UnknownGame { name: name.to_owned() })
}
