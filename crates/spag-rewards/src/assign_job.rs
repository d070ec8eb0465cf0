//! Which files credit is assigned from and to.

use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// The files of [`assign_rewards_in_files`](crate::assign_rewards_in_files).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssignJob {
    /// Episodes: a JSON list or JSONL.
    pub input: PathBuf,
    /// Demonstrations to put after the samples, if any.
    pub sft: Option<PathBuf>,
    /// Where the samples go: JSONL if the name ends in `.jsonl`, else a JSON list.
    pub output: PathBuf,
    /// Where each episode's verdict goes, one a line, if anywhere.
    pub outcomes: Option<PathBuf>,
}

impl AssignJob {
    /// Refuses to overwrite an input, or one output with the other.
    pub(crate) fn check(&self) -> Result<()> {
        let used = [
            ("input", Some(&self.input)),
            ("demonstrations", self.sft.as_ref()),
            ("output", Some(&self.output)),
            ("outcomes", self.outcomes.as_ref()),
        ];
        for (at, (second, path)) in used.iter().enumerate() {
            let Some(path) = path else { continue };
            // The two inputs may be one file; it would only be an odd choice.
            let earlier = used.iter().take(at).filter(|_| at >= 2);
            for (first, other) in earlier.filter_map(|(first, other)| Some((first, (*other)?))) {
                if same_file(other, path) {
                    return Err(Error::SameFile { path: (*path).clone(), first, second });
                }
            }
        }
        Ok(())
    }
}

/// Whether two names mean one plain file. Devices and pipes may well be named twice.
fn same_file(a: &Path, b: &Path) -> bool {
    match (a.canonicalize(), b.canonicalize()) {
        (Ok(a), Ok(b)) => a == b && a.is_file(),
        _ => a == b,
    }
}
