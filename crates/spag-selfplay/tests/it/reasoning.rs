//! Models that think before they speak.

use spag_chat::{ReasoningSettings, TemplateSettings};
use spag_game::taboo::Taboo;
use spag_game::{
    CollectedGames, FinishedGame, Game, GameSpec, PlayConfig, PromptSet, ReasoningEnd, Seats, TokenRecords, Utterance,
    play_games,
};
use spag_io::{PromptFormat, ReasoningFormat};
use spag_model::batch::{PackedBatch, Targets};
use spag_model::generate::{MemoryBudget, Sampling};
use spag_model::{Checkpoint, EngineConfig, GenerationConfig, Tokenizer};
use spag_selfplay::ModelPlayer;
use spag_tests::{chat_model, chat_prompts, root};

const THINK: ReasoningFormat = ReasoningFormat::Think;

fn settings(format: ReasoningFormat, keep_reasoning: bool) -> ReasoningSettings {
    let max_reasoning_tokens = (format != ReasoningFormat::None).then_some(7);
    ReasoningSettings { reasoning: Some(format), max_reasoning_tokens, keep_reasoning }
}

/// A template that opens reasoning in the generation prompt and drops it from the history.
const OPENS: &str = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}\
                     {% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}";

struct Played {
    games: Vec<FinishedGame>,
    tokenizer: Tokenizer,
}

/// Games of a random model with a template of its own, as a chat.
fn play_chats(template: Option<&str>, reasoning: &ReasoningSettings) -> Played {
    let folder = tempfile::tempdir().unwrap();
    let load = || {
        let model = chat_model(folder.path(), "qwen3", "qwen3");
        if let Some(template) = template {
            std::fs::write(model.join("chat_template.jinja"), template).unwrap();
        }
        Checkpoint::load(model).unwrap()
    };
    let prompts = PromptSet::load(chat_prompts(folder.path(), |_| {})).unwrap().with_format(PromptFormat::Chat);
    let (model, taboo) = (load(), Taboo::new(&prompts));
    let played = play(load(), &taboo, ("tea", PromptFormat::Chat), reasoning);
    check_log_probs(&played.games, &model);
    played
}

fn play(
    checkpoint: Checkpoint,
    game: &dyn Game,
    (item, prompts): (&str, PromptFormat),
    reasoning: &ReasoningSettings,
) -> Played {
    let tokenizer = checkpoint.tokenizer.clone();
    let length = checkpoint.model.config().architecture.max_position_embeddings.min(1024);
    let engine = EngineConfig::with_max_length(checkpoint.model.config(), 4, length, MemoryBudget::host());
    let sampling = Sampling::random(1.0, 0, None);
    let config = GenerationConfig { max_new_tokens: 9, sampling, ..GenerationConfig::default() };
    let player = ModelPlayer::load(checkpoint, config, engine).unwrap();
    let player = player.with_reasoning(&TemplateSettings::default(), reasoning, prompts).unwrap();
    let mut player = player.with_verbatim_history();
    let specs = (0..6).map(|number| GameSpec {
        number,
        item: item.into(),
        max_turns: 3,
        seed: number as u64,
        sampling_seed: None,
    });
    let mut games = CollectedGames::default();
    let play = PlayConfig { tokens: TokenRecords::Kept, ..PlayConfig::default() };
    play_games(game, specs, Seats::SelfPlay(&mut player), &play, &mut games).unwrap();
    assert!(games.failed.is_empty(), "{:?}", games.failed);
    games.finished.sort_by_key(|game| game.number);
    Played { games: games.finished, tokenizer }
}

fn utterances(games: &[FinishedGame]) -> impl Iterator<Item = &Utterance> {
    games.iter().flat_map(|game| &game.episode.history)
}

fn prompt_of(said: &Utterance) -> &[u32] {
    &said.generation.as_ref().unwrap().context.as_ref().unwrap().prompt
}

/// The log-probabilities of all tokens that were drawn are those of the training pass, bit by bit.
fn check_log_probs(games: &[FinishedGame], Checkpoint { model, .. }: &Checkpoint) {
    for said in utterances(games) {
        let generation = said.generation.as_ref().unwrap();
        let (prompt, ids) = (prompt_of(said), &generation.token_ids);
        let drawn: Vec<usize> = (0..ids.len()).filter(|at| !generation.forced_tokens.contains(at)).collect();
        let rows = drawn.iter().map(|at| (prompt.len() + at) as u32 - 1).collect();
        let targets = Targets { rows, tokens: drawn.iter().map(|at| ids[*at]).collect(), ..Targets::default() };
        let learned = model.log_probs(&PackedBatch::new([&[prompt, ids].concat()[..]]), &targets).unwrap();
        for (at, learned) in drawn.iter().zip(learned) {
            assert_eq!(learned.to_bits(), generation.sampling_log_probs[*at].to_bits());
        }
    }
}

#[test]
fn what_a_template_opens_is_reasoning_that_nobody_else_sees() {
    let Played { games, tokenizer } = play_chats(Some(OPENS), &settings(THINK, false));
    let (mut thought, mut hidden) = (0, 0);
    for game in &games {
        for (at, said) in game.episode.history.iter().enumerate() {
            let generation = said.generation.as_ref().unwrap();
            let Some(reasoning) = &said.reasoning else { continue };
            thought += 1;
            match said.reasoning_end {
                Some(ReasoningEnd::Forced) => assert_eq!(generation.forced_tokens.start, 7),
                Some(ReasoningEnd::Unfinished) => assert_eq!(said.content, ""),
                None => panic!("a random model closes nothing"),
            }
            assert!(generation.reasoning_tokens >= generation.forced_tokens.end);
            assert!(!said.content.contains("think>") && !reasoning.contains("think>"), "{said:?}");
            for later in game.episode.history[at + 1..].iter() {
                let text = tokenizer.decode_with_special(prompt_of(later)).unwrap();
                assert!(reasoning.len() < 4 || !text.contains(reasoning.as_str()), "{text:?} {reasoning:?}");
                hidden += 1;
            }
        }
    }
    assert!(thought > 8 && hidden > 8, "{thought} {hidden}");
}

#[test]
fn own_reasoning_that_is_kept_grows_with_the_chat_of_a_seat() {
    let Played { games, .. } = play_chats(Some(OPENS), &settings(THINK, true));
    let (mut grown, mut pairs) = (0, 0);
    for game in &games {
        for seat in spag_game::taboo::LABELS.seats {
            let own: Vec<&Utterance> = game.episode.history.iter().filter(|said| said.seat == seat).collect();
            for pair in own.windows(2) {
                let generation = pair[0].generation.as_ref().unwrap();
                let context = generation.context.as_ref().unwrap();
                let whole = [prompt_of(pair[0]), context.of_text(&generation.token_ids).unwrap()].concat();
                // A text that ends or begins with a blank is trimmed in later prompts.
                grown += usize::from(prompt_of(pair[1]).starts_with(&whole));
                pairs += 1;
            }
        }
    }
    assert!(grown * 2 > pairs && pairs > 5, "{grown} of {pairs}");
}

/// A template that knows the tags, which a random model does not write: all is said.
#[test]
fn auto_follows_the_template() {
    let auto = ReasoningSettings::default();
    let said = |played: Played| utterances(&played.games).map(|said| said.content.clone()).collect::<Vec<_>>();
    let plain = settings(ReasoningFormat::None, false);
    assert_eq!(said(play_chats(None, &auto)), said(play_chats(None, &plain)));
    let without = OPENS.replace("<think>\n", "");
    assert_eq!(said(play_chats(Some(&without), &auto)), said(play_chats(Some(&without), &plain)));
    let thinks = play_chats(Some(&OPENS.replace("{% for", "{# </think> #}{% for")), &auto);
    assert!(utterances(&thinks.games).any(|said| said.reasoning.is_some()));
}

#[test]
fn boxes_need_a_box_to_say_something() {
    let Played { games, .. } = play_chats(None, &settings(ReasoningFormat::Boxed, false));
    let all: Vec<&Utterance> = utterances(&games).collect();
    // One budget for both.
    let most = all.iter().map(|said| said.generation.as_ref().unwrap().token_ids.len()).max().unwrap();
    assert_eq!(most, 16);
    assert!(all.iter().all(|said| said.content.is_empty()) && all.iter().any(|said| said.reasoning.is_some()));
}

#[test]
fn held_actions_follow_reasoning_that_the_engine_opens() {
    let options = serde_json::from_str(r#"{"error_allowance": 3}"#).unwrap();
    let game = spag_game::open_game("nim", &options, None, PromptFormat::Plain).unwrap();
    let checkpoint = Checkpoint::load(root().join("data/tiny-llama")).unwrap();
    let length = checkpoint.model.config().architecture.max_position_embeddings;
    let engine = EngineConfig::with_max_length(checkpoint.model.config(), 4, length, MemoryBudget::host());
    let sampling = Sampling::random(1.0, 0, None);
    let config = GenerationConfig { max_new_tokens: 24, sampling, ..GenerationConfig::default() };
    let player = ModelPlayer::load(checkpoint, config, engine).unwrap();
    let template = TemplateSettings { reasoning_tags: "thought: said:".parse().unwrap(), ..Default::default() };
    let player = player.with_reasoning(&template, &settings(THINK, false), PromptFormat::Plain).unwrap();
    let mut player = player.with_held_actions().unwrap();
    let specs = (0..3).map(|number| GameSpec {
        number,
        item: "".into(),
        max_turns: 0,
        seed: number as u64,
        sampling_seed: None,
    });
    let mut games = CollectedGames::default();
    play_games(&*game, specs, Seats::SelfPlay(&mut player), &PlayConfig::default(), &mut games).unwrap();
    let all: Vec<&Utterance> = utterances(&games.finished).collect();
    assert!(all.iter().all(|said| !said.extra.contains_key(Utterance::REFUSAL)), "{all:?}");
    let thought = all.iter().filter(|said| said.reasoning.is_some()).count();
    assert!(thought * 10 > all.len() * 8 && all.len() > 10, "{thought} of {}", all.len());
}

#[test]
fn settings_that_do_not_fit_are_refused_by_name() {
    let refused = |reasoning: ReasoningSettings, prompts| reasoning.check(prompts).unwrap_err().to_string();
    let boxed = settings(ReasoningFormat::Boxed, false);
    assert!(refused(boxed, PromptFormat::Plain).contains("boxed"));
    let none = ReasoningSettings { max_reasoning_tokens: Some(3), ..ReasoningSettings::default() };
    assert!(refused(none.clone(), PromptFormat::Plain).contains("max_reasoning_tokens"));
    assert!(none.check(PromptFormat::Chat).is_ok());
    let kept = ReasoningSettings { keep_reasoning: true, ..ReasoningSettings::default() };
    assert!(refused(kept, PromptFormat::Plain).contains("keep_reasoning"));
    let zero = serde_json::from_str::<ReasoningSettings>(r#"{"max_reasoning_tokens": 0}"#).unwrap_err().to_string();
    assert!(zero.contains("at least 1"), "{zero}");
}
