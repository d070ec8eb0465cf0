//! The checkpoints of an output folder: listing and deletion.

use std::fs;
use std::path::{Path, PathBuf};

use super::{STATE_FILE, TRAINER_STATE};
use crate::error::{Error, Result};

/// Prefix of folders that are being written or deleted.
const UNFINISHED: &str = ".checkpoint-";

/// The name of the checkpoint after `step` steps.
pub(super) fn name(step: usize) -> String {
    format!("checkpoint-{step}")
}

/// Its name until it is complete.
pub(super) fn unfinished_name(step: usize) -> String {
    format!("{UNFINISHED}{step}.tmp")
}

/// The checkpoints in `output_dir` that a run can resume from, with their steps, the oldest first. Empty if there is no
/// such folder.
///
/// # Errors
/// The folder cannot be read.
pub fn checkpoint_folders(output_dir: impl AsRef<Path>) -> Result<Vec<(usize, PathBuf)>> {
    let mut found = Vec::new();
    for (name, path) in entries(output_dir.as_ref())? {
        let step = name.strip_prefix("checkpoint-").and_then(|step| step.parse().ok());
        if let Some(step) = step.filter(|_| path.join(TRAINER_STATE).join(STATE_FILE).is_file()) {
            found.push((step, path));
        }
    }
    found.sort();
    Ok(found)
}

/// The checkpoint in `output_dir` with the most steps, if there is one.
///
/// # Errors
/// The folder cannot be read.
pub fn latest_checkpoint(output_dir: impl AsRef<Path>) -> Result<Option<PathBuf>> {
    Ok(checkpoint_folders(output_dir)?.pop().map(|(_, path)| path))
}

/// Deletes the oldest checkpoints beyond `limit`.
pub(crate) fn prune(output_dir: &Path, limit: usize) -> Result<()> {
    let all = checkpoint_folders(output_dir)?;
    let surplus = all.len().saturating_sub(limit.max(1));
    for (step, path) in all.into_iter().take(surplus) {
        remove(output_dir, step, &path)?;
    }
    Ok(())
}

/// Deletes a checkpoint. It is renamed first, so that a kill leaves no incomplete folder of this name.
pub(super) fn remove(output_dir: &Path, step: usize, path: &Path) -> Result<()> {
    let renamed = output_dir.join(format!("{UNFINISHED}{step}.old.tmp"));
    let _ = fs::remove_dir_all(&renamed);
    fs::rename(path, &renamed).map_err(Error::io(path))?;
    fs::remove_dir_all(&renamed).map_err(Error::io(&renamed))
}

/// Deletes folders that a killed run was writing or deleting.
pub(crate) fn remove_leftovers(output_dir: &Path) -> Result<()> {
    for (name, path) in entries(output_dir)? {
        if name.starts_with(UNFINISHED) && name.ends_with(".tmp") {
            fs::remove_dir_all(&path).map_err(Error::io(&path))?;
        }
    }
    Ok(())
}

fn entries(dir: &Path) -> Result<Vec<(String, PathBuf)>> {
    let read = match fs::read_dir(dir) {
        Ok(read) => read,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(Error::io(dir)(e)),
    };
    read.map(|entry| {
        let entry = entry.map_err(Error::io(dir))?;
        Ok((entry.file_name().to_string_lossy().into_owned(), entry.path()))
    })
    .collect()
}
