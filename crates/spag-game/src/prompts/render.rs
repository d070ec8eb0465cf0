//! Prompts from the parts of a prompt file.

use rand::Rng;

use super::draw::{Drawn, Layout, Wording, draw};
use super::wordings::Wordings;
use crate::episode::Role;

/// What a prompt is about: the game as a player to move sees it. Texts are in the form of the wordings.
#[derive(Clone, Copy)]
pub(super) struct Scene<'a, H> {
    /// Who spoke, and what was said.
    pub(super) history: H,
    /// Whose turn it is.
    pub(super) role: Role,
    pub(super) target_word: &'a str,
    pub(super) max_turns: usize,
}

/// Appends the prompt in the playing wording.
pub(super) fn playing<'h, H>(wordings: &Wordings, scene: &Scene<'_, H>, query: &mut String)
where
    H: Iterator<Item = (Role, &'h str)> + Clone,
{
    let parts = &wordings.playing;
    if let Some(rules) = wordings.rules.first() {
        rules.append(query, &[&scene.max_turns.to_string()]);
    }
    let mut history = scene.history.clone().peekable();
    query.push_str(if history.peek().is_none() { &parts.beginning } else { &parts.history });
    for (role, content) in history {
        parts.entry.append(query, &[role.name(), content]);
    }
    parts.instruction.append(query, scene.role, scene.target_word);
}

/// Appends the prompt in a wording that is drawn.
pub(super) fn training<'h, H>(wordings: &Wordings, scene: &Scene<'_, H>, rng: &mut impl Rng, query: &mut String)
where
    H: Iterator<Item = (Role, &'h str)> + Clone,
{
    match draw(wordings, rng) {
        Drawn::Playing => playing(wordings, scene, query),
        Drawn::Training(wording) => lay_out(wordings, &wording, scene, query),
    }
}

fn lay_out<'h, H>(wordings: &Wordings, wording: &Wording<'_>, scene: &Scene<'_, H>, query: &mut String)
where
    H: Iterator<Item = (Role, &'h str)> + Clone,
{
    let parts = &wordings.training;
    let Wording { prefix, names, layout, system, rules } = *wording;
    let colon = parts.after_name.as_str();
    let (own, other) = match names {
        Some(names) => names.of(scene.role),
        None => (scene.role.name(), scene.role.opponent().name()),
    };
    let opening = scene.history.clone().next().is_none();
    let beginning = if opening { parts.beginning.as_str() } else { "" };
    let append_rules = |query: &mut String| {
        if let Some(rules) = rules {
            rules.append(query, &[&scene.max_turns.to_string()]);
        }
    };
    let append_talk = |query: &mut String| {
        for (role, content) in scene.history.clone() {
            query.extend([prefix, if role == scene.role { own } else { other }, colon, content]);
        }
    };
    let append_head = |query: &mut String| {
        query.extend([prefix, system, colon]);
        append_rules(query);
        query.push_str(&parts.before_instruction);
        parts.instruction.append(query, scene.role, scene.target_word);
        query.push_str(beginning);
    };
    match layout {
        Layout::Chat => {
            append_head(query);
            append_talk(query);
            query.extend([prefix, own, colon]);
        }
        Layout::ChatInverse => {
            append_talk(query);
            append_head(query);
            query.extend([prefix, own, colon]);
        }
        Layout::Alpaca { system: named, nameless } => {
            if named {
                query.extend([system, colon]);
            }
            append_rules(query);
            query.push_str(beginning);
            if !opening {
                query.extend([prefix, parts.history.as_str()]);
                append_talk(query);
                query.push_str(&parts.after_history);
            }
            let told = query.len();
            parts.instruction.append(query, scene.role, scene.target_word);
            if nameless {
                if query.len() > told && query.ends_with('.') {
                    query.pop();
                }
                query.push_str(colon);
            } else {
                query.extend([prefix, own, colon]);
            }
        }
    }
}
