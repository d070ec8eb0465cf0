//! Prompts from the texts of a prompt file.

use rand::Rng;
use spag_io::{ChatMessage, ChatRole, PromptText};

use super::file::PromptFile;
use super::template::{Template, Value};
use crate::episode::UtteranceView;
use crate::seat::Seat;
use crate::taboo;

/// The game as the player to move sees it.
#[derive(Clone, Copy)]
pub(super) struct Turn<'a> {
    history: &'a [UtteranceView<'a>],
    seat: Seat,
    target_word: &'a str,
    max_turns: usize,
}

impl<'a> Turn<'a> {
    pub(super) fn new(history: &'a [UtteranceView<'a>], target_word: &'a str, max_turns: usize) -> Self {
        let seat = history.last().map_or(taboo::ATTACKER, |last| taboo::LABELS.other(last.seat));
        Self { history, seat, target_word, max_turns }
    }
}

/// The prompt in the playing wording.
pub(super) fn playing(file: &PromptFile, turn: Turn<'_>) -> PromptText {
    let (mut query, parts) = (playing_rules(file, turn), &file.playing);
    query.push(if turn.history.is_empty() { &parts.beginning } else { &parts.history });
    for utterance in turn.history {
        let said = Value::Said(&utterance.content);
        parts.entry.append(&mut query, &[("role", Value::Own(utterance.seat.name())), ("content", said)]);
    }
    parts.instruction.append(&mut query, turn.seat, turn.target_word);
    query
}

/// The game as messages: the rules, an opening for the attacker, and the utterances, those of the player to move as the
/// assistant's. The last one is the user's, and the word is in none of the defender's.
pub(super) fn chat(file: &PromptFile, turn: Turn<'_>) -> Vec<ChatMessage> {
    let (mut system, parts) = (playing_rules(file, turn), &file.chat);
    parts.instruction.append(&mut system, turn.seat, turn.target_word);
    let mut messages = vec![ChatMessage::new(ChatRole::System, system)];
    // The attacker begins: something has to be answered.
    if turn.seat == taboo::ATTACKER {
        messages.push(ChatMessage::new(ChatRole::User, PromptText::own(parts.opening.as_str())));
    }
    messages.extend(turn.history.iter().map(|utterance| {
        let role = if utterance.seat == turn.seat { ChatRole::Assistant } else { ChatRole::User };
        ChatMessage::new(role, PromptText::all_said(&*utterance.content))
    }));
    messages
}

/// The first rules, which are those of play.
fn playing_rules(file: &PromptFile, turn: Turn<'_>) -> PromptText {
    file.rules.first().map(|rules| PromptText::own(fill_rules(rules, turn))).unwrap_or_default()
}

fn fill_rules(rules: &Template, turn: Turn<'_>) -> String {
    rules.fill(&[("max_turns", &turn.max_turns.to_string())])
}

/// The prompt in a wording that is drawn. A seed reproduces a prompt only if the order of the draws does not change.
pub(super) fn training(file: &PromptFile, turn: Turn<'_>, rng: &mut impl Rng) -> PromptText {
    let parts = &file.training;
    if parts.playing_share > 0.0 && rng.random_bool(parts.playing_share.min(1.0)) {
        return playing(file, turn);
    }
    let prefix = pick(&parts.dialogue_prefixes, rng).map_or("", String::as_str);
    let names = pick(&parts.names, rng);
    let layouts = &parts.layouts;
    let layout = rng.random::<f64>() * (layouts.chat + layouts.chat_inverse + layouts.alpaca);
    let system = pick(&parts.system_names, rng).map_or("", String::as_str);
    let rules = pick(&file.rules, rng).map_or_else(String::new, |rules| fill_rules(rules, turn));

    let (own_role, other_role) = (turn.seat.name(), taboo::LABELS.other(turn.seat).name());
    let roles = [("self", own_role), ("other", other_role)];
    let (own, other) = names.map_or_else(
        || (own_role.to_owned(), other_role.to_owned()),
        |(own, other)| (own.fill(&roles), other.fill(&roles)),
    );
    let (own, other, colon) = (own.as_str(), other.as_str(), parts.after_name.as_str());
    let beginning = if turn.history.is_empty() { parts.beginning.as_str() } else { "" };

    let mut query = PromptText::default();
    let append = |query: &mut PromptText, texts: &[&str]| texts.iter().for_each(|text| query.push(text));
    let append_history = |query: &mut PromptText| {
        for utterance in turn.history {
            let name = if utterance.seat == turn.seat { own } else { other };
            append(query, &[prefix, name, colon]);
            query.push_said(&utterance.content);
        }
    };
    let append_system = |query: &mut PromptText| {
        append(query, &[prefix, system, colon, &rules, &parts.before_instruction]);
        parts.instruction.append(query, turn.seat, turn.target_word);
        query.push(beginning);
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
            append(&mut query, &[system, colon]);
        }
        append(&mut query, &[&rules, beginning]);
        if !turn.history.is_empty() {
            append(&mut query, &[prefix, &parts.history]);
            append_history(&mut query);
            query.push(&parts.after_history);
        }
        let mut instruction = PromptText::default();
        parts.instruction.append(&mut instruction, turn.seat, turn.target_word);
        if is_nameless {
            instruction.pop_if('.');
            instruction.push(colon);
            query.append(&instruction);
            return query;
        }
        query.append(&instruction);
    }
    append(&mut query, &[prefix, own, colon]);
    query
}

/// An entry of a list; `None` if the list is empty, which a checked file rules out.
fn pick<'a, T>(entries: &'a [T], rng: &mut impl Rng) -> Option<&'a T> {
    if entries.is_empty() { None } else { entries.get(rng.random_range(0..entries.len())) }
}
