//! The tokens of utterances, as games keep them.

use std::sync::Arc;

use spag_chat::PromptEncoder;
use spag_game::taboo::Taboo;
use spag_game::{
    CollectedGames, Episode, FinishedGame, GameSpec, PlayConfig, PromptSet, Seats, TokenRecords, play_games,
};
use spag_model::generate::{Event, LogProbs, MemoryBudget, Prompt, PromptRange, Sampling};
use spag_model::{Checkpoint, Engine, EngineConfig, Generate, GenerationConfig, Request};
use spag_selfplay::{GameMeter, KuhnMeter, MeterSize, MeterTable, ModelPlayer, SolvedMeter};
use spag_tests::root;

fn games(tokens: TokenRecords) -> Vec<FinishedGame> {
    games_of(&mut player(), tokens)
}

fn player() -> ModelPlayer {
    let checkpoint = Checkpoint::load(root().join("data/tiny-llama")).unwrap();
    let engine = EngineConfig::with_max_length(checkpoint.model.config(), 4, 384, MemoryBudget::host());
    let sampling = Sampling::random(0.8, 20, None);
    let config = GenerationConfig { max_new_tokens: 12, min_new_tokens: 1, sampling, ..GenerationConfig::default() };
    ModelPlayer::load(checkpoint, config, engine).unwrap()
}

fn games_of(player: &mut ModelPlayer, tokens: TokenRecords) -> Vec<FinishedGame> {
    let specs = (0..6).map(|number| GameSpec {
        number,
        item: "tiger".into(),
        max_turns: 3,
        seed: number as u64,
        sampling_seed: None,
    });
    let mut games = CollectedGames::default();
    let play = PlayConfig { tokens, ..PlayConfig::default() };
    play_games(&Taboo::new(&prompts()), specs, Seats::SelfPlay(player), &play, &mut games).unwrap();
    games.finished.sort_by_key(|game| game.number);
    games.finished
}

fn prompts() -> PromptSet {
    PromptSet::load(root().join("configs/tiny-prompts.json")).unwrap()
}

/// What an engine says of tokens after a prompt.
fn scored(engine: &mut Engine, prompt: &[u32], tokens: &[u32]) -> Vec<f32> {
    let log_probs =
        LogProbs { prompt: Some(PromptRange::Positions(prompt.len()..prompt.len() + tokens.len())), top: 0 };
    let config = Arc::new(GenerationConfig { max_new_tokens: 0, log_probs, ..GenerationConfig::default() });
    let prompt = Prompt::Tokens([prompt, tokens].concat());
    engine.submit(Request { prompt, seed: 0, config }).unwrap();
    loop {
        for (_, event) in engine.step().unwrap() {
            if let Event::Finished(completion) = event {
                return completion
                    .prompt_log_probs
                    .unwrap()
                    .into_iter()
                    .flatten()
                    .map(|token| token.log_prob)
                    .collect();
            }
        }
    }
}

#[test]
fn kept_tokens_are_those_of_the_text_with_their_log_probabilities() {
    let (kept, dropped) = (games(TokenRecords::Kept), games(TokenRecords::Dropped));
    let checkpoint = Checkpoint::load(root().join("data/tiny-llama")).unwrap();
    let tokenizer = checkpoint.tokenizer.clone();
    let encoder = PromptEncoder::new(tokenizer.clone());
    let config = EngineConfig::with_max_length(checkpoint.model.config(), 1, 384, MemoryBudget::host());
    let mut engine = Engine::from_checkpoint(checkpoint, config).unwrap();
    let mut compared = 0;
    for (with, without) in kept.iter().zip(&dropped) {
        // A row of a file has all of it.
        let row = serde_json::to_string(&with.episode).unwrap();
        assert_eq!(serde_json::from_str::<Episode>(&row).unwrap(), with.episode);
        assert!(!serde_json::to_string(&without.episode).unwrap().contains("generation"));
        for (at, utterance) in with.episode.history.iter().enumerate() {
            let generation = utterance.generation.as_ref().unwrap();
            let tokens = &generation.token_ids;
            let said: Vec<u32> = tokens.iter().copied().filter(|token| *token != tokenizer.eos()).collect();
            assert_eq!(tokenizer.decode(&said).unwrap().trim(), utterance.content.trim());
            let prompt = prompts().playing_prompt(&with.episode.history[..at], "tiger", 3);
            let expected = scored(&mut engine, &encoder.encode(&prompt).unwrap(), tokens);
            assert_eq!(generation.model_log_probs.len(), tokens.len());
            for (found, expected) in generation.model_log_probs.iter().zip(&expected) {
                assert!((found - expected).abs() < 1e-4, "{found}, not {expected}");
            }
            // A lower temperature and fewer tokens make what is likely likelier: all of them are at most 0.
            assert_eq!(generation.sampling_log_probs.len(), tokens.len());
            assert!(generation.sampling_log_probs.iter().all(|log_prob| *log_prob <= 0.0));
            assert_ne!(generation.sampling_log_probs, generation.model_log_probs);
            assert_eq!(generation.policy_version, 0);
            compared += tokens.len();
        }
        let mut bare = with.clone();
        bare.episode.history.iter_mut().for_each(|utterance| utterance.generation = None);
        assert_eq!(bare, *without);
    }
    assert!(compared > 100, "{compared}");
}

/// The same weights once more are another version: utterances differ in nothing else.
#[test]
fn utterances_report_the_version_of_the_weights() {
    let weights = Checkpoint::load(root().join("data/tiny-llama")).unwrap().model;
    let mut player = player();
    let versions = |games: &[FinishedGame]| -> Vec<u64> {
        let said = games.iter().flat_map(|game| &game.episode.history);
        said.filter_map(|utterance| Some(utterance.generation.as_ref()?.policy_version)).collect()
    };
    let before = games_of(&mut player, TokenRecords::Kept);
    assert!(versions(&before).len() > 6 && versions(&before).iter().all(|version| *version == 0));
    player.refresh(weights.parameters(), 4).unwrap();
    let mut after = games_of(&mut player, TokenRecords::Kept);
    assert!(versions(&after).len() == versions(&before).len() && versions(&after).iter().all(|version| *version == 4));
    let said = after.iter_mut().flat_map(|game| &mut game.episode.history);
    said.filter_map(|utterance| utterance.generation.as_mut()).for_each(|generation| generation.policy_version = 0);
    assert_eq!(after, before);
}

#[test]
fn actions_are_scored_as_they_are_sampled() {
    let mut player = player();
    let games = games_of(&mut player, TokenRecords::Kept);
    let tokenizer = Checkpoint::load(root().join("data/tiny-llama")).unwrap().tokenizer;
    let (mut turns, mut sampled) = (Vec::new(), Vec::new());
    for game in &games {
        for (at, said) in game.episode.history.iter().enumerate() {
            let generation = said.generation.as_ref().unwrap();
            // Other tokens can have the same text.
            let mut tokens = tokenizer.encode_text(&said.content).unwrap();
            tokens.push(tokenizer.eos());
            if tokens == generation.token_ids {
                turns.push((
                    prompts().playing_prompt(&game.episode.history[..at], "tiger", 3),
                    vec![said.content.clone()],
                ));
                sampled.push(generation.model_log_probs.iter().map(|log_prob| f64::from(*log_prob)).sum::<f64>());
            }
        }
    }
    assert!(sampled.len() >= 5, "{}", sampled.len());
    for (scored, sampled) in player.action_log_probs(&turns).unwrap().into_iter().zip(sampled) {
        assert!((scored[0] - sampled).abs() < 1e-3, "{scored:?} {sampled}");
    }
}

#[test]
fn kuhn_poker_is_measured_also_where_its_prompts_are_cut() {
    let game = |name: &str| spag_game::open_game(name, &Default::default(), None, Default::default()).unwrap();
    let mut player = player();
    let meter = KuhnMeter::of(&mut player, &*game("kuhn-poker")).unwrap();
    // This model does not know the game.
    assert!((0.9..=1.0).contains(&meter.invalid), "{meter:?}");
    assert!(meter.exploitability > 0.0 && meter.bold.as_flattened().iter().all(|p| (0.0..=1.0).contains(p)));
    assert!(KuhnMeter::of(&mut player, &*game("nim")).unwrap_err().to_string().contains("nim"));
}

#[test]
fn solved_games_are_measured_by_the_probabilities_of_their_moves() {
    let options = spag_game::parse_options("piles=[1,2]");
    let game = spag_game::open_game("nim", &options, None, Default::default()).unwrap();
    let mut player = player();
    let size = MeterSize { positions: 10, games: 4 };
    let meter = SolvedMeter::of(&mut player, &*game, size).unwrap().unwrap();
    // Two positions have mistakes: the start, where only [1 1] wins, and piles of 0 and 2, where only [1 2] does.
    let mut state =
        game.start(&GameSpec { number: 0, item: String::new(), max_turns: 0, seed: 0, sampling_seed: None }).unwrap();
    let mut turns = Vec::new();
    let moves = |moves: &[&str]| moves.iter().map(|action| (*action).to_owned()).collect::<Vec<_>>();
    turns.push((state.prompt(state.to_move(), &Episode::new("", 0)), moves(&["[1 1]", "[0 1]", "[1 2]"])));
    state.apply("[0 1]");
    turns.push((state.prompt(state.to_move(), &Episode::new("", 0)), moves(&["[1 2]", "[1 1]"])));
    let probs: Vec<Vec<f64>> = player.action_log_probs(&turns).unwrap();
    let legal: Vec<f64> = probs.iter().map(|turn| turn.iter().map(|log_prob| log_prob.exp()).sum()).collect();
    let best: f64 = probs.iter().zip(&legal).map(|(turn, legal)| turn[0].exp() / legal).sum();
    assert_eq!(meter.positions, 2);
    assert!((meter.optimal - best / 2.0).abs() < 1e-6, "{meter:?} {best}");
    assert!((meter.optimal_by_chance - (1.0 / 3.0 + 1.0 / 2.0) / 2.0).abs() < 1e-12, "{meter:?}");
    assert!((meter.invalid - (1.0 - legal.iter().sum::<f64>() / 2.0)).abs() < 1e-9, "{meter:?}");
    // This model does not know the game.
    assert!(meter.against_perfect.iter().all(|seat| (seat.refused, seat.games()) == (4, 4)), "{meter:?}");

    let measured = GameMeter::of(&mut player, &*game, size).unwrap().unwrap();
    assert_eq!(measured, GameMeter::Solved(meter));
    let again: GameMeter = serde_json::from_str(&serde_json::to_string(&measured).unwrap()).unwrap();
    assert_eq!(again, measured);
    let table = MeterTable::of([("a", &measured), ("b", &again)]).unwrap();
    assert_eq!((table.rows.len(), table.rows[0].len()), (2, table.columns.len()));
}
