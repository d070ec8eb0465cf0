//! The first reading of a file: who won each game.

use std::{num::NonZeroUsize, path::Path};

use spag_game::{EpisodeView, Referees, Verdict};
use spag_io::{Block, RowBlocks};

use crate::{CreditConfig, CreditSummary, Error, Result, decided::Decided, in_order::in_order, sample_file::RowWriter};

/// What the first pass finds out.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    /// How the games ended; no samples yet.
    pub(crate) games: CreditSummary,
    /// Which of them have a winner.
    pub(crate) decided: Decided,
}

/// One block's part of it.
#[derive(Default)]
struct Part {
    games: CreditSummary,
    decided: Decided,
    /// Verdicts as lines, where they are asked for.
    outcomes: String,
}

/// Judges every episode of the file, and writes the verdicts if there is somewhere to write them.
pub(crate) fn first_pass(
    input: &Path,
    config: &CreditConfig,
    threads: NonZeroUsize,
    mut outcomes: Option<&mut RowWriter>,
) -> Result<Counted> {
    let mut counted = Counted::default();
    let write_verdict = match outcomes {
        Some(_) => append_verdict,
        None => |_: &mut String, _: &Verdict| {},
    };
    let worker = || {
        let mut referees = Referees::new(config.judge);
        move |block: spag_io::Result<Block>| judge_block(&mut block?, &mut referees, write_verdict)
    };
    in_order(threads, RowBlocks::open(input)?, worker, |part: Result<Part>| {
        let part = part?;
        counted.games.add_games(&part.games);
        counted.decided.append(&part.decided);
        outcomes.as_mut().map_or(Ok(()), |outcomes| outcomes.push_text(part.decided.episodes(), &part.outcomes))
    })?;
    Ok(counted)
}

fn judge_block(block: &mut Block, referees: &mut Referees, write_verdict: fn(&mut String, &Verdict)) -> Result<Part> {
    let trouble = block.take_trouble();
    let mut part = Part::default();
    let mut episode = EpisodeView::default();
    for row in block.rows() {
        episode.fill(row)?;
        let verdict = referees.judge(&episode).map_err(|source| Error::Judge { row: row.number(), source })?;
        part.games.count_game(verdict.outcome);
        part.decided.push(verdict.outcome.winner().is_some());
        write_verdict(&mut part.outcomes, &verdict);
    }
    match trouble {
        Some(error) => Err(error.into()),
        None => Ok(part),
    }
}

/// Appends a verdict as a line.
fn append_verdict(to: &mut String, verdict: &Verdict) {
    // A verdict is two plain values: nothing about it can fail to be written.
    to.push_str(&serde_json::to_string(verdict).unwrap_or_default());
    to.push('\n');
}
