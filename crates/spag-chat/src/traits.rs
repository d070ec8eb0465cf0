//! Detects by rendering how a template handles a system message, and which token ends a turn.

use serde_json::{Value, json};
use spag_model::Tokenizer;

use crate::rendered::{Answer, variables};
use crate::template::ChatTemplate;
use crate::template_kwargs::TemplateKwargs;

/// Where a template expects the system text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SystemMessage {
    /// In its own message, before the others.
    Own,
    /// At the start of the first user message, since the template refuses system messages, drops them, or moves them to a
    /// later position, which would change earlier tokens from turn to turn.
    FirstUser,
}

/// Probe texts that no template contains.
const SYSTEM: &str = "szqrules";
const ASKED: &str = "uzqasked";
const ANSWERED: &str = "azqsaid";

/// Whether a template renders a conversation at all with these variables.
///
/// # Errors
/// Why it renders none.
pub(crate) fn check(template: &ChatTemplate, kwargs: &TemplateKwargs) -> Result<(), String> {
    let fails = |messages: &[Value]| template.render(messages, &variables(Answer::Begun, kwargs)).err();
    let asked = message("user", ASKED);
    match fails(std::slice::from_ref(&asked)).and_then(|_| fails(&[message("system", SYSTEM), asked])) {
        None => Ok(()),
        Some(why) => Err(format!("{why}; variables that it needs are given as chat_template_kwargs")),
    }
}

impl SystemMessage {
    /// Detects it for a template.
    pub(crate) fn of(template: &ChatTemplate, kwargs: &TemplateKwargs) -> Self {
        let messages =
            [message("system", SYSTEM), message("user", ASKED), message("assistant", ANSWERED), message("user", ".")];
        let text = template.render(&messages, &variables(Answer::Begun, kwargs)).unwrap_or_default();
        match (text.find(SYSTEM), text.find(ASKED)) {
            (Some(system), Some(asked)) if system < asked => Self::Own,
            _ => Self::FirstUser,
        }
    }
}

/// The special token that a template writes after an answer; the tokenizer's EOS if it writes none.
pub(crate) fn end_of_turn(template: &ChatTemplate, kwargs: &TemplateKwargs, tokenizer: &Tokenizer) -> u32 {
    let messages = [message("user", ASKED), message("assistant", ANSWERED)];
    let text = template.render(&messages, &variables(Answer::Absent, kwargs)).unwrap_or_default();
    let after = text.find(ANSWERED).and_then(|at| text.get(at + ANSWERED.len()..)).unwrap_or_default().trim_start();
    // The longest special token that starts here.
    let found = tokenizer.special_texts(after).take_while(|found| found.start == 0).last();
    let token = found.and_then(|found| {
        let name = after.get(found)?;
        tokenizer.special_tokens().find(|(_, text)| *text == name)
    });
    token.map_or(tokenizer.eos(), |(id, _)| id)
}

fn message(role: &str, content: &str) -> Value {
    json!({"role": role, "content": content})
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::Map;
    use spag_model::tokenizer::SpecialIds;

    use super::*;

    /// The tokenizer of a family, with a template.
    pub(crate) fn tokenizer(family: &str, template: &str) -> Tokenizer {
        let folder = tempfile::tempdir().unwrap();
        spag_tests::chat_model(folder.path(), family, template);
        Tokenizer::from_dir(folder.path(), SpecialIds::default()).unwrap()
    }

    #[test]
    fn system_messages_are_moved_where_a_template_has_no_place_for_them() {
        let place = |name: &str| {
            SystemMessage::of(
                &ChatTemplate::of(&tokenizer("mistral", name)).unwrap().unwrap(),
                &TemplateKwargs::default(),
            )
        };
        for name in ["smollm2", "zephyr", "qwen2.5", "qwen3", "llama-3-instruct", "llama-2-chat", "gemma"] {
            assert_eq!(place(name), SystemMessage::Own, "{name}");
        }
        // One refuses system messages, the other moves them to the last message.
        for name in ["mistral-instruct-v0.1", "mistral-instruct-v0.3"] {
            assert_eq!(place(name), SystemMessage::FirstUser, "{name}");
        }
        let dropped = "{% for m in messages if m.role != 'system' %}{{ m.content }}{% endfor %}";
        let dropped = ChatTemplate::new(dropped.into(), Map::new()).unwrap();
        assert_eq!(SystemMessage::of(&dropped, &TemplateKwargs::default()), SystemMessage::FirstUser);
    }

    #[test]
    fn turns_end_with_the_token_that_the_template_writes() {
        for (family, template, end) in [
            ("smollm", "smollm2", "<|im_end|>"),
            ("qwen3", "qwen3", "<|im_end|>"),
            ("llama3", "llama-3-instruct", "<|eot_id|>"),
            ("mistral", "llama-2-chat", "</s>"),
            ("mistral", "zephyr", "</s>"),
        ] {
            let tokenizer = tokenizer(family, template);
            let token =
                end_of_turn(&ChatTemplate::of(&tokenizer).unwrap().unwrap(), &TemplateKwargs::default(), &tokenizer);
            assert_eq!(tokenizer.token(token).as_deref(), Some(end), "{template}");
        }
        // `<end_of_turn>` is not a token here.
        let gemma = tokenizer("llama3", "gemma");
        let other = ChatTemplate::of(&gemma).unwrap().unwrap();
        assert_eq!(end_of_turn(&other, &TemplateKwargs::default(), &gemma), gemma.eos());
    }
}
