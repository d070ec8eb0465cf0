//! One row of training data.

use serde::{Deserialize, Serialize, Serializer, ser::SerializeMap};
use serde_json::{Map, Value};
use spag_game::Role;

/// What a sample is learned from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SampleKind {
    /// An utterance of a game, with the reward it earned.
    #[default]
    Game,
    /// A demonstration to imitate; written as `"type": "sft"`.
    Sft,
}

/// A query, the target to learn for it, and how much it counts. Made by [`assign_rewards`](crate::assign_rewards)
/// and the converters, read by the trainer.
///
/// In a file it is an object with `query`, `target`, `reward`, `weight`, and `role` and `type` where they apply.
/// Reading, `prompt` and `answer` stand in for `query` and `target`, a missing reward or weight is 1, and unknown
/// keys are kept.
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
    /// What the model is shown.
    pub query: String,
    /// What it should say.
    pub target: String,
    /// How good the target was: 1 for a demonstration, the winner's share for an utterance of a game.
    pub reward: f64,
    /// Factor of the sample's loss.
    pub weight: f64,
    /// Whose utterance it is, where it is one.
    pub role: Option<Role>,
    /// What it is learned from.
    pub kind: SampleKind,
    /// Keys of the row that mean nothing here.
    pub extra: Map<String, Value>,
}

impl Sample {
    /// A demonstration: reward and weight 1.
    pub fn sft(query: impl Into<String>, target: impl Into<String>) -> Self {
        Self { kind: SampleKind::Sft, ..Self::plain(query.into(), target.into()) }
    }

    /// A sample that counts 1 and belongs to no role.
    pub(crate) fn plain(query: String, target: String) -> Self {
        Self { query, target, reward: 1.0, weight: 1.0, role: None, kind: SampleKind::Game, extra: Map::new() }
    }

    /// The same row as a demonstration to mix in: typed so, and weighing 1 whatever it weighed.
    pub fn into_sft(self) -> Self {
        Self { kind: SampleKind::Sft, weight: 1.0, ..self }
    }
}

/// Keys in the order of the reference's files.
impl Serialize for Sample {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("query", &self.query)?;
        map.serialize_entry("target", &self.target)?;
        map.serialize_entry("reward", &self.reward)?;
        if let Some(role) = self.role {
            map.serialize_entry("role", &role)?;
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

/// A row as it may stand in a file.
#[derive(Deserialize)]
#[serde(expecting = "a sample: an object with `query` and `target`")]
struct Row {
    query: Option<String>,
    prompt: Option<String>,
    target: Option<String>,
    answer: Option<String>,
    reward: Option<f64>,
    weight: Option<f64>,
    role: Option<Role>,
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(flatten)]
    extra: Map<String, Value>,
}

/// Why a row is no sample.
#[derive(Debug, thiserror::Error)]
enum NotASample {
    #[error("a sample needs `{0}` (or `{1}`)")]
    Missing(&'static str, &'static str),
    #[error(
        "this is an Alpaca row (`instruction`, `input`, `output`), not a sample; convert the file with `spag data alpaca` first"
    )]
    Alpaca,
    #[error("`type` is {0:?}; only \"sft\" is known, and samples of games have none")]
    Type(String),
}

impl TryFrom<Row> for Sample {
    type Error = NotASample;

    fn try_from(row: Row) -> Result<Self, NotASample> {
        let mut extra = row.extra;
        let mut choose = |name, value: Option<String>, other_name: &'static str, other: Option<String>| {
            match (value, other) {
                // Both: the first is the one that counts, the second an unknown key like any other.
                (Some(value), Some(other)) => {
                    extra.insert(other_name.to_owned(), Value::String(other));
                    Ok(value)
                }
                (Some(value), None) | (None, Some(value)) => Ok(value),
                (None, None) if extra.contains_key("instruction") => Err(NotASample::Alpaca),
                (None, None) => Err(NotASample::Missing(name, other_name)),
            }
        };
        let query = choose("query", row.query, "prompt", row.prompt)?;
        let target = choose("target", row.target, "answer", row.answer)?;
        let kind = match row.kind.as_deref() {
            None | Some("sample" | "game") => SampleKind::Game,
            Some("sft") => SampleKind::Sft,
            Some(other) => return Err(NotASample::Type(other.into())),
        };
        let (reward, weight) = (row.reward.unwrap_or(1.0), row.weight.unwrap_or(1.0));
        Ok(Self { query, target, reward, weight, role: row.role, kind, extra })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(row: &str) -> Result<Sample, serde_json::Error> {
        serde_json::from_str(row)
    }

    #[test]
    fn query_wins_over_prompt_and_both_are_kept() {
        let sample = read(r#"{"prompt": "p", "query": "q", "target": "t", "n": [1]}"#).unwrap();
        assert_eq!(sample.query, "q");
        assert_eq!(serde_json::to_value(&sample).unwrap()["prompt"], "p");
        assert_eq!(sample.extra["n"], serde_json::json!([1]));
    }

    #[test]
    fn rows_that_are_no_samples_say_why() {
        for (row, why) in [
            (r#"{"target": "t"}"#, "a sample needs `query` (or `prompt`)"),
            (r#"{"prompt": "t"}"#, "a sample needs `target` (or `answer`)"),
            (r#"{"instruction": "i", "input": "", "output": "o"}"#, "spag data alpaca"),
            (r#"{"query": "q", "target": "t", "type": "SFT"}"#, "\"SFT\""),
            (r#"{"query": "q", "target": "t", "role": "judge"}"#, "judge"),
            (r#"{"query": 1, "target": "t"}"#, "string"),
            (r#"{"query": "q", "target": "t", "weight": "1"}"#, "f64"),
            (r#"[]"#, "sample"),
        ] {
            let message = read(row).unwrap_err().to_string();
            assert!(message.contains(why), "{row}: {message}");
        }
    }

    #[test]
    fn demonstrations_weigh_one() {
        let sample = read(r#"{"query": "q", "target": "t", "weight": 3, "reward": 0.5}"#).unwrap().into_sft();
        assert_eq!((sample.kind, sample.weight, sample.reward), (SampleKind::Sft, 1.0, 0.5));
    }

    proptest! {
        #[test]
        fn a_round_trip_changes_nothing(
            query in ".*", target in ".*", reward in any::<f64>().prop_filter("finite", |x| x.is_finite()),
            weight in 0f64..100.0, role in prop_oneof![Just(None), Just(Some(Role::Attacker)), Just(Some(Role::Defender))],
            sft: bool,
        ) {
            let kind = if sft { SampleKind::Sft } else { SampleKind::Game };
            let sample = Sample { query, target, reward, weight, role, kind, extra: Map::new() };
            let text = serde_json::to_string(&sample).unwrap();
            prop_assert_eq!(read(&text).unwrap(), sample);
        }
    }
}
