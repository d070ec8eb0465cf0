//! The OpenAI protocol: requests and answers. Another protocol is another [`PromptStyle`].

use serde::Deserialize;
use serde_json::{Value, json};

use super::config::EndpointConfig;
use crate::player_spec::EndpointSpec;

/// Maximum characters of a quoted message.
const EXCERPT: usize = 300;

/// The format of a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptStyle {
    /// A single user message to `/chat/completions`, for chat models.
    Chat,
    /// A text to complete, to `/completions`. Checkpoints get prompts in this format too.
    Completion,
}

impl PromptStyle {
    pub(crate) const ALL: [Self; 2] = [Self::Chat, Self::Completion];

    /// The path after the base URL.
    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Chat => "/chat/completions",
            Self::Completion => "/completions",
        }
    }

    /// What a [`PlayerSpec`](crate::PlayerSpec) starts with.
    pub(crate) fn scheme(self) -> &'static str {
        match self {
            Self::Chat => "openai:",
            Self::Completion => "openai-completions:",
        }
    }
}

/// The JSON of a request for one utterance.
pub(super) fn request_body(spec: &EndpointSpec, config: &EndpointConfig, prompt: &str, seed: u64) -> String {
    let mut body = json!({
        "model": spec.model,
        "max_tokens": config.max_tokens,
        "temperature": config.temperature,
        // Some servers store seeds as signed 32-bit integers.
        "seed": seed >> 33,
        "n": 1,
        "stream": false,
    });
    match spec.style {
        PromptStyle::Chat => body["messages"] = json!([{"role": "user", "content": prompt}]),
        PromptStyle::Completion => body["prompt"] = prompt.into(),
    }
    if let Some(top_p) = config.top_p {
        body["top_p"] = top_p.into();
    }
    body.to_string()
}

/// The content of an answer with status 200.
#[derive(Debug, PartialEq)]
pub(super) enum Content {
    /// An utterance.
    Text(String),
    /// No utterance, and a retry would not help.
    NoText(String),
    /// No valid completion.
    Invalid(String),
}

/// Tokens as reported by an answer.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(super) struct Usage {
    #[serde(default)]
    pub(super) prompt_tokens: u64,
    #[serde(default)]
    pub(super) completion_tokens: u64,
}

#[derive(Deserialize)]
struct Answer {
    choices: Option<Vec<Choice>>,
    /// Parsed leniently, since servers report it differently.
    usage: Option<Value>,
}

#[derive(Deserialize)]
struct Choice {
    message: Option<AnswerMessage>,
    text: Option<String>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct AnswerMessage {
    content: Option<String>,
    refusal: Option<String>,
}

/// Parses an answer with status 200.
pub(super) fn read_answer(style: PromptStyle, body: &[u8]) -> (Content, Usage) {
    let answer: Answer = match serde_json::from_slice(body) {
        Ok(answer) => answer,
        Err(error) => {
            let found = excerpt(&String::from_utf8_lossy(body));
            return (Content::Invalid(format!("the answer is no completion ({error}): {found:?}")), Usage::default());
        }
    };
    let usage = answer.usage.and_then(|usage| serde_json::from_value(usage).ok()).unwrap_or_default();
    let Some(choice) = answer.choices.into_iter().flatten().next() else {
        let reason = format!("the answer has no choices: {}", server_message(body));
        return (Content::Invalid(reason), usage);
    };
    if choice.finish_reason.as_deref() == Some("content_filter") {
        return (Content::NoText("the server's content filter withheld the utterance".to_owned()), usage);
    }
    let refusal = choice.message.as_ref().and_then(|message| message.refusal.as_deref()).map(excerpt);
    let text = match style {
        PromptStyle::Chat => choice.message.and_then(|message| message.content),
        PromptStyle::Completion => choice.text,
    };
    let content = text.map_or_else(
        || {
            let why = refusal.map(|said| format!(": {said}")).unwrap_or_default();
            let reason = choice.finish_reason.as_deref().unwrap_or("none given");
            Content::NoText(format!("the answer has no text (finish_reason: {reason}){why}"))
        },
        Content::Text,
    );
    (content, usage)
}

/// The error message in an answer, in the formats of common servers.
pub(super) fn server_message(body: &[u8]) -> String {
    let wrapped = serde_json::from_slice::<Value>(body).ok().and_then(|value| {
        let error = &value["error"];
        let places = [&error["message"], error, &value["message"], &value["detail"]];
        places.into_iter().find_map(|place| place.as_str().map(str::to_owned))
    });
    let message = excerpt(&wrapped.unwrap_or_else(|| String::from_utf8_lossy(body).into_owned()));
    if message.is_empty() { "(no message)".to_owned() } else { message }
}

/// The start of a text, on one line.
pub(super) fn excerpt(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line: String = line.chars().filter(|c| !c.is_control()).collect();
    match line.char_indices().nth(EXCERPT) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn chat(body: &str) -> Content {
        read_answer(PromptStyle::Chat, body.as_bytes()).0
    }

    #[test]
    fn answers_are_parsed() {
        let whole = r#"{"choices":[{"message":{"role":"assistant","content":" Hi.\n"},"finish_reason":"stop"}],
            "usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}}"#;
        let (said, usage) = read_answer(PromptStyle::Chat, whole.as_bytes());
        assert_eq!((said, usage.prompt_tokens, usage.completion_tokens), (Content::Text(" Hi.\n".into()), 7, 3));
        let text = br#"{"choices":[{"text":"Hi."}],"usage":"unknown"}"#;
        assert_eq!(read_answer(PromptStyle::Completion, text).0, Content::Text("Hi.".into()));
        assert_eq!(chat(r#"{"choices":[{"message":{"content":""}}]}"#), Content::Text(String::new()));

        for body in [
            r#"{"choices":[{"message":{"content":"Half"},"finish_reason":"content_filter"}]}"#,
            r#"{"choices":[{"message":{"content":null,"refusal":"I cannot."},"finish_reason":"stop"}]}"#,
            r#"{"choices":[{"message":{}}]}"#,
            r#"{"choices":[{"text":"for the other style"}]}"#,
        ] {
            assert!(matches!(chat(body), Content::NoText(_)), "{body}");
        }
        for body in ["", "<html>", "[]", "{", r#"{"choices":[]}"#, r#"{"error":{"message":"overloaded"}}"#] {
            assert!(matches!(chat(body), Content::Invalid(_)), "{body}");
        }
    }

    #[test]
    fn server_message_is_found_and_shortened() {
        for (body, message) in [
            (r#"{"error":{"message":"too long","code":400}}"#, "too long"),
            (r#"{"error":"no such model"}"#, "no such model"),
            (r#"{"object":"error","message":"too\n long"}"#, "too long"),
            (r#"{"detail":"Not Found"}"#, "Not Found"),
            ("<h1>Bad\u{7} Gateway</h1>", "<h1>Bad Gateway</h1>"),
            ("", "(no message)"),
        ] {
            assert_eq!(server_message(body.as_bytes()), message);
        }
        assert_eq!(server_message("é".repeat(5000).as_bytes()).chars().count(), EXCERPT + 1);
    }

    proptest! {
        #[test]
        fn parsing_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200), json in "[\\[\\]{}\":,a-z0-9]{0,60}") {
            for style in [PromptStyle::Chat, PromptStyle::Completion] {
                for body in [&bytes[..], json.as_bytes()] {
                    read_answer(style, body);
                    server_message(body);
                }
            }
        }
    }
}
