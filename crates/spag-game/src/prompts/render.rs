//! Prompts from the texts of a prompt file.

use rand::Rng;

use super::file::PromptFile;
use crate::episode::{Role, UtteranceView};

/// The game as the player to move sees it.
#[derive(Clone, Copy)]
pub(super) struct Turn<'a> {
    history: &'a [UtteranceView<'a>],
    role: Role,
    target_word: &'a str,
    max_turns: usize,
}

impl<'a> Turn<'a> {
    pub(super) fn new(history: &'a [UtteranceView<'a>], target_word: &'a str, max_turns: usize) -> Self {
        let role = history.last().map_or(Role::Attacker, |last| last.role.opponent());
        Self { history, role, target_word, max_turns }
    }
}

/// The prompt in the playing wording.
pub(super) fn playing(file: &PromptFile, turn: Turn<'_>) -> String {
    let (mut query, parts) = (String::new(), &file.playing);
    if let Some(rules) = file.rules.first() {
        rules.append(&mut query, &[("max_turns", &turn.max_turns.to_string())]);
    }
    query.push_str(if turn.history.is_empty() { &parts.beginning } else { &parts.history });
    for utterance in turn.history {
        parts.entry.append(&mut query, &[("role", utterance.role.name()), ("content", &utterance.content)]);
    }
    parts.instruction.append(&mut query, turn.role, turn.target_word);
    query
}

/// The prompt in a wording that is drawn. A seed reproduces a prompt only if the order of the draws does not change.
pub(super) fn training(file: &PromptFile, turn: Turn<'_>, rng: &mut impl Rng) -> String {
    let parts = &file.training;
    if parts.playing_share > 0.0 && rng.random_bool(parts.playing_share.min(1.0)) {
        return playing(file, turn);
    }
    let prefix = pick(&parts.dialogue_prefixes, rng).map_or("", String::as_str);
    let names = pick(&parts.names, rng);
    let layouts = &parts.layouts;
    let layout = rng.random::<f64>() * (layouts.chat + layouts.chat_inverse + layouts.alpaca);
    let system = pick(&parts.system_names, rng).map_or("", String::as_str);
    let rules = pick(&file.rules, rng)
        .map_or_else(String::new, |rules| rules.fill(&[("max_turns", &turn.max_turns.to_string())]));

    let (own_role, other_role) = (turn.role.name(), turn.role.opponent().name());
    let roles = [("self", own_role), ("other", other_role)];
    let (own, other) = names.map_or_else(
        || (own_role.to_owned(), other_role.to_owned()),
        |(own, other)| (own.fill(&roles), other.fill(&roles)),
    );
    let (own, other, colon) = (own.as_str(), other.as_str(), parts.after_name.as_str());
    let beginning = if turn.history.is_empty() { parts.beginning.as_str() } else { "" };

    let mut query = String::with_capacity(2 * rules.len());
    let append_history = |query: &mut String| {
        for utterance in turn.history {
            let name = if utterance.role == turn.role { own } else { other };
            query.extend([prefix, name, colon, &utterance.content]);
        }
    };
    let append_system = |query: &mut String| {
        query.extend([prefix, system, colon, &rules, &parts.before_instruction]);
        parts.instruction.append(query, turn.role, turn.target_word);
        query.push_str(beginning);
    };
    if layout < layouts.chat {
        append_system(&mut query);
        append_history(&mut query);
    } else if layout < layouts.chat + layouts.chat_inverse {
        append_history(&mut query);
        append_system(&mut query);
    } else {
        let has_system = rng.random_bool(parts.alpaca_system_share.clamp(0.0, 1.0));
        let is_nameless = rng.random_bool(parts.alpaca_nameless_share.clamp(0.0, 1.0));
        if has_system {
            query.extend([system, colon]);
        }
        query.extend([&rules, beginning]);
        if !turn.history.is_empty() {
            query.extend([prefix, &parts.history]);
            append_history(&mut query);
            query.push_str(&parts.after_history);
        }
        let instruction = query.len();
        parts.instruction.append(&mut query, turn.role, turn.target_word);
        if is_nameless {
            if query[instruction..].ends_with('.') {
                query.pop();
            }
            query.push_str(colon);
            return query;
        }
    }
    query.extend([prefix, own, colon]);
    query
}

/// An entry of a list; `None` if the list is empty, which a checked file rules out.
fn pick<'a, T>(entries: &'a [T], rng: &mut impl Rng) -> Option<&'a T> {
    if entries.is_empty() { None } else { entries.get(rng.random_range(0..entries.len())) }
}
