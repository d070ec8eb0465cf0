//! Games whose prompts have the sampled tokens of earlier utterances.

use spag_game::taboo::Taboo;
use spag_game::{
    CollectedGames, FinishedGame, Game, GameSpec, PlayConfig, PromptSet, Seat, Seats, TokenRecords, play_games,
};
use spag_io::PromptFormat;
use spag_model::batch::{PackedBatch, Targets};
use spag_model::generate::{FinishReason, MemoryBudget, Sampling};
use spag_model::{Checkpoint, EngineConfig, GenerationConfig, Model, Tokenizer};
use spag_selfplay::{ModelPlayer, SampledTurn};
use spag_tests::{chat_model, chat_prompts, fixture, root};

/// Games with the turns that a model sampled in them.
type Sampled = Vec<(FinishedGame, Vec<SampledTurn>)>;

fn play(checkpoint: Checkpoint, game: &dyn Game, item: &str, count: usize) -> Sampled {
    let model = checkpoint.model.config();
    let length = model.architecture.max_position_embeddings.min(1024);
    let engine = EngineConfig::with_max_length(model, 4, length, MemoryBudget::host());
    let sampling = Sampling::random(1.0, 0, None);
    let config = GenerationConfig { max_new_tokens: 12, sampling, ..GenerationConfig::default() };
    let mut player = ModelPlayer::load(checkpoint, config, engine).unwrap().with_verbatim_history();
    let specs = (0..count).map(|number| GameSpec { number, item: item.into(), max_turns: 3, seed: number as u64 });
    let mut games = CollectedGames::default();
    let play = PlayConfig { tokens: TokenRecords::Kept, ..PlayConfig::default() };
    play_games(game, specs, Seats::SelfPlay(&mut player), &play, &mut games).unwrap();
    games.finished.sort_by_key(|game| game.number);
    let turns = |game: FinishedGame| {
        let turns = player.take_turns(game.number);
        assert!(player.take_turns(game.number).is_empty());
        (game, turns)
    };
    { games.finished }.into_iter().map(turns).collect()
}

/// The tokens that stand for an utterance in later prompts.
fn stands(turn: &SampledTurn) -> &[u32] {
    let ids = &turn.generation.token_ids;
    if turn.finish == FinishReason::Eos || turn.finish == FinishReason::StopToken { &ids[..ids.len() - 1] } else { ids }
}

/// Checks that turns are those of the games, and that the log-probabilities at sampling are those of a training pass bit by bit.
fn check(games: &Sampled, model: &Model) {
    for (game, turns) in games {
        assert_eq!(turns.len(), game.episode.history.len());
        for (turn, said) in turns.iter().zip(&game.episode.history) {
            assert_eq!((turn.seat, Some(&turn.generation)), (said.seat, said.generation.as_ref()));
            let tokens = [&turn.prompt[..], &turn.generation.token_ids].concat();
            let rows = (turn.prompt.len() as u32 - 1..tokens.len() as u32 - 1).collect();
            let targets = Targets { rows, tokens: turn.generation.token_ids.clone(), ..Targets::default() };
            let learned = model.log_probs(&PackedBatch::new([&tokens[..]]), &targets).unwrap();
            let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&learned), bits(&turn.generation.model_log_probs));
        }
    }
}

/// Checks that own utterances stand verbatim in later prompts. Returns how many were found.
fn own_utterances(games: &Sampled) -> usize {
    let mut found = 0;
    for (game, turns) in games {
        for (at, turn) in turns.iter().enumerate() {
            for earlier in turns[..at].iter().filter(|earlier| earlier.seat == turn.seat) {
                let own = stands(earlier);
                if earlier.finish != FinishReason::StopString && !own.is_empty() {
                    assert!(
                        turn.prompt.windows(own.len()).any(|window| window == own),
                        "game {}, turn {at}",
                        game.number
                    );
                    found += 1;
                }
            }
        }
    }
    found
}

/// The tokens at the begin of both.
fn common(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

fn of_seat(turns: &[SampledTurn], seat: Seat) -> Vec<&SampledTurn> {
    turns.iter().filter(|turn| turn.seat == seat).collect()
}

fn text(tokenizer: &Tokenizer, ids: &[u32]) -> String {
    tokenizer.decode(ids).unwrap()
}

#[test]
fn plain_prompts_share_the_history_and_have_the_texts_of_play() {
    let load = || Checkpoint::load(root().join("data/tiny-llama")).unwrap();
    let (model, tokenizer) = (load().model, load().tokenizer);
    let prompts = PromptSet::load(root().join("configs/tiny-prompts.json")).unwrap();
    let games = play(load(), &Taboo::new(&prompts), "tiger", 12);
    check(&games, &model);
    assert!(own_utterances(&games) >= 10);
    let mut shared = 0;
    for (game, turns) in &games {
        for (at, turn) in turns.iter().enumerate() {
            let prompt = prompts.playing_query(&game.episode.history[..at], "tiger", 3);
            assert_eq!(text(&tokenizer, &turn.prompt), prompt);
            // What both seats see alike are the same tokens: all but the instruction at the end.
            if let Some(before) = at.checked_sub(1).filter(|before| *before > 0).map(|before| &turns[before]) {
                let alike = common(&turn.prompt, &before.prompt);
                let alike = text(&tokenizer, &turn.prompt[..alike]);
                assert!(alike.contains(game.episode.history[at - 2].content.trim()), "{alike:?}");
                shared += 1;
            }
        }
    }
    assert!(shared >= 10, "{shared}");
}

#[test]
fn chats_of_a_seat_are_one_growing_sequence() {
    let folder = tempfile::tempdir().unwrap();
    let load = || Checkpoint::load(chat_model(folder.path(), "qwen2", "qwen2.5")).unwrap();
    let file = chat_prompts(folder.path(), |_| {});
    let prompts = PromptSet::load(file).unwrap().with_format(PromptFormat::Chat);
    let (model, taboo) = (load().model, Taboo::new(&prompts));
    let games = play(load(), &taboo, "tea", 6);
    check(&games, &model);
    assert!(own_utterances(&games) >= 6);
    let mut grown = 0;
    for (_, turns) in &games {
        for seat in taboo.labels().seats {
            for pair in of_seat(turns, seat).windows(2) {
                // A text that ends or begins with a blank is trimmed in later prompts.
                let whole = [&pair[0].prompt[..], stands(pair[0])].concat();
                grown += usize::from(pair[1].prompt.starts_with(&whole));
            }
        }
    }
    assert!(grown >= 6, "{grown}");
}

#[test]
fn views_of_other_games_grow() {
    let load = || Checkpoint::load(fixture("families/qwen2")).unwrap();
    // What a random model says is refused: the view grows by the refusal.
    let options = serde_json::from_str(r#"{"error_allowance": 3}"#).unwrap();
    let game = spag_game::open_game("nim", &options, None, Default::default()).unwrap();
    let games = play(load(), &*game, "", 6);
    check(&games, &load().model);
    let mut grown = 0;
    for (_, turns) in &games {
        for seat in game.labels().seats {
            // Longer prompts lose their begin.
            let whole: Vec<&SampledTurn> = of_seat(turns, seat).into_iter().filter(|t| t.prompt.len() < 480).collect();
            for pair in whole.windows(2) {
                assert_eq!(common(&pair[0].prompt, &pair[1].prompt), pair[0].prompt.len());
                grown += 1;
            }
        }
    }
    assert!(grown >= 6, "{grown}");
}
