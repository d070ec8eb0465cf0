//! A sample: one row of training data.

use serde::{Deserialize, Serialize, Serializer, ser::SerializeMap};
use serde_json::{Map, Value};
use spag_game::Seat;

use crate::query::{Form, MessageRow, Query};

/// The origin of a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SampleKind {
    /// An utterance of a game, with its reward.
    #[default]
    Game,
    /// A demonstration to imitate; written as `"type": "sft"`.
    Sft,
}

/// A query, its target, and the weight of both in the loss. Made by [`assign_rewards`](crate::assign_rewards) and the
/// converters, read by the trainer.
///
/// In files it is an object with `query`, `target`, `reward`, `weight` and optional `role` and `type`. When read,
/// `prompt` may replace `query`, and `answer` or `completion` the `target`; reward and weight default to 1, and unknown keys are kept.
/// A chat has `messages` in place of `query` and `target`, of which the last one is the assistant's and the target; so have `prompt`
/// and `completion` together if they are lists of messages. A row with `text` alone is a target without a query. [`Query`] has the
/// other forms.
///
/// ```
/// use spag_rewards::{Sample, SampleKind};
/// let sample: Sample = serde_json::from_str(r#"{"prompt": "2+2=", "answer": "4", "type": "sft", "source": "me"}"#)?;
/// assert_eq!((sample.target.as_str(), sample.weight, sample.kind), ("4", 1.0, SampleKind::Sft));
/// assert_eq!(
///     serde_json::to_string(&sample)?,
///     r#"{"query":"2+2=","target":"4","reward":1.0,"weight":1.0,"type":"sft","source":"me"}"#
/// );
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "Row")]
pub struct Sample {
    /// The prompt.
    pub query: Query,
    /// The text to learn.
    pub target: String,
    /// What the author of the target thought before, in answers to messages: learned before the target, as the model's chat template
    /// has it. `reasoning_content` of the last message in files.
    pub reasoning: Option<String>,
    /// 1 for a demonstration, the utterance's share of the win for a game.
    pub reward: f64,
    /// Factor of the sample's loss, at least 0.
    pub weight: f64,
    /// The seat of an utterance of a game; `role` in files.
    pub seat: Option<Seat>,
    /// The origin.
    pub kind: SampleKind,
    /// All other keys, kept on a round trip.
    pub extra: Map<String, Value>,
}

impl Sample {
    /// A demonstration: reward and weight 1.
    pub fn sft(query: impl Into<Query>, target: impl Into<String>) -> Self {
        Self { kind: SampleKind::Sft, ..Self::new(query, target) }
    }

    /// A sample of a game with reward and weight 1, without a seat.
    pub(crate) fn new(query: impl Into<Query>, target: impl Into<String>) -> Self {
        let (query, target) = (query.into(), target.into());
        let (reasoning, extra) = (None, Map::new());
        Self { query, target, reasoning, reward: 1.0, weight: 1.0, seat: None, kind: SampleKind::Game, extra }
    }

    /// Checks that a loss can be computed from the weight and the reward. Samples of files are checked when they are read.
    ///
    /// # Errors
    /// The weight is negative or not finite, or the reward is not finite.
    pub fn check(&self) -> Result<(), BadNumber> {
        let Self { weight, reward, .. } = *self;
        if !(weight.is_finite() && weight >= 0.0) {
            return Err(BadNumber { key: "weight", value: weight, expected: "a number of at least 0" });
        }
        if !reward.is_finite() {
            return Err(BadNumber { key: "reward", value: reward, expected: "a finite number" });
        }
        Ok(())
    }

    /// The sample as a demonstration with weight 1.
    pub(crate) fn into_sft(self) -> Self {
        Self { kind: SampleKind::Sft, weight: 1.0, ..self }
    }
}

/// A number of a sample that no loss can be computed from.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("`{key}` is {value}, but must be {expected}")]
pub struct BadNumber {
    key: &'static str,
    value: f64,
    expected: &'static str,
}

/// Keys in the order of the reference's files.
impl Serialize for Sample {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.query.serialize((&self.target, self.reasoning.as_deref()), self.seat, &mut map)?;
        map.serialize_entry("reward", &self.reward)?;
        if let Some(seat) = self.seat {
            map.serialize_entry("role", &seat)?;
        }
        map.serialize_entry("weight", &self.weight)?;
        if self.kind == SampleKind::Sft {
            map.serialize_entry("type", "sft")?;
        }
        for (key, value) in &self.extra {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

/// A row of a file.
#[derive(Deserialize)]
#[serde(expecting = "a sample: an object with `query` and `target`")]
struct Row {
    query: Option<String>,
    prompt: Option<Text>,
    said: Option<Vec<(usize, usize)>>,
    templated: Option<bool>,
    messages: Option<Vec<MessageRow>>,
    target: Option<String>,
    answer: Option<String>,
    completion: Option<Text>,
    reward: Option<f64>,
    weight: Option<f64>,
    #[serde(rename = "role")]
    seat: Option<Seat>,
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(flatten)]
    extra: Map<String, Value>,
}

/// A text, or messages of a chat.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a string, or a list of messages with `role` and `content`")]
enum Text {
    Plain(String),
    Messages(Vec<MessageRow>),
}

/// Why a row is not a sample.
#[derive(Debug, thiserror::Error)]
enum NotASample {
    #[error("a sample needs `{0}` (or `{1}`)")]
    Missing(&'static str, &'static str),
    #[error("{0}")]
    Query(String),
    #[error(
        "this is an Alpaca row (`instruction`, `input`, `output`), not a sample; convert the file with `spag data alpaca` first"
    )]
    Alpaca,
    #[error(transparent)]
    Number(#[from] BadNumber),
    #[error("`type` is {0:?}; only \"sft\" is known, and samples of games have none")]
    Type(String),
}

impl TryFrom<Row> for Sample {
    type Error = NotASample;

    fn try_from(row: Row) -> Result<Self, NotASample> {
        let mut extra = row.extra;
        let (prompt, completion, messages) = match (row.prompt, row.completion, row.messages) {
            (Some(Text::Messages(mut prompt)), Some(Text::Messages(completion)), None) => {
                prompt.extend(completion);
                (None, None, Some(prompt))
            }
            (prompt, completion, messages) => (plain(prompt, "prompt")?, plain(completion, "completion")?, messages),
        };
        let (mut query, mut target) = (row.query, row.target);
        match (&target, completion) {
            // Kept as an unknown key.
            (Some(_), Some(completion)) => drop(extra.insert("completion".to_owned(), Value::String(completion))),
            (None, completion) => target = completion,
            (Some(_), None) => {}
        }
        let is_text = [&query, &prompt, &target, &row.answer].iter().all(|text| text.is_none()) && messages.is_none();
        if is_text && let Some(Value::String(text)) = extra.get("text") {
            (query, target) = (Some(String::new()), Some(text.clone()));
            extra.remove("text");
        }
        let mut choose =
            |name: &'static str, value: Option<String>, other_name: &'static str, other: Option<String>| {
                match (value, other) {
                    // The second is kept as an unknown key.
                    (Some(value), Some(other)) => {
                        extra.insert(other_name.to_owned(), Value::String(other));
                        Ok(value)
                    }
                    (Some(value), None) | (None, Some(value)) => Ok(value),
                    (None, None) if extra.contains_key("instruction") => Err(NotASample::Alpaca),
                    (None, None) => Err(NotASample::Missing(name, other_name)),
                }
            };
        let form = Form { said: row.said, templated: row.templated.unwrap_or(false) };
        let (query, target, reasoning) = match messages {
            Some(messages) => {
                let beside = [("query", query), ("prompt", prompt), ("target", target), ("answer", row.answer)];
                Query::of_messages(messages, beside, form, row.seat).map_err(NotASample::Query)?
            }
            None => {
                let query = choose("query", query, "prompt", prompt)?;
                let target = choose("target", target, "answer", row.answer)?;
                (Query::of_text(query, form).map_err(NotASample::Query)?, target, None)
            }
        };
        let kind = match row.kind.as_deref() {
            None | Some("sample" | "game") => SampleKind::Game,
            Some("sft") => SampleKind::Sft,
            Some(other) => return Err(NotASample::Type(other.into())),
        };
        let (reward, weight) = (row.reward.unwrap_or(1.0), row.weight.unwrap_or(1.0));
        let sample = Self { query, target, reasoning, reward, weight, seat: row.seat, kind, extra };
        sample.check()?;
        Ok(sample)
    }
}

/// The text of a key, which is messages in both keys of a chat or in none.
fn plain(text: Option<Text>, key: &str) -> Result<Option<String>, NotASample> {
    match text {
        None => Ok(None),
        Some(Text::Plain(text)) => Ok(Some(text)),
        Some(Text::Messages(_)) => Err(NotASample::Query(format!(
            "`{key}` is a list of messages; `prompt` and `completion` are both lists or both texts, without `messages`"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use spag_game::taboo;

    fn read(row: &str) -> Result<Sample, serde_json::Error> {
        serde_json::from_str(row)
    }

    #[test]
    fn query_takes_precedence_over_prompt() {
        let sample = read(r#"{"prompt": "p", "query": "q", "target": "t", "n": [1]}"#).unwrap();
        assert_eq!(sample.query, Query::Text("q".into()));
        assert_eq!(serde_json::to_value(&sample).unwrap()["prompt"], "p");
        assert_eq!(sample.extra["n"], serde_json::json!([1]));
    }

    #[test]
    fn rows_of_trl_are_read() {
        let as_written = |row: &str| serde_json::to_value(read(row).unwrap()).unwrap();
        let own = as_written(r#"{"query": "q", "target": "t"}"#);
        assert_eq!(as_written(r#"{"prompt": "q", "completion": "t", "answer": null, "role": null}"#), own);
        assert_eq!(as_written(r#"{"text": "t"}"#), as_written(r#"{"query": "", "target": "t"}"#));
        let chat = r#"{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "t"}]}"#;
        let halves =
            r#"{"prompt": [{"role": "user", "content": "q"}], "completion": [{"role": "assistant", "content": "t"}]}"#;
        assert_eq!(as_written(halves), as_written(chat));
        let half = read(r#"{"prompt": [{"role": "user", "content": "q"}], "completion": "t"}"#).unwrap_err();
        assert!(half.to_string().contains("both lists or both texts"), "{half}");
        assert_eq!(read(r#"{"query": "q", "target": "t", "text": "kept"}"#).unwrap().extra["text"], "kept");
    }

    #[test]
    fn invalid_row_names_the_cause() {
        for (row, why) in [
            (r#"{"target": "t"}"#, "a sample needs `query` (or `prompt`)"),
            (r#"{"prompt": "t"}"#, "a sample needs `target` (or `answer`)"),
            (r#"{"instruction": "i", "input": "", "output": "o"}"#, "spag data alpaca"),
            (r#"{"query": "q", "target": "t", "type": "SFT"}"#, "\"SFT\""),
            (r#"{"query": "q", "target": "t", "role": "judge"}"#, "judge"),
            (r#"{"query": 1, "target": "t"}"#, "string"),
            (r#"{"query": "q", "target": "t", "weight": "1"}"#, "f64"),
            (r#"{"query": "q", "target": "t", "weight": -1}"#, "`weight` is -1, but must be a number of at least 0"),
            (r#"[]"#, "sample"),
        ] {
            let message = read(row).unwrap_err().to_string();
            assert!(message.contains(why), "{row}: {message}");
        }
    }

    #[test]
    fn demonstration_has_weight_one() {
        let sample = read(r#"{"query": "q", "target": "t", "weight": 3, "reward": 0.5}"#).unwrap().into_sft();
        assert_eq!((sample.kind, sample.weight, sample.reward), (SampleKind::Sft, 1.0, 0.5));
    }

    proptest! {
        #[test]
        fn sample_survives_a_round_trip(
            query in ".*", target in ".*", reward in any::<f64>().prop_filter("finite", |x| x.is_finite()),
            weight in 0f64..100.0, seat in prop_oneof![Just(None), Just(Some(taboo::ATTACKER)), Just(Some(taboo::DEFENDER))],
            sft: bool,
        ) {
            let kind = if sft { SampleKind::Sft } else { SampleKind::Game };
            let sample = Sample { reward, weight, seat, kind, ..Sample::new(query, target) };
            let text = serde_json::to_string(&sample).unwrap();
            prop_assert_eq!(read(&text).unwrap(), sample);
        }
    }
}
