//! Default sampling settings of requests, from `generation_config.json`.

use serde_json::{Map, Value};
use spag_model::Tokenizer;

/// The sampling settings of `generation_config.json`. Values that a request could not set are skipped, and so is `do_sample`, as in
/// vLLM.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct SamplingDefaults {
    pub(crate) temperature: Option<f64>,
    pub(crate) top_p: Option<f64>,
    pub(crate) top_k: Option<usize>,
    pub(crate) min_p: Option<f64>,
    pub(crate) repetition_penalty: Option<f64>,
}

impl SamplingDefaults {
    /// Reads the file in the tokenizer's folder.
    pub(crate) fn of(tokenizer: &Tokenizer) -> Self {
        Self::read(&spag_chat::object(tokenizer.file("generation_config.json")))
    }

    fn read(config: &Map<String, Value>) -> Self {
        let number = |name: &str, is_sound: fn(f64) -> bool| {
            config.get(name).and_then(Value::as_f64).filter(|number| number.is_finite() && is_sound(*number))
        };
        Self {
            temperature: number("temperature", |x| x == 0.0 || x >= LEAST_TEMPERATURE),
            top_p: number("top_p", |x| x > 0.0 && x <= 1.0),
            top_k: config.get("top_k").and_then(super::api::whole),
            min_p: number("min_p", |x| (0.0..=1.0).contains(&x)),
            repetition_penalty: number("repetition_penalty", |x| x > 0.0),
        }
    }

    /// The defaults as request fields, for `/v1/models`.
    pub(crate) fn json(&self) -> Value {
        let Self { temperature, top_p, top_k, min_p, repetition_penalty } = self;
        let numbers = [
            ("temperature", *temperature),
            ("top_p", *top_p),
            ("min_p", *min_p),
            ("repetition_penalty", *repetition_penalty),
        ];
        let mut json = Map::new();
        json.extend(numbers.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?.into()))));
        json.extend(top_k.map(|k| ("top_k".to_owned(), k.into())));
        json.into()
    }
}

/// Below this, dividing logits by it may overflow.
pub(crate) const LEAST_TEMPERATURE: f64 = 0.0001;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_request_could_not_have_is_left_out() {
        let read = |config: Value| SamplingDefaults::read(config.as_object().unwrap()).json();
        let config =
            json!({"do_sample": true, "temperature": 0.6, "top_k": 20, "top_p": 0.95, "repetition_penalty": 1.05});
        assert_eq!(read(config), json!({"temperature": 0.6, "top_p": 0.95, "repetition_penalty": 1.05, "top_k": 20}));
        let wrong = json!({"temperature": -1, "top_k": -3, "top_p": 0, "min_p": 2, "repetition_penalty": "1"});
        assert_eq!(read(wrong), json!({}));
    }
}
