//! What a target answers: a text in one of three forms, or the messages of a chat.

use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize};
use spag_game::Seat;
use spag_io::{ChatMessage, ChatRole, PromptText, TurnPrompt};

/// The prompt of a [`Sample`](crate::Sample).
///
/// The forms differ in which special tokens of a tokenizer are matched in them, and in whether BOS comes first:
///
/// | Form | In files | Special tokens | BOS |
/// |---|---|---|---|
/// | `Text` | `query` | those of demonstrations; in games all is text | as the tokenizer has it |
/// | `Said` | `query`, `said` | outside what players said | as the tokenizer has it |
/// | `Templated` | `query`, `templated` | all | none is added |
/// | `Messages` | `messages` | outside what players said | as the chat template has it |
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Query {
    /// A text.
    Text(String),
    /// A prompt of a game in wordings that may have special tokens. `said` in files is a list of [start, end] in bytes.
    Said(PromptText),
    /// A text that a chat template has written already.
    Templated(String),
    /// The messages before the target, for the model's chat template. In files, `said` of a message is as for a text; without
    /// it, all of a message of a game was said (it has a `role`), and nothing of another one.
    Messages(Vec<ChatMessage>),
}

impl Query {
    /// The text; of messages, their texts, one a line.
    pub fn text(&self) -> String {
        match self {
            Self::Text(text) | Self::Templated(text) => text.clone(),
            Self::Said(prompt) => prompt.text().to_owned(),
            Self::Messages(messages) => TurnPrompt::Chat(messages.clone()).text(),
        }
    }

    /// The query and the target of a row without messages.
    pub(crate) fn of_text(query: String, form: Form) -> Result<Self, String> {
        match form {
            Form { said: Some(_), templated: true } => {
                Err("`said` and `templated` exclude each other: what players said is never a special token".into())
            }
            Form { said: Some(said), .. } => Ok(Self::Said(prompt_text(query, said)?)),
            Form { templated: true, .. } => Ok(Self::Templated(query)),
            Form { .. } => Ok(Self::Text(query)),
        }
    }

    /// The query, the target and its reasoning of a row with messages. `beside` are the keys that must be absent.
    pub(crate) fn of_messages(
        rows: Vec<MessageRow>,
        beside: [(&str, Option<String>); 4],
        form: Form,
        seat: Option<Seat>,
    ) -> Result<(Self, String, Option<String>), String> {
        if let Some((key, _)) = beside.iter().find(|(_, text)| text.is_some()) {
            return Err(format!("a sample has `messages` or `{key}`, not both"));
        }
        if form.templated || form.said.is_some() {
            return Err(
                "`said` and `templated` belong to `query`; within `messages`, `said` is a key of a message".into()
            );
        }
        let mut messages = Vec::with_capacity(rows.len());
        let last = rows.len().saturating_sub(1);
        for (at, row) in rows.into_iter().enumerate() {
            let message = row.message(seat).map_err(|why| format!("messages[{at}]: {why}"))?;
            // That of others is left to templates, which drop it.
            let reasoning = message.reasoning.filter(|_| seat.is_some() || at == last);
            messages.push(ChatMessage { reasoning, ..message });
        }
        match messages.pop() {
            Some(last) if last.role == ChatRole::Assistant && !messages.is_empty() => {
                Ok((Self::Messages(messages), last.content.into_text(), last.reasoning))
            }
            _ => {
                Err("`messages` needs a message to answer, and the assistant's answer, the target, as the last one"
                    .into())
            }
        }
    }

    /// Writes the query and its target.
    pub(crate) fn serialize<M: SerializeMap>(
        &self,
        (target, reasoning): (&str, Option<&str>),
        seat: Option<Seat>,
        map: &mut M,
    ) -> Result<(), M::Error> {
        match self {
            Self::Text(query) => map.serialize_entry("query", query)?,
            Self::Said(prompt) => {
                map.serialize_entry("query", prompt.text())?;
                map.serialize_entry("said", &pairs(prompt))?;
            }
            Self::Templated(query) => {
                map.serialize_entry("query", query)?;
                map.serialize_entry("templated", &true)?;
            }
            Self::Messages(messages) => {
                let target = ChatMessage::new(ChatRole::Assistant, whole(target.to_owned(), seat));
                let target = ChatMessage { reasoning: reasoning.map(str::to_owned), ..target };
                let rows: Vec<MessageRow> =
                    messages.iter().chain([&target]).map(|message| MessageRow::of(message, seat)).collect();
                return map.serialize_entry("messages", &rows);
            }
        }
        map.serialize_entry("target", target)
    }
}

impl From<&str> for Query {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Query {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

/// The prompt of a game. What players said is noted if the wordings may have special tokens.
impl From<TurnPrompt> for Query {
    fn from(prompt: TurnPrompt) -> Self {
        match prompt {
            TurnPrompt::Plain(prompt) if prompt.may_have_special_tokens() => Self::Said(prompt),
            TurnPrompt::Plain(prompt) => Self::Text(prompt.into_text()),
            TurnPrompt::Chat(messages) => Self::Messages(messages),
        }
    }
}

/// The keys that say how a `query` is encoded.
pub(crate) struct Form {
    pub(crate) said: Option<Vec<(usize, usize)>>,
    pub(crate) templated: bool,
}

/// A message in a file. Other keys are ignored.
#[derive(Debug, Serialize, Deserialize)]
#[serde(expecting = "a message: an object with `role` and `content`")]
pub(crate) struct MessageRow {
    role: ChatRole,
    content: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    said: Option<Vec<(usize, usize)>>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "reasoning")]
    reasoning_content: Option<String>,
}

/// Other programs may have anything under this key.
fn reasoning<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let found = serde_json::Value::deserialize(deserializer)?;
    Ok(found.as_str().filter(|text| !text.trim().is_empty()).map(str::to_owned))
}

impl MessageRow {
    fn message(self, seat: Option<Seat>) -> Result<ChatMessage, String> {
        let content = match self.said {
            Some(said) => prompt_text(self.content, said)?,
            None => whole(self.content, seat),
        };
        let reasoning = self.reasoning_content.filter(|_| self.role == ChatRole::Assistant);
        Ok(ChatMessage { reasoning, ..ChatMessage::new(self.role, content) })
    }

    /// A message as it is written. What was said is left out where it follows from the rest, or makes no difference.
    fn of(message: &ChatMessage, seat: Option<Seat>) -> Self {
        let content = message.content.text().to_owned();
        let follows = whole(content.clone(), seat) == message.content;
        let is_text = seat.is_some() && !message.content.may_have_special_tokens();
        let said = (!follows && !is_text).then(|| pairs(&message.content));
        Self { role: message.role, content, said, reasoning_content: message.reasoning.clone() }
    }
}

/// A message without `said`.
fn whole(content: String, seat: Option<Seat>) -> PromptText {
    if seat.is_some() { PromptText::all_said(content) } else { PromptText::own(content) }
}

fn prompt_text(text: String, said: Vec<(usize, usize)>) -> Result<PromptText, String> {
    PromptText::new(text, said.into_iter().map(|(start, end)| start..end).collect())
}

fn pairs(prompt: &PromptText) -> Vec<(usize, usize)> {
    prompt.said().iter().map(|said| (said.start, said.end)).collect()
}

#[cfg(test)]
mod tests {
    use spag_game::taboo;

    use super::*;
    use crate::Sample;

    fn read(row: &str) -> Result<Sample, serde_json::Error> {
        serde_json::from_str(row)
    }

    fn written(sample: &Sample) -> String {
        serde_json::to_string(sample).unwrap()
    }

    #[test]
    fn forms_survive_a_round_trip() {
        for row in [
            r#"{"query":"<u>Hi","said":[[3,5]],"target":"t","reward":1.0,"role":"attacker","weight":1.0}"#,
            r#"{"query":"<u>Hi","templated":true,"target":"t","reward":1.0,"weight":1.0,"type":"sft"}"#,
            r#"{"messages":[{"role":"user","content":"<a>"},{"role":"assistant","content":"t"}],"reward":1.0,"role":"attacker","weight":1.0}"#,
            r#"{"messages":[{"role":"user","content":"<a>"},{"role":"assistant","content":"<t>"}],"reward":1.0,"weight":1.0}"#,
            r#"{"messages":[{"role":"system","content":"<a>b","said":[[3,4]]},{"role":"assistant","content":"t"}],"reward":1.0,"role":"defender","weight":1.0}"#,
        ] {
            assert_eq!(written(&read(row).unwrap()), row);
        }
    }

    #[test]
    fn messages_of_games_were_said_and_those_of_others_were_not() {
        let content = |row: &str| match read(row).unwrap().query {
            Query::Messages(messages) => messages[0].content.clone(),
            query => panic!("{query:?}"),
        };
        let messages = r#""messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]"#;
        assert_eq!(content(&format!("{{{messages}}}")), PromptText::own("x"));
        assert_eq!(content(&format!(r#"{{{messages}, "role": "attacker"}}"#)), PromptText::all_said("x"));
    }

    #[test]
    fn prompts_of_games_note_what_was_said_only_if_it_matters() {
        let mut prompt = PromptText::own("Say: ");
        prompt.push_said("<s>");
        assert_eq!(Query::from(TurnPrompt::Plain(prompt.clone())), Query::Text("Say: <s>".into()));
        prompt.push("<end>");
        assert_eq!(Query::from(TurnPrompt::Plain(prompt.clone())), Query::Said(prompt.clone()));

        let rules = ChatMessage::new(ChatRole::System, PromptText::new("Word: tea".into(), vec![6..9]).unwrap());
        let sample = Sample { seat: Some(taboo::DEFENDER), ..Sample::new(TurnPrompt::Chat(vec![rules]), "t") };
        assert!(!written(&sample).contains("said"), "{}", written(&sample));
        let rules = ChatMessage::new(ChatRole::System, prompt);
        let sample = Sample { seat: Some(taboo::DEFENDER), ..Sample::new(TurnPrompt::Chat(vec![rules]), "t") };
        assert!(written(&sample).contains(r#""said":[[5,8]]"#), "{}", written(&sample));
        assert_eq!(read(&written(&sample)).unwrap(), sample);
    }

    #[test]
    fn invalid_rows_name_the_cause() {
        let answer = r#"{"role": "assistant", "content": "y"}"#;
        for (row, why) in [
            (r#"{"query": "é", "target": "t", "said": [[0, 1]]}"#.to_owned(), "`said` has 0–1"),
            (r#"{"query": "e", "target": "t", "said": [[0, 1]], "templated": true}"#.into(), "exclude each other"),
            (r#"{"messages": []}"#.into(), "needs a message to answer"),
            (format!(r#"{{"messages": [{answer}]}}"#), "needs a message to answer"),
            (r#"{"messages": [{"role": "user", "content": "x"}]}"#.into(), "the target, as the last one"),
            (format!(r#"{{"messages": [{answer}, {answer}], "target": "t"}}"#), "`messages` or `target`"),
            (format!(r#"{{"messages": [{answer}, {answer}], "templated": true}}"#), "belong to `query`"),
            (
                format!(r#"{{"messages": [{{"role": "user", "content": "x", "said": [[1, 2]]}}, {answer}]}}"#),
                "messages[0]: `said`",
            ),
            (r#"{"messages": [{"role": "tool", "content": "x"}]}"#.into(), "unknown variant `tool`"),
            (r#"{"messages": [{"role": "user", "content": ["x"]}]}"#.into(), "string"),
            (r#"{"messages": "x"}"#.into(), "sequence"),
        ] {
            let message = read(&row).unwrap_err().to_string();
            assert!(message.contains(why), "{row}: {message}");
        }
    }
}
