//! The routes of `spag serve` through HTTP: answers, streams, log-probabilities, tokens, refusals.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use spag_model::generate::{CompletionText, Event, LogProbs, MemoryBudget, Prompt, PromptRange, TokenLogProb};
use spag_model::{Checkpoint, Completion, Engine, EngineConfig, Generate, GenerationConfig, Request, Tokenizer};
use spag_tests::{Reply, Serve, copy_folder, fixture, root};

const PROMPTS: [&str; 3] = ["Let us play a game", "The word is", "a"];

fn tiny() -> std::path::PathBuf {
    root().join("data/tiny-llama")
}

fn serve(arguments: &[&str]) -> Serve {
    Serve::start([tiny().to_str().unwrap()].iter().chain(arguments))
}

/// A folder of the tiny model with a chat template.
fn chat_model(folder: &Path) {
    copy_folder(tiny(), folder);
    let template = "{{ bos_token }}{% for m in messages %}{% if m.role == 'tool' %}{{ raise_exception('No tools here') }}\
                    {% endif %}<{{ m.role }}> {{ m.content.strip() }}</s>{% endfor %}\
                    {% if add_generation_prompt %}<assistant>{{ ' (' + mood + ')' if mood is defined }}{% endif %}";
    fs::write(folder.join("chat_template.jinja"), template).unwrap();
}

/// What the engine alone says.
fn engine(folder: &Path) -> Engine {
    let checkpoint = Checkpoint::load(folder).unwrap();
    let config = EngineConfig::new(checkpoint.model.config(), 4, MemoryBudget::host());
    Engine::from_checkpoint(checkpoint, config).unwrap()
}

fn scored(engine: &mut Engine, tokens: &[u32], max_new_tokens: usize, top: usize) -> Completion {
    let config = GenerationConfig {
        max_new_tokens,
        text: CompletionText::Continued,
        log_probs: LogProbs { prompt: Some(PromptRange::All), top },
        ..GenerationConfig::default()
    };
    let request = Request { prompt: Prompt::Tokens(tokens.to_vec()), seed: 1, config: Arc::new(config) };
    let id = engine.submit(request).unwrap();
    loop {
        for (ended, event) in engine.step().unwrap() {
            if let (true, Event::Finished(completion)) = (ended == id, event) {
                return completion;
            }
        }
    }
}

fn encode(tokenizer: &Tokenizer, text: &str) -> Vec<u32> {
    tokenizer.bos().into_iter().chain(tokenizer.encode(text).unwrap()).collect()
}

fn floats(list: &Value) -> Vec<Option<f32>> {
    list.as_array().unwrap().iter().map(|number| number.as_f64().map(|number| number as f32)).collect()
}

#[test]
fn every_route_answers() {
    let server = serve(&["--served_model_name", "tiny", "--served_model_name", "other/name"]);
    assert_eq!(server.get("/health").ok(), json!({"status": "ok"}));
    assert!(server.get("/version").ok()["version"].is_string());
    let models = server.get("/v1/models").ok();
    let names: Vec<&str> =
        models["data"].as_array().unwrap().iter().map(|model| model["id"].as_str().unwrap()).collect();
    assert_eq!(names, ["tiny", "other/name"]);
    assert_eq!((&models["data"][0]["max_model_len"], &models["object"]), (&json!(384), &json!("list")));
    assert_eq!(server.get("/v1/models/other/name").ok()["id"], "other/name");
    let missing = server.get("/v1/models/none");
    assert_eq!((missing.status, missing.json()["error"]["code"].as_str()), (404, Some("model_not_found")));

    let info = server.get("/tokenizer_info").ok();
    assert_eq!((info["bos_token"].as_str(), info["eos_token"].as_str()), (Some("<s>"), Some("</s>")));
    assert_eq!((&info["chat_template"], &info["tokenizer_class"]), (&Value::Null, &json!("PreTrainedTokenizerFast")));
    assert_eq!(server.get("/tokenizer_info?model=none").status, 404);
    // As lm-evaluation-harness finds the ids of special tokens.
    let tokens = |body: Value| server.post("/tokenize", &body).ok()["tokens"].clone();
    assert_eq!(tokens(json!({"prompt": "</s>", "add_special_tokens": false})), json!([2]));
    let with_bos = tokens(json!({"prompt": "Let us play"}));
    assert_eq!(with_bos[0], 1);
    let without = server
        .post("/tokenize", &json!({"prompt": "Let us play", "add_special_tokens": false, "return_token_strs": true}))
        .ok();
    assert_eq!(without["tokens"].as_array().unwrap()[..], with_bos.as_array().unwrap()[1..]);
    assert_eq!(without["count"].as_u64().unwrap() as usize, without["token_strs"].as_array().unwrap().len());
    assert_eq!(server.post("/detokenize", &json!({"tokens": with_bos})).ok()["prompt"], "<s> Let us play");
    for (path, body, said) in [
        ("/tokenize", json!({}), "prompt: it is missing"),
        ("/tokenize", json!({"messages": [{"role": "user", "content": "x"}]}), "has no chat template"),
        ("/detokenize", json!({"tokens": [1, 960]}), "tokens[1]: expected token ids from 0 to 959"),
        ("/detokenize", json!({"tokens": "x"}), "tokens: expected a list"),
    ] {
        let reply = server.post(path, &body);
        assert!(reply.status == 400 && reply.error().contains(said), "{reply:?}");
    }

    for (method, path) in [("GET", "/nothing"), ("GET", "/page"), ("GET", "/v1"), ("GET", "/health/")] {
        let reply = server.get(path);
        assert!(reply.status == 404 && reply.error().contains(&format!("{method} {path}")), "{reply:?}");
    }
    let wrong = server.get("/v1/completions");
    assert!(wrong.error().contains("GET /v1/completions"));
    assert_eq!((wrong.status, wrong.header("allow")), (405, Some("POST")));
    assert_eq!(server.post("/v1/models", &json!({})).status, 405);
    assert_eq!(server.get("/").header("content-type"), Some("text/html; charset=utf-8"));
    let posted = server.post("/", &json!({}));
    assert!(posted.status == 405 && posted.error().contains("POST /"), "{posted:?}");
    let cors = server.get_with("/health", &[("origin", "https://example.org")]);
    assert_eq!(cors.header("access-control-allow-origin"), None);

    let metrics = server.get("/metrics").text;
    assert!(metrics.ends_with("# EOF\n"), "{metrics}");
    for name in ["spag_http_responses_total", "spag_kv_pages", "spag_sequences_running", "spag_cache_hit_rate"] {
        assert!(metrics.contains(name), "{metrics}");
    }
    assert_eq!(server.metric("spag_http_responses_total", "route=\"other\",status=\"404\""), 4.0);
}

#[test]
fn all_forms_of_prompts_have_the_same_completions() {
    let server = serve(&[]);
    let settings = |prompt: Value| json!({"model": "tiny-llama", "prompt": prompt, "max_tokens": 8, "temperature": 0});
    let ids = |text: &str| server.post("/tokenize", &json!({"prompt": text})).ok()["tokens"].clone();
    let texts: Vec<Value> = PROMPTS
        .map(|prompt| {
            let body = server.complete(&settings(prompt.into())).ok();
            assert_eq!((&body["object"], &body["model"]), (&json!("text_completion"), &json!("tiny-llama")));
            assert!(body["id"].as_str().unwrap().starts_with("cmpl-") && body["choices"][0]["logprobs"].is_null());
            let usage = &body["usage"];
            assert_eq!(usage["prompt_tokens"].as_u64().unwrap() as usize, ids(prompt).as_array().unwrap().len());
            assert_eq!(
                usage["total_tokens"].as_u64(),
                Some(usage["prompt_tokens"].as_u64().unwrap() + usage["completion_tokens"].as_u64().unwrap())
            );
            body["choices"][0]["text"].clone()
        })
        .into();
    let of = |prompt: Value| {
        let choices = server.complete(&settings(prompt)).ok()["choices"].as_array().unwrap().clone();
        let indices: Vec<usize> = choices.iter().map(|choice| choice["index"].as_u64().unwrap() as usize).collect();
        assert!(indices.iter().copied().eq(0..choices.len()), "sorted: {indices:?}");
        choices.iter().map(|choice| choice["text"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(of(json!(PROMPTS)), texts);
    assert_eq!(of(json!(PROMPTS.map(ids))), texts);
    assert_eq!(of(ids(PROMPTS[1])), texts[1..2]);

    // The seed of a prompt does not depend on the others; the n completions of a prompt differ.
    let sampled = |prompt: Value, n: usize| {
        let body =
            json!({"prompt": prompt, "max_tokens": 12, "temperature": 1.5, "seed": -7, "n": n, "ignore_eos": true});
        let choices = server.complete(&body).ok()["choices"].as_array().unwrap().clone();
        choices.iter().map(|choice| choice["text"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let all = sampled(json!(PROMPTS), 2);
    for (at, prompt) in PROMPTS.iter().enumerate() {
        assert_eq!(all[2 * at..2 * at + 2], sampled(json!(prompt), 2));
        assert_ne!(all[2 * at], all[2 * at + 1]);
        assert_eq!(sampled(json!(prompt), 1)[0], all[2 * at]);
    }
}

/// The body that lm-evaluation-harness sends for a log-likelihood.
fn harness(tokens: &[Vec<u32>]) -> Value {
    json!({"model": "tiny-llama", "prompt": tokens, "temperature": 0, "max_tokens": 1, "logprobs": 1, "seed": 1234, "echo": true})
}

/// Compares the lists of a choice with what the engine says.
fn assert_scores(choice: &Value, tokens: &[u32], alone: &Completion, top: usize) {
    let lists = &choice["logprobs"];
    let list = |key: &str| lists[key].as_array().unwrap();
    let length = tokens.len() + alone.token_ids.len();
    for key in ["tokens", "token_logprobs", "top_logprobs", "text_offset"] {
        assert_eq!(list(key).len(), length, "{key}");
    }
    let none = |scores: &Option<TokenLogProb>| scores.as_ref().map(|score| score.log_prob);
    let expected: Vec<Option<f32>> = alone
        .prompt_log_probs
        .as_ref()
        .unwrap()
        .iter()
        .map(none)
        .chain(alone.model_log_probs.iter().copied().map(Some))
        .collect();
    let found = floats(&lists["token_logprobs"]);
    assert_eq!(
        found.iter().map(|p| p.map(f32::to_bits)).collect::<Vec<_>>(),
        expected.iter().map(|p| p.map(f32::to_bits)).collect::<Vec<_>>()
    );
    assert!(found[0].is_none() && found[1..].iter().all(Option::is_some));
    assert!(list("top_logprobs")[0].is_null());
    for at in 1..length {
        let alternatives = list("top_logprobs")[at].as_object().unwrap();
        let name = list("tokens")[at].as_str().unwrap();
        assert_eq!(alternatives[name], list("token_logprobs")[at], "the chosen token is among them");
        assert!((top.max(1)..=top + 1).contains(&alternatives.len()), "{alternatives:?}");
    }
    // Greedy: the largest is the same float as that of the chosen token.
    for at in tokens.len()..length {
        let largest = list("top_logprobs")[at]
            .as_object()
            .unwrap()
            .values()
            .map(|p| p.as_f64().unwrap())
            .fold(f64::MIN, f64::max);
        assert_eq!(Some(largest), list("token_logprobs")[at].as_f64());
    }
    // Each token is in the text where its offset says.
    let text: Vec<char> = choice["text"].as_str().unwrap().chars().collect();
    for at in 1..length {
        let (offset, name) = (list("text_offset")[at].as_u64().unwrap() as usize, list("tokens")[at].as_str().unwrap());
        let rest: String = text[offset..].iter().collect();
        if name != "</s>" && !name.starts_with("bytes:") {
            // After a part of a character, that character begins there.
            let rest = rest.trim_start_matches('\u{fffd}');
            assert!(rest.starts_with(name) || rest.starts_with(name.trim_start()), "{at}: {name:?} in {rest:?}");
        }
    }
}

#[test]
fn echoed_log_probabilities_are_those_of_the_engine() {
    for folder in [tiny(), fixture("families/qwen3"), fixture("families/smollm"), fixture("families/baichuan2-7b")] {
        let mut engine = engine(&folder);
        let tokens: Vec<Vec<u32>> =
            PROMPTS.iter().map(|prompt| encode(engine.tokenizer(), prompt)).filter(|ids| !ids.is_empty()).collect();
        let server = Serve::start([&folder]);
        let name = folder.file_name().unwrap().to_str().unwrap();
        let mut body = harness(&tokens);
        body["model"] = name.into();
        let choices = server.complete(&body).ok()["choices"].as_array().unwrap().clone();
        assert_eq!(choices.len(), tokens.len());
        for (choice, tokens) in choices.iter().zip(&tokens) {
            assert_scores(choice, tokens, &scored(&mut engine, tokens, 1, 1), 1);
        }
        for (max_tokens, top) in [(0, 0), (0, 20), (6, 0), (6, 5)] {
            let body =
                json!({"prompt": tokens[0], "max_tokens": max_tokens, "temperature": 0, "echo": true, "logprobs": top});
            let answer = server.complete(&body).ok();
            let alone = scored(&mut engine, &tokens[0], max_tokens, top);
            assert_scores(&answer["choices"][0], &tokens[0], &alone, top);
            assert_eq!(answer["usage"]["completion_tokens"].as_u64(), Some(alone.token_ids.len() as u64));
        }
        // The text goes on as the prompt does, with its blank.
        let echo = json!({"prompt": PROMPTS[0], "max_tokens": 6, "temperature": 0, "echo": true});
        let text = server.complete(&echo).ok()["choices"][0]["text"].clone();
        let alone = scored(&mut engine, &tokens[0], 6, 0);
        assert_eq!(text, json!(format!("{}{}", PROMPTS[0], alone.text)));
        let echo = json!({"prompt": PROMPTS[0], "max_tokens": 0, "echo": true});
        let answer = server.complete(&echo).ok();
        assert_eq!(
            (&answer["choices"][0]["text"], &answer["usage"]["completion_tokens"]),
            (&json!(PROMPTS[0]), &json!(0))
        );
    }
}

#[test]
fn generated_eos_has_a_log_probability() {
    let folder = tiny();
    let mut engine = engine(&folder);
    // A dialogue of the small world, whose utterances end.
    let tokens = encode(engine.tokenizer(), "Let us play a game. The word is lion.");
    let alone =
        (1..300).step_by(16).map(|most| scored(&mut engine, &tokens, most, 1)).find(|c| c.token_ids.last() == Some(&2));
    let alone = alone.expect("the model ends a text within 300 tokens");
    let server = Serve::start([&folder]);
    let body = json!({"prompt": tokens, "max_tokens": 300, "temperature": 0, "logprobs": 1, "echo": true});
    let choice = &server.complete(&body).ok()["choices"][0];
    assert_eq!(
        (choice["finish_reason"].as_str(), choice["text"].as_str().unwrap().contains("</s>")),
        (Some("stop"), false)
    );
    assert_eq!(choice["logprobs"]["tokens"].as_array().unwrap().last().unwrap(), "</s>");
    assert_scores(choice, &tokens, &alone, 1);
}

#[test]
fn streams_have_the_answers_that_come_at_once() {
    let work = tempfile::tempdir().unwrap();
    chat_model(work.path());
    let server = Serve::start([work.path()]);
    let join = |events: &[Value], key: &str, index: usize| -> String {
        let choices =
            events.iter().filter_map(|event| event["choices"].get(0)).filter(|choice| choice["index"] == index);
        choices.filter_map(|choice| choice.pointer(key)?.as_str().map(str::to_owned)).collect()
    };
    for (echo, log_probs, max_tokens) in [
        (false, None, 20),
        (false, Some(2), 20),
        (true, None, 9),
        (true, Some(3), 9),
        (true, Some(1), 0),
        (true, None, 0),
    ] {
        let mut body = json!({"prompt": PROMPTS, "n": 2, "max_tokens": max_tokens, "temperature": 0.9, "seed": 3, "echo": echo,
                              "logprobs": log_probs, "stop": ["zz", " and"]});
        let whole = server.complete(&body).ok();
        body["stream"] = true.into();
        body["stream_options"] = json!({"include_usage": true});
        let events = server.complete(&body).events();
        for choice in whole["choices"].as_array().unwrap() {
            let index = choice["index"].as_u64().unwrap() as usize;
            assert_eq!(join(&events, "/text", index), choice["text"].as_str().unwrap(), "{body}");
            assert_eq!(join(&events, "/finish_reason", index), choice["finish_reason"].as_str().unwrap());
            for key in ["tokens", "token_logprobs", "top_logprobs", "text_offset"] {
                let pieces =
                    events.iter().filter_map(|event| event["choices"].get(0)).filter(|choice| choice["index"] == index);
                let joined: Vec<Value> =
                    pieces.filter_map(|choice| choice["logprobs"][key].as_array().cloned()).flatten().collect();
                let expected = choice["logprobs"][key].as_array().cloned().unwrap_or_default();
                assert_eq!(joined, expected, "{key}");
            }
        }
        let (last, others) = events.split_last().unwrap();
        let counts = |usage: &Value| (usage["prompt_tokens"].clone(), usage["completion_tokens"].clone());
        assert_eq!(
            (last["choices"].as_array().map(Vec::len), counts(&last["usage"])),
            (Some(0), counts(&whole["usage"]))
        );
        assert!(others.iter().all(|event| event.get("usage") == Some(&Value::Null) && event["id"] == last["id"]));
    }

    let mut body = json!({"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 12, "seed": 5, "n": 2,
                          "logprobs": true, "top_logprobs": 3});
    let whole = server.chat(&body).ok();
    assert_eq!(
        (&whole["object"], &whole["choices"][0]["message"]["role"]),
        (&json!("chat.completion"), &json!("assistant"))
    );
    body["stream"] = true.into();
    let events = server.chat(&body).events();
    assert!(events.iter().all(|event| event["object"] == "chat.completion.chunk" && event.get("usage").is_none()));
    for index in 0..2 {
        let mine: Vec<&Value> =
            events.iter().map(|event| &event["choices"][0]).filter(|choice| choice["index"] == index).collect();
        assert_eq!(mine[0]["delta"], json!({"role": "assistant", "content": ""}));
        let choice = &whole["choices"][index];
        assert_eq!(join(&events, "/delta/content", index), choice["message"]["content"].as_str().unwrap());
        assert_eq!(mine.last().unwrap()["finish_reason"], choice["finish_reason"]);
        let tokens: Vec<Value> =
            mine.iter().filter_map(|c| c["logprobs"]["content"].as_array().cloned()).flatten().collect();
        assert_eq!(&json!(tokens), &choice["logprobs"]["content"]);
        for token in &tokens {
            assert_eq!(token["top_logprobs"].as_array().unwrap().len(), 3);
            assert!(token["bytes"].is_array() && token["logprob"].as_f64().unwrap() <= 0.0);
        }
    }
}

#[test]
fn chats_are_rendered_with_the_template_of_the_folder() {
    let work = tempfile::tempdir().unwrap();
    chat_model(work.path());
    let server = Serve::start([work.path()]);
    let tokens = |body: Value| -> Vec<u64> {
        let reply = server.post("/tokenize", &body).ok();
        reply["tokens"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap()).collect()
    };
    let text = |body: Value| server.post("/detokenize", &json!({"tokens": tokens(body)})).ok()["prompt"].clone();
    let hello = json!([{"role": "system", "content": " Be brief. "}, {"role": "user", "content": [{"type": "text", "text": "Hi"}]}]);
    let plain = tokens(json!({"messages": hello}));
    assert_eq!((plain[0], plain.iter().filter(|id| **id == 2).count()), (1, 2));
    let shown = text(json!({"messages": hello})).as_str().unwrap().replace(' ', "");
    assert_eq!(shown, "<s><system>Bebrief.</s><user>Hi</s><assistant>");
    let shown =
        text(json!({"messages": hello, "chat_template_kwargs": {"mood": "gay"}, "add_generation_prompt": true}));
    assert!(shown.as_str().unwrap().replace(' ', "").ends_with("<assistant>(gay)"), "{shown}");

    // Somebody types the token that ends a message: it stays text.
    let typed = json!([{"role": "user", "content": "Hi</s><s>"}]);
    let ids = tokens(json!({"messages": typed}));
    assert_eq!(
        (ids.iter().filter(|id| **id == 2).count(), ids.iter().filter(|id| **id == 1).count()),
        (1, 1),
        "{ids:?}"
    );
    let shown = text(json!({"messages": typed})).as_str().unwrap().replace(' ', "");
    assert_eq!(shown, "<s><user>Hi</s><s></s><assistant>");

    let prompt = server.chat(&json!({"messages": hello, "max_tokens": 1})).ok()["usage"]["prompt_tokens"].clone();
    assert_eq!(prompt, plain.len());
    // Without a limit, the answer may use what is left of the context.
    let usage = server.chat(&json!({"messages": hello, "ignore_eos": true})).ok()["usage"]["total_tokens"].clone();
    assert_eq!(usage, 384);

    for (body, said) in [
        (json!({"messages": [{"role": "tool", "content": "x"}]}), "refuses these messages: No tools here"),
        (json!({"messages": []}), "messages: expected 1 to"),
        (json!({}), "messages: expected a list"),
        (
            json!({"messages": [{"role": "user", "content": "x"}], "tools": [{"type": "function"}]}),
            "tools: this server does not",
        ),
        (json!({"messages": [{"role": "user", "content": "x"}], "functions": [{}]}), "functions"),
        (
            json!({"messages": [{"role": "user", "content": "x"}], "response_format": {"type": "xml"}}),
            "response_format",
        ),
        (json!({"messages": [{"role": "user", "content": "x"}], "top_logprobs": 2}), "top_logprobs"),
        (
            json!({"messages": [{"role": "user", "content": "x"}], "max_tokens": 3, "max_completion_tokens": 4}),
            "max_tokens",
        ),
        (json!({"messages": [{"role": "user", "content": "x".repeat(4000)}]}), "maximum context length is 384 tokens"),
        (
            json!({"messages": [{"role": "user", "content": "x"}], "chat_template_kwargs": {"messages": []}}),
            "cannot be set here",
        ),
    ] {
        let reply = server.chat(&body);
        assert!(reply.status == 400 && reply.error().contains(said), "{said}: {reply:?}");
    }
    let plain = serve(&[]).chat(&json!({"messages": hello}));
    assert!(plain.status == 400 && plain.error().contains("has no chat template"), "{plain:?}");
}

#[test]
fn what_is_not_computed_is_refused_by_name() {
    let server = serve(&[]);
    let with = |name: &str, value: Value| {
        let mut body = json!({"prompt": "Let us play", "max_tokens": 2, "temperature": 0});
        body[name] = value;
        server.complete(&body)
    };
    let refused = |reply: Reply, name: &str| {
        assert!(reply.status == 400 && reply.error().starts_with(name), "{name}: {reply:?}");
        assert!(reply.json()["error"]["param"].as_str().unwrap().starts_with(name), "{reply:?}");
    };
    let many = |item: &str, number: usize| format!("[{}]", vec![item; number].join(","));
    let huge = "123456789012345678901234567890";
    for (name, value) in [
        ("presence_penalty", "2.5"),
        ("frequency_penalty", "-3"),
        ("repetition_penalty", "0"),
        ("logit_bias", "{\"5\": 101}"),
        ("best_of", "2"),
        ("suffix", "\"end\""),
        ("min_p", "1.1"),
        ("guided_json", "false"),
        ("skip_special_tokens", "false"),
        ("prompt_logprobs", "1"),
        ("n", "0"),
        ("n", "129"),
        ("n", "\"2\""),
        ("logprobs", "21"),
        ("logprobs", "true"),
        ("temperature", "-0.1"),
        ("temperature", "1e-9"),
        ("temperature", "\"hot\""),
        ("top_p", "0"),
        ("top_p", "1.5"),
        ("top_k", "-2"),
        ("top_k", "1.5"),
        ("max_tokens", "0"),
        ("max_tokens", "-1"),
        ("max_tokens", huge),
        ("min_tokens", "3"),
        ("stop", "\"\""),
        ("stop", "[1]"),
        ("stop", &many("\"x\"", 65)),
        ("stop", &format!("\"{}\"", "x".repeat(1025))),
        ("stop_token_ids", "[960]"),
        ("stop_token_ids", "\"x\""),
        ("ignore_eos", "\"yes\""),
        ("seed", "1.5"),
        ("seed", huge),
        ("stream", "1"),
        ("stream_options", "{\"include_usage\": true}"),
        ("echo", "\"x\""),
        ("prompt", "null"),
        ("prompt", "[]"),
        ("prompt", "[[]]"),
        ("prompt", "[1, \"x\"]"),
        ("prompt", "[1, 960]"),
        ("prompt", "[-1]"),
        ("prompt", "[1.5]"),
        ("prompt", "[[\"x\"]]"),
        ("prompt", "{\"text\": \"x\"}"),
        ("prompt", &many("\"x\"", 1025)),
        ("temprature", "1"),
        ("messages", "[]"),
    ] {
        refused(with(name, serde_json::from_str(value).unwrap()), name);
    }
    // A text without letters has BOS.
    assert_eq!(with("prompt", json!("")).status, 200);
    for (name, value) in [
        ("presence_penalty", json!(0)),
        ("frequency_penalty", json!(0.0)),
        ("logit_bias", json!({})),
        ("best_of", json!(1)),
        ("suffix", json!(null)),
        ("top_k", json!(-1)),
        ("top_p", json!(1)),
        ("n", json!(1.0)),
        ("user", json!("me")),
        ("metadata", json!({"a": "b"})),
        ("store", json!(true)),
        ("stop", json!(null)),
        ("stop", json!([])),
    ] {
        assert_eq!(with(name, value.clone()).status, 200, "{name} {value}");
    }
    let long = with("max_tokens", json!(1000));
    assert_eq!(long.json()["error"]["code"], "context_length_exceeded");
    let said = long.error();
    assert!(said.contains("384 tokens") && said.contains("1000 for the completion"), "{said}");
    let missing = with("model", json!("gpt-4"));
    assert!(missing.status == 404 && missing.error().contains("`gpt-4` does not exist"), "{missing:?}");

    for body in [
        &b""[..],
        b"[]",
        b"{\"prompt\": NaN}",
        b"{\"prompt\": \"x\", \"temperature\": 1e999}",
        b"{\"prompt\": \"\\ud800\"}",
        b"\xff\xfe",
        b"{\"prompt\": \"x\"} trailing",
    ] {
        let reply = server.post_with("/v1/completions", body, &[("content-type", "application/json")]);
        assert!(reply.status == 400 && reply.error().starts_with("The body is not"), "{reply:?}");
    }
    let json_type = [("content-type", "application/json")];
    let deep = vec![b'['; 200_000];
    assert_eq!(server.post_with("/v1/completions", &deep, &json_type).status, 400);
    let nested = format!("{{\"prompt\": {}1{}}}", "[".repeat(100), "]".repeat(100));
    assert_eq!(server.post_with("/v1/completions", nested.as_bytes(), &json_type).status, 400);
    let plain = server.post_with("/v1/completions", b"{\"prompt\": \"x\"}", &[("content-type", "text/plain")]);
    assert!(plain.status == 415 && plain.error().contains("Content-Type: application/json"), "{plain:?}");
    assert_eq!(server.get("/health").status, 200);
}

#[test]
fn completions_end_at_stops_and_have_a_least_length() {
    let server = serve(&[]);
    let complete = |more: Value| {
        let mut body =
            json!({"prompt": PROMPTS[0], "max_tokens": 24, "temperature": 0, "ignore_eos": true, "logprobs": 0});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        server.complete(&body).ok()["choices"][0].clone()
    };
    let free = complete(json!({}));
    assert_eq!(
        (free["finish_reason"].as_str(), free["logprobs"]["tokens"].as_array().unwrap().len()),
        (Some("length"), 24)
    );
    let text = free["text"].as_str().unwrap();
    let stop: String = text.chars().skip(6).take(3).collect();
    let stopped = complete(json!({"stop": [stop, "never"]}));
    assert_eq!(stopped["finish_reason"], "stop");
    assert_eq!(stopped["text"].as_str(), text.split(stop.as_str()).next());
    assert_eq!(complete(json!({"stop": stop}))["text"], stopped["text"]);

    let id = server.post("/tokenize", &json!({"prompt": format!("{}{text}", PROMPTS[0])})).ok()["tokens"].clone();
    let third = id.as_array().unwrap().last().unwrap().clone();
    let ended = complete(json!({"stop_token_ids": [third]}));
    let held = complete(json!({"stop_token_ids": [third], "min_tokens": 24}));
    assert!(ended["finish_reason"] == "stop" || ended == free, "{ended}");
    assert_eq!(held["logprobs"]["tokens"].as_array().unwrap().len(), 24);
}

#[test]
fn two_models_answer_by_their_names() {
    let (one, two) = (tiny(), fixture("tiny-llama"));
    let server = Serve::start([one.to_str().unwrap(), "--model", &format!("second={}", two.display())]);
    let alone = Serve::start([&two]);
    let ask = |server: &Serve, model: &str| {
        let body = json!({"model": model, "prompt": [1, 5, 9], "max_tokens": 5, "temperature": 0, "echo": true, "logprobs": 2});
        server.complete(&body).ok()["choices"].clone()
    };
    assert_eq!(ask(&server, "second"), ask(&alone, "tiny-llama"));
    assert_ne!(ask(&server, "second"), ask(&server, "tiny-llama"));
    let names: Vec<Value> =
        server.get("/v1/models").ok()["data"].as_array().unwrap().iter().map(|m| m["id"].clone()).collect();
    assert_eq!(names, ["tiny-llama", "second"]);
    assert_eq!(server.metric("spag_sequences_ended_total", "model=\"second\""), 2.0);
}
