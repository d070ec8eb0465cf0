//! Prompts from the parts of a prompt file, in the reference's structure.

use rand::Rng;

use super::data::{PerRole, PromptFile};
use super::fill::fill;
use super::next_role;
use crate::episode::{Role, Utterance};

fn instruction(texts: &PerRole, role: Role, target_word: &str) -> String {
    match role {
        Role::Attacker => fill(&texts.attacker, &[("target_word", target_word)]),
        Role::Defender => texts.defender.clone(),
    }
}

fn rules(text: &str, max_turns: usize) -> String {
    fill(text, &[("max_turns", &max_turns.to_string())])
}

pub(super) fn playing(file: &PromptFile, history: &[Utterance], target_word: &str, max_turns: usize) -> String {
    let mut query = file.rules.first().map(|text| rules(text, max_turns)).unwrap_or_default();
    query.push_str(if history.is_empty() { &file.playing.beginning } else { &file.playing.history });
    for u in history {
        query.push_str(&fill(&file.playing.entry, &[("role", &u.role.to_string()), ("content", &u.content)]));
    }
    query + &instruction(&file.playing.instruction, next_role(history), target_word)
}

/// One of a list that the file's checks found not to be empty.
fn pick<'a, T>(all: &'a [T], rng: &mut impl Rng) -> Option<&'a T> {
    (!all.is_empty()).then(|| &all[rng.random_range(0..all.len())])
}

#[derive(Clone, Copy, PartialEq)]
enum Layout {
    Chat,
    ChatInverse,
    Alpaca,
}

pub(super) fn training(
    file: &PromptFile,
    history: &[Utterance],
    target_word: &str,
    max_turns: usize,
    rng: &mut impl Rng,
) -> String {
    let t = &file.training;
    if t.playing_share > 0.0 && rng.random::<f64>() < t.playing_share {
        return playing(file, history, target_word, max_turns);
    }
    let role = next_role(history);
    let prefix = pick(&t.dialogue_prefixes, rng).map_or("", String::as_str);
    let (own, others) = match pick(&t.names, rng) {
        Some((own, other)) => {
            let (role, opponent) = (role.to_string(), role.opponent().to_string());
            let names = [("self", role.as_str()), ("other", opponent.as_str())];
            (fill(own, &names), fill(other, &names))
        }
        None => (role.to_string(), role.opponent().to_string()),
    };
    let mut talk = String::new();
    for u in history {
        let name = if u.role == role { &own } else { &others };
        talk.push_str(&format!("{prefix}{name}: {}", u.content));
    }
    let layout = {
        let draw = rng.random::<f64>() * (t.layouts.chat + t.layouts.chat_inverse + t.layouts.alpaca);
        match draw {
            d if d < t.layouts.chat => Layout::Chat,
            d if d < t.layouts.chat + t.layouts.chat_inverse => Layout::ChatInverse,
            _ => Layout::Alpaca,
        }
    };
    let system = pick(&t.system_names, rng).map_or("", String::as_str);
    let rules = pick(&file.rules, rng).map(|text| rules(text, max_turns)).unwrap_or_default();
    let told = instruction(&t.instruction, role, target_word);
    let name = format!("{prefix}{own}{}", t.after_name);
    if layout == Layout::Alpaca {
        let head = if rng.random::<f64>() < t.alpaca_system_share { format!("{system}: ") } else { String::new() };
        let middle = match history.is_empty() {
            true => t.beginning.clone(),
            false => format!("{prefix}{}{talk}{}", t.history, t.after_history),
        };
        let tail = match rng.random::<f64>() < t.alpaca_nameless_share {
            true => format!("{}{}", told.strip_suffix('.').unwrap_or(&told), t.after_name),
            false => told + &name,
        };
        return head + &rules + &middle + &tail;
    }
    let beginning = if history.is_empty() { t.beginning.as_str() } else { "" };
    let head = format!("{prefix}{system}: {rules}{}{told}{beginning}", t.before_instruction);
    match layout {
        Layout::ChatInverse => talk + &head + &name,
        _ => head + &talk + &name,
    }
}
