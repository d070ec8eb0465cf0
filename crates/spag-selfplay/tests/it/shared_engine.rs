//! Players that share an engine: a model, and an adapter of it.

use spag_game::taboo::Taboo;
use spag_game::{CollectedGames, Episode, GameSpec, PlayConfig, Policy, PromptSet, Seats, TokenRecords, play_games};
use spag_model::adapter::Adapter;
use spag_model::checkpoint::load_config;
use spag_model::generate::{MemoryBudget, Sampling};
use spag_model::{Checkpoint, EngineConfig, Generate, GenerationConfig, Request};
use spag_selfplay::{ModelPlayer, SharedEngine};
use spag_tests::{fixture, root};

fn player() -> ModelPlayer {
    let checkpoint = Checkpoint::load(fixture("tiny-llama")).unwrap();
    let engine = EngineConfig::with_max_length(checkpoint.model.config(), 6, 400, MemoryBudget::host());
    let sampling = Sampling::random(0.8, 20, None);
    let config = GenerationConfig { max_new_tokens: 8, min_new_tokens: 1, sampling, ..GenerationConfig::default() };
    ModelPlayer::load(checkpoint, config, engine).unwrap()
}

fn adapter() -> Adapter {
    let model = load_config(fixture("tiny-llama")).unwrap();
    Adapter::load(fixture("peft/attention"), &model.architecture).unwrap()
}

/// What was said in games of two players, with its tokens.
fn games(first: &mut dyn Policy, second: &mut dyn Policy) -> Vec<Episode> {
    let prompts = PromptSet::load(root().join("configs/tiny-prompts.json")).unwrap();
    let specs = (0..6).map(|number| GameSpec {
        number,
        item: "tiger".into(),
        max_turns: 2,
        seed: number as u64,
        sampling_seed: None,
    });
    let mut games = CollectedGames::default();
    let play = PlayConfig { tokens: TokenRecords::Kept, ..PlayConfig::default() };
    play_games(&Taboo::new(&prompts), specs, Seats::Versus([first, second]), &play, &mut games).unwrap();
    games.finished.sort_by_key(|game| game.number);
    games.finished.into_iter().map(|game| game.episode).collect()
}

#[test]
fn games_in_one_engine_are_those_of_two() {
    let adapter = adapter();
    let apart = games(&mut player(), &mut player().beside(Some(("a", &adapter)), Some(7)).unwrap());
    let mut policy = player();
    let mut opponent = policy.beside(Some(("a", &adapter)), Some(7)).unwrap();
    let together = games(&mut policy, &mut opponent);
    assert_eq!(format!("{together:?}"), format!("{apart:?}"));
    // The other seat is another model.
    let of_base = games(&mut player(), &mut player());
    assert_ne!(format!("{together:?}"), format!("{of_base:?}"));
    for episode in &together {
        let versions = episode.history.iter().map(|said| said.generation.as_ref().unwrap().policy_version);
        assert!(versions.enumerate().all(|(at, version)| version == [0, 7][at % 2]), "{episode:?}");
    }
    // The name is free for the next opponent.
    drop(opponent);
    let mut base = policy.beside(None, Some(3)).unwrap();
    let of_base_again: Vec<String> = games(&mut policy, &mut base)
        .iter()
        .flat_map(|episode| episode.history.iter().map(|said| said.content.clone()).collect::<Vec<_>>())
        .collect();
    let expected: Vec<String> =
        of_base.iter().flat_map(|episode| episode.history.iter().map(|said| said.content.clone())).collect();
    assert_eq!(of_base_again, expected);
}

#[test]
fn events_go_to_the_players_that_asked() {
    let checkpoint = Checkpoint::load(fixture("tiny-llama")).unwrap();
    let limits = EngineConfig::with_max_length(checkpoint.model.config(), 4, 100, MemoryBudget::host());
    let new = || spag_model::Engine::new(&checkpoint, limits).unwrap();
    let config = GenerationConfig { max_new_tokens: 9, ..GenerationConfig::default() };
    let request = |prompt: &str| Request { prompt: prompt.into(), seed: 1, config: config.clone().into() };
    let mut one = SharedEngine::new(new());
    let (mut two, mut gone) = (one.beside(), one.beside());
    two.submit(request("a horse")).unwrap();
    gone.submit(request("nobody waits for this")).unwrap();
    // The steps of the first player complete all requests.
    let own = one.generate(vec![request("the word"), request("a")]).unwrap();
    assert_eq!(own, new().generate(vec![request("the word"), request("a")]).unwrap());
    assert_eq!((one.unfinished(), two.unfinished(), gone.unfinished()), (0, 1, 1));
    let events = two.step().unwrap();
    assert!(matches!(&events[..], [(_, spag_model::generate::Event::Finished(done))] if done.token_ids.len() == 9));
    assert_eq!(two.unfinished(), 0);
    // What a player leaves behind ends with it.
    gone.submit(request("nor for this")).unwrap();
    drop(gone);
    assert_eq!(one.with(|engine| engine.unfinished()), 0);
}
