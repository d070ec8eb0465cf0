//! Games by their names, as they are played, recorded and trained on.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value};
use spag_io::{ChatMessage, ChatRole, PromptFormat, PromptText, TurnPrompt};

use super::message::{Message, Sender};
use super::native::SeededGame;
use super::{DataKind, GameData, LABELS, by_name, data_kind};
use crate::completion::UtteranceRule;
use crate::driver::GameSpec;
use crate::episode::Episode;
use crate::error::Result;
use crate::game::{Game, Match, Ruling};
use crate::labels::Labels;
use crate::seat::Seat;

/// What files, reports and pages call the parts of the game of this name.
pub fn game_labels(name: &str) -> Option<&'static Labels> {
    LABELS.iter().copied().find(|labels| labels.name == name)
}

/// The game of this name with these options, as [`by_name`] has it. `data` is the file of words or facts that some games need,
/// and ignored by the others; prompts have the form of `format`.
///
/// # Errors
/// The game is unknown, an option is invalid, or a file that the game needs is missing or invalid.
pub fn open_game(
    name: &str,
    options: Map<String, Value>,
    data: Option<&Path>,
    format: PromptFormat,
) -> Result<Arc<dyn Game>> {
    let data = match (data_kind(name)?, data) {
        (DataKind::None, _) | (_, None) => None,
        (_, Some(path)) => Some(GameData::read(name, path)?),
    };
    let game = by_name(name, &options, data.as_ref())?;
    Ok(Arc::new(OpenedGame { game, options, format }))
}

/// The options of a text such as `rounds=5 bets_count=true`, separated by blanks. A value is JSON, or else a text.
pub fn parse_options(text: &str) -> Map<String, Value> {
    let option = |part: &str| {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        (name.to_owned(), serde_json::from_str(value).unwrap_or_else(|_| value.into()))
    };
    text.split_whitespace().map(option).collect()
}

/// A game with the options that it was made of.
#[derive(Debug)]
struct OpenedGame {
    game: Box<dyn SeededGame>,
    options: Map<String, Value>,
    format: PromptFormat,
}

impl Game for OpenedGame {
    fn labels(&self) -> &'static Labels {
        self.game.labels()
    }

    fn settings(&self) -> Map<String, Value> {
        self.options.clone()
    }

    fn start(&self, spec: &GameSpec) -> Result<Box<dyn Match + '_>> {
        let state = self.game.start(spec)?;
        match self.format {
            PromptFormat::Plain => Ok(state),
            PromptFormat::Chat => Ok(Box::new(InChat(state))),
        }
    }
}

/// A match whose prompts are chats.
#[derive(Debug)]
struct InChat<'g>(Box<dyn Match + 'g>);

impl Match for InChat<'_> {
    fn to_move(&self) -> Seat {
        self.0.to_move()
    }

    /// What a seat said are the messages of the model, and what it was told before each of them is one of the user.
    fn prompt(&self, seat: Seat, _: &Episode) -> TurnPrompt {
        let mut chat: Vec<ChatMessage> = Vec::new();
        for Message { from, text, .. } in self.0.messages().iter().filter(|message| message.is_for(seat)) {
            let is_own = matches!(from, Sender::Player(from) if from.index() == seat.index());
            let role = if is_own { ChatRole::Assistant } else { ChatRole::User };
            match chat.last_mut().filter(|last| last.role == role) {
                Some(last) => last.content.push("\n"),
                None => chat.push(ChatMessage::new(role, PromptText::default())),
            }
            let Some(ChatMessage { content, .. }) = chat.last_mut() else { continue };
            match from {
                Sender::Game => content.push(text),
                Sender::Player(_) => content.push_said(text),
            }
        }
        TurnPrompt::Chat(chat)
    }

    fn utterances(&self) -> UtteranceRule {
        UtteranceRule::Message
    }

    fn apply(&mut self, text: &str) -> Ruling {
        self.0.apply(text)
    }

    fn messages(&self) -> &[Message] {
        self.0.messages()
    }

    fn public_state(&self) -> Map<String, Value> {
        self.0.public_state()
    }

    fn private_state(&self, seat: Seat) -> Map<String, Value> {
        self.0.private_state(seat)
    }

    fn legal_actions(&self) -> Option<Vec<String>> {
        self.0.legal_actions()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn options_are_json_or_texts() {
        let options = parse_options("rounds=5  bets_count=true piles=[3,4] winner=chips odd");
        let expected = json!({"rounds": 5, "bets_count": true, "piles": [3, 4], "winner": "chips", "odd": ""});
        assert_eq!(Value::from(options), expected);
    }

    #[test]
    fn chats_alternate_and_end_with_the_user() {
        let game = open_game("tic-tac-toe", Map::new(), None, PromptFormat::Chat).unwrap();
        let mut state = game.start(&GameSpec { game: 0, item: String::new(), max_turns: 0, seed: 1 }).unwrap();
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
