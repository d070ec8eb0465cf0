//! The games that a run plays, from its settings.

use std::sync::Arc;

use serde_json::{Map, Value};
use spag_game::{AfterDecision, Game, Labels, PromptSet};
use spag_run::RunFolder;

use super::settings::{RunGame, RunSettings};
use super::titles;

/// The games of a run, at least one, and who played those of its imitation.
#[derive(Clone, Debug)]
pub(crate) struct RunGames {
    games: Vec<(Option<String>, Arc<dyn Game>)>,
    imitated: String,
}

impl RunGames {
    /// A run of this game alone.
    pub(crate) fn one(game: Arc<dyn Game>) -> Self {
        Self { games: vec![(None, game)], imitated: "imitated".to_owned() }
    }

    /// The games in the settings of a run, if they can be read.
    ///
    /// Files of words or facts that they name are read wherever they are, as far as they are regular files: the games are replayed
    /// with them. A run without them is shown as one without settings.
    pub(super) fn of_settings(run: &RunFolder) -> Option<Self> {
        let settings = RunSettings::read(run)?;
        let open = |RunGame { folder, rules, data }: &RunGame| {
            // A pipe would be waited for.
            let data = data.as_deref().filter(|path| path.is_file());
            let game = rules.open(AfterDecision::Stop, &PromptSet::default(), data).ok()?;
            Some((folder.clone(), game))
        };
        let games = settings.games.iter().map(open).collect::<Option<Vec<_>>>()?;
        Some(Self { games, imitated: titles::imitated(&settings.table) })
    }

    /// The game of a file, or of a folder of the run: that of a folder on its path.
    pub(crate) fn of(&self, file: &str) -> &Arc<dyn Game> {
        let is_of = |folder: &str| file.split('/').any(|part| part == folder);
        let named = self.games.iter().find(|(folder, _)| folder.as_deref().is_some_and(is_of));
        &named.unwrap_or(&self.games[0]).1
    }

    /// What files call the parts of the game of a file.
    pub(crate) fn labels(&self, file: &str) -> &'static Labels {
        self.of(file).labels()
    }

    /// The folders of the games in those of stages; none for a game that is alone.
    pub(super) fn folders(&self) -> impl Iterator<Item = &str> {
        self.games.iter().filter_map(|(folder, _)| folder.as_deref())
    }

    /// The name of a file of games for people, as in the report.
    pub(crate) fn title(&self, file: &str) -> String {
        titles::title(file, self.labels(file), &self.folders().collect::<Vec<_>>(), &self.imitated)
    }

    /// The settings that verdicts depend on.
    pub(super) fn settings(&self) -> Map<String, Value> {
        self.games.iter().flat_map(|(_, game)| game.settings()).collect()
    }
}
