//! Prompts from the parts of a prompt file.

use rand::Rng;

use super::data::{Layouts, PerRole, PromptFile};
use super::fill::fill;
use crate::episode::{Role, Utterance, next_role};

pub(super) fn playing(file: &PromptFile, history: &[Utterance], target_word: &str, max_turns: usize) -> String {
    let parts = &file.playing;
    let mut query = file.rules.first().map(|text| rules(text, max_turns)).unwrap_or_default();
    query.push_str(if history.is_empty() { &parts.beginning } else { &parts.history });
    for utterance in history {
        let role = utterance.role.to_string();
        query.push_str(&fill(&parts.entry, &[("role", &role), ("content", &utterance.content)]));
    }
    query + &instruction(&parts.instruction, next_role(history), target_word)
}

pub(super) fn training(
    file: &PromptFile,
    history: &[Utterance],
    target_word: &str,
    max_turns: usize,
    rng: &mut impl Rng,
) -> String {
    let parts = &file.training;
    if parts.playing_share > 0.0 && rng.random_bool(parts.playing_share.min(1.0)) {
        return playing(file, history, target_word, max_turns);
    }
    let role = next_role(history);
    let prefix = pick(&parts.dialogue_prefixes, rng).map_or("", String::as_str);
    let (own, other) = names(pick(&parts.names, rng), role);
    let layout = pick_layout(&parts.layouts, rng);
    let system = pick(&parts.system_names, rng).map_or("", String::as_str);
    let rules = pick(&file.rules, rng).map(|text| rules(text, max_turns)).unwrap_or_default();

    let colon = parts.after_name.as_str();
    let told = instruction(&parts.instruction, role, target_word);
    let beginning = if history.is_empty() { parts.beginning.as_str() } else { "" };
    let mut talk = String::new();
    for utterance in history {
        let name = if utterance.role == role { &own } else { &other };
        talk.extend([prefix, name, colon, &utterance.content]);
    }
    match layout {
        Layout::Chat => {
            let between = &parts.before_instruction;
            [prefix, system, colon, &rules, between, &told, beginning, &talk, prefix, &own, colon].concat()
        }
        Layout::ChatInverse => {
            let between = &parts.before_instruction;
            [&talk, prefix, system, colon, &rules, between, &told, beginning, prefix, &own, colon].concat()
        }
        Layout::Alpaca => {
            let mut query = String::new();
            if rng.random_bool(parts.alpaca_system_share.clamp(0.0, 1.0)) {
                query.extend([system, colon]);
            }
            query.extend([&rules, beginning]);
            if !history.is_empty() {
                query.extend([prefix, &parts.history, &talk, &parts.after_history]);
            }
            match rng.random_bool(parts.alpaca_nameless_share.clamp(0.0, 1.0)) {
                true => query.extend([told.strip_suffix('.').unwrap_or(&told), colon]),
                false => query.extend([&told, prefix, &own, colon]),
            }
            query
        }
    }
}

fn rules(text: &str, max_turns: usize) -> String {
    fill(text, &[("max_turns", &max_turns.to_string())])
}

fn instruction(texts: &PerRole, role: Role, target_word: &str) -> String {
    match role {
        Role::Attacker => fill(texts.of(role), &[("target_word", target_word)]),
        // The defender's prompt never gets near the word.
        Role::Defender => texts.of(role).to_owned(),
    }
}

/// The names of the player to move and of the other.
fn names(pair: Option<&(String, String)>, role: Role) -> (String, String) {
    let (own, other) = (role.to_string(), role.opponent().to_string());
    match pair {
        Some((first, second)) => {
            let values = [("self", own.as_str()), ("other", other.as_str())];
            (fill(first, &values), fill(second, &values))
        }
        None => (own, other),
    }
}

/// One entry of a list; `None` only for an empty one, which the checks on loading rule out.
fn pick<'a, T>(all: &'a [T], rng: &mut impl Rng) -> Option<&'a T> {
    match all.len() {
        0 => None,
        length => all.get(rng.random_range(0..length)),
    }
}

#[derive(Clone, Copy)]
enum Layout {
    Chat,
    ChatInverse,
    Alpaca,
}

fn pick_layout(weights: &Layouts, rng: &mut impl Rng) -> Layout {
    let draw = rng.random::<f64>() * (weights.chat + weights.chat_inverse + weights.alpaca);
    match draw {
        draw if draw < weights.chat => Layout::Chat,
        draw if draw < weights.chat + weights.chat_inverse => Layout::ChatInverse,
        _ => Layout::Alpaca,
    }
}
