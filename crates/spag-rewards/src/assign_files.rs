//! Credit for files of any size: two passes, none of which holds more than one episode.

use std::path::{Path, PathBuf};

use spag_game::{Episode, EpisodeReader, PromptSet, RowReader, Verdict};

use crate::{
    CreditConfig, CreditSummary, Error, Result, Sample,
    credit::{credit_game, judge},
    sample_file::RowWriter,
};

/// The files of [`assign_rewards_in_files`].
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

/// Does what [`assign_rewards`](crate::assign_rewards) does from file to file, and mixes in demonstrations.
///
/// The first pass judges and counts, since the weights depend on all games; the second judges again and writes. So
/// memory does not grow with the number of episodes. The files appear when they are complete.
///
/// # Errors
/// Settings out of range; a file that cannot be read or written; a row that is no episode, cannot be judged, or is no
/// demonstration; an input that changed between the passes.
pub fn assign_rewards_in_files(job: &AssignJob, prompts: &PromptSet, config: &CreditConfig) -> Result<CreditSummary> {
    config.check()?;
    job.check()?;
    let mut counted = CreditSummary::default();
    let mut outcomes = job.outcomes.as_deref().map(RowWriter::create_lines).transpose()?;
    each_judged(&job.input, config, |_, _, verdict| {
        counted.count_game(verdict.outcome);
        outcomes.as_mut().map_or(Ok(()), |outcomes| outcomes.push(verdict))
    })?;

    let weights = counted.balancing_weights();
    let mut summary = CreditSummary { weights, ..CreditSummary::default() };
    let mut output = RowWriter::create(&job.output)?;
    each_judged(&job.input, config, |index, episode, verdict| {
        summary.count_game(verdict.outcome);
        let Some(winner) = verdict.outcome.winner() else { return Ok(()) };
        let weight = weights.of(winner);
        let samples = credit_game(index, episode, verdict, winner, prompts, config);
        summary.count_samples(winner, samples.len());
        samples.into_iter().try_for_each(|sample| output.push(&Sample { weight, ..sample }))
    })?;
    if !summary.same_games(&counted) {
        return Err(Error::Changed { path: job.input.clone() });
    }
    if let Some(sft) = &job.sft {
        for row in RowReader::<Sample>::open(sft)? {
            let (_, sample) = row?;
            output.push(&sample.into_sft())?;
            summary.sft_samples += 1;
        }
    }
    if let Some(outcomes) = outcomes {
        outcomes.finish()?;
    }
    output.finish()?;
    Ok(summary)
}

impl AssignJob {
    /// Refuses to overwrite an input, or one output with the other.
    fn check(&self) -> Result<()> {
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
