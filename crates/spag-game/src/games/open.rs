//! Games by their names, as they are played, recorded and trained on.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value};
use spag_io::PromptFormat;

use super::textarena::{self, RecordedTextArena};
use super::{DataKind, GameData, by_name, data_kind, registry};
use crate::error::Result;
use crate::game::Game;
use crate::labels::Labels;

/// What files, reports and pages call the parts of the game of this name.
pub fn game_labels(name: &str) -> Option<&'static Labels> {
    registry::labels().find(|labels| labels.name == name).or_else(|| textarena::labels_of(name))
}

/// The game of this name with these options, as [`by_name`] has it. `data` is the file of words or facts that some games need,
/// and ignored by the others; prompts have the form of `format`. Of a game `textarena:ID` records can be read; `spag-selfplay`
/// plays it.
///
/// # Errors
/// The game is unknown, an option is invalid, or a file that the game needs is missing or invalid.
pub fn open_game(
    name: &str,
    options: &Map<String, Value>,
    data: Option<&Path>,
    format: PromptFormat,
) -> Result<Arc<dyn Game>> {
    if let Some(game) = RecordedTextArena::new(name, options, format)? {
        return Ok(Arc::new(game));
    }
    let data = match (data_kind(name)?, data) {
        (DataKind::None, _) | (_, None) => None,
        (_, Some(path)) => Some(GameData::read(name, path)?),
    };
    let game: Box<dyn Game> = by_name(name, options, data.as_ref(), format)?;
    Ok(Arc::from(game))
}

/// A game with its options as they were written: `kuhn-poker bets_count=true`.
#[derive(Clone, Debug)]
pub struct NamedGame {
    /// The name and the options, separated by one blank each.
    pub name: String,
    /// The game.
    pub game: Arc<dyn Game>,
}

impl NamedGame {
    /// The game of a name that options may follow; one that needs no file of words or facts.
    ///
    /// # Errors
    /// As [`open_game`].
    pub fn open(text: &str, format: PromptFormat) -> Result<Self> {
        let name = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let (game, options) = name.split_once(' ').unwrap_or((&name, ""));
        let game = open_game(game, &parse_options(options), None, format)?;
        Ok(Self { name, game })
    }
}

/// The options of a text such as `rounds=5 bets_count=true`, separated by blanks. A value is JSON, or else a text.
pub fn parse_options(text: &str) -> Map<String, Value> {
    let option = |part: &str| {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        (name.to_owned(), serde_json::from_str(value).unwrap_or_else(|_| value.into()))
    };
    text.split_whitespace().map(option).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use spag_io::{ChatRole, TurnPrompt};

    use super::*;
    use crate::{Episode, GameSpec};

    #[test]
    fn options_are_json_or_texts() {
        let options = parse_options("rounds=5  bets_count=true piles=[3,4] winner=chips odd");
        let expected = json!({"rounds": 5, "bets_count": true, "piles": [3, 4], "winner": "chips", "odd": ""});
        assert_eq!(Value::from(options), expected);
    }

    #[test]
    fn chats_alternate_and_end_with_the_user() {
        let game = open_game("tic-tac-toe", &Map::new(), None, PromptFormat::Chat).unwrap();
        let mut state = game
            .start(&GameSpec { number: 0, item: String::new(), max_turns: 0, seed: 1, sampling_seed: None })
            .unwrap();
        for action in ["[4]", "[0]", "[4]"] {
            state.apply(action);
        }
        // The last action was refused.
        let TurnPrompt::Chat(chat) = state.prompt(state.to_move(), &Episode::new("", 0)) else { panic!() };
        let roles: Vec<ChatRole> = chat.iter().map(|message| message.role).collect();
        assert_eq!(roles, [ChatRole::User, ChatRole::Assistant, ChatRole::User, ChatRole::Assistant, ChatRole::User]);
        assert_eq!(chat[1].content.text(), "[4]");
    }
}
