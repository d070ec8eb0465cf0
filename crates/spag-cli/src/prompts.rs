//! The prompts that a program uses, their flags, and warnings where they are others than before.

use std::path::{Path, PathBuf};

use clap::Args;
use spag_game::PromptSet;
use spag_io::{CommandFiles, PromptFormat, Wordings};
use spag_run::{PlayedGames, Provenance};

use crate::{Result, exit};

/// The environment variable that names the file of prompts where no `--prompts` does.
const VARIABLE: &str = "SPAG_PROMPTS";

/// The file that the environment variable names. An empty value names none.
pub fn from_environment() -> Option<PathBuf> {
    std::env::var_os(VARIABLE).filter(|file| !file.is_empty()).map(PathBuf::from)
}

/// The flags of prompts. They must be those that the models were trained with.
#[derive(Clone, Debug, Default, Args)]
#[command(rename_all = "snake_case")]
pub struct PromptArgs {
    /// Prompts to use instead of the built-in ones (JSON). Without the flag, those of the environment variable SPAG_PROMPTS.
    #[arg(long, value_name = "FILE", help_heading = "Prompts")]
    prompts: Option<PathBuf>,
    /// Format of prompts: plain (a text, the reference's) or chat (messages, for the model's own chat template) [default: plain].
    #[arg(long, value_name = "FORMAT", help_heading = "Prompts")]
    prompt_format: Option<PromptFormat>,
}

impl PromptArgs {
    /// The prompts of the file that the flag or the environment variable names, or the built-in ones.
    ///
    /// # Errors
    /// The file cannot be read or is not a set of prompts.
    pub fn load(&self) -> Result<PromptSet> {
        Ok(self.load_recorded(&[])?.0)
    }

    /// As [`PromptArgs::load`], but what is not given is taken from the record of the first of `made` that has one, models or files of
    /// games: the format, and the wordings if their file still has the recorded digest. The note says which are taken.
    ///
    /// # Errors
    /// As there, or a record is damaged.
    pub fn load_recorded(&self, made: &[&Path]) -> Result<(PromptSet, Option<String>)> {
        let mut recorded = None;
        for path in made {
            let wordings = Provenance::read_of(path)?.and_then(|made| made.wordings.into_iter().next());
            recorded = recorded.or(wordings.map(|wordings| (wordings, *path)));
        }
        let named = self.named()?;
        let given = self.prompt_format.unwrap_or_default();
        let Some((wordings, path)) = recorded else { return Ok((named.unwrap_or_default().with_format(given), None)) };
        let format = self.prompt_format.unwrap_or(wordings.format);
        let without = named.clone().unwrap_or_default().with_format(given);
        let prompts = named.or_else(|| find(&wordings, path)).unwrap_or_default().with_format(format);
        let (now, path) = (prompts.wordings(), path.display());
        let note = format!("note: prompts have the wordings of {now}, as recorded with {path}");
        let differs = !now.are_those_of(without.wordings());
        Ok((prompts, differs.then_some(note)))
    }

    /// As [`PromptArgs::load_recorded`] for games of these models. Prints the note, and warns of models that were trained with others.
    ///
    /// # Errors
    /// As there.
    pub fn load_for(&self, models: &[&Path]) -> Result<PromptSet> {
        let (prompts, note) = self.load_recorded(models)?;
        note.iter().for_each(exit::note);
        check_models(models, &prompts, None)?;
        Ok(prompts)
    }

    /// The file that the flag or the environment variable names.
    pub fn file(&self) -> Option<PathBuf> {
        self.prompts.clone().or_else(from_environment)
    }

    /// The prompts of that file.
    fn named(&self) -> Result<Option<PromptSet>> {
        Ok(self.file().map(PromptSet::load).transpose()?)
    }
}

/// The prompts of recorded wordings, if their file still has the recorded digest. A relative path may begin in the working folder
/// or in any folder above the model, as that of a run begins where the run was started.
fn find(recorded: &Wordings, model: &Path) -> Option<PromptSet> {
    let built_in = PromptSet::default();
    if built_in.wordings().sha256 == recorded.sha256 {
        return Some(built_in);
    }
    let model = model.canonicalize().unwrap_or_default();
    let above = model.ancestors().map(|folder| folder.join(&recorded.file));
    let files = std::iter::once(PathBuf::from(&recorded.file)).chain(above).filter(|file| file.is_file());
    files.filter_map(|file| PromptSet::load(file).ok()).find(|prompts| prompts.wordings().sha256 == recorded.sha256)
}

/// The first 16 hexadecimal digits of the file's SHA-256, or `built-in`, and the format if it is not plain. Records of games
/// contain it, so that a run resumes only with the prompts that it was started with.
pub fn fingerprint(prompts: &PromptSet) -> String {
    let Wordings { file, sha256, format } = prompts.wordings();
    let built_in = PromptSet::default();
    let is_built_in = (file, sha256) == (&built_in.wordings().file, &built_in.wordings().sha256);
    let name: String = if is_built_in { file.clone() } else { sha256.chars().take(16).collect() };
    if format.is_plain() { name } else { format!("{name} as {format}") }
}

/// Checks the file of samples that a program writes, and that of their record.
///
/// # Errors
/// One of them is an input, or may not be overwritten.
pub fn write_samples(files: &mut CommandFiles, flag: &str, path: &Path) -> Result<()> {
    files.write_file(flag, path)?;
    Ok(files.write_file(&format!("the record of {flag}"), Provenance::path_of(path))?)
}

/// The record of samples that are to be made from the games in `input`. Warns if the games were played with other prompts.
///
/// # Errors
/// The record of the games is damaged.
pub fn samples_from(input: &Path, prompts: &PromptSet) -> Result<Provenance> {
    let played = Provenance::read_of(input)?.unwrap_or_default();
    let now = prompts.wordings();
    if let Some(then) = played.other_wordings(now) {
        warn_of_mixing(then, &format!("the games in {} were played with", input.display()), now, "the samples use");
    }
    Ok(Provenance { wordings: vec![now.clone()], games: played.games })
}

/// Warns if one of the models in `folders` was trained with other prompts, or on the very `games` that are to be played
/// now.
///
/// # Errors
/// The record of a model is damaged.
pub fn check_models(folders: &[&Path], prompts: &PromptSet, games: Option<&PlayedGames>) -> Result<()> {
    let mut warned = [false; 2];
    for folder in folders {
        let Some(trained) = Provenance::read_of(folder)? else { continue };
        let (now, model) = (prompts.wordings(), folder.display());
        if let Some(then) = trained.other_wordings(now).filter(|_| !warned[0]) {
            warn_of_mixing(then, &format!("the model {model} was trained with"), now, "these games use");
            warned[0] = true;
        }
        if let Some(games) = games.filter(|games| trained.games.contains(games) && !warned[1]) {
            exit::note(format_args!(
                "warning: the model {model} was trained on games with --seed {} and these words; where training has \
                 hardly changed it, it plays the same games again; take another --seed for each round",
                games.seed
            ));
            warned[1] = true;
        }
    }
    Ok(())
}

fn warn_of_mixing(then: &Wordings, did: &str, now: &Wordings, does: &str) {
    exit::note(format_args!("warning: {did} the wordings of {then}, but {does} those of {now}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprint_is_built_in_or_the_digest_of_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("prompts.json");
        let embedded = concat!(env!("CARGO_MANIFEST_DIR"), "/../spag-game/data/prompts.json");
        assert_eq!(fingerprint(&PromptSet::default()), "built-in");
        // Also with the same content and with a byte order mark.
        for mark in ["", "\u{feff}"] {
            std::fs::write(&path, format!("{mark}{}", std::fs::read_to_string(embedded).unwrap())).unwrap();
            let digest = spag_io::sha256_file(&path).unwrap();
            let args = PromptArgs { prompts: Some(path.clone()), ..PromptArgs::default() };
            assert_eq!(fingerprint(&args.load().unwrap()), digest[..16]);
            let chat = PromptArgs { prompt_format: Some(PromptFormat::Chat), ..args };
            assert_eq!(fingerprint(&chat.load().unwrap()), format!("{} as chat", &digest[..16]));
        }
    }
}
