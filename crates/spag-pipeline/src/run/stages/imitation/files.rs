//! Games and samples of a file.

use std::path::Path;

use spag_game::{Episode, EpisodeReader, read_games};
use spag_io::{Progress, write_jsonl_atomically};
use spag_rewards::{Sample, read_samples, write_samples};
use spag_run::Provenance;

use super::source::Source;
use crate::error::Result;
use crate::run::context::RunContext;
use crate::run::run_games::OpenGame;

/// Copies the games of a file that are of the source's game, except those on words that are held out.
pub(super) fn take_games(
    run: RunContext<'_>,
    source: &Source<'_>,
    file: &Path,
    progress: &mut dyn Progress,
) -> Result<()> {
    let (stage, words) = (&source.folder, &source.game.words);
    let all = if run.inputs.games.len() == 1 {
        let all = read_games(file, &*source.game.game)?;
        all.into_iter().map(|(episode, _)| episode).collect()
    } else {
        games_of(run, source.game, file)?
    };
    let count = all.len();
    let games: Vec<Episode> = all.into_iter().filter(|game| !words.is_held_out(&game.item)).collect();
    if games.len() < count {
        let left_out = count - games.len();
        progress.message(&format!("{}: {left_out} of {count} games are on words that are held out", source.title()));
    }
    write_jsonl_atomically(stage.episodes(), &games)?;
    let played = Provenance::read_of(file)?.unwrap_or_default();
    Ok(Provenance { wordings: played.wordings, games: played.games }.write_of(stage.episodes())?)
}

/// The games of a file of several games that are of `game`, judged.
///
/// # Errors
/// A row that cannot be read, is of none of the run's games, or is no game of its kind.
fn games_of(run: RunContext<'_>, game: &OpenGame, file: &Path) -> Result<Vec<Episode>> {
    let (mut own, mut judge) = (Vec::new(), game.game.judge());
    for row in EpisodeReader::open_with_rows(file)? {
        let (row, episode) = row?;
        let wrong = |reason: String| spag_io::Error::Row { path: file.to_owned(), row, reason };
        if episode.is_of(&*game.game) {
            judge.judge(&episode.view()).map_err(|error| wrong(error.to_string()))?;
            own.push(episode);
        } else if !run.inputs.games.iter().any(|other| episode.is_of(&*other.game)) {
            return Err(wrong("it is of none of the run's games with their options".to_owned()).into());
        }
    }
    Ok(own)
}

/// Copies the samples of a file, except those of games on words that are held out as far as the key of the item tells.
pub(super) fn take_samples(source: &Source<'_>, file: &Path, progress: &mut dyn Progress) -> Result<()> {
    let (stage, words) = (&source.folder, &source.game.words);
    let mut samples = read_samples(file)?;
    if !words.held_out.is_empty() {
        let key = source.game.game.labels().item_key;
        let word = |sample: &Sample| sample.extra.get(key).and_then(|word| word.as_str()).map(str::to_owned);
        let unknown = samples.iter().filter(|sample| word(sample).is_none()).count();
        if unknown > 0 {
            progress.message(&format!(
                "{}: {unknown} samples of {} have no {key} and may be of games on words that are held out; the \
                 source \"games\" leaves those out",
                source.title(),
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
