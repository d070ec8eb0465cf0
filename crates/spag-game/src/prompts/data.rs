//! The prompt file's format.

use serde::Deserialize;

/// A whole prompt file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PromptFile {
    /// Texts of the rules, with `{max_turns}`; the first is the playing one.
    pub(super) rules: Vec<String>,
    pub(super) playing: Playing,
    pub(super) training: Training,
}

/// The playing wording: rules, then the history or that there is none, then the instruction.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Playing {
    /// In place of a history that is empty.
    pub(super) beginning: String,
    /// Before the first entry of the history.
    pub(super) history: String,
    /// One utterance: `{role}` and `{content}`.
    pub(super) entry: String,
    pub(super) instruction: PerRole,
}

/// What the player to move is told; the attacker also the `{target_word}`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PerRole {
    pub(super) attacker: String,
    pub(super) defender: String,
}

/// The training wordings and how they are drawn. A list is drawn from evenly: repeat an entry to draw it more often.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Training {
    /// Probability that the playing wording is used after all.
    #[serde(default)]
    pub(super) playing_share: f64,
    pub(super) layouts: Layouts,
    /// Before every name.
    pub(super) dialogue_prefixes: Vec<String>,
    /// Names of the player to move and of the other; `{self}` and `{other}` stand for their roles.
    pub(super) names: Vec<(String, String)>,
    /// Names of the section with the rules.
    pub(super) system_names: Vec<String>,
    pub(super) instruction: PerRole,
    /// Between the rules and the instruction, in the chat layouts.
    pub(super) before_instruction: String,
    /// Where the history is empty: after the instruction in the chat layouts, after the rules in the alpaca layout.
    pub(super) beginning: String,
    /// Before the first utterance in the alpaca layout.
    pub(super) history: String,
    /// After the last utterance in the alpaca layout.
    pub(super) after_history: String,
    /// After every name.
    pub(super) after_name: String,
    /// Probability that the alpaca layout names the section with the rules.
    pub(super) alpaca_system_share: f64,
    /// Probability that the alpaca layout ends in the instruction, its full stop replaced by `after_name`, and not in
    /// the name of the player to move.
    pub(super) alpaca_nameless_share: f64,
}

/// Weights of the layouts.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Layouts {
    /// Rules and instruction, history, name.
    #[serde(default)]
    pub(super) chat: f64,
    /// History, rules and instruction, name.
    #[serde(default)]
    pub(super) chat_inverse: f64,
    /// Rules, history, instruction, name: one block.
    #[serde(default)]
    pub(super) alpaca: f64,
}
