//! Episodes of a file with their verdicts, one at a time.

use std::path::Path;

use spag_game::{Episode, EpisodeReader, Verdict};

use crate::{CreditConfig, Result, credit::judge};

/// Calls `visit` with the index, the episode and the verdict of every episode in order.
pub(crate) fn each_judged(
    path: &Path,
    config: &CreditConfig,
    mut visit: impl FnMut(usize, &Episode, &Verdict) -> Result<()>,
) -> Result<()> {
    for (index, row) in EpisodeReader::open(path)?.enumerate() {
        let (row, episode) = row?;
        let verdict = judge(config.judge, row, &episode)?;
        visit(index, &episode, &verdict)?;
    }
    Ok(())
}
