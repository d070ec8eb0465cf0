//! A strong player's games into samples to imitate.

use std::path::Path;

use spag_game::{JudgeKind, PromptSet};

use crate::{
    CreditConfig, CreditSummary, Result, RoleWeights, credit::winning_utterances, each_judged::each_judged,
    sample_file::RowWriter,
};

/// Turns what the winners of decided games said, up to the deciding utterance, into samples to imitate.
///
/// Queries are worded as [`assign_rewards`](crate::assign_rewards) words them; rewards and weights are 1, so that
/// imitation gives every utterance the same say. Works from file to file, one episode at a time.
///
/// # Errors
/// A file that cannot be read or written, or a row that is no episode or cannot be judged.
pub fn convert_imitation(
    input: impl AsRef<Path>,
    output: impl AsRef<Path>,
    prompts: &PromptSet,
    judge: JudgeKind,
    seed: u64,
) -> Result<CreditSummary> {
    let config = CreditConfig { judge, seed, ..CreditConfig::default() };
    let mut summary = CreditSummary { weights: RoleWeights::EQUAL, ..CreditSummary::default() };
    let mut output = RowWriter::create(output.as_ref())?;
    each_judged(input.as_ref(), &config, |index, episode, verdict| {
        summary.count_game(verdict.outcome);
        let Some(winner) = verdict.outcome.winner() else { return Ok(()) };
        let samples = winning_utterances(index, episode, verdict, winner, prompts, seed);
        summary.count_samples(winner, samples.len());
        samples.iter().try_for_each(|sample| output.push(sample))
    })?;
    output.finish()?;
    Ok(summary)
}
