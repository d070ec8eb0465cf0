//! How much text a model can hold.

use std::path::Path;

use crate::exit;

/// The length to use where `asked` tokens are wanted of a model with so many positions.
///
/// The reference's commands ask for 2,048 tokens whatever the model. One with fewer positions gets what it has, and
/// that is said; nothing that fits is cut for it.
pub(crate) fn fit_max_length(asked: usize, positions: usize, folder: &Path) -> usize {
    if asked > positions {
        exit::note(format_args!("note: --max_length {positions}: {} has no more positions", folder.display()));
    }
    asked.min(positions)
}
