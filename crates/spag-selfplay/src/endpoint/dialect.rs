//! What a server accepts beside OpenAI's settings, by its own name in the list of its models.

use serde::Deserialize;
use serde_json::{Value, json};
use spag_chat::TemplateKwargs;

use super::config::{EndpointConfig, TopK};
use super::protocol::REASONING_CONTENT;

/// The settings that a server knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// Those of OpenAI, whose servers refuse any other.
    OpenAi,
    /// Those of vLLM too. What a request leaves out is taken from the model's `generation_config.json`.
    Vllm,
    /// Those of `spag serve`: vLLM's, except for names that it refuses.
    Spag,
    /// Those of SGLang too: vLLM's, except for languages.
    SgLang,
    /// Those of llama.cpp's server. What a request leaves out is its own default: 40 tokens, 95% of the probability.
    LlamaCpp,
}

#[derive(Deserialize)]
struct Models {
    data: Vec<Listed>,
}

#[derive(Deserialize)]
struct Listed {
    id: String,
    owned_by: Option<String>,
}

/// From the body of `/models`: the owner of the model, or of the first one if it is not listed under its name.
fn owner(body: &[u8], model: &str) -> Option<String> {
    let mut listed = serde_json::from_slice::<Models>(body).map(|models| models.data).unwrap_or_default();
    let at = listed.iter().position(|one| one.id == model).unwrap_or(0);
    if at < listed.len() { listed.swap_remove(at).owned_by } else { None }
}

/// Whether the model is OpenAI's own, by the body of `/models`: its current ones refuse `max_tokens`.
pub(super) fn is_of_openai(body: &[u8], model: &str) -> bool {
    matches!(owner(body, model).as_deref(), Some("openai" | "openai-internal" | "system"))
}

impl Dialect {
    /// From the body of `/models`.
    pub(super) fn of_models(body: &[u8], model: &str) -> Self {
        match owner(body, model).as_deref() {
            Some("vllm") => Self::Vllm,
            Some("spag") => Self::Spag,
            Some("sglang") => Self::SgLang,
            Some("llamacpp") => Self::LlamaCpp,
            _ => Self::OpenAi,
        }
    }

    /// Adds the settings of sampling to a request, at a temperature. Those that are not wanted are sent as off where the server has
    /// them, so that its own defaults change nothing.
    pub(super) fn add_sampling(self, body: &mut Value, config: &EndpointConfig, temperature: f64) {
        body["temperature"] = temperature.into();
        let draws = temperature > 0.0;
        let top_k = match (config.top_k(), self) {
            (Some((k, TopK::Always)), _) => Some(json!(k)),
            (_, Self::OpenAi) => None,
            (Some((k, TopK::WhereAccepted)), _) => Some(json!(k)),
            (None, Self::Vllm | Self::Spag | Self::SgLang) => Some(json!(-1)),
            (None, Self::LlamaCpp) => Some(json!(0)),
        };
        let off = |value| (self != Self::OpenAi).then_some(value);
        let penalty = if self == Self::LlamaCpp { "repeat_penalty" } else { "repetition_penalty" };
        for (name, value) in [
            ("top_k", top_k.filter(|_| draws)),
            ("top_p", config.sampling.top_p.or(off(1.0)).filter(|_| draws).map(Value::from)),
            ("min_p", off(0.0).filter(|_| draws).map(Value::from)),
            (penalty, off(1.0).map(Value::from)),
        ] {
            if let Some(value) = value {
                body[name] = value;
            }
        }
    }

    /// Adds to a request that the utterance is one of `choices`; `None` if the server has no such setting.
    #[must_use]
    pub(super) fn add_choices(self, body: &mut Value, choices: &[String]) -> Option<()> {
        let (name, value) = match self {
            Self::OpenAi => return None,
            Self::Vllm | Self::Spag => ("structured_outputs", json!({"choice": choices})),
            Self::SgLang => ("regex", joined(choices, "|", |choice| regex(choice)).into()),
            // The escapes of its strings are those of JSON.
            Self::LlamaCpp => {
                ("grammar", format!("root ::= {}", joined(choices, " | ", |choice| json!(choice).to_string())).into())
            }
        };
        body[name] = value;
        Some(())
    }

    /// Adds the variables of the server's chat template to a request; `None` if it has no such setting.
    #[must_use]
    pub(super) fn add_template_kwargs(self, body: &mut Value, kwargs: &TemplateKwargs) -> Option<()> {
        if self == Self::OpenAi {
            return None;
        }
        body["chat_template_kwargs"] = kwargs.variables().clone().into();
        Some(())
    }

    /// Adds the reasoning of earlier messages once more by its newer name, by which alone current versions of vLLM pass it to templates.
    pub(super) fn add_reasoning_names(self, body: &mut Value) {
        if self != Self::Vllm {
            return;
        }
        for message in body["messages"].as_array_mut().into_iter().flatten() {
            if let Some(reasoning) = message.get(REASONING_CONTENT).cloned() {
                message["reasoning"] = reasoning;
            }
        }
    }

    /// Whether tokens are drawn from all, although fewer are wanted.
    pub(super) fn lacks_top_k(self, config: &EndpointConfig, temperature: f64) -> bool {
        self == Self::OpenAi && temperature > 0.0 && matches!(config.top_k(), Some((_, TopK::WhereAccepted)))
    }
}

fn joined(choices: &[String], between: &str, one: impl Fn(&String) -> String) -> String {
    choices.iter().map(one).collect::<Vec<_>>().join(between)
}

/// A regular expression of exactly this text.
fn regex(text: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || c == ' ' || !c.is_ascii();
    text.chars().flat_map(|c| (!is_plain(c)).then_some('\\').into_iter().chain([c])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SamplingSettings;

    #[test]
    fn owner_of_the_model_decides() {
        let of = |body: Value, model| Dialect::of_models(body.to_string().as_bytes(), model);
        for (owner, dialect) in [
            ("spag", Dialect::Spag),
            ("vllm", Dialect::Vllm),
            ("sglang", Dialect::SgLang),
            ("llamacpp", Dialect::LlamaCpp),
            ("openai", Dialect::OpenAi),
            ("organization-owner", Dialect::OpenAi),
        ] {
            assert_eq!(of(json!({"data": [{"id": "m", "owned_by": owner}]}), "m"), dialect, "{owner}");
        }
        let mixed =
            json!({"object": "list", "data": [{"id": "a", "owned_by": "openai"}, {"id": "b", "owned_by": "vllm"}]});
        assert_eq!(
            [of(mixed.clone(), "a"), of(mixed.clone(), "b"), of(mixed, "c")].map(|one| one == Dialect::Vllm),
            [false, true, false]
        );
        for odd in
            [json!({}), json!([]), json!({"data": []}), json!({"data": [{"id": "m"}]}), json!({"data": [{"id": 1}]})]
        {
            assert_eq!(of(odd, "m"), Dialect::OpenAi);
        }
        assert_eq!(Dialect::of_models(b"<html>", "m"), Dialect::OpenAi);
    }

    #[test]
    fn what_is_not_wanted_is_sent_as_off_where_the_server_has_it() {
        let sent = |dialect: Dialect, top_k, top_p, temperature| {
            let mut body = json!({});
            let sampling = SamplingSettings { top_k, top_p, ..SamplingSettings::default() };
            dialect.add_sampling(&mut body, &EndpointConfig { sampling, ..EndpointConfig::default() }, temperature);
            assert_eq!(body["temperature"].take(), temperature);
            body.as_object_mut().unwrap().remove("temperature");
            body
        };
        for (top_k, openai, vllm, llama) in [
            (None, json!({}), json!({"top_k": 50}), json!({"top_k": 50})),
            (Some(7), json!({"top_k": 7}), json!({"top_k": 7}), json!({"top_k": 7})),
            (Some(0), json!({}), json!({"top_k": -1}), json!({"top_k": 0})),
        ] {
            let with = |top_k: &Value, more: Value| {
                let mut all = more;
                all["top_k"] = top_k["top_k"].clone();
                all
            };
            assert_eq!(sent(Dialect::OpenAi, top_k, None, 1.2), openai);
            let neutral = json!({"top_p": 1.0, "min_p": 0.0, "repetition_penalty": 1.0});
            assert_eq!(sent(Dialect::Vllm, top_k, None, 1.2), with(&vllm, neutral));
            let neutral = json!({"top_p": 1.0, "min_p": 0.0, "repeat_penalty": 1.0});
            assert_eq!(sent(Dialect::LlamaCpp, top_k, None, 1.2), with(&llama, neutral));
        }
        assert_eq!(sent(Dialect::OpenAi, None, Some(0.5), 1.2), json!({"top_p": 0.5}));
        assert_eq!(sent(Dialect::Vllm, None, Some(0.5), 1.2)["top_p"], 0.5);
        assert_eq!(sent(Dialect::SgLang, Some(0), None, 1.2), sent(Dialect::Vllm, Some(0), None, 1.2));
        // Greedy: a penalty would change the likeliest token too.
        assert_eq!(sent(Dialect::OpenAi, Some(7), Some(0.5), 0.0), json!({}));
        assert_eq!(sent(Dialect::Vllm, Some(7), Some(0.5), 0.0), json!({"repetition_penalty": 1.0}));
    }

    #[test]
    fn choices_are_said_in_the_language_of_the_server() {
        let choices = ["[3 4]".to_owned(), "a \"b\"".to_owned()];
        let sent = |dialect: Dialect| {
            let mut body = json!({});
            dialect.add_choices(&mut body, &choices).map(|()| body)
        };
        assert_eq!(sent(Dialect::Vllm), Some(json!({"structured_outputs": {"choice": ["[3 4]", "a \"b\""]}})));
        assert_eq!(sent(Dialect::SgLang), Some(json!({"regex": r#"\[3 4\]|a \"b\""#})));
        assert_eq!(sent(Dialect::LlamaCpp), Some(json!({"grammar": r#"root ::= "[3 4]" | "a \"b\"""#})));
        assert_eq!(sent(Dialect::OpenAi), None);
    }
}
