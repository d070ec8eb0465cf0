//! What players of the native games are shown, word by word: models are trained on it.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use spag_game::{Episode, Game, Refusal, Ruling, Seat, Taboo, games};
use spag_io::PromptFormat;

use crate::textarena::data_of;

/// Games with their options, a seed and the texts of the players.
const GAMES: [(&str, &str, u64, &[&str]); 14] = [
    ("taboo", "max_turns=1", 3, &["A thing.", "Hm."]),
    ("taboo", "max_turns=3", 3, &["A thing.", "Which?", "I know the word!", "Hm."]),
    // Each player wins a round.
    ("kuhn-poker", "rounds=2", 3, &["[bet]", "[fold]", "[bet]", "[fold]"]),
    ("tic-tac-toe", "", 1, &["4", "[4]", "I take [0].", "[8]", "hm", "[1]"]),
    ("tic-tac-toe", "", 1, &["[0]", "[3]", "[1]", "[4]", "[2]"]),
    (
        "connect-four",
        "rows=4 cols=5",
        1,
        &["[col 0]", "[col 0]", "[col 4]", "[col 0]", "[col 0]", "[col 0]", "[col 2]"],
    ),
    ("nim", "piles=[3,4,5] error_allowance=2", 1, &["[0 2]", "[9 1]", "[1 9]", "[1 4]"]),
    ("kuhn-poker", "rounds=2 bets_count=true", 3, &["[check]", "[fold]", "[bet]", "[call]", "[bet]"]),
    ("kuhn-poker", "rounds=1 winner=last_round", 3, &["[bet]", "[fold]"]),
    ("liars-dice", "dice=2", 2, &["[bid: 1, 2]", "[bid: 1, 1]", "[bid: 2, 2]", "[call]"]),
    ("dont-say-it", "max_turns=4", 5, &["Hello.", "Good morning."]),
    ("truth-and-deception", "max_turns=4", 5, &["The first one is true.", "Why?", "I know.", "I doubt it."]),
    (
        "simple-negotiation",
        "max_turns=6",
        4,
        &["[offer: 1 wheat -> 1 ore]", "[deny] [offer: 2 wood, 1 ore -> 3 wheat]"],
    ),
    ("simple-negotiation", "goods=2", 4, &["[offer: 1 wood -> 1 gold]", "[accept]", "[offer: 99 wood -> 1 gold]"]),
];

/// A game as both players have seen it, with what is known of it and what the next action may be.
fn shown((name, options, seed, said): (&str, &str, u64, &[&str])) -> String {
    let game = games::by_name(name, &spag_game::parse_options(options), data_of(name).as_ref(), PromptFormat::Plain);
    let game = game.unwrap();
    let mut state = game.start_seeded(seed).unwrap();
    let rulings: Vec<_> = said.iter().map(|text| state.apply(text)).collect();
    let mut text = format!("==== {name} {options}\n");
    for seat in game.labels().seats {
        text += &state.prompt(seat, &Episode::new("", 0)).text();
        text += &format!("---- {seat}: {}\n", serde_json::Value::from(state.private_state(seat)));
    }
    text += &format!("{}\n", serde_json::Value::from(state.public_state()));
    text += &format!("legal: {:?}\n", state.legal_actions());
    for (said, Ruling { refusal, verdict }) in said.iter().zip(rulings) {
        let end = verdict.map(|verdict| {
            let winner = verdict.winner().map_or("no player", Seat::name);
            format!("; {}, won by {winner}, {} utterances", game.reason(verdict.ending), verdict.history_length)
        });
        text += &format!("{said:?} {}{}\n", refusal.map_or("accepted", Refusal::name), end.unwrap_or_default());
    }
    text
}

/// Prompts that Adversarial Taboo is trained on, of both seats, in wordings that seeds draw.
fn trained_on() -> String {
    let mut episode = Episode::new("tea", 3);
    ["Is it hot?", "Yes.", "Is it tea?"].into_iter().for_each(|text| episode.push(episode.next_role(), text));
    let prompts = (0..12).map(|seed| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let prompt = Taboo::default().training_prompt(&episode.view(), seed as usize % 3, &mut rng);
        format!("==== taboo, drawn by {seed}\n{}\n", prompt.unwrap().text())
    });
    prompts.collect()
}

#[test]
fn players_are_shown_the_recorded_texts() {
    let found = GAMES.map(shown).concat() + &trained_on();
    let recorded = std::fs::read_to_string(spag_tests::fixture("games/shown.txt")).unwrap();
    for (at, (found, recorded)) in found.lines().zip(recorded.lines()).enumerate() {
        assert_eq!(found, recorded, "line {}", at + 1);
    }
    assert_eq!(found.lines().count(), recorded.lines().count());
}
