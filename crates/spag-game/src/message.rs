//! Messages: what the players of a game are shown.

use serde::{Deserialize, Serialize, Serializer};
use spag_io::{ChatMessage, ChatRole, PromptFormat, PromptText, TurnPrompt};

use crate::seat::Seat;

/// What a message is. The names are those of TextArena's `ObservationType`, in short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MessageKind {
    /// The rules, once and first.
    Prompt,
    /// The text of a player.
    Action,
    /// What the game made of a text.
    Description,
    /// Other news of the game.
    Message,
    /// The state of the board, or the legal actions.
    Board,
    /// A refusal.
    Admin,
}

/// Who said a message. In JSON −1 for the game, else the index of the seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// The game.
    Game,
    /// A player.
    Player(Seat),
}

impl Serialize for Sender {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Game => serializer.serialize_i8(-1),
            Self::Player(seat) => serializer.serialize_u8(seat.index() as u8),
        }
    }
}

/// A message to one player or to both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Who sees it; `None` is both.
    pub to: Option<Seat>,
    /// Who said it.
    pub from: Sender,
    /// What it is.
    pub kind: MessageKind,
    /// The text.
    pub text: String,
}

impl Message {
    /// Whether a player sees it.
    pub fn is_for(&self, seat: Seat) -> bool {
        self.to.is_none_or(|to| to.index() == seat.index())
    }
}

/// A player's prompt of the messages to it.
pub(crate) fn prompt_of(messages: &[Message], seat: Seat, format: PromptFormat) -> TurnPrompt {
    match format {
        PromptFormat::Plain => TurnPrompt::Plain(view(messages, seat)),
        PromptFormat::Chat => TurnPrompt::Chat(chat(messages, seat)),
    }
}

/// A player's view of a game as a text: a line `[GAME] …` or `[Player 0] …` for each message.
fn view(messages: &[Message], seat: Seat) -> PromptText {
    let mut text = PromptText::default();
    for message in messages.iter().filter(|message| message.is_for(seat)) {
        match message.from {
            Sender::Game => {
                text.push("[GAME] ");
                text.push(&message.text);
            }
            Sender::Player(seat) => {
                text.push(&format!("[Player {}] ", seat.index()));
                text.push_said(&message.text);
            }
        }
        text.push("\n");
    }
    text
}

/// A player's view of a game as a chat: what it said are the messages of the model, and what it was told before each of them is
/// one of the user.
fn chat(messages: &[Message], seat: Seat) -> Vec<ChatMessage> {
    let mut chat: Vec<ChatMessage> = Vec::new();
    for Message { from, text, .. } in messages.iter().filter(|message| message.is_for(seat)) {
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
    chat
}
