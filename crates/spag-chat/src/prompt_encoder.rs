//! Encodes the prompts of turns as tokens, for play, training and serving alike.

use std::sync::{Arc, OnceLock};

use spag_io::{ChatMessage, ChatRole, PromptText, TurnPrompt};
use spag_model::Tokenizer;

use crate::error::{Error, Result};
use crate::rendered::render;
use crate::template::ChatTemplate;
use crate::traits::{SystemMessage, end_of_turn};

/// Encodes prompts for a model with this tokenizer. Clones share the template, which is loaded on first use.
#[derive(Clone)]
pub struct PromptEncoder {
    tokenizer: Tokenizer,
    chat: Arc<OnceLock<Result<Option<Chat>, String>>>,
}

/// A template with its detected traits.
struct Chat {
    template: ChatTemplate,
    system: SystemMessage,
    end_of_turn: u32,
}

impl PromptEncoder {
    /// An encoder with the chat template of the tokenizer's folder, if it has one.
    pub fn new(tokenizer: Tokenizer) -> Self {
        Self { tokenizer, chat: Arc::default() }
    }

    /// The tokens of a prompt: a text with BOS if the tokenizer adds one; a chat as formatted by `apply_chat_template` of
    /// transformers, with the generation prompt. What players said is encoded as text, never as special tokens.
    ///
    /// # Errors
    /// The model has no template for a chat, the template refuses it, or the tokenizer cannot encode the text.
    pub fn encode(&self, prompt: &TurnPrompt) -> Result<Vec<u32>> {
        match prompt {
            TurnPrompt::Plain(text) => self.begin(prompt, text),
            TurnPrompt::Chat(messages) => self.encode_chat(messages),
        }
    }

    /// The text of a prompt as it is encoded.
    ///
    /// # Errors
    /// The model has no template for a chat, or the template refuses it.
    pub fn text(&self, prompt: &TurnPrompt) -> Result<PromptText> {
        match prompt {
            TurnPrompt::Plain(text) => Ok(text.clone()),
            TurnPrompt::Chat(messages) => self.rendered(messages),
        }
    }

    /// The tokens of a prompt's [`text`](PromptEncoder::text), or of a prefix of it.
    ///
    /// # Errors
    /// The tokenizer cannot encode it.
    pub fn begin(&self, prompt: &TurnPrompt, text: &PromptText) -> Result<Vec<u32>> {
        Ok(match prompt {
            TurnPrompt::Plain(_) => self.tokenizer.encode_said_prompt(text)?,
            TurnPrompt::Chat(_) => self.tokenizer.encode_said(text)?,
        })
    }

    /// The tokens of a chat, with the generation prompt.
    ///
    /// # Errors
    /// As [`PromptEncoder::encode`].
    pub fn encode_chat(&self, messages: &[ChatMessage]) -> Result<Vec<u32>> {
        Ok(self.tokenizer.encode_said(&self.rendered(messages)?)?)
    }

    /// The text of a chat, with the generation prompt.
    fn rendered(&self, messages: &[ChatMessage]) -> Result<PromptText> {
        let chat = self.chat()?;
        match (chat.system, messages) {
            (SystemMessage::FirstUser, [system, first, rest @ ..]) if system.role == ChatRole::System => {
                render(&chat.template, &self.tokenizer, &[&[joined(system, first)], rest].concat())
            }
            _ => render(&chat.template, &self.tokenizer, messages),
        }
    }

    /// The token that ends an answer in a chat.
    ///
    /// # Errors
    /// The model has no usable template.
    pub fn end_of_turn(&self) -> Result<u32> {
        Ok(self.chat()?.end_of_turn)
    }

    /// The model's chat template.
    ///
    /// # Errors
    /// The model has no usable template.
    pub fn template(&self) -> Result<&ChatTemplate> {
        Ok(&self.chat()?.template)
    }

    /// The tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    fn chat(&self) -> Result<&Chat> {
        let folder = || self.tokenizer.checkpoint().to_owned();
        match self.chat.get_or_init(|| Chat::of(&self.tokenizer)) {
            Ok(Some(chat)) => Ok(chat),
            Ok(None) => Err(Error::NoTemplate { folder: folder() }),
            Err(reason) => Err(Error::Template { folder: folder(), reason: reason.clone() }),
        }
    }
}

impl Chat {
    fn of(tokenizer: &Tokenizer) -> Result<Option<Self>, String> {
        let Some(template) = ChatTemplate::of(tokenizer)? else { return Ok(None) };
        let (system, end_of_turn) = (SystemMessage::of(&template), end_of_turn(&template, tokenizer));
        Ok(Some(Self { template, system, end_of_turn }))
    }
}

/// The first user message with the rules prepended.
fn joined(system: &ChatMessage, first: &ChatMessage) -> ChatMessage {
    let mut content = system.content.clone();
    content.append(&PromptText::own("\n\n"));
    content.append(&first.content);
    ChatMessage::new(first.role, content)
}
