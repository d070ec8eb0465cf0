//! The prompt file's format.

use serde::Deserialize;

/// A text for each role.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PerRole {
    pub(super) attacker: String,
    pub(super) defender: String,
}

/// A whole prompt file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PromptFile {
    /// Texts of the rules with `{max_turns}`; the first is the playing one.
    pub(super) rules: Vec<String>,
    pub(super) playing: Playing,
    pub(super) training: Training,
}

/// The playing wording: rules, beginning or history, instruction.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Playing {
    /// In place of a history that is empty.
    pub(super) beginning: String,
    /// Before the first entry.
    pub(super) history: String,
    /// One utterance: `{role}` and `{content}`.
    pub(super) entry: String,
    /// What the player to move is told; the attacker's has `{target_word}`.
    pub(super) instruction: PerRole,
}

/// The training wordings and how they are drawn.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Training {
    /// Probability that the playing wording is used after all.
    #[serde(default)]
    pub(super) playing_share: f64,
    pub(super) layouts: Layouts,
    /// Before every utterance and name.
    pub(super) dialogue_prefixes: Vec<String>,
    /// Names of (the player to move, the other); `{self}` and `{other}` are the role names.
    pub(super) names: Vec<(String, String)>,
    /// Names of the rules' section.
    pub(super) system_names: Vec<String>,
    pub(super) instruction: PerRole,
    pub(super) before_instruction: String,
    pub(super) beginning: String,
    pub(super) history: String,
    pub(super) after_history: String,
    pub(super) after_name: String,
    /// Probability that the alpaca layout names the rules' section.
    pub(super) alpaca_system_share: f64,
    /// Probability that the alpaca layout ends with the instruction instead of a name.
    pub(super) alpaca_nameless_share: f64,
}

/// Weights of the layouts.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Layouts {
    /// Rules, then history.
    #[serde(default)]
    pub(super) chat: f64,
    /// History, then rules.
    #[serde(default)]
    pub(super) chat_inverse: f64,
    /// One instruction block.
    #[serde(default)]
    pub(super) alpaca: f64,
}

impl PromptFile {
    /// Says which key cannot be used and why.
    pub(super) fn check(&self) -> Result<(), String> {
        let t = &self.training;
        for (key, empty) in [
            ("rules", self.rules.is_empty()),
            ("training.dialogue_prefixes", t.dialogue_prefixes.is_empty()),
            ("training.names", t.names.is_empty()),
            ("training.system_names", t.system_names.is_empty()),
        ] {
            if empty {
                return Err(format!("`{key}` is empty; it needs at least one entry"));
            }
        }
        let needs = |key: &str, text: &str, placeholder: &str| match text.contains(placeholder) {
            true => Ok(()),
            false => Err(format!("`{key}` lacks {placeholder}")),
        };
        needs("playing.entry", &self.playing.entry, "{content}")?;
        needs("playing.instruction.attacker", &self.playing.instruction.attacker, "{target_word}")?;
        needs("training.instruction.attacker", &t.instruction.attacker, "{target_word}")?;
        for (key, text) in [
            ("playing.instruction.defender", &self.playing.instruction.defender),
            ("training.instruction.defender", &t.instruction.defender),
        ] {
            if text.contains("{target_word}") {
                return Err(format!("`{key}` has {{target_word}}, which would tell the defender the word"));
            }
        }
        for (key, share) in [
            ("training.playing_share", t.playing_share),
            ("training.alpaca_system_share", t.alpaca_system_share),
            ("training.alpaca_nameless_share", t.alpaca_nameless_share),
        ] {
            if !(0.0..=1.0).contains(&share) {
                return Err(format!("`{key}` is {share}; a probability lies between 0 and 1"));
            }
        }
        let weights = [t.layouts.chat, t.layouts.chat_inverse, t.layouts.alpaca];
        match weights.iter().all(|w| w.is_finite() && *w >= 0.0) && weights.iter().sum::<f64>() > 0.0 {
            true => Ok(()),
            false => Err("`training.layouts` needs weights of at least 0, one of them above".into()),
        }
    }
}
