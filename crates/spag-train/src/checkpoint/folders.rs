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

/// The number of steps in the name of a checkpoint. One that is too large for a number counts as the most.
pub(super) fn step_of(name: &str) -> Option<usize> {
    let step = name.strip_prefix("checkpoint-").filter(|step| !step.is_empty())?;
    step.bytes().all(|byte| byte.is_ascii_digit()).then(|| step.parse().unwrap_or(usize::MAX))
}

/// Everything in `output_dir` that has the name of a checkpoint, the oldest first.
pub(crate) fn named_checkpoints(output_dir: &Path) -> Result<Vec<(usize, PathBuf)>> {
    let named = |(name, path): (String, PathBuf)| Some((step_of(&name)?, path));
    let mut found: Vec<(usize, PathBuf)> = entries(output_dir)?.into_iter().filter_map(named).collect();
    found.sort();
    Ok(found)
}

/// Whether a folder has the state of a run.
pub(crate) fn has_state(path: &Path) -> bool {
    path.join(TRAINER_STATE).join(STATE_FILE).is_file()
}

/// The checkpoints in `output_dir` that a run can resume from, with their steps, the oldest first. Empty if there is no
/// such folder.
///
/// # Errors
/// The folder cannot be read, or an entry with the name of a checkpoint lacks the state of a run.
pub fn checkpoint_folders(output_dir: impl AsRef<Path>) -> Result<Vec<(usize, PathBuf)>> {
    let found = named_checkpoints(output_dir.as_ref())?;
    match found.iter().find(|(_, path)| !has_state(path)) {
        None => Ok(found),
        Some((_, path)) => Err(Error::Checkpoint {
            path: path.clone(),
            reason: format!(
                "there is no {TRAINER_STATE}/{STATE_FILE}; restore it, move the folder away, name another one with --resume_from_checkpoint, or pass --overwrite_output_dir True to delete it and start from scratch"
            ),
        }),
    }
}

/// The checkpoint in `output_dir` with the most steps, if there is one.
///
/// # Errors
/// As [`checkpoint_folders`].
pub fn latest_checkpoint(output_dir: impl AsRef<Path>) -> Result<Option<PathBuf>> {
    Ok(checkpoint_folders(output_dir)?.pop().map(|(_, path)| path))
}

/// Deletes the checkpoints of `output_dir` after `step`; all of them if it is `None`. Those are checkpoints that a loop had not counted
/// when it was killed.
///
/// # Errors
/// A folder that cannot be read or deleted.
pub fn remove_checkpoints_after(output_dir: impl AsRef<Path>, step: Option<usize>) -> Result<()> {
    let output_dir = output_dir.as_ref();
    let all = named_checkpoints(output_dir)?.into_iter();
    all.filter(|(at, _)| step.is_none_or(|step| *at > step)).try_for_each(|(at, path)| remove(output_dir, at, &path))
}

/// Deletes the oldest checkpoints beyond `limit`. Folders without the state of a run are neither counted nor deleted.
pub(crate) fn prune(output_dir: &Path, limit: usize) -> Result<()> {
    let mut all = named_checkpoints(output_dir)?;
    all.retain(|(_, path)| has_state(path));
    let surplus = all.len().saturating_sub(limit.max(1));
    for (step, path) in all.into_iter().take(surplus) {
        remove(output_dir, step, &path)?;
    }
    Ok(())
}

/// Deletes a checkpoint. It is renamed first, so that a kill leaves no incomplete folder of this name.
pub(crate) fn remove(output_dir: &Path, step: usize, path: &Path) -> Result<()> {
    let renamed = output_dir.join(format!("{UNFINISHED}{step}.old.tmp"));
    let _ = fs::remove_dir_all(&renamed);
    fs::rename(path, &renamed).map_err(Error::io(path))?;
    // A user may have put a file or a link in its place.
    let removed = match fs::symlink_metadata(&renamed).is_ok_and(|found| found.is_dir()) {
        true => fs::remove_dir_all(&renamed),
        false => fs::remove_file(&renamed),
    };
    removed.map_err(Error::io(&renamed))
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
