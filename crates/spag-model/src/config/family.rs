//! Finds the family of a `config.json`.

use serde_json::Value;
use spag_io::quote;

use super::architecture::{Architecture, Modalities};
use super::families::FAMILIES;
use super::keys::{Keys, fail};
use crate::error::Result;

/// A model family.
pub(super) struct Family {
    /// `model_type` in `config.json`.
    pub(super) model_type: &'static str,
    /// The class in `architectures`.
    pub(super) class: &'static str,
    /// Parses the architecture from the keys, without [`Architecture::check`].
    pub(super) parse: fn(Keys<'_>) -> Result<Architecture>,
    /// The options that this family supports and others do not.
    pub(super) computes: Computes,
    pub(super) modalities: Modalities,
    /// `model_type` of the text model.
    pub(super) text_type: &'static str,
}

/// The options that a family supports and others do not.
#[derive(Clone, Copy)]
pub(super) struct Computes {
    /// Supported names of its activation; the first is the default.
    pub(super) activations: &'static [&'static str],
    /// Supported keys that change the computation.
    pub(super) keys: &'static [&'static str],
}

impl Computes {
    /// The key that names the activation.
    pub(super) fn activation_key(&self) -> &'static str {
        if self.activations.contains(&"silu") { "hidden_act" } else { "hidden_activation" }
    }
}

impl Family {
    /// The keys of the text model.
    pub(super) fn text_keys<'a>(&self, keys: Keys<'a>) -> Result<Keys<'a>> {
        const TEXT: &str = "text_config";
        match self.modalities {
            Modalities::Text => Ok(keys),
            Modalities::TextAndImages => match keys.object(TEXT)? {
                Some(text) if [None, Some(self.text_type)].contains(&text.text("model_type")?) => Ok(text),
                Some(_) => fail(format!("`model_type` in `{TEXT}` is not \"{}\"", self.text_type)),
                None => fail(format!("`{TEXT}` is missing")),
            },
        }
    }

    /// The family of a configuration: by `model_type`, else by the class in `architectures`. Without either, LLaMA.
    pub(super) fn of(keys: Keys<'_>) -> Result<&'static Self> {
        if let Some(kind) = keys.text("model_type")? {
            return match FAMILIES.iter().find(|family| family.model_type == kind) {
                Some(family) => Ok(family),
                None => fail(format!("`model_type` is \"{}\"; {} are supported", quote(kind), names())),
            };
        }
        let Some(class) = keys.list("architectures")?.and_then(|list| list.first()).and_then(Value::as_str) else {
            return Ok(&FAMILIES[0]);
        };
        match FAMILIES.iter().find(|family| family.class == class) {
            Some(family) => Ok(family),
            None => fail(format!("`architectures` names \"{}\"; the models {} are supported", quote(class), names())),
        }
    }
}

/// All families, for messages.
fn names() -> String {
    let names = FAMILIES.map(|family| format!("\"{}\"", family.model_type));
    let (last, first) = names.split_last().map_or((String::new(), &names[..0]), |(last, first)| (last.clone(), first));
    format!("{} and {last}", first.join(", "))
}
