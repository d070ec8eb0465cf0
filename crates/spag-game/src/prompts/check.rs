//! What a prompt file must have so that every prompt drawn from it makes sense.

use super::data::{PromptFile, Training};
use super::template::placeholders;

/// Says which key cannot be used and why.
pub(super) fn check(file: &PromptFile) -> Result<(), String> {
    let training = &file.training;
    let lists = [
        ("rules", file.rules.len()),
        ("training.dialogue_prefixes", training.dialogue_prefixes.len()),
        ("training.names", training.names.len()),
        ("training.system_names", training.system_names.len()),
    ];
    match lists.iter().find(|(_, length)| *length == 0) {
        Some((key, _)) => Err(format!("`{key}` is empty; it needs at least one entry")),
        None => texts(file).and_then(|()| shares(training)).and_then(|()| layouts(training)),
    }
}

fn texts(file: &PromptFile) -> Result<(), String> {
    for (index, text) in file.rules.iter().enumerate() {
        let key = format!("rules[{index}]");
        match text.trim().is_empty() {
            true => return Err(format!("`{key}` has no text")),
            false => only(&key, text, &["max_turns"])?,
        }
    }
    for (index, (own, other)) in file.training.names.iter().enumerate() {
        only(&format!("training.names[{index}][0]"), own, &["self", "other"])?;
        only(&format!("training.names[{index}][1]"), other, &["self", "other"])?;
    }
    let entry = &file.playing.entry;
    needs("playing.entry", entry, "role")?;
    needs("playing.entry", entry, "content")?;
    only("playing.entry", entry, &["role", "content"])?;
    for (part, instruction) in [("playing", &file.playing.instruction), ("training", &file.training.instruction)] {
        let (attacker, defender) = (format!("{part}.instruction.attacker"), format!("{part}.instruction.defender"));
        needs(&attacker, &instruction.attacker, "target_word")?;
        only(&attacker, &instruction.attacker, &["target_word"])?;
        if placeholders(&instruction.defender).any(|name| name == "target_word") {
            return Err(format!("`{defender}` has {{target_word}}, which would tell the defender the word"));
        }
        only(&defender, &instruction.defender, &[])?;
    }
    Ok(())
}

fn needs(key: &str, text: &str, placeholder: &str) -> Result<(), String> {
    match placeholders(text).any(|name| name == placeholder) {
        true => Ok(()),
        false => Err(format!("`{key}` lacks {{{placeholder}}}")),
    }
}

/// A slip such as `{max_turn}` would otherwise stand in every prompt.
fn only(key: &str, text: &str, known: &[&str]) -> Result<(), String> {
    match placeholders(text).find(|name| !known.contains(name)) {
        None => Ok(()),
        Some(name) if known.is_empty() => Err(format!("`{key}` has {{{name}}}, but nothing is filled in there")),
        Some(name) => Err(format!("`{key}` has {{{name}}}; known there: {{{}}}", known.join("}, {"))),
    }
}

fn shares(training: &Training) -> Result<(), String> {
    let shares = [
        ("training.playing_share", training.playing_share),
        ("training.alpaca_system_share", training.alpaca_system_share),
        ("training.alpaca_nameless_share", training.alpaca_nameless_share),
    ];
    match shares.iter().find(|(_, share)| !(0.0..=1.0).contains(share)) {
        Some((key, share)) => Err(format!("`{key}` is {share}; a probability lies between 0 and 1")),
        None => Ok(()),
    }
}

fn layouts(training: &Training) -> Result<(), String> {
    let layouts = &training.layouts;
    let weights = [layouts.chat, layouts.chat_inverse, layouts.alpaca];
    match weights.iter().all(|weight| weight.is_finite() && *weight >= 0.0)
        && weights.iter().any(|weight| *weight > 0.0)
    {
        true => Ok(()),
        false => Err("`training.layouts` needs weights of at least 0, one of them above".into()),
    }
}
