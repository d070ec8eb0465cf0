//! Games and samples of a file.

use std::path::Path;

use spag_game::{Episode, read_games};
use spag_io::{Progress, write_jsonl_atomically};
use spag_rewards::{Sample, read_samples, write_samples};
use spag_run::Provenance;

use crate::error::Result;
use crate::run::context::RunContext;
use crate::run::folder::StageFolder;

/// Copies the games of a file, except those on words that are held out.
pub(super) fn take_games(
    run: RunContext<'_>,
    stage: &StageFolder,
    file: &Path,
    progress: &mut dyn Progress,
) -> Result<()> {
    let all = read_games(file, &*run.inputs.game)?;
    let count = all.len();
    let games = all.into_iter().map(|(episode, _)| episode);
    let games: Vec<Episode> = games.filter(|game| !run.inputs.words.is_held_out(&game.item)).collect();
    if games.len() < count {
        let left_out = count - games.len();
        progress.message(&format!("{}: {left_out} of {count} games are on words that are held out", stage.name));
    }
    write_jsonl_atomically(stage.episodes(), &games)?;
    let played = Provenance::read_of(file)?.unwrap_or_default();
    Ok(Provenance { wordings: played.wordings, games: played.games }.write_of(stage.episodes())?)
}

/// Copies the samples of a file, except those of games on words that are held out as far as the key of the item tells.
pub(super) fn take_samples(
    run: RunContext<'_>,
    stage: &StageFolder,
    file: &Path,
    progress: &mut dyn Progress,
) -> Result<()> {
    let words = &run.inputs.words;
    let mut samples = read_samples(file)?;
    if !words.held_out.is_empty() {
        let key = run.inputs.game.labels().item_key;
        let word = |sample: &Sample| sample.extra.get(key).and_then(|word| word.as_str()).map(str::to_owned);
        let unknown = samples.iter().filter(|sample| word(sample).is_none()).count();
        if unknown > 0 {
            progress.message(&format!(
                "{}: {unknown} samples of {} have no {key} and may be of games on words that are held out; the \
                 source \"games\" leaves those out",
                stage.name,
                file.display()
            ));
        }
        samples.retain(|sample| word(sample).is_none_or(|word| !words.is_held_out(&word)));
    }
    write_samples(stage.samples(), &samples)?;
    match Provenance::read_of(file)? {
        Some(made) => Ok(made.write_of(stage.samples())?),
        None => Ok(()),
    }
}
