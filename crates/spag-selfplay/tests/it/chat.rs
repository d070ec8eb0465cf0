//! Models that play in their own chat template.

use serde_json::{Value, json};
use spag_game::taboo::Taboo;
use spag_game::{CollectedGames, GameSpec, PlayConfig, PromptSet, Seats, play_games};
use spag_io::PromptFormat;
use spag_model::generate::{MemoryBudget, Sampling};
use spag_model::{Checkpoint, EngineConfig, GenerationConfig};
use spag_selfplay::ModelPlayer;
use spag_tests::{chat_model, chat_prompts, fixture};

/// Plays a game of two turns with an engine for `max_length` tokens. Returns the games and the prompt tokens found in the KV
/// cache.
fn play(checkpoint: Checkpoint, max_length: usize) -> (spag_game::Result<CollectedGames>, u64) {
    let engine = EngineConfig::with_max_length(checkpoint.model.config(), 2, max_length, MemoryBudget::host());
    let sampling = Sampling::random(1.0, 0, None);
    let config = GenerationConfig { max_new_tokens: 12, min_new_tokens: 4, sampling, ..GenerationConfig::default() };
    let mut player = ModelPlayer::load(checkpoint, config, engine).unwrap();
    let mut games = CollectedGames::default();
    let spec = GameSpec { number: 0, item: "tea".into(), max_turns: 2, seed: 3, sampling_seed: None };
    let folder = tempfile::tempdir().unwrap();
    // The first prompt of each seat fills a page of its own.
    let long = |file: &mut Value| {
        file["chat"]["instruction"]["attacker"] = json!(format!("{{target_word}}{}", " Lead to it.".repeat(20)));
        file["chat"]["instruction"]["defender"] = json!("Find it. ".repeat(24));
    };
    let prompts = PromptSet::load(chat_prompts(folder.path(), long)).unwrap().with_format(PromptFormat::Chat);
    let played =
        play_games(&Taboo::new(&prompts), [spec], Seats::SelfPlay(&mut player), &PlayConfig::default(), &mut games);
    (played.map(|_| games), player.stats().cached_tokens)
}

#[test]
fn second_turn_of_a_seat_finds_the_first_in_the_cache() {
    let folder = tempfile::tempdir().unwrap();
    let model = Checkpoint::load(chat_model(folder.path(), "qwen2", "qwen2.5")).unwrap();
    let (games, cached) = play(model, 512);
    let game = &games.unwrap().finished[0];
    assert_eq!(game.episode.history.len(), 4);
    for utterance in &game.episode.history {
        assert_eq!(utterance.content, utterance.content.trim());
    }
    assert!(cached >= 2 * 64, "{cached}");
}

#[test]
fn chat_that_is_too_long_fails_its_game_and_keeps_its_rules() {
    let folder = tempfile::tempdir().unwrap();
    let model = Checkpoint::load(chat_model(folder.path(), "qwen2", "qwen2.5")).unwrap();
    let (games, _) = play(model, 64);
    let games = games.unwrap();
    assert_eq!((games.finished.len(), games.failed.len()), (0, 1));
    let reason = games.failed[0].failure.to_string();
    assert!(reason.contains("tokens"), "{reason}");
}

#[test]
fn model_without_a_template_plays_no_chats() {
    let (played, _) = play(Checkpoint::load(fixture("families/qwen2")).unwrap(), 512);
    let error = spag_io::error_chain(&played.unwrap_err());
    assert!(error.contains("no chat template") && error.contains("prompt format plain"), "{error}");
}
