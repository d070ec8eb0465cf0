//! The context of a question: description, examples and the row's own prompt, as one text or as a chat.

use serde_json::{Map, Value as Json, json};
use spag_chat::{ChatTemplate, RenderError, TemplateKwargs};
use spag_io::ChatRole;

/// Where the few-shot examples of a chat are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChatShots {
    /// In turns of user and assistant before the row's prompt, as with `fewshot_as_multiturn` of lm-evaluation-harness.
    #[default]
    Turns,
    /// In the message of the row's prompt, with the delimiters of a plain text.
    OneMessage,
}

/// What a context becomes.
#[derive(Clone, Copy)]
pub(crate) enum ContextFormat<'a> {
    /// One text.
    Plain,
    /// A chat, as `--apply_chat_template` of lm-evaluation-harness makes it: the description is the system message, and the row's
    /// prompt is in the last message of the user.
    Chat(&'a ChatTemplate, &'a TemplateKwargs, ChatShots),
}

/// A part of a context.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) role: ChatRole,
    pub(crate) text: String,
    /// What follows it in a plain text.
    pub(crate) delimiter: String,
}

impl ContextFormat<'_> {
    /// The delimiter between a context and a choice. A template ends with the begin of the answer.
    pub(crate) fn before_choice(self, delimiter: &str) -> &str {
        match self {
            Self::Plain => delimiter,
            Self::Chat(..) => "",
        }
    }

    /// The text of `before` and the row's own prompt.
    ///
    /// # Errors
    /// The template refuses the messages.
    pub(crate) fn text(self, before: &[Part], prompt: &str) -> Result<String, String> {
        let joined = |parts: &[Part]| -> String {
            let texts = parts.iter().flat_map(|part| [part.text.as_str(), part.delimiter.as_str()]);
            texts.chain([prompt]).collect()
        };
        let Self::Chat(template, kwargs, shots) = self else { return Ok(joined(before)) };
        let (apart, within) = match shots {
            ChatShots::Turns => (before, &[][..]),
            ChatShots::OneMessage => {
                before.split_at(before.iter().take_while(|part| part.role == ChatRole::System).count())
            }
        };
        let message = |role: ChatRole, text: &str| json!({ "role": role.name(), "content": text });
        let mut messages: Vec<Json> = apart.iter().map(|part| message(part.role, &part.text)).collect();
        messages.push(message(ChatRole::User, &joined(within)));
        let mut more = Map::from_iter([("add_generation_prompt".to_owned(), true.into())]);
        more.extend(kwargs.variables().clone());
        // As lm-evaluation-harness: a template that refuses a system message gets the others.
        let rendered = match template.render(&messages, &more) {
            Err(RenderError::Refused(_)) if before.iter().any(|part| part.role == ChatRole::System) => {
                messages.retain(|message| message["role"] != ChatRole::System.name());
                template.render(&messages, &more)
            }
            rendered => rendered,
        };
        rendered.map_err(|error| error.to_string())
    }
}
