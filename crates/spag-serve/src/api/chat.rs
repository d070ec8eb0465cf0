//! Requests of `/v1/chat/completions`.

use std::sync::Arc;

use serde_json::Value;
use spag_chat::TemplateKwargs;
use spag_model::generate::{CompletionText, LogProbs, Prompt};
use spag_model::{GenerationConfig, Request};

use super::completions::{check_length, check_sequences, generation};
use super::error::ApiError;
use super::fields::{Fields, Refused, whole};
use super::length::TextLength;
use super::messages::messages;
use super::reasoning::Splitting;
use super::sampling::{IGNORED, Settings, is_empty, never};
use crate::limits::MAX_TOP;
use crate::model::ServedModel;

/// A conversation to answer.
#[derive(Debug)]
pub(super) struct Conversation {
    /// Its tokens.
    pub(super) prompt: Vec<u32>,
    /// Whether the completion starts an answer or continues the last message.
    text: CompletionText,
    /// What splits the answers.
    splitting: Splitting,
}

/// A chat request.
#[derive(Debug)]
pub(crate) struct ChatJob {
    /// The conversation.
    conversation: Conversation,
    pub(crate) settings: Settings,
    pub(crate) max_tokens: usize,
    /// Number of alternatives per token, if log-probabilities are requested.
    pub(crate) log_probs: Option<usize>,
}

fn is_text_only(value: &Value) -> bool {
    value.as_array().is_some_and(|list| list.iter().all(|kind| kind == "text"))
}

fn is_no_choice(value: &Value) -> bool {
    value == "none" || value == "auto"
}

/// Chat fields that are not supported.
const REFUSED: [Refused; 17] = [
    Refused::new("tools", is_empty, "describe tools in a message"),
    Refused::new("tool_choice", is_no_choice, "leave it out"),
    Refused::new("functions", is_empty, "describe functions in a message"),
    Refused::new("function_call", is_no_choice, "leave it out"),
    Refused::new("parallel_tool_calls", Value::is_boolean, "leave it out"),
    Refused::new("modalities", is_text_only, "the answer is text"),
    Refused::new("audio", never, "the answer is text"),
    Refused::new("prediction", never, "leave it out"),
    Refused::new("reasoning_effort", never, "set variables of the template with chat_template_kwargs"),
    Refused::new("verbosity", never, "leave it out"),
    Refused::new("web_search_options", never, "leave it out"),
    Refused::new("chat_template", never, "the template of the model's folder is used"),
    Refused::new("documents", is_empty, "put documents into a message"),
    Refused::new("add_special_tokens", is_false, "the template writes special tokens"),
    Refused::new("best_of", is_one, "leave it out"),
    Refused::new("suffix", is_empty, "leave it out"),
    Refused::new("echo", is_false, "use /v1/completions"),
];

fn is_false(value: &Value) -> bool {
    value == &Value::Bool(false)
}

fn is_one(value: &Value) -> bool {
    whole(value) == Some(1)
}

impl ChatJob {
    /// Parses a request for a model and renders its conversation.
    pub(crate) fn read(mut fields: Fields, model: &ServedModel) -> Result<Self, ApiError> {
        fields.refuse(&REFUSED)?;
        let settings = Settings::read(&mut fields, model)?;
        let log_probs = log_probs(&mut fields)?;
        let max_tokens = max_tokens(&mut fields)?;
        let conversation = conversation(&mut fields, TextLength::Fits, model)?;
        let prompt = &conversation.prompt;
        fields.finish(&IGNORED)?;
        // Without a limit, the answer may use the rest of the context.
        let max_tokens = max_tokens.unwrap_or_else(|| model.max_length.saturating_sub(prompt.len()).max(1));
        check_length(prompt.len(), max_tokens, model)?;
        check_sequences(1, settings.n, model)?;
        if settings.min_tokens > max_tokens {
            let problem = format!("{} is more than max_tokens, {max_tokens}", settings.min_tokens);
            return Err(ApiError::field("min_tokens", problem));
        }
        Ok(Self { conversation, settings, max_tokens, log_probs })
    }

    /// Tokens of the conversation.
    pub(crate) fn prompt_tokens(&self) -> usize {
        self.conversation.prompt.len()
    }

    /// What splits the answers in reasoning and content.
    pub(crate) fn splitting(&self) -> &Splitting {
        &self.conversation.splitting
    }

    /// The engine requests.
    pub(crate) fn requests(&self) -> Vec<Request> {
        let log_probs = LogProbs { prompt: None, top: self.log_probs.unwrap_or(0) };
        let Conversation { prompt, text, .. } = &self.conversation;
        let config = Arc::new(GenerationConfig { log_probs, ..generation(&self.settings, self.max_tokens, *text) });
        let request = |at| Request {
            prompt: Prompt::Tokens(prompt.clone()),
            seed: self.settings.seed_of(at),
            config: config.clone(),
        };
        (0..self.settings.n).map(request).collect()
    }
}

/// Renders the conversation in `messages`, with the fields that affect the template.
pub(super) fn conversation(
    fields: &mut Fields,
    length: TextLength,
    model: &ServedModel,
) -> Result<Conversation, ApiError> {
    let template = model.template()?;
    let messages = messages(fields.take("messages"))?;
    let continued = fields.truth("continue_final_message")?.unwrap_or(false);
    let prompts = fields.truth("add_generation_prompt")?;
    if continued && prompts == Some(true) {
        return Err(ApiError::field("continue_final_message", "set add_generation_prompt to false, or leave it out"));
    }
    let more = TemplateKwargs::new(fields.object("chat_template_kwargs")?.unwrap_or_default());
    let more = more.map_err(|error| ApiError::field("chat_template_kwargs", error))?;
    let prompts = prompts.unwrap_or(!continued);
    let mut variables = model.kwargs.variables().clone();
    variables.extend(more.variables().clone());
    let begun = ("add_generation_prompt".to_owned(), Value::Bool(prompts));
    variables.extend([begun, ("tools".to_owned(), Value::Null), ("documents".to_owned(), Value::Null)]);
    // The template writes BOS itself.
    let tokenizer = model.tokenizer();
    let last = messages.last().and_then(|message| message["content"].as_str()).filter(|_| continued).map(str::to_owned);
    let rendered = match &last {
        Some(_) => spag_chat::render_continued(template, tokenizer, messages, &variables),
        None => spag_chat::render_messages(template, tokenizer, messages, &variables),
    };
    let rendered = rendered.map_err(|error| ApiError::field("messages", error))?;
    let rule = model.encoder.reasoning();
    let (text, splitting) = match &last {
        Some(message) => (CompletionText::Continued, Splitting::of_continued(rule, message)),
        None => (CompletionText::Alone, Splitting::of_answer(rule, rendered.text())),
    };
    length.check("messages", rendered.text().len(), model)?;
    let prompt = tokenizer.encode_said(&rendered).map_err(|error| ApiError::field("messages", error))?;
    if prompt.is_empty() {
        return Err(ApiError::field("messages", "the conversation has no tokens"));
    }
    Ok(Conversation { prompt, text, splitting })
}

fn log_probs(fields: &mut Fields) -> Result<Option<usize>, ApiError> {
    let top = fields.whole("top_logprobs", 0..=MAX_TOP)?;
    match (fields.truth("logprobs")?.unwrap_or(false), top) {
        (false, Some(top)) if top > 0 => {
            Err(ApiError::field("top_logprobs", "it is allowed only with \"logprobs\": true"))
        }
        (false, _) => Ok(None),
        (true, top) => Ok(Some(top.unwrap_or(0))),
    }
}

fn max_tokens(fields: &mut Fields) -> Result<Option<usize>, ApiError> {
    let range = 1..=usize::MAX >> 1;
    let [new, old] = ["max_completion_tokens", "max_tokens"].map(|name| fields.whole(name, range.clone()));
    match (new?, old?) {
        (Some(new), Some(old)) if new != old => {
            Err(ApiError::field("max_tokens", "it differs from max_completion_tokens; give one of them"))
        }
        (new, old) => Ok(new.or(old)),
    }
}
