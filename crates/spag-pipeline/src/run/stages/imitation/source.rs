//! A source of the samples that the base model imitates.

use crate::config::{ImitationSource, RunConfig};
use crate::run::run_games::OpenGame;
use crate::run::stage_folder::StageFolder;

/// A source of samples of one game, with its files.
pub(super) struct Source<'a> {
    pub(super) kind: ImitationSource,
    pub(super) game: &'a OpenGame,
    /// The folder of the game in the stage, or one in it for each of several sources.
    pub(super) folder: StageFolder,
    /// What the names of its seeds start with.
    prefix: String,
}

impl Source<'_> {
    /// The name of a part of the stage, which its seed follows from.
    pub(super) fn part(&self, part: &str) -> String {
        self.game.part(&format!("{}{part}", self.prefix))
    }

    /// The name of its stage for people.
    pub(super) fn title(&self) -> String {
        self.game.title(&self.folder.name)
    }
}

/// The sources of a game with their shares of the samples.
pub(super) fn sources<'a>(config: &RunConfig, game: &'a OpenGame, own: &StageFolder) -> Vec<(Source<'a>, f64)> {
    let parts = config.imitation.source.parts();
    let is_alone = parts.len() == 1;
    let source = |(kind, share): (ImitationSource, f64)| {
        let (folder, prefix) = match is_alone {
            true => (own.clone(), String::new()),
            false => (StageFolder::new(own.file(kind.name()), &own.name), format!("{}/", kind.name())),
        };
        (Source { kind, game, folder, prefix }, share)
    };
    parts.into_iter().map(source).collect()
}
