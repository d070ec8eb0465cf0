//! Samples of several sources in one file, by their shares.

use rand::SeedableRng;
use rand::seq::index;
use rand_chacha::ChaCha8Rng;
use spag_game::read_episodes;
use spag_io::write_jsonl_atomically;
use spag_rewards::{read_samples, write_samples};
use spag_run::{Provenance, StageDone};

use super::source::Source;
use crate::error::{Error, Result};
use crate::report::ImitationPart;
use crate::run::context::RunContext;
use crate::run::run_games::OpenGame;
use crate::run::stage_folder::StageFolder;

/// Writes the samples of all sources of a game by their shares, and all their games. As many samples are taken as the shares allow without
/// repeating one; which ones are left out is drawn from the run's seed.
///
/// # Errors
/// [`Error::Stopped`] if a source has no samples.
pub(super) fn mix(
    run: RunContext<'_>,
    game: &OpenGame,
    stage: &StageFolder,
    sources: &[(Source<'_>, f64)],
    parts: &mut [ImitationPart],
    done: &mut StageDone,
) -> Result<()> {
    let seed = run.seed(stage, &game.part("mix"), done);
    let empty = run.ranks.text(|| {
        for ((source, _), part) in sources.iter().zip(&*parts) {
            if part.samples == 0 {
                return Ok(Some(source.kind.name().to_owned()));
            }
        }
        Ok(None)
    })?;
    if let Some(source) = empty {
        let reason =
            format!("the source \"{source}\" gave no samples; leave it out of imitation.source, in another run_dir");
        return Err(Error::Stopped { stage: stage.name.clone(), reason, file: stage.dir.join(source) });
    }
    done.timed("credit", || {
        run.ranks.on_rank_0(|| {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let available: Vec<(usize, f64)> =
                parts.iter().zip(sources).map(|(part, (_, share))| (part.samples, *share)).collect();
            let mut samples = Vec::new();
            for (((source, _), part), count) in sources.iter().zip(parts).zip(mixed_counts(&available)) {
                let all = read_samples(source.folder.samples())?;
                let mut taken = index::sample(&mut rng, all.len(), count.min(all.len())).into_vec();
                taken.sort_unstable();
                part.used = taken.len();
                samples.extend(taken.into_iter().filter_map(|at| all.get(at).cloned()));
            }
            write_samples(stage.samples(), &samples)?;
            write_games(stage, sources)?;
            provenance(sources, |folder| folder.samples())?.write_of(stage.samples())?;
            Ok(())
        })
    })
}

/// How many samples of each source make the largest mix of these shares, at least one of each.
fn mixed_counts(available: &[(usize, f64)]) -> Vec<usize> {
    let total = available.iter().map(|(samples, share)| *samples as f64 / share).fold(f64::INFINITY, f64::min);
    available.iter().map(|(samples, share)| ((share * total).round() as usize).clamp(1, (*samples).max(1))).collect()
}

/// Writes the games of all sources into the stage's file, from which the report is made.
fn write_games(stage: &StageFolder, sources: &[(Source<'_>, f64)]) -> Result<()> {
    let mut games = Vec::new();
    for (source, _) in sources.iter().filter(|(source, _)| source.kind.has_games()) {
        games.extend(read_episodes(source.folder.episodes())?);
    }
    if games.is_empty() {
        return Ok(());
    }
    write_jsonl_atomically(stage.episodes(), &games)?;
    Ok(provenance(sources, |folder| folder.episodes())?.write_of(stage.episodes())?)
}

/// What the files of all sources were made from.
fn provenance(sources: &[(Source<'_>, f64)], file: impl Fn(&StageFolder) -> std::path::PathBuf) -> Result<Provenance> {
    let mut all = Provenance::default();
    for (source, _) in sources {
        all.extend(Provenance::read_of(file(&source.folder))?.unwrap_or_default());
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::mixed_counts;

    #[test]
    fn largest_mix_uses_up_the_source_that_is_scarce() {
        assert_eq!(mixed_counts(&[(100, 0.5), (40, 0.5)]), [40, 40]);
        assert_eq!(mixed_counts(&[(100, 0.8), (40, 0.2)]), [100, 25]);
        assert_eq!(mixed_counts(&[(1000, 0.999), (3, 0.001)]), [1000, 1]);
        assert_eq!(mixed_counts(&[(10, 0.5), (10, 0.25), (10, 0.25)]), [10, 5, 5]);
    }
}
