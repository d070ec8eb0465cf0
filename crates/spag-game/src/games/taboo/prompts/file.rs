//! The format of a prompt file, and what makes one valid. [`PromptSet`](super::PromptSet) documents the keys.

use serde::{Deserialize, Deserializer};
use spag_io::{PromptText, quote};

use super::template::{Template, Value};
use crate::completion::UtteranceRule;
use crate::seat::Seat;
use crate::taboo;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PromptFile {
    pub(super) rules: Vec<Template>,
    pub(super) playing: Playing,
    /// The built-in one if absent.
    #[serde(default = "super::built_in_chat", deserialize_with = "chat")]
    pub(super) chat: Chat,
    pub(super) training: Training,
    #[serde(default, deserialize_with = "spag_io::null_is_default")]
    pub(super) utterances: UtteranceRule,
}

fn chat<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Chat, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_else(super::built_in_chat))
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Chat {
    pub(super) instruction: Instruction,
    pub(super) opening: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Playing {
    pub(super) beginning: String,
    pub(super) history: String,
    pub(super) entry: Template,
    pub(super) instruction: Instruction,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Instruction {
    attacker: Template,
    defender: Template,
}

impl Instruction {
    /// Appends a seat's instruction. The defender's never contains the word.
    pub(super) fn append(&self, to: &mut PromptText, seat: Seat, target_word: &str) {
        match seat {
            taboo::ATTACKER => self.attacker.append(to, &[("target_word", Value::Said(target_word))]),
            _ => self.defender.append(to, &[]),
        }
    }
}

/// Each list is drawn from uniformly: an entry that is repeated is drawn more often.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Training {
    #[serde(default, deserialize_with = "spag_io::null_is_default")]
    pub(super) playing_share: f64,
    pub(super) layouts: Layouts,
    pub(super) dialogue_prefixes: Vec<String>,
    pub(super) names: Vec<(Template, Template)>,
    pub(super) system_names: Vec<String>,
    pub(super) instruction: Instruction,
    pub(super) before_instruction: String,
    pub(super) beginning: String,
    pub(super) history: String,
    pub(super) after_history: String,
    pub(super) after_name: String,
    pub(super) alpaca_system_share: f64,
    pub(super) alpaca_nameless_share: f64,
}

/// Weights of the layouts.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Layouts {
    pub(super) chat: f64,
    pub(super) chat_inverse: f64,
    pub(super) alpaca: f64,
}

impl PromptFile {
    /// The first key that cannot be used, and why.
    pub(super) fn check(&self) -> Result<(), String> {
        let (playing, training) = (&self.playing, &self.training);
        for (key, length) in [
            ("rules", self.rules.len()),
            ("training.dialogue_prefixes", training.dialogue_prefixes.len()),
            ("training.names", training.names.len()),
            ("training.system_names", training.system_names.len()),
        ] {
            if length == 0 {
                return Err(format!("`{key}` is empty; it needs at least one entry"));
            }
        }
        for (index, text) in self.rules.iter().enumerate() {
            let key = format!("rules[{index}]");
            if text.is_blank() {
                return Err(format!("`{key}` has no text"));
            }
            check_placeholders(&key, text, &["max_turns"])?;
        }
        for (index, (own, other)) in training.names.iter().enumerate() {
            check_placeholders(&format!("training.names[{index}][0]"), own, &["self", "other"])?;
            check_placeholders(&format!("training.names[{index}][1]"), other, &["self", "other"])?;
        }
        require_placeholders("playing.entry", &playing.entry, &["role", "content"])?;
        for (part, instruction) in
            [("playing", &playing.instruction), ("chat", &self.chat.instruction), ("training", &training.instruction)]
        {
            require_placeholders(&format!("{part}.instruction.attacker"), &instruction.attacker, &["target_word"])?;
            let (key, defender) = (format!("{part}.instruction.defender"), &instruction.defender);
            if defender.placeholders().any(|name| name == "target_word") {
                return Err(format!("`{key}` has {{target_word}}, which would tell the defender the word"));
            }
            check_placeholders(&key, defender, &[])?;
        }
        if self.chat.opening.trim().is_empty() {
            return Err("`chat.opening` has no text; the attacker's first message answers it".into());
        }
        for (key, share) in [
            ("training.playing_share", training.playing_share),
            ("training.alpaca_system_share", training.alpaca_system_share),
            ("training.alpaca_nameless_share", training.alpaca_nameless_share),
        ] {
            if !(0.0..=1.0).contains(&share) {
                return Err(format!("`{key}` is {share}; a probability is between 0 and 1"));
            }
        }
        let weights = [training.layouts.chat, training.layouts.chat_inverse, training.layouts.alpaca];
        let valid = weights.iter().all(|weight| weight.is_finite() && *weight >= 0.0);
        if !valid || weights.iter().all(|weight| *weight == 0.0) {
            return Err("`training.layouts` needs weights of at least 0, one of them above".into());
        }
        Ok(())
    }
}

/// Refuses unknown placeholders, so that a slip such as `{max_turn}` does not appear in every prompt.
fn check_placeholders(key: &str, text: &Template, known: &[&str]) -> Result<(), String> {
    match text.placeholders().find(|name| !known.contains(name)) {
        None => Ok(()),
        Some(name) if known.is_empty() => {
            Err(format!("`{key}` has {{{}}}, but nothing is filled in there", quote(name)))
        }
        Some(name) => Err(format!("`{key}` has {{{}}}; known there: {{{}}}", quote(name), known.join("}, {"))),
    }
}

/// As [`check_placeholders`]; refuses missing ones too.
fn require_placeholders(key: &str, text: &Template, required: &[&str]) -> Result<(), String> {
    match required.iter().find(|name| !text.placeholders().any(|found| found == **name)) {
        Some(name) => Err(format!("`{key}` lacks {{{name}}}")),
        None => check_placeholders(key, text, required),
    }
}
