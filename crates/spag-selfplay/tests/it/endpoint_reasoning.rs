//! Endpoints that think before they speak.

use serde_json::{Value, json};
use spag_chat::{ReasoningSettings, TemplateSettings};
use spag_game::taboo::Taboo;
use spag_game::{
    CollectedGames, GameSpec, PlayConfig, PromptSet, ReasoningEnd, Seats, TurnFailure, Utterance, play_games,
};
use spag_io::{PromptFormat, ReasoningFormat, ReasoningTags};
use spag_selfplay::{ApiKey, EndpointConfig, EndpointPlayer, PromptStyle, SamplingSettings};
use spag_tests::{Answer, Server};

use crate::endpoint::{config, player};

const NONE: ReasoningFormat = ReasoningFormat::None;
const THINK: ReasoningFormat = ReasoningFormat::Think;
const BOXED: ReasoningFormat = ReasoningFormat::Boxed;
const AUTO: ReasoningFormat = ReasoningFormat::Auto;
const UNFINISHED: Option<ReasoningEnd> = Some(ReasoningEnd::Unfinished);

fn thinks(format: ReasoningFormat) -> ReasoningSettings {
    ReasoningSettings { reasoning: Some(format), ..ReasoningSettings::default() }
}

fn with(reasoning: &ReasoningSettings) -> EndpointConfig {
    config().with_reasoning(&TemplateSettings::default(), reasoning, PromptFormat::Chat)
}

fn kwargs(text: &str) -> TemplateSettings {
    TemplateSettings { chat_template_kwargs: text.parse().unwrap(), ..TemplateSettings::default() }
}

/// An answer with a message.
fn answer(message: &Value, finish: &str) -> Answer {
    let text = message["content"].clone();
    Answer::new(200, json!({"choices": [{"index": 0, "message": message, "text": text, "finish_reason": finish}]}))
}

/// A list with the model of the players.
fn models(owner: &str) -> Answer {
    Answer::new(200, json!({"data": [{"id": "org/model-7b", "owned_by": owner}]}))
}

/// One game with prompts of a kind.
fn try_play(player: &mut EndpointPlayer, prompts: PromptFormat) -> (spag_game::Result<()>, CollectedGames) {
    let specs = [GameSpec { number: 0, item: "tea".into(), max_turns: 2, seed: 1, sampling_seed: None }];
    let prompts = PromptSet::default().with_format(prompts);
    let mut games = CollectedGames::default();
    let config = PlayConfig::default();
    let result = play_games(&Taboo::new(&prompts), specs, Seats::SelfPlay(player), &config, &mut games);
    (result, games)
}

fn history(player: &mut EndpointPlayer, prompts: PromptFormat) -> Result<Vec<Utterance>, TurnFailure> {
    let (result, mut games) = try_play(player, prompts);
    result.unwrap();
    match games.finished.pop() {
        Some(game) => Ok(game.episode.history),
        None => Err(games.failed.remove(0).failure),
    }
}

/// What the first utterance of a game is, by a message: reasoning, content and the end of the reasoning.
fn said(reasoning: &ReasoningSettings, message: &Value, finish: &'static str) -> Result<Utterance, String> {
    let message = message.clone();
    let server = Server::start(move |_| answer(&message, finish));
    let key = Some(ApiKey::new("sk-secret-1").unwrap());
    let mut player = player(server.base_url(), PromptStyle::Chat, EndpointConfig { key, ..with(reasoning) });
    let history = history(&mut player, PromptFormat::Chat).map_err(|failure| failure.to_string());
    history.map(|mut history| history.swap_remove(0))
}

#[test]
fn reasoning_is_a_field_of_the_message_or_stands_between_tags() {
    let silent = ("", UNFINISHED);
    for (formats, message, reasoning, utterance) in [
        (
            &[THINK, AUTO][..],
            json!({"reasoning_content": " Tea.\n", "content": "\n\nHi."}),
            Some("Tea."),
            ("Hi.", None),
        ),
        (&[THINK, AUTO], json!({"reasoning": "Tea.", "content": "Hi."}), Some("Tea."), ("Hi.", None)),
        (
            &[THINK, AUTO],
            json!({"reasoning": "Tea.", "reasoning_content": "Tea.", "content": "Hi."}),
            Some("Tea."),
            ("Hi.", None),
        ),
        (
            &[THINK, AUTO],
            json!({"reasoning": "Tea.", "reasoning_content": " ", "content": "Hi."}),
            Some("Tea."),
            ("Hi.", None),
        ),
        (&[THINK, AUTO], json!({"content": "<think>\nTea.\n</think>\n\nHi."}), Some("Tea."), ("Hi.", None)),
        // The template has written the opening tag.
        (&[THINK, AUTO], json!({"content": "Tea.</think>Hi."}), Some("Tea."), ("Hi.", None)),
        (
            &[THINK, AUTO],
            json!({"reasoning": "Tea.", "content": "<think>Hot.</think>Hi."}),
            Some("Tea.\nHot."),
            ("Hi.", None),
        ),
        (&[THINK, AUTO], json!({"content": "<think></think> Hi."}), None, ("Hi.", None)),
        (&[THINK, AUTO], json!({"content": "<think>Tea."}), Some("Tea."), silent),
        (&[THINK, AUTO], json!({"content": "<think>Tea.</think>\n"}), Some("Tea."), silent),
        (&[THINK, AUTO, BOXED], json!({"reasoning_content": "Tea.", "content": null}), Some("Tea."), silent),
        (&[THINK, AUTO, BOXED], json!({"reasoning": "Tea."}), Some("Tea."), silent),
        (&[THINK, AUTO], json!({"reasoning": "Tea.", "content": ""}), Some("Tea."), silent),
        // Without reasoning.
        (&[THINK], json!({"content": " Hi.\n"}), None, ("Hi.", None)),
        (&[AUTO], json!({"content": " Hi.\n"}), None, (" Hi.\n", None)),
        (&[THINK], json!({"content": ""}), None, silent),
        (&[AUTO], json!({"content": ""}), None, ("", None)),
        (
            &[THINK],
            json!({"reasoning": {"text": "Tea."}, "reasoning_content": 3, "content": "Hi."}),
            None,
            ("Hi.", None),
        ),
        (&[BOXED], json!({"content": "Tea: \\boxed{Hi.}"}), Some("Tea:"), ("Hi.", None)),
        (&[BOXED], json!({"reasoning": "Hot.", "content": "Tea: \\boxed{Hi.}"}), Some("Hot.\nTea:"), ("Hi.", None)),
        (&[BOXED], json!({"reasoning": "Hot.", "content": "Tea."}), Some("Hot.\nTea."), silent),
        (&[BOXED], json!({"content": "<think>Tea.</think>\\boxed{Hi.}"}), Some("<think>Tea.</think>"), ("Hi.", None)),
        (
            &[NONE],
            json!({"reasoning": "Tea.", "content": " <think>Tea.</think>\n"}),
            None,
            (" <think>Tea.</think>\n", None),
        ),
        (&[NONE], json!({"reasoning": "Tea.", "content": ""}), None, ("", None)),
    ] {
        for format in formats {
            let finish = if utterance == silent { "length" } else { "stop" };
            let one = said(&thinks(*format), &message, finish).unwrap();
            let found = (one.reasoning.as_deref(), (one.content.as_str(), one.reasoning_end));
            assert_eq!(found, (reasoning, utterance), "{format} {message}");
        }
    }
}

#[test]
fn messages_without_text_and_long_reasoning_fail_their_game() {
    let long = "r".repeat((1 << 20) + 1);
    for (format, message, why) in [
        (NONE, json!({"reasoning": "Tea.", "content": null}), "no text"),
        (THINK, json!({"reasoning": " ", "content": null}), "no text"),
        (
            AUTO,
            json!({"reasoning": "Tea.", "content": null, "refusal": "I cannot."}),
            "no text (finish_reason: stop): I cannot.",
        ),
        (THINK, json!({"reasoning": long, "content": "Hi."}), "reasoning of 1048577 bytes"),
        (THINK, json!({"content": format!("<think>{long}</think>Hi.")}), "an utterance of 1048595 bytes"),
    ] {
        let failure = said(&thinks(format), &message, "stop").unwrap_err();
        assert!(failure.contains(why), "{format}: {failure}");
    }
    let ignored = said(&thinks(NONE), &json!({"reasoning": long, "content": "Hi."}), "stop").unwrap();
    assert_eq!((ignored.content.as_str(), ignored.reasoning), ("Hi.", None));
}

#[test]
fn key_is_removed_from_reasoning() {
    for message in [
        json!({"reasoning": "It is sk-secret-1.", "content": "Hi."}),
        json!({"content": "<think>It is sk-secret-1.</think>Hi."}),
    ] {
        let one = said(&thinks(THINK), &message, "stop").unwrap();
        assert_eq!(one.reasoning.as_deref(), Some("It is [key]."));
    }
}

#[test]
fn tags_are_those_of_the_settings_and_a_text_that_opens_reasoning_counts() {
    let server = Server::start(|_| Answer::says("[T]Tea.[/T]Hi."));
    let template = TemplateSettings { reasoning_tags: "[T] [/T]".parse().unwrap(), ..TemplateSettings::default() };
    let named = config().with_reasoning(&template, &thinks(THINK), PromptFormat::Plain);
    for style in [PromptStyle::Chat, PromptStyle::Completion] {
        let one = history(&mut player(server.base_url(), style, named.clone()), PromptFormat::Plain).unwrap().remove(0);
        assert_eq!((one.content.as_str(), one.reasoning.as_deref()), ("Hi.", Some("Tea.")));
    }
    // What a text to complete ends with is known, and what a template does to a message is not.
    let prompts = PromptSet::default().playing_query(&[], "tea", 2);
    let end = prompts.split_whitespace().next_back().unwrap();
    let server = Server::start(|_| Answer::says("Hi."));
    let template = TemplateSettings { reasoning_tags: ReasoningTags::new(end, "[/T]").unwrap(), ..template };
    let opened = config().with_reasoning(&template, &thinks(THINK), PromptFormat::Plain);
    for (style, expected) in [(PromptStyle::Completion, ("", UNFINISHED)), (PromptStyle::Chat, ("Hi.", None))] {
        let one =
            history(&mut player(server.base_url(), style, opened.clone()), PromptFormat::Plain).unwrap().remove(0);
        assert_eq!((one.content.as_str(), one.reasoning_end), expected, "{style:?}");
    }
}

#[test]
fn reasoning_that_is_named_or_has_a_budget_adds_tokens() {
    for (format, budget, limit) in [
        (Some(THINK), None, 32 + 1024),
        (Some(BOXED), None, 32 + 1024),
        (Some(THINK), Some(100), 132),
        (None, Some(100), 132),
        (Some(AUTO), Some(100), 132),
        (Some(AUTO), None, 32),
        (None, None, 32),
        (Some(NONE), None, 32),
    ] {
        let settings = ReasoningSettings { reasoning: format, max_reasoning_tokens: budget, ..thinks(AUTO) };
        for (owner, name) in [("vllm", "max_tokens"), ("openai", "max_completion_tokens")] {
            let server = Server::with_models(models(owner), |_| Answer::says("\\boxed{tea}"));
            let mut player = player(server.base_url(), PromptStyle::Chat, with(&settings));
            history(&mut player, PromptFormat::Chat).unwrap();
            let body = &server.received()[0].body;
            let sent = ["max_tokens", "max_completion_tokens"].map(|name| body[name].as_u64());
            let expected = ["max_tokens", "max_completion_tokens"].map(|one| (one == name).then_some(limit));
            assert_eq!(sent, expected, "{format:?} {budget:?} {owner}");
        }
    }
}

#[test]
fn variables_of_the_template_are_sent_to_servers_that_know_them() {
    let template = kwargs(r#"{"enable_thinking": false}"#);
    let sampling = SamplingSettings { top_k: Some(0), ..config().sampling };
    let sends = |owner: &str, style, template: &TemplateSettings| {
        let server = Server::with_models(models(owner), |_| Answer::says("tea"));
        let config = EndpointConfig { sampling, ..config() };
        let config = config.with_reasoning(template, &ReasoningSettings::default(), PromptFormat::Plain);
        let result = try_play(&mut player(server.base_url(), style, config), PromptFormat::Plain).0;
        let sent = server.received().first().and_then(|asked| asked.body.get("chat_template_kwargs").cloned());
        (result.err().map(|error| error.to_string()), sent)
    };
    for owner in ["spag", "vllm", "sglang", "llamacpp"] {
        let sent = Some(json!({"enable_thinking": false}));
        assert_eq!(sends(owner, PromptStyle::Chat, &template), (None, sent), "{owner}");
        assert_eq!(sends(owner, PromptStyle::Chat, &TemplateSettings::default()), (None, None));
        // A text to complete has no template.
        assert_eq!(sends(owner, PromptStyle::Completion, &template), (None, None));
    }
    let (error, sent) = sends("openai", PromptStyle::Chat, &template);
    let error = error.unwrap();
    assert!(sent.is_none() && error.contains("is not known to accept chat_template_kwargs"), "{error}");
    assert_eq!(sends("openai", PromptStyle::Chat, &TemplateSettings::default()), (None, None));
}

#[test]
fn server_that_cannot_list_its_models_yet_may_know_variables_later() {
    let server = Server::with_models(Answer::error(503, "loading"), |_| Answer::says("tea"));
    let config = config().with_reasoning(&kwargs(r#"{"a": 1}"#), &ReasoningSettings::default(), PromptFormat::Chat);
    let mut player = player(server.base_url(), PromptStyle::Chat, config);
    let failure = history(&mut player, PromptFormat::Chat).unwrap_err().to_string();
    assert!(failure.contains("after 4 tries") && failure.contains("/models cannot be read yet"), "{failure}");
    assert_eq!((server.models_asked(), server.received().len()), (4, 0));
}

#[test]
fn own_reasoning_is_sent_again_if_it_is_kept() {
    let kept = ReasoningSettings { keep_reasoning: true, ..thinks(THINK) };
    let sent = |owner: &str, settings: &ReasoningSettings, prompts| {
        let server = Server::with_models(models(owner), |asked| {
            answer(
                &json!({"reasoning": format!("Idea {}.", asked.number), "content": format!("Hi {}.", asked.number)}),
                "stop",
            )
        });
        let config = config().with_reasoning(&TemplateSettings::default(), settings, prompts);
        history(&mut player(server.base_url(), PromptStyle::Chat, config), prompts).unwrap();
        server.received()[2].body["messages"].as_array().unwrap().clone()
    };
    // The third turn is the second one of the first player.
    for (owner, names) in
        [("openai", [true, false]), ("spag", [true, false]), ("sglang", [true, false]), ("vllm", [true, true])]
    {
        let messages = sent(owner, &kept, PromptFormat::Chat);
        for message in messages {
            let is_own = message["role"] == "assistant";
            for (name, is_sent) in ["reasoning_content", "reasoning"].into_iter().zip(names) {
                assert_eq!(message.get(name), (is_own && is_sent).then_some(&json!("Idea 0.")), "{owner} {message}");
            }
            assert!(!is_own || message["content"] == "Hi 0.");
        }
    }
    let dropped = sent("vllm", &thinks(THINK), PromptFormat::Chat);
    assert!(!json!(dropped).to_string().contains("Idea"), "{dropped:?}");
    let plain = sent("vllm", &kept, PromptFormat::Plain);
    let text = plain[0]["content"].as_str().unwrap();
    assert!(text.contains("<think>Idea 0.</think>Hi 0.") && !text.contains("Idea 1."), "{text}");
}

#[test]
fn settings_of_reasoning_without_reasoning_are_refused() {
    let spec = || "openai:http://a/v1#m".parse().unwrap();
    for (settings, prompts, problem) in [
        (
            ReasoningSettings { max_reasoning_tokens: Some(9), ..thinks(NONE) },
            PromptFormat::Chat,
            "max_reasoning_tokens",
        ),
        (
            ReasoningSettings { keep_reasoning: true, ..ReasoningSettings::default() },
            PromptFormat::Plain,
            "keep_reasoning",
        ),
        (thinks(BOXED), PromptFormat::Plain, "boxed"),
    ] {
        let spag_selfplay::PlayerSpec::Endpoint(spec) = spec() else { panic!() };
        let config = config().with_reasoning(&TemplateSettings::default(), &settings, prompts);
        let error = EndpointPlayer::new(spec, config).unwrap_err().to_string();
        assert!(error.contains(problem), "{error}");
    }
}
