//! The OpenAI protocol: requests and answers. Another protocol is another [`PromptStyle`].

use serde::Deserialize;
use serde_json::{Value, json};
use spag_game::Said;
use spag_io::{ChatMessage, ChatRole, PromptText, TurnPrompt};

use super::config::EndpointConfig;
use super::key::ApiKey;
use super::reasoning::Message;
use super::spec::{EndpointSpec, PromptStyle};
use super::turn::EndpointTurn;

/// Maximum characters of a quoted message.
const EXCERPT: usize = 300;
/// Bytes after which the rest of a message is ignored; more than the longest key and an excerpt.
const LONGEST_LINE: usize = 16 << 10;
/// Maximum bytes of an utterance, and of reasoning. A server that ignores the limit of tokens could fill memory and files.
const LONGEST_UTTERANCE: usize = 1 << 20;

/// The limit of tokens of a completion, by its older name.
const MAX_TOKENS: &str = "max_tokens";
/// What was thought before a message.
pub(super) const REASONING_CONTENT: &str = "reasoning_content";

/// The JSON of a request for one utterance, without the settings of sampling that differ between servers.
pub(super) fn request_body(spec: &EndpointSpec, config: &EndpointConfig, turn: &EndpointTurn) -> Value {
    let EndpointTurn { prompt, seed, .. } = turn;
    let mut body = json!({
        "model": spec.model,
        (MAX_TOKENS): config.completion_tokens(),
        // Some servers store seeds as signed 32-bit integers.
        "seed": seed >> 33,
        "n": 1,
        "stream": false,
    });
    match spec.style {
        PromptStyle::Chat => body["messages"] = messages(prompt),
        PromptStyle::Completion => body["prompt"] = prompt.text().into(),
    }
    body
}

/// Gives the limit of tokens the name that OpenAI's current models know.
pub(super) fn rename_limit(body: &mut Value) {
    if let Some(limit) = body.as_object_mut().and_then(|body| body.remove(MAX_TOKENS)) {
        body["max_completion_tokens"] = limit;
    }
}

/// Whether an answer with status 400 refuses the limit of tokens by its name.
pub(super) fn refuses_max_tokens(body: &[u8]) -> bool {
    let error = serde_json::from_slice::<Value>(body).unwrap_or_default();
    [&error["error"]["param"], &error["param"]].iter().any(|param| param.as_str() == Some(MAX_TOKENS))
}

fn messages(prompt: &TurnPrompt) -> Value {
    let message = |role: ChatRole, content: &PromptText| json!({"role": role, "content": content.text()});
    let one = |ChatMessage { role, content, reasoning }: &ChatMessage| {
        let mut message = message(*role, content);
        if let Some(reasoning) = reasoning {
            message[REASONING_CONTENT] = reasoning.as_str().into();
        }
        message
    };
    match prompt {
        TurnPrompt::Plain(text) => json!([message(ChatRole::User, text)]),
        TurnPrompt::Chat(messages) => messages.iter().map(one).collect(),
    }
}

/// The content of an answer with status 200.
#[derive(Debug, PartialEq)]
pub(super) enum Content {
    /// An utterance.
    Said(Said),
    /// No utterance, and a retry would not help.
    NoText(String),
    /// No valid completion.
    Invalid(String),
}

/// Tokens as reported by an answer.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(super) struct Usage {
    #[serde(default, deserialize_with = "spag_io::null_is_default")]
    pub(super) prompt_tokens: u64,
    #[serde(default, deserialize_with = "spag_io::null_is_default")]
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
    /// Parsed leniently, as is the next one, since neither is of OpenAI's protocol.
    #[serde(default)]
    reasoning_content: Value,
    /// Its name with current versions of vLLM, and with OpenRouter.
    #[serde(default)]
    reasoning: Value,
}

impl AnswerMessage {
    fn parts(self) -> Message {
        let fields = [&self.reasoning_content, &self.reasoning].into_iter().filter_map(Value::as_str);
        let reasoning = fields.map(str::trim).find(|text| !text.is_empty()).map(str::to_owned);
        Message { reasoning, content: self.content }
    }
}

/// Parses an answer with status 200. The key is removed from everything that it says. `said` is what a message says, if it has a
/// text.
pub(super) fn read_answer(
    (style, key): (PromptStyle, Option<&ApiKey>),
    body: &[u8],
    said: impl FnOnce(Message) -> Option<Said>,
) -> (Content, Usage) {
    let answer: Answer = match serde_json::from_slice(body) {
        Ok(answer) => answer,
        Err(error) => {
            let found = excerpt(&String::from_utf8_lossy(body), key);
            // serde_json quotes names and values of the answer.
            let error = excerpt(&error.to_string(), key);
            return (Content::Invalid(format!("the answer is no completion ({error}): {found:?}")), Usage::default());
        }
    };
    let usage = answer.usage.and_then(|usage| serde_json::from_value(usage).ok()).unwrap_or_default();
    let Some(choice) = answer.choices.into_iter().flatten().next() else {
        let reason = format!("the answer has no choices: {}", server_message(body, key));
        return (Content::Invalid(reason), usage);
    };
    if choice.finish_reason.as_deref() == Some("content_filter") {
        return (Content::NoText("the server's content filter withheld the utterance".to_owned()), usage);
    }
    let refusal = choice.message.as_ref().and_then(|message| message.refusal.as_deref());
    let refusal = refusal.map(|said| format!(": {}", excerpt(said, key))).unwrap_or_default();
    let message = match style {
        PromptStyle::Chat => choice.message.map(AnswerMessage::parts),
        PromptStyle::Completion => choice.text.map(|text| Message { reasoning: None, content: Some(text) }),
    };
    // A refusal is no reasoning that did not end.
    let message = message.filter(|message| message.content.is_some() || refusal.is_empty());
    if let Some(long) = message.as_ref().and_then(|message| too_long("an utterance", message.content.as_deref())) {
        return (long, usage);
    }
    let redacted = |text: String| match key {
        Some(key) => key.redact_utterance(text),
        None => text,
    };
    let redacted =
        |Message { reasoning, content }| Message { reasoning: reasoning.map(redacted), content: content.map(redacted) };
    let content = match message.map(redacted).and_then(said) {
        Some(said) => too_long("reasoning", said.reasoning.as_deref()).unwrap_or(Content::Said(said)),
        None => {
            let reason = choice.finish_reason.map_or_else(|| "none given".to_owned(), |reason| excerpt(&reason, key));
            Content::NoText(format!("the answer has no text (finish_reason: {reason}){refusal}"))
        }
    };
    (content, usage)
}

/// The refusal of a text with more bytes than are accepted.
fn too_long(what: &str, text: Option<&str>) -> Option<Content> {
    let size = text.map(str::len).filter(|size| *size > LONGEST_UTTERANCE)?;
    let limit = LONGEST_UTTERANCE;
    Some(Content::NoText(format!("the answer has {what} of {size} bytes, and at most {limit} are accepted")))
}

/// The error message in an answer, in the formats of common servers.
pub(super) fn server_message(body: &[u8], key: Option<&ApiKey>) -> String {
    let wrapped = serde_json::from_slice::<Value>(body).ok().and_then(|value| {
        let error = &value["error"];
        let places = [&error["message"], error, &value["message"], &value["detail"]];
        places.into_iter().find_map(|place| place.as_str().map(str::to_owned))
    });
    let message = excerpt(&wrapped.unwrap_or_else(|| String::from_utf8_lossy(body).into_owned()), key);
    if message.is_empty() { "(no message)".to_owned() } else { message }
}

/// The start of a text, on one line, without control characters and the key.
pub(super) fn excerpt(text: &str, key: Option<&ApiKey>) -> String {
    let redact = |text: &str| key.map_or_else(|| text.to_owned(), |key| key.redact(text));
    // Before the text is shortened, which could leave a part of the key.
    let text = redact(text);
    // Without control characters, the parts of a key may be together.
    let mut line = String::new();
    for word in text.split_whitespace() {
        line.push_str(if line.is_empty() { "" } else { " " });
        line.extend(word.chars().filter(|c| !c.is_control()));
        if line.len() > LONGEST_LINE {
            break;
        }
    }
    let line = redact(&line);
    let line = spag_io::escape(&line);
    match line.char_indices().nth(EXCERPT) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(style: PromptStyle, body: &[u8], key: Option<&ApiKey>) -> (Content, Usage) {
        read_answer((style, key), body, |message| message.content.map(Said::from))
    }

    fn chat(body: &str) -> Content {
        read(PromptStyle::Chat, body.as_bytes(), None).0
    }

    #[test]
    fn answers_are_parsed() {
        let whole = r#"{"choices":[{"message":{"role":"assistant","content":" Hi.\n"},"finish_reason":"stop"}],
            "usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}}"#;
        let (said, usage) = read(PromptStyle::Chat, whole.as_bytes(), None);
        assert_eq!((said, usage.prompt_tokens, usage.completion_tokens), (Content::Said(" Hi.\n".into()), 7, 3));
        let text = br#"{"choices":[{"text":"Hi."}],"usage":"unknown"}"#;
        assert_eq!(read(PromptStyle::Completion, text, None).0, Content::Said("Hi.".into()));
        assert_eq!(chat(r#"{"choices":[{"message":{"content":""}}]}"#), Content::Said("".into()));

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
    fn limit_of_tokens_is_renamed_if_it_is_refused_by_name() {
        let refused = br#"{"error": {"message": "Use 'max_completion_tokens'", "param": "max_tokens", "code": "unsupported_parameter"}}"#;
        assert!(refuses_max_tokens(refused) && refuses_max_tokens(br#"{"param": "max_tokens"}"#));
        assert!(!refuses_max_tokens(br#"{"error": {"param": "seed"}}"#) && !refuses_max_tokens(b"<html>"));
        let mut body = json!({"model": "m", "max_tokens": 7});
        rename_limit(&mut body);
        assert_eq!(body, json!({"model": "m", "max_completion_tokens": 7}));
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
            assert_eq!(server_message(body.as_bytes(), None), message);
        }
        assert_eq!(server_message("é".repeat(5000).as_bytes(), None).chars().count(), EXCERPT + 1);
    }

    #[test]
    fn key_and_long_reasons_are_removed_from_answers() {
        let key = ApiKey::new("sk-secret-1").unwrap();
        let chat = |body: &str| read(PromptStyle::Chat, body.as_bytes(), Some(&key)).0;
        let said = chat(r#"{"choices":[{"message":{"content":"My key is sk-secret\u002d1."}}]}"#);
        assert_eq!(said, Content::Said("My key is [key].".into()));
        let long = "r".repeat(1 << 20);
        for (reason, part) in [("sk-secret-1", "[key]"), (&long, "rrr…"), ("\\u001b[2J\\u202e", "[2J\\u{202e}")] {
            let body = format!(r#"{{"choices":[{{"message":{{}},"finish_reason":"{reason}"}}]}}"#);
            let Content::NoText(said) = chat(&body) else { panic!("{reason}") };
            assert!(said.contains(part) && said.len() < 1000 && !said.contains(['\x1b', '\u{202e}']), "{said}");
        }
        let Content::NoText(said) = chat(&format!(r#"{{"choices":[{{"message":{{"content":"{long}a"}}}}]}}"#)) else {
            panic!()
        };
        assert!(said.contains("1048577 bytes"), "{said}");
        for body in [r#"{"choices": "sk-secret-1"}"#, r#"{"choices": [], "detail": "sk-secret\u002d1"}"#] {
            let Content::Invalid(said) = chat(body) else { panic!("{body}") };
            assert!(said.contains("[key]") && !said.contains("secret"), "{said}");
        }
        // At every place of the cut.
        for before in 280..310 {
            let body = format!("{}sk-secret-1", "x".repeat(before));
            assert!(!server_message(body.as_bytes(), Some(&key)).contains("sk-"), "{before}");
        }
    }

    proptest! {
        #[test]
        fn parsing_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200), json in "[\\[\\]{}\":,a-z0-9]{0,60}") {
            for style in [PromptStyle::Chat, PromptStyle::Completion] {
                for body in [&bytes[..], json.as_bytes()] {
                    read(style, body, None);
                    server_message(body, None);
                }
            }
        }
    }
}
