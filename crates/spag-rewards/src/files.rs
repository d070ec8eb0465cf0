//! Credit assignment from file to file, in two passes over the input. Memory does not grow with the file.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use bit_vec::BitVec;
use spag_game::{EpisodeView, Game, Judge, Labels, Tally, Verdict};
use spag_io::{ChunkReader, RowChunk, RowReader};

use crate::credit::{Credit, Crediting};
use crate::ordered::map_in_order;
use crate::sample_file::{Layout, RowWriter};
use crate::{CreditConfig, CreditSummary, Error, Result, Sample};

/// The files of [`assign_rewards_in_files`], which differ: see [`CommandFiles`](spag_io::CommandFiles).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssignJob {
    /// Episodes: a JSON list or JSONL.
    pub input: PathBuf,
    /// Demonstrations to append after the samples.
    pub sft: Option<PathBuf>,
    /// The samples: JSONL if the name ends in `.jsonl`, else a JSON list.
    pub output: PathBuf,
    /// The verdicts on the episodes, as JSONL.
    pub outcomes: Option<PathBuf>,
}

/// Does what [`assign_rewards`](crate::assign_rewards) does from file to file, and appends demonstrations.
///
/// The first pass judges and counts, because the weights depend on all games; the second reads the episodes that have
/// samples again and writes them. Between them one bit an episode is kept. The output does not depend on the
/// number of threads. Files appear when they are complete.
///
/// # Errors
/// A setting is out of range; a file cannot be read or written; an input is empty, or a row of it is invalid (the error
/// names the first such row); the input changed between the passes; a thread cannot be started.
pub fn assign_rewards_in_files(
    job: &AssignJob,
    game: &dyn Game,
    config: &CreditConfig,
    threads: NonZeroUsize,
) -> Result<CreditSummary> {
    config.check()?;
    let mut outcomes = job.outcomes.as_deref().map(|path| RowWriter::create(path, Layout::Lines)).transpose()?;
    let rule = config.rule();
    let judged = judge_file(&job.input, &*rule, game, threads, outcomes.as_mut())?;
    let mut output = RowWriter::create(&job.output, Layout::of(&job.output))?;
    let crediting = Crediting { rule: &*rule, game, seed: config.seed, reasoning: &config.reasoning };
    let mut summary = credit_file(&job.input, judged, crediting, threads, &mut output)?;
    if let Some(sft) = &job.sft {
        for row in RowReader::<Sample>::open_with_rows(sft)? {
            output.push(&row?.1.into_sft())?;
            summary.sft_samples += 1;
        }
    }
    if let Some(outcomes) = outcomes {
        outcomes.finish()?;
    }
    output.finish()?;
    Ok(summary)
}

/// Parses and judges the episodes of a chunk that `select` accepts by their index, and passes them to `visit`.
fn judge_chunk(
    chunk: &RowChunk,
    labels: &'static Labels,
    judge: &mut dyn Judge,
    select: impl Fn(usize) -> bool,
    mut visit: impl FnMut(usize, &EpisodeView<'_>, Verdict) -> Result<()>,
) -> Result<()> {
    for (index, row) in (chunk.first_index()..).zip(chunk.rows()).filter(|(index, _)| select(*index)) {
        let episode: EpisodeView<'_> = labels.reading(|| row.parse())?;
        let verdict = judge.judge(&episode).map_err(|error| row.error(error.to_string()))?;
        visit(index, &episode, verdict).map_err(|error| match error {
            Error::LongGame { .. } | Error::Game(_) => row.error(error.to_string()).into(),
            error => error,
        })?;
    }
    Ok(())
}

/// The result of the first pass.
struct JudgedFile {
    games: Tally,
    /// Those of `games` that have samples.
    with_samples: Tally,
    /// One bit an episode: whether it has samples.
    has_samples: BitVec,
}

/// The first pass: judges every episode and writes the verdicts.
fn judge_file(
    input: &Path,
    rule: &dyn Credit,
    game: &dyn Game,
    threads: NonZeroUsize,
    mut outcomes: Option<&mut RowWriter>,
) -> Result<JudgedFile> {
    let new_worker = || {
        let mut judge = game.judge();
        move |chunk: spag_io::Result<RowChunk>| -> Result<Vec<Verdict>> {
            let mut verdicts = Vec::new();
            judge_chunk(
                &chunk?,
                game.labels(),
                judge.as_mut(),
                |_| true,
                |_, _, verdict| {
                    verdicts.push(verdict);
                    Ok(())
                },
            )?;
            Ok(verdicts)
        }
    };
    let games = Tally::new(game.labels());
    let mut judged = JudgedFile { with_samples: games.clone(), games, has_samples: BitVec::new() };
    let count = |verdicts: Result<Vec<Verdict>>| -> Result<()> {
        for verdict in verdicts? {
            let has_samples = rule.has_samples(&verdict);
            judged.games.add(&verdict);
            judged.has_samples.push(has_samples);
            if has_samples {
                judged.with_samples.add(&verdict);
            }
            if let Some(outcomes) = &mut outcomes {
                outcomes.push(&verdict)?;
            }
        }
        Ok(())
    };
    map_in_order(threads, ChunkReader::open_with_rows(input)?, new_worker, count, Error::threads(threads))?;
    Ok(judged)
}

/// The samples of a chunk as text, and the number of its rows.
struct CreditedChunk {
    rows: usize,
    summary: CreditSummary,
    text: Vec<u8>,
}

/// The second pass: writes the samples of the episodes that have some. Judges them again, to detect most changes of the
/// file.
fn credit_file(
    input: &Path,
    judged: JudgedFile,
    crediting: Crediting<'_>,
    threads: NonZeroUsize,
    output: &mut RowWriter,
) -> Result<CreditSummary> {
    let JudgedFile { games, with_samples, has_samples } = judged;
    let (layout, path) = (output.layout, output.path.clone());
    let weights = crediting.rule.weights(&games);
    let counted = crediting.rule.counted(&games);
    let crediting = Crediting { rule: counted.as_deref().unwrap_or(crediting.rule), ..crediting };
    let none = CreditSummary { weights, ..CreditSummary::new(crediting.game.labels()) };
    let new_worker = || {
        let (mut judge, path, none, has_samples) = (crediting.game.judge(), &path, &none, &has_samples);
        move |chunk: spag_io::Result<RowChunk>| -> Result<CreditedChunk> {
            let chunk = chunk?;
            let mut credited = CreditedChunk { rows: chunk.rows().len(), summary: none.clone(), text: Vec::new() };
            judge_chunk(
                &chunk,
                crediting.game.labels(),
                judge.as_mut(),
                |index| has_samples.get(index) == Some(true),
                |index, episode, verdict| {
                    credited.summary.games.add(&verdict);
                    for sample in crediting.samples(index, episode, &verdict, &mut credited.summary)? {
                        layout.append(&sample, &mut credited.text).map_err(spag_io::Error::io(path))?;
                    }
                    Ok(())
                },
            )?;
            Ok(credited)
        }
    };
    let (mut rows, mut summary) = (0, none.clone());
    let write = |credited: Result<CreditedChunk>| -> Result<()> {
        let CreditedChunk { rows: read, summary: more, text } = credited?;
        rows += read;
        summary.games.merge(&more.games);
        summary.merge_samples(&more);
        output.push_text(&text)
    };
    map_in_order(threads, ChunkReader::open_with_rows(input)?, new_worker, write, Error::threads(threads))?;
    if rows != has_samples.len() || summary.games != with_samples {
        return Err(Error::Changed { path: input.to_owned() });
    }
    Ok(CreditSummary { games, ..summary })
}
