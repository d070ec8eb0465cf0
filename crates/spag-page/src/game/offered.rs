//! The games that can be played on a page.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use spag_game::games::{self, DataKind};
use spag_game::{Game, GameData, Labels, Rules, Taboo, taboo};
use spag_io::PromptFormat;

use super::thoughts::Thoughts;

/// A game of the list.
#[derive(Clone, Debug)]
pub(crate) struct Offered {
    labels: &'static Labels,
    options: Map<String, Value>,
    data: Option<GameData>,
}

impl Offered {
    /// A game with options, and the words or facts that it may need.
    pub(crate) fn new(labels: &'static Labels, options: Map<String, Value>, data: Option<GameData>) -> Self {
        Self { labels, options, data }
    }

    fn json(&self) -> Value {
        let Labels { name, title, seats, .. } = self.labels;
        json!({"name": name, "title": title, "seats": seats, "options": self.options})
    }
}

/// Adversarial Taboo and the games of the registry that can be played.
#[derive(Clone, Debug)]
pub(crate) struct PlayedGames {
    taboo: Arc<Taboo>,
    format: PromptFormat,
    /// The one that the page begins with is first.
    offered: Vec<Offered>,
    thoughts: Thoughts,
}

impl Default for PlayedGames {
    fn default() -> Self {
        Self::new(Rules::default().game(&Default::default()), Vec::new())
    }
}

impl PlayedGames {
    /// Adversarial Taboo with these rules, and all games that need no file. Those of `first` come first, each name once.
    pub(crate) fn new(taboo: Taboo, mut first: Vec<Offered>) -> Self {
        let mut seen = HashSet::new();
        first.retain(|offered| seen.insert(offered.labels.name));
        let is_first = |labels: &Labels| seen.contains(labels.name);
        let needs_no_file = |labels: &Labels| matches!(games::data_kind(labels.name), Ok(DataKind::None));
        let others = games::labels()
            .filter(|labels| !is_first(labels) && (labels.name == taboo::LABELS.name || needs_no_file(labels)));
        let offered = others.map(|labels| Offered::new(labels, Map::new(), None)).collect::<Vec<_>>();
        let format = taboo.prompts.format();
        let offered = first.into_iter().chain(offered).collect();
        Self { taboo: Arc::new(taboo), format, offered, thoughts: Thoughts::default() }
    }

    /// Adversarial Taboo.
    pub(crate) fn taboo(&self) -> Arc<dyn Game> {
        self.taboo.clone()
    }

    /// What models thought in games of this page.
    pub(super) fn thoughts(&self) -> &Thoughts {
        &self.thoughts
    }

    /// The name of the judge of Adversarial Taboo.
    pub(crate) fn judge(&self) -> Value {
        json!(self.taboo.rules.judge)
    }

    /// The game of this name with these options.
    ///
    /// # Errors
    /// The game is unknown or needs a file that the page does not have, or an option is invalid.
    pub(crate) fn open(&self, name: &str, options: &Map<String, Value>) -> spag_game::Result<Arc<dyn Game>> {
        let own = self.offered.iter().find(|offered| offered.labels.name == name);
        let game: Box<dyn Game> = games::by_name(name, options, own.and_then(|own| own.data.as_ref()), self.format)?;
        Ok(Arc::from(game))
    }

    /// The list, for the page.
    pub(crate) fn json(&self) -> Vec<Value> {
        self.offered.iter().map(Offered::json).collect()
    }
}
