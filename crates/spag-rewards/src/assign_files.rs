//! Credit for files of any size: two passes, neither of which holds more than a few blocks of episodes.

use std::num::NonZeroUsize;

use spag_game::PromptSet;
use spag_io::RowReader;

use crate::{
    AssignJob, CreditConfig, CreditSummary, Error, Result, Sample, first_pass::first_pass, sample_file::RowWriter,
    second_pass::second_pass,
};

/// Does what [`assign_rewards`](crate::assign_rewards) does from file to file, and mixes in demonstrations.
///
/// The first pass judges and counts, since the weights depend on all games; the second reads the decided games again and
/// writes. Between them one bit an episode is kept, so memory hardly grows with the number of episodes. What is written
/// does not depend on the number of threads. The files appear when they are complete.
///
/// # Errors
/// Settings out of range; a file that cannot be read or written; a row that is no episode, cannot be judged, or is no
/// demonstration (the first such row of the file); an input that changed between the passes.
pub fn assign_rewards_in_files(
    job: &AssignJob,
    prompts: &PromptSet,
    config: &CreditConfig,
    threads: NonZeroUsize,
) -> Result<CreditSummary> {
    config.check()?;
    job.check()?;
    let mut outcomes = job.outcomes.as_deref().map(RowWriter::create_lines).transpose()?;
    let counted = first_pass(&job.input, config, threads, outcomes.as_mut())?;
    let mut output = RowWriter::create(&job.output)?;
    let mut summary = second_pass(&job.input, &counted, prompts, config, threads, &mut output)?;
    if !summary.same_games(&counted.games) {
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
