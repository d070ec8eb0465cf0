//! Encodes the prompts of turns as tokens, for play, training and serving alike.

use std::sync::{Arc, OnceLock};

use spag_io::{
    ChatMessage, ChatRole, PromptEnd, PromptFormat, PromptText, ReasoningFormat, ReasoningRule, ReasoningTags,
    TurnPrompt,
};
use spag_model::Tokenizer;
use spag_model::generate::ReasoningBudget;

use crate::error::{Error, Result};
use crate::history::continued;
use crate::reasoning::ReasoningForm;
use crate::rendered::{render, render_thought};
use crate::template::ChatTemplate;
use crate::template_kwargs::TemplateKwargs;
use crate::traits::{SystemMessage, check, end_of_turn};

/// Encodes prompts for a model with this tokenizer. Clones share the template, which is loaded on first use.
#[derive(Clone)]
pub struct PromptEncoder {
    tokenizer: Tokenizer,
    kwargs: TemplateKwargs,
    reasoning: ReasoningRule,
    chat: Arc<OnceLock<Result<Option<Chat>, String>>>,
}

/// A template with its detected traits.
struct Chat {
    template: ChatTemplate,
    system: SystemMessage,
    end_of_turn: u32,
    form: Option<ReasoningForm>,
}

impl PromptEncoder {
    /// An encoder with the chat template of the tokenizer's folder, if it has one.
    pub fn new(tokenizer: Tokenizer) -> Self {
        Self { tokenizer, kwargs: TemplateKwargs::default(), reasoning: ReasoningRule::None, chat: Arc::default() }
    }

    /// The same encoder, whose template is rendered with these variables.
    pub fn with_kwargs(self, kwargs: TemplateKwargs) -> Self {
        Self { kwargs, chat: Arc::default(), ..self }
    }

    /// The same encoder for completions with reasoning. `auto` becomes the rule of this model.
    ///
    /// # Errors
    /// The model has a chat template that cannot be used.
    pub fn with_reasoning(self, format: ReasoningFormat, tags: ReasoningTags) -> Result<Self> {
        let format = match format {
            ReasoningFormat::Auto if !self.has_tags(&tags)? => ReasoningFormat::None,
            format => format,
        };
        Ok(self.with_rule(format.rule(tags)))
    }

    /// The same encoder for completions that a rule splits.
    pub fn with_rule(self, reasoning: ReasoningRule) -> Self {
        Self { reasoning, chat: Arc::default(), ..self }
    }

    /// Whether a model knows the tags: whether its template or its vocabulary has them.
    ///
    /// # Errors
    /// The model has a chat template that cannot be used.
    pub fn has_tags(&self, tags: &ReasoningTags) -> Result<bool> {
        let template = self.loaded()?.map(|chat| chat.template.source());
        let is_known = |tag: &str| {
            template.is_some_and(|template| template.contains(tag)) || self.tokenizer.token_id(tag).is_some()
        };
        Ok(is_known(tags.open()) && is_known(tags.close()))
    }

    /// What splits the completions of this model.
    pub fn reasoning(&self) -> &ReasoningRule {
        &self.reasoning
    }

    /// How the model writes reasoning after prompts of a kind; `None` if it writes no tags.
    ///
    /// # Errors
    /// Chats, and the model has no usable template.
    pub fn reasoning_form(&self, prompts: PromptFormat) -> Result<Option<ReasoningForm>> {
        match (&self.reasoning, prompts) {
            (ReasoningRule::Think(tags), PromptFormat::Plain) => Ok(Some(ReasoningForm::plain(tags))),
            (ReasoningRule::Think(_), PromptFormat::Chat) => Ok(self.chat()?.form.clone()),
            (ReasoningRule::None | ReasoningRule::Boxed, _) => Ok(None),
        }
    }

    /// The budget of reasoning after prompts of a kind; `None` if the model writes no tags.
    ///
    /// # Errors
    /// Chats, and the model has no usable template; or a tokenizer that cannot spell the closing tag.
    pub fn reasoning_budget(
        &self,
        prompts: PromptFormat,
        prompt: PromptEnd,
        max_tokens: usize,
    ) -> Result<Option<ReasoningBudget>> {
        let (ReasoningRule::Think(tags), Some(form)) = (&self.reasoning, self.reasoning_form(prompts)?) else {
            return Ok(None);
        };
        let closing = self.continued(&PromptText::own(form.closing))?;
        if !self.tokenizer.decode_with_special(&closing)?.contains(tags.close()) {
            return Err(Error::Reasoning {
                setting: "reasoning_tags",
                problem: "the model's tokenizer has no tokens that spell the closing tag; name others",
            });
        }
        Ok(Some(ReasoningBudget { tags: tags.clone(), prompt, max_tokens, closing }))
    }

    /// Whether the text of a prompt ends in the tag that opens reasoning.
    pub fn end_of_prompt(&self, text: &PromptText) -> PromptEnd {
        match &self.reasoning {
            ReasoningRule::Think(tags) => tags.end_of_prompt(text.text()),
            ReasoningRule::None | ReasoningRule::Boxed => PromptEnd::Plain,
        }
    }

    /// The tokens of a text that continues another, with special tokens matched outside of what players said.
    ///
    /// # Errors
    /// The tokenizer cannot encode it.
    pub fn continued(&self, text: &PromptText) -> Result<Vec<u32>> {
        continued(&self.tokenizer, text)
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
        let render = |messages: &[ChatMessage]| match &chat.form {
            Some(form) => render_thought((&chat.template, &self.kwargs, form), &self.tokenizer, messages),
            None => render((&chat.template, &self.kwargs), &self.tokenizer, messages),
        };
        match (chat.system, messages) {
            (SystemMessage::FirstUser, [system, first, rest @ ..]) if system.role == ChatRole::System => {
                render(&[&[joined(system, first)], rest].concat())
            }
            _ => render(messages),
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
        self.loaded()?.ok_or_else(|| Error::NoTemplate { folder: self.tokenizer.checkpoint().to_owned() })
    }

    fn loaded(&self) -> Result<Option<&Chat>> {
        match self.chat.get_or_init(|| Chat::of(&self.tokenizer, &self.kwargs, &self.reasoning)) {
            Ok(chat) => Ok(chat.as_ref()),
            Err(reason) => {
                Err(Error::Template { folder: self.tokenizer.checkpoint().to_owned(), reason: reason.clone() })
            }
        }
    }
}

impl Chat {
    fn of(tokenizer: &Tokenizer, kwargs: &TemplateKwargs, reasoning: &ReasoningRule) -> Result<Option<Self>, String> {
        let Some(template) = ChatTemplate::of(tokenizer)? else { return Ok(None) };
        check(&template, kwargs)?;
        let system = SystemMessage::of(&template, kwargs);
        let end_of_turn = end_of_turn(&template, kwargs, tokenizer);
        let form = match reasoning {
            ReasoningRule::Think(tags) => Some(ReasoningForm::of_template(&template, tags, kwargs)),
            ReasoningRule::None | ReasoningRule::Boxed => None,
        };
        Ok(Some(Self { template, system, end_of_turn, form }))
    }
}

/// The first user message with the rules prepended.
fn joined(system: &ChatMessage, first: &ChatMessage) -> ChatMessage {
    let mut content = system.content.clone();
    content.append(&PromptText::own("\n\n"));
    content.append(&first.content);
    ChatMessage::new(first.role, content)
}
