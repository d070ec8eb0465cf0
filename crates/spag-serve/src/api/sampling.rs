//! Request fields for sampling and stopping.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use spag_grammar::Language;
use spag_model::generate::{EosRule, LogitRules, Sampling, SharedGrammar};

use super::error::ApiError;
use super::fields::{Fields, Refused, shown, whole};
use super::language::language;
use crate::defaults::{LEAST_TEMPERATURE, SamplingDefaults};
use crate::limits::{MAX_N, MAX_STOP_BYTES, MAX_STOP_TOKENS, MAX_STOPS};
use crate::model::ServedModel;

/// Fields shared by completions and chats.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Settings {
    pub(crate) n: usize,
    pub(crate) sampling: Sampling,
    pub(crate) rules: LogitRules,
    /// The language that constrains the completion, and the field that requests it.
    pub(crate) language: Option<(&'static str, Language)>,
    /// The language compiled for the model.
    pub(crate) grammar: Option<SharedGrammar>,
    /// The seed of the request, or a random one.
    pub(crate) seed: u64,
    pub(crate) min_tokens: usize,
    pub(crate) stop_strings: Vec<String>,
    pub(crate) stop_tokens: Vec<u32>,
    pub(crate) eos: EosRule,
    pub(crate) delivery: Delivery,
}

/// Whether an answer is streamed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// One complete response.
    Whole,
    /// As server-sent events.
    Stream(StreamUsage),
}

/// Whether a stream ends with token counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamUsage {
    Sent,
    Left,
}

/// Fields that affect no answer.
pub(crate) const IGNORED: [&str; 8] = [
    "user",
    "metadata",
    "store",
    "service_tier",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "request_id",
];

fn is_zero(value: &Value) -> bool {
    value.as_f64() == Some(0.0)
}

fn is_one(value: &Value) -> bool {
    value.as_f64() == Some(1.0)
}

fn is_false(value: &Value) -> bool {
    value == &Value::Bool(false)
}

fn is_true(value: &Value) -> bool {
    value == &Value::Bool(true)
}

pub(super) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Array(list) => list.is_empty(),
        Value::Object(object) => object.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

pub(super) fn never(_: &Value) -> bool {
    false
}

const LEAVE: &str = "leave it out";

/// Fields of OpenAI and vLLM that are not supported in completions and chats.
const REFUSED: [Refused; 16] = [
    Refused::new("length_penalty", is_one, "leave it out or set it to 1"),
    Refused::new("typical_p", is_one, "use top_p"),
    Refused::new("use_beam_search", is_false, LEAVE),
    Refused::new("early_stopping", is_false, LEAVE),
    Refused::new("bad_words", is_empty, LEAVE),
    Refused::new("allowed_token_ids", never, LEAVE),
    Refused::new("logits_processors", is_empty, LEAVE),
    Refused::new("truncate_prompt_tokens", never, "shorten the prompt"),
    Refused::new("prompt_logprobs", never, "use echo and logprobs of /v1/completions"),
    Refused::new("skip_special_tokens", is_true, "special tokens have no text"),
    Refused::new("spaces_between_special_tokens", is_true, LEAVE),
    Refused::new("include_stop_str_in_output", is_false, "the text ends before a stop string"),
    Refused::new("return_tokens_as_token_ids", is_false, "POST /tokenize gives the ids of a text"),
    Refused::new("return_token_ids", is_false, "POST /tokenize gives the ids of a text"),
    Refused::new("priority", is_zero, "requests are served in the order of their arrival"),
    Refused::new("thinking_token_budget", never, LEAVE),
];

impl Settings {
    /// Parses the fields.
    pub(crate) fn read(fields: &mut Fields, model: &ServedModel) -> Result<Self, ApiError> {
        fields.refuse(&REFUSED)?;
        let delivery = delivery(fields)?;
        let settings = Self {
            n: fields.whole("n", 1..=MAX_N)?.unwrap_or(1),
            sampling: sampling(fields, &model.defaults)?,
            rules: rules(fields, model)?,
            language: language(fields)?,
            grammar: None,
            seed: fields.seed("seed")?.unwrap_or_else(rand::random),
            min_tokens: fields.whole("min_tokens", 0..=model.max_length)?.unwrap_or(0),
            stop_strings: stop_strings(fields.take("stop"))?,
            stop_tokens: stop_tokens(fields.take("stop_token_ids"), model)?,
            eos: if fields.truth("ignore_eos")? == Some(true) { EosRule::Ignored } else { EosRule::Ends },
            delivery,
        };
        let ends = "the text ends where its grammar does";
        match &settings {
            Self { language: Some(_), min_tokens: 1.., .. } => Err(ApiError::field("min_tokens", ends)),
            Self { language: Some(_), eos: EosRule::Ignored, .. } => Err(ApiError::field("ignore_eos", ends)),
            _ => Ok(settings),
        }
    }

    /// The seed of one of a prompt's `n` completions. It does not depend on the other prompts, so a prompt in a list gets
    /// the same completion as alone.
    pub(crate) fn seed_of(&self, completion: usize) -> u64 {
        // SplitMix64: seeds that differ by 1 must not share completions.
        let mixed = |n: u64| {
            let x = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            x ^ (x >> 31)
        };
        self.seed ^ mixed(completion as u64)
    }
}

fn sampling(fields: &mut Fields, defaults: &SamplingDefaults) -> Result<Sampling, ApiError> {
    let temperature = fields.number("temperature", 0.0..=10_000.0)?.or(defaults.temperature).unwrap_or(1.0);
    let top_p = fields.number("top_p", 1e-9..=1.0)?.or(defaults.top_p).filter(|p| *p < 1.0);
    let top_k = match fields.take("top_k") {
        Some(value) if value.as_i64() == Some(-1) => None,
        Some(value) => {
            let wrong = || ApiError::field("top_k", format_args!("expected -1, 0 or more, not {}", shown(&value)));
            Some(whole(&value).filter(|k| *k <= 1 << 24).ok_or_else(wrong)?)
        }
        None => defaults.top_k,
    };
    match temperature {
        0.0 => Ok(Sampling::Greedy),
        small if small < LEAST_TEMPERATURE => Err(ApiError::field(
            "temperature",
            format_args!("expected 0, which is greedy, or at least {LEAST_TEMPERATURE}"),
        )),
        temperature => Ok(Sampling::random(temperature, top_k.unwrap_or(0), top_p)),
    }
}

/// Logit biases, penalties and min-p.
fn rules(fields: &mut Fields, model: &ServedModel) -> Result<LogitRules, ApiError> {
    let mut penalty = |name| Ok(fields.number(name, -2.0..=2.0)?.unwrap_or(0.0) as f32);
    let [presence_penalty, frequency_penalty] = [penalty("presence_penalty")?, penalty("frequency_penalty")?];
    let repetition = fields.number("repetition_penalty", 0.01..=100.0)?.or(model.defaults.repetition_penalty);
    Ok(LogitRules {
        bias: logit_bias(fields.object("logit_bias")?.unwrap_or_default(), model)?,
        repetition_penalty: repetition.unwrap_or(1.0) as f32,
        presence_penalty,
        frequency_penalty,
        min_p: fields.number("min_p", 0.0..=1.0)?.or(model.defaults.min_p).unwrap_or(0.0),
    })
}

/// Parses an object that maps token ids (as JSON keys, strings) to logit biases.
fn logit_bias(object: Map<String, Value>, model: &ServedModel) -> Result<BTreeMap<u32, f32>, ApiError> {
    let one = |(id, bias): (String, Value)| {
        let wrong = |expected: String| ApiError::field("logit_bias", expected);
        let token = id.parse().ok().filter(|token| (*token as usize) < model.vocabulary);
        let token = token.ok_or_else(|| {
            wrong(format!("expected token ids from 0 to {}, not {:?}", model.vocabulary - 1, spag_io::quote(&id)))
        })?;
        let number = bias.as_f64().filter(|bias| (-100.0..=100.0).contains(bias));
        let number = number.ok_or_else(|| wrong(format!("expected numbers from -100 to 100, not {}", shown(&bias))))?;
        Ok((token, number as f32))
    };
    object.into_iter().map(one).collect()
}

fn delivery(fields: &mut Fields) -> Result<Delivery, ApiError> {
    let stream = fields.truth("stream")?.unwrap_or(false);
    let Some(options) = fields.object("stream_options")? else {
        return Ok(if stream { Delivery::Stream(StreamUsage::Left) } else { Delivery::Whole });
    };
    if !stream {
        return Err(ApiError::field("stream_options", "it is allowed only with \"stream\": true"));
    }
    let mut options = Fields::new(options);
    let within = |error: ApiError| error.within("stream_options");
    let usage = options.truth("include_usage").map_err(within)?.unwrap_or(false);
    options.refuse(&[Refused::new("continuous_usage_stats", is_false, LEAVE)]).map_err(within)?;
    options.finish(&["include_obfuscation"]).map_err(within)?;
    Ok(Delivery::Stream(if usage { StreamUsage::Sent } else { StreamUsage::Left }))
}

fn stop_strings(value: Option<Value>) -> Result<Vec<String>, ApiError> {
    let wrong = |what: String| Err(ApiError::field("stop", what));
    let list = match value {
        None => return Ok(Vec::new()),
        Some(Value::Array(list)) => list,
        Some(one) => vec![one],
    };
    if list.len() > MAX_STOPS {
        return wrong(format!("expected at most {MAX_STOPS} strings, not {}", list.len()));
    }
    let mut strings = Vec::with_capacity(list.len());
    for stop in list {
        match stop {
            Value::String(text) if text.is_empty() => {
                return wrong("a stop string is empty; it would end every completion at once".into());
            }
            Value::String(text) if text.len() > MAX_STOP_BYTES => {
                return wrong(format!("a stop string has {} bytes, more than {MAX_STOP_BYTES}", text.len()));
            }
            Value::String(text) => strings.push(text),
            other => return wrong(format!("expected strings, not {}", shown(&other))),
        }
    }
    Ok(strings)
}

fn stop_tokens(value: Option<Value>, model: &ServedModel) -> Result<Vec<u32>, ApiError> {
    let Some(value) = value else { return Ok(Vec::new()) };
    let expected = format!("expected a list of at most {MAX_STOP_TOKENS} token ids below {}", model.vocabulary);
    let wrong = || ApiError::field("stop_token_ids", &expected);
    let list = value.as_array().filter(|list| list.len() <= MAX_STOP_TOKENS).ok_or_else(wrong)?;
    list.iter().map(|id| model.token(id).ok_or_else(wrong)).collect()
}
