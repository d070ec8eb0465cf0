//! The second reading of a file: the winners' samples, now that their weights are known.

use std::{num::NonZeroUsize, path::Path};

use spag_game::{EpisodeView, JsonPrompts, PromptSet, Referees};
use spag_io::{Block, RowBlocks};

use crate::{
    CreditConfig, CreditSummary, Error, Result, decided::Decided, first_pass::Counted, in_order::in_order,
    sample_file::RowWriter, sample_text::SampleText,
};

/// One block's samples.
struct Part {
    episodes: usize,
    summary: CreditSummary,
    text: String,
}

/// Writes the samples of every decided game of the file.
///
/// Rows of games without a winner are not looked at again; those with one are judged again, which is how a file is found
/// out that has changed since.
pub(crate) fn second_pass(
    input: &Path,
    counted: &Counted,
    prompts: &PromptSet,
    config: &CreditConfig,
    threads: NonZeroUsize,
    output: &mut RowWriter,
) -> Result<CreditSummary> {
    let weights = counted.games.balancing_weights();
    let (prompts, layout) = (JsonPrompts::new(prompts), output.layout());
    let worker = || {
        let mut referees = Referees::new(config.judge);
        let mut samples = SampleText::new(&prompts, config, weights, layout);
        let mut last_length = 0;
        move |block: spag_io::Result<Block>| {
            let text = String::with_capacity(last_length);
            let part = credit_block(&mut block?, &counted.decided, &mut referees, &mut samples, text)?;
            last_length = part.text.len();
            Ok(part)
        }
    };
    // Games without a winner are those of the first pass.
    let (mut summary, mut episodes) = (counted.games.without_winners(), 0);
    summary.weights = weights;
    in_order(threads, RowBlocks::open(input)?, worker, |part: Result<Part>| {
        let part = part?;
        episodes += part.episodes;
        summary.add_games(&part.summary);
        summary.attacker_samples += part.summary.attacker_samples;
        summary.defender_samples += part.summary.defender_samples;
        output.push_text(part.summary.samples(), &part.text)
    })?;
    match episodes == counted.decided.episodes() {
        true => Ok(summary),
        false => Err(Error::Changed { path: input.to_owned() }),
    }
}

fn credit_block(
    block: &mut Block,
    decided: &Decided,
    referees: &mut Referees,
    samples: &mut SampleText<'_>,
    text: String,
) -> Result<Part> {
    let trouble = block.take_trouble();
    let mut part = Part { episodes: block.rows().len(), summary: CreditSummary::default(), text };
    let mut episode = EpisodeView::default();
    for (index, row) in (block.first_index()..).zip(block.rows()).filter(|(index, _)| decided.at(*index)) {
        episode.fill(row)?;
        let verdict = referees.judge(&episode).map_err(|source| Error::Judge { row: row.number(), source })?;
        part.summary.count_game(verdict.outcome);
        if let Some(winner) = verdict.outcome.winner() {
            let written = samples.append(&mut part.text, index, &episode, &verdict, winner);
            part.summary.count_samples(winner, written);
        }
    }
    match trouble {
        Some(error) => Err(error.into()),
        None => Ok(part),
    }
}
