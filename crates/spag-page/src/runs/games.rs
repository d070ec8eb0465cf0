//! The games that a run plays, from its settings.

use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value};
use spag_game::{AfterDecision, Game, Labels, PromptSet};
use spag_io::EnclosedFolder;
use spag_selfplay::{GameSettings, GameShare};
use toml::Table;

/// Bytes of the resolved settings of a run.
const MAX_SETTINGS: u64 = 1 << 20;

/// The games of a run, at least one.
#[derive(Clone, Debug)]
pub(crate) struct RunGames(Vec<(Option<String>, Arc<dyn Game>)>);

impl RunGames {
    /// A run of this game alone.
    pub(crate) fn one(game: Arc<dyn Game>) -> Self {
        Self(vec![(None, game)])
    }

    /// The games in the settings of a run, if they can be read.
    ///
    /// Files of words or facts that they name are read wherever they are, as far as they are regular files: the games are replayed
    /// with them. A run without them is shown as one without settings.
    pub(super) fn of_settings(run: &EnclosedFolder) -> Option<Self> {
        let settings = String::from_utf8(run.read_whole("config.resolved.toml", MAX_SETTINGS).ok()?).ok()?;
        let settings: Table = settings.parse().ok()?;
        let text = |table: &Table, key: &str| Some(table.get(key)?.as_str()?.to_owned());
        let words = settings.get("words").and_then(|words| text(words.as_table()?, "file"));
        let shared = GameSettings { judge: text(&settings, "judge")?.parse().ok()?, ..GameSettings::default() };
        let open = |rules: GameSettings, data: Option<&Path>| {
            let data = if rules.has_items() || data.is_none() { words.as_deref().map(Path::new) } else { data };
            // A pipe would be waited for.
            let data = data.filter(|path| path.is_file());
            rules.open(AfterDecision::Stop, &PromptSet::default(), data).ok()
        };
        let Some(games) = settings.get("games") else {
            let game = text(&settings, "game").unwrap_or_else(|| GameSettings::default().game);
            let rules = GameSettings { game, game_options: text(&settings, "game_options"), ..shared };
            return Some(Self::one(open(rules, None)?));
        };
        let games = Vec::<GameShare>::deserialize(games.clone()).ok()?;
        let is_alone = games.len() == 1;
        let folders = GameShare::folders(&games);
        let opened = games.iter().zip(folders).map(|(game, folder)| {
            Some(((!is_alone).then_some(folder), open(game.rules(&shared), game.data.as_deref())?))
        });
        opened.collect::<Option<Vec<_>>>().filter(|games| !games.is_empty()).map(Self)
    }

    /// The game of a file, or of a folder of the run: that of a folder on its path.
    pub(crate) fn of(&self, file: &str) -> &Arc<dyn Game> {
        let is_of = |folder: &str| file.split('/').any(|part| part == folder);
        let named = self.0.iter().find(|(folder, _)| folder.as_deref().is_some_and(is_of));
        &named.unwrap_or(&self.0[0]).1
    }

    /// What files call the parts of the game of a file.
    pub(crate) fn labels(&self, file: &str) -> &'static Labels {
        self.of(file).labels()
    }

    /// The folders of the games in those of stages; none for a game that is alone.
    pub(super) fn folders(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|(folder, _)| folder.as_deref())
    }

    /// The settings that verdicts depend on.
    pub(super) fn settings(&self) -> Map<String, Value> {
        self.0.iter().flat_map(|(_, game)| game.settings()).collect()
    }
}
