//! The ZeRO settings of `--deepspeed FILE`, as far as one process needs them.

use std::{fs, path::Path};

use serde_json::{Map, Value};

use crate::{Error, Result};

/// Checks that the file is there and holds a JSON object.
///
/// Its settings say how to split a model's state over processes. With one process there is nothing to split, and
/// the numbers that it shares with the flags (`train_batch_size` and the like) are the flags' to say.
///
/// # Errors
/// A file that is missing or not a JSON object.
pub(crate) fn check(path: &Path) -> Result<()> {
    let text = fs::read_to_string(path).map_err(|source| Error::Io { path: path.to_owned(), source })?;
    serde_json::from_str::<Map<String, Value>>(&text)
        .map(drop)
        .map_err(|source| Error::Json { path: path.to_owned(), source })
}
