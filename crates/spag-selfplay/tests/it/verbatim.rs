//! Games whose prompts have the sampled tokens of earlier utterances.

use spag_game::taboo::Taboo;
use spag_game::{
    CollectedGames, FinishedGame, Game, GameSpec, PlayConfig, PromptSet, Seat, Seats, TokenRecords, TurnContext,
    Utterance, UtteranceEnd, play_games,
};
use spag_io::PromptFormat;
use spag_model::batch::{PackedBatch, Targets};
use spag_model::generate::{MemoryBudget, Sampling};
use spag_model::{Checkpoint, EngineConfig, GenerationConfig, Model, Tokenizer};
use spag_selfplay::ModelPlayer;
use spag_tests::{chat_model, chat_prompts, fixture, root};

fn play(checkpoint: Checkpoint, game: &dyn Game, item: &str, count: usize) -> Vec<FinishedGame> {
    let model = checkpoint.model.config();
    let length = model.architecture.max_position_embeddings.min(1024);
    let engine = EngineConfig::with_max_length(model, 4, length, MemoryBudget::host());
    let sampling = Sampling::random(1.0, 0, None);
    let config = GenerationConfig { max_new_tokens: 12, sampling, ..GenerationConfig::default() };
    let mut player = ModelPlayer::load(checkpoint, config, engine).unwrap().with_verbatim_history();
    let specs = (0..count).map(|number| GameSpec {
        number,
        item: item.into(),
        max_turns: 3,
        seed: number as u64,
        sampling_seed: None,
    });
    let mut games = CollectedGames::default();
    let play = PlayConfig { tokens: TokenRecords::Kept, ..PlayConfig::default() };
    play_games(game, specs, Seats::SelfPlay(&mut player), &play, &mut games).unwrap();
    games.finished.sort_by_key(|game| game.number);
    games.finished
}

fn context(said: &Utterance) -> &TurnContext {
    said.generation.as_ref().unwrap().context.as_ref().unwrap()
}

fn prompt(said: &Utterance) -> &[u32] {
    &context(said).prompt
}

fn ids(said: &Utterance) -> &[u32] {
    &said.generation.as_ref().unwrap().token_ids
}

/// The tokens that stand for an utterance in later prompts.
fn stands(said: &Utterance) -> &[u32] {
    let ids = ids(said);
    if context(said).end == UtteranceEnd::Token { &ids[..ids.len() - 1] } else { ids }
}

/// Checks that the log-probabilities at sampling are those of a training pass bit by bit.
fn check(games: &[FinishedGame], model: &Model) {
    for said in games.iter().flat_map(|game| &game.episode.history) {
        let tokens = [prompt(said), ids(said)].concat();
        let rows = (prompt(said).len() as u32 - 1..tokens.len() as u32 - 1).collect();
        let targets = Targets { rows, tokens: ids(said).to_vec(), ..Targets::default() };
        let learned = model.log_probs(&PackedBatch::new([&tokens[..]]), &targets).unwrap();
        let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        let generation = said.generation.as_ref().unwrap();
        assert_eq!(bits(&learned), bits(&generation.model_log_probs));
        assert_eq!(bits(&learned), bits(&generation.sampling_log_probs));
    }
}

/// Checks that own utterances stand verbatim in later prompts. Returns how many were found.
fn own_utterances(games: &[FinishedGame]) -> usize {
    let mut found = 0;
    for FinishedGame { number: game, episode, .. } in games {
        for (at, turn) in episode.history.iter().enumerate() {
            for earlier in episode.history[..at].iter().filter(|earlier| earlier.seat == turn.seat) {
                let own = stands(earlier);
                if context(earlier).end != UtteranceEnd::Text && !own.is_empty() {
                    assert!(prompt(turn).windows(own.len()).any(|window| window == own), "game {game}, turn {at}");
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

fn of_seat(game: &FinishedGame, seat: Seat) -> Vec<&Utterance> {
    game.episode.history.iter().filter(|said| said.seat == seat).collect()
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
    for FinishedGame { episode, .. } in &games {
        for (at, turn) in episode.history.iter().enumerate() {
            let worded = prompts.playing_query(&episode.history[..at], "tiger", 3);
            assert_eq!(text(&tokenizer, prompt(turn)), worded);
            // What both seats see alike are the same tokens: all but the instruction at the end.
            if let Some(before) = at.checked_sub(1).filter(|before| *before > 0).map(|at| &episode.history[at]) {
                let alike = common(prompt(turn), prompt(before));
                let alike = text(&tokenizer, &prompt(turn)[..alike]);
                assert!(alike.contains(episode.history[at - 2].content.trim()), "{alike:?}");
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
    for game in &games {
        for seat in taboo.labels().seats {
            for pair in of_seat(game, seat).windows(2) {
                // A text that ends or begins with a blank is trimmed in later prompts.
                let whole = [prompt(pair[0]), stands(pair[0])].concat();
                grown += usize::from(prompt(pair[1]).starts_with(&whole));
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
    for played in &games {
        for seat in game.labels().seats {
            // Longer prompts lose their begin.
            let whole: Vec<&Utterance> =
                of_seat(played, seat).into_iter().filter(|said| prompt(said).len() < 480).collect();
            for pair in whole.windows(2) {
                assert_eq!(common(prompt(pair[0]), prompt(pair[1])), prompt(pair[0]).len());
                grown += 1;
            }
        }
    }
    assert!(grown >= 6, "{grown}");
}
