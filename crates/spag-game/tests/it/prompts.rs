//! Prompts of a small prompt file in every layout, and the error messages for invalid files.

use std::collections::BTreeSet;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use serde_json::{Value, json};
use spag_game::{PromptSet, Utterance, UtteranceRule, taboo};
use spag_io::{ChatMessage, PromptFormat, TurnPrompt};

/// Wordings with one choice each.
fn wordings() -> Value {
    json!({
        "rules": ["Play {max_turns} turns. ", "Other rules."],
        "playing": {
            "beginning": "It begins. ",
            "history": "\n### History:",
            "entry": "\n  - {role}: {content}",
            "instruction": { "attacker": "\n\nAttack with {target_word}.", "defender": "\n\nDefend." }
        },
        "training": {
            "layouts": { "chat": 1 },
            "dialogue_prefixes": ["\n\n### "],
            "names": [["Me", "You ({other})"]],
            "system_names": ["System"],
            "instruction": { "attacker": "Attack with {target_word}.", "defender": "Defend." },
            "before_instruction": "\n\n",
            "beginning": "It begins. ",
            "history": "History:",
            "after_history": "\n\n",
            "after_name": ": ",
            "alpaca_system_share": 0.0,
            "alpaca_nameless_share": 0.0
        }
    })
}

fn load(wordings: &Value) -> Result<PromptSet, String> {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("prompts.json");
    std::fs::write(&path, wordings.to_string()).unwrap();
    PromptSet::load(&path).map_err(|e| e.to_string().split_once("prompts.json: prompts: ").unwrap().1.to_owned())
}

fn said() -> Vec<Utterance> {
    vec![Utterance::new(taboo::ATTACKER, "Drink {target_word}?"), Utterance::new(taboo::DEFENDER, "Yes.")]
}

#[test]
fn playing_query_joins_rules_history_and_instruction() {
    let set = load(&wordings()).unwrap();
    let query = |history: &[Utterance]| set.playing_query(history, "tea", 5);
    assert_eq!(query(&[]), "Play 5 turns. It begins. \n\nAttack with tea.");
    assert_eq!(query(&said()[..1]), "Play 5 turns. \n### History:\n  - attacker: Drink {target_word}?\n\nDefend.");
    assert_eq!(
        query(&said()),
        "Play 5 turns. \n### History:\n  - attacker: Drink {target_word}?\n  - defender: Yes.\n\nAttack with tea."
    );
}

#[test]
fn prompts_know_what_was_said() {
    let set = load(&wordings()).unwrap();
    let TurnPrompt::Plain(prompt) = set.playing_prompt(&said(), "tea", 5) else { panic!() };
    let parts: Vec<&str> = prompt.said().iter().map(|said| &prompt.text()[said.clone()]).collect();
    assert_eq!(parts, ["Drink {target_word}?", "Yes.", "tea"]);
    assert_eq!(prompt.text(), set.playing_query(&said(), "tea", 5));
}

#[test]
fn chat_is_the_rules_then_the_utterances_as_messages() {
    let mut file = wordings();
    file["chat"] = json!({
        "instruction": { "attacker": "Lead to {target_word}.", "defender": "Find it." }, "opening": "Begin."
    });
    let set = load(&file).unwrap().with_format(PromptFormat::Chat);
    assert_eq!(set.utterance_rule(), UtteranceRule::Message);
    let messages = |history: &[Utterance]| match set.playing_prompt(history, "tea", 5) {
        TurnPrompt::Chat(messages) => messages,
        TurnPrompt::Plain(_) => panic!(),
    };
    let shown = |messages: &[ChatMessage]| -> Vec<String> {
        messages.iter().map(|message| format!("{}: {}", message.role.name(), message.content.text())).collect()
    };
    assert_eq!(shown(&messages(&[])), ["system: Play 5 turns. Lead to tea.", "user: Begin."]);
    assert_eq!(shown(&messages(&said()[..1])), ["system: Play 5 turns. Find it.", "user: Drink {target_word}?"]);
    let third = messages(&said());
    assert_eq!(shown(&third)[1..], ["user: Begin.", "assistant: Drink {target_word}?", "user: Yes."]);
    assert_eq!(third[0].content.said(), [22..25], "the word is not the operator's");
    assert_eq!(third.iter().map(|message| message.content.said().len()).collect::<Vec<_>>(), [1, 0, 1, 1]);

    // A file without a chat has the built-in one.
    let set = load(&wordings()).unwrap().with_format(PromptFormat::Chat);
    assert!(set.playing_prompt(&[], "tea", 5).text().contains("`tea`"));
    assert!(!set.playing_prompt(&said()[..1], "tea", 5).text().contains("tea"));
}

#[test]
fn training_query_follows_its_layout() {
    let rules = "Play 5 turns. ";
    for (layout, shares, moves, expected) in [
        ("chat", 0.0, 0, "\n\n### System: Play 5 turns. \n\nAttack with tea.It begins. \n\n### Me: "),
        (
            "chat",
            0.0,
            1,
            "\n\n### System: Play 5 turns. \n\nDefend.\n\n### You (attacker): Drink {target_word}?\n\n### Me: ",
        ),
        ("chat_inverse", 0.0, 0, "\n\n### System: Play 5 turns. \n\nAttack with tea.It begins. \n\n### Me: "),
        (
            "chat_inverse",
            0.0,
            2,
            "\n\n### Me: Drink {target_word}?\n\n### You (defender): Yes.\n\n### System: Play 5 turns. \n\nAttack with \
             tea.\n\n### Me: ",
        ),
        ("alpaca", 0.0, 0, "Play 5 turns. It begins. Attack with tea.\n\n### Me: "),
        (
            "alpaca",
            0.0,
            1,
            "Play 5 turns. \n\n### History:\n\n### You (attacker): Drink {target_word}?\n\nDefend.\n\n### Me: ",
        ),
        (
            "alpaca",
            1.0,
            1,
            "System: Play 5 turns. \n\n### History:\n\n### You (attacker): Drink {target_word}?\n\nDefend: ",
        ),
    ] {
        let mut file = wordings();
        file["rules"] = json!([rules.replace('5', "{max_turns}")]);
        file["training"]["layouts"] = json!({ layout: 1 });
        file["training"]["alpaca_system_share"] = json!(shares);
        file["training"]["alpaca_nameless_share"] = json!(shares);
        let query = load(&file).unwrap().training_query(&said()[..moves], "tea", 5, &mut ChaCha8Rng::seed_from_u64(1));
        assert_eq!(query, expected, "{layout} {moves}");
    }
}

#[test]
fn playing_share_selects_the_playing_wording() {
    let mut file = wordings();
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    for (share, expected) in [(0.0, 0..=0), (0.25, 200..=300), (1.0, 1000..=1000)] {
        file["training"]["playing_share"] = json!(share);
        let set = load(&file).unwrap();
        let playing = set.playing_query(&said(), "tea", 5);
        let hits = (0..1000).filter(|_| set.training_query(&said(), "tea", 5, &mut rng) == playing).count();
        assert!(expected.contains(&hits), "{share}: {hits}");
    }
}

#[test]
fn default_prompts_vary_and_are_reproduced_by_their_seed() {
    let set = PromptSet::default();
    let query =
        |moves: usize, seed| set.training_query(&said()[..moves], "tea", 5, &mut ChaCha8Rng::seed_from_u64(seed));
    for moves in 0..=2 {
        let prompts: BTreeSet<String> = (0..2000).map(|seed| query(moves, seed)).collect();
        // 8 rules, 7 prefixes, 5 pairs of names, 3 layouts (2 without a history).
        assert!(prompts.len() > 500, "{}", prompts.len());
        assert!(prompts.iter().all(|prompt| prompt.contains("tea") == (moves != 1)));
        assert!((0..50).all(|seed| query(moves, seed) == query(moves, seed)));
    }
    let playing = set.playing_query(&said(), "tea", 7);
    assert!(playing.contains("- defender: Yes.") && playing.contains("`tea`") && playing.contains(" 7 turns"));
}

#[test]
fn error_names_the_key() {
    let good = wordings();
    load(&good).unwrap();
    for (pointer, value, message) in [
        ("/rules", json!([]), "`rules` is empty"),
        ("/rules/1", json!(" \n"), "`rules[1]` has no text"),
        ("/rules/0", json!("In {max_turn} turns"), "`rules[0]` has {max_turn}; known there: {max_turns}"),
        ("/rules/0", json!(5), "rules[0]: invalid type: integer `5`, expected a string (column "),
        ("/playing/entry", json!("{role}"), "`playing.entry` lacks {content}"),
        ("/playing/instruction/attacker", json!("Go."), "`playing.instruction.attacker` lacks {target_word}"),
        ("/training/instruction/attacker", json!("Go."), "`training.instruction.attacker` lacks {target_word}"),
        ("/training/instruction/defender", json!("{target_word}"), "`training.instruction.defender` has {target_word}"),
        ("/training/instruction/defender", json!("{role}"), "`training.instruction.defender` has {role}, but nothing"),
        ("/training/dialogue_prefixes", json!([]), "`training.dialogue_prefixes` is empty"),
        ("/training/names", json!([]), "`training.names` is empty"),
        ("/training/names/0", json!(["A"]), "training.names[0]: invalid length 1"),
        ("/training/names/0/1", json!("{me}"), "`training.names[0][1]` has {me}; known there: {self}, {other}"),
        ("/training/system_names", json!([]), "`training.system_names` is empty"),
        ("/training/layouts", json!({}), "`training.layouts` needs"),
        ("/training/layouts", json!({"chat": 1, "alpaca": -1}), "`training.layouts` needs"),
        ("/training/layouts", json!({"chatty": 1}), "training.layouts.chatty: unknown field `chatty`, expected one of"),
        ("/training/alpaca_system_share", json!(1.5), "`training.alpaca_system_share` is 1.5"),
        ("/training/after_name", json!(null), "training.after_name: invalid type: null, expected a string"),
    ] {
        let mut file = good.clone();
        *file.pointer_mut(pointer).unwrap() = value;
        let error = load(&file).unwrap_err();
        assert!(error.starts_with(message), "{error}");
    }
    let mut file = good.clone();
    file["utterances"] = json!("raw");
    let error = load(&file).unwrap_err();
    assert!(error.starts_with("utterances: unknown variant `raw`, expected `as-decoded` or `trimmed`"), "{error}");
    let mut file = good.clone();
    file["playing"].as_object_mut().unwrap().remove("entry");
    assert!(load(&file).unwrap_err().starts_with("playing: missing field `entry`"));
    file = good.clone();
    file["rule"] = json!(1);
    assert!(load(&file).unwrap_err().starts_with("rule: unknown field `rule`, expected one of `rules`"));
}
