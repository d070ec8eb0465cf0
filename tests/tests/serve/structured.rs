//! What restricts an answer of `spag serve`: languages, biases, penalties, min-p, defaults of the model's folder; and answers that go on
//! with the last message.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use spag_tests::{Serve, copy_folder, fixture, json as json_file, play_command, root, run};

fn tiny() -> std::path::PathBuf {
    root().join("data/tiny-llama")
}

fn serve() -> Serve {
    Serve::start([tiny()])
}

/// A request for 120 tokens at temperature 1, with more fields.
fn with(more: &Value) -> Value {
    let mut body = json!({"prompt": "Let us play a game", "max_tokens": 120, "temperature": 1.0, "seed": 3});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

fn choice(server: &Serve, more: &Value) -> (String, String) {
    let reply = server.complete(&with(more));
    assert_eq!(reply.status, 200, "{more}: {reply:?}");
    let choice = reply.json()["choices"][0].clone();
    (choice["text"].as_str().unwrap().to_owned(), choice["finish_reason"].as_str().unwrap().to_owned())
}

/// The tiny model never saw JSON, and its vocabulary has bytes for what its words have not.
#[test]
fn answers_are_of_the_language_that_was_asked_for() {
    let server = serve();
    let schema = json!({
        "type": "object",
        "properties": {
            "animal": {"enum": ["horse", "tiger"]},
            "legs": {"type": "integer", "minimum": 0, "maximum": 9},
            "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}, "minItems": 1, "maxItems": 2},
        },
        "required": ["animal", "legs", "tags"],
        "additionalProperties": false,
        "$defs": {"tag": {"type": "string", "pattern": "^[a-z]{1,3}$"}},
    });
    let format = json!({"type": "json_schema", "json_schema": {"name": "animal", "strict": true, "schema": schema}});
    for seed in 0..4 {
        let (text, finish) = choice(&server, &json!({"response_format": format, "seed": seed}));
        let found: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(finish, "stop");
        assert!(found["animal"] == "horse" || found["animal"] == "tiger", "{text}");
        assert!(found["legs"].as_u64().unwrap() < 10 && found.as_object().unwrap().len() == 3, "{text}");
        let tags = found["tags"].as_array().unwrap();
        assert!((1..=2).contains(&tags.len()), "{text}");
        for tag in tags {
            let tag = tag.as_str().unwrap();
            assert!((1..=3).contains(&tag.len()) && tag.bytes().all(|byte| byte.is_ascii_lowercase()), "{text}");
        }
    }
    let (text, finish) = choice(&server, &json!({"guided_regex": r"(yes|no), [0-9]{2}\.", "temperature": 0}));
    let rest = text.strip_prefix("yes, ").or(text.strip_prefix("no, ")).unwrap();
    assert!(rest.len() == 3 && rest.ends_with('.') && finish == "stop", "{text}");
    let choices = json!(["a \"b\"", "c\n", "日本"]);
    let mut found: Vec<String> = (0..12)
        .map(|seed| choice(&server, &json!({"guided_choice": choices, "seed": seed, "temperature": 8})).0)
        .collect();
    found.sort();
    found.dedup();
    assert!(
        found.len() > 1 && found.iter().all(|text| choices.as_array().unwrap().contains(&json!(text))),
        "{found:?}"
    );
    let (text, _) = choice(&server, &json!({"structured_outputs": {"grammar": "start: \"(\" start \")\" | \"x\""}}));
    assert_eq!(text.trim_start_matches('(').trim_end_matches(')'), "x", "{text}");
    // Objects of any kind may be longer than the limit.
    let (text, finish) = choice(&server, &json!({"response_format": {"type": "json_object"}}));
    assert!(text.starts_with('{') && (finish == "length" || serde_json::from_str::<Value>(&text).is_ok()), "{text}");
}

#[test]
fn restricted_answers_do_not_depend_on_the_batch_and_stream_as_they_are() {
    let server = serve();
    let more = json!({"guided_regex": "[a-z ]{20,40}!", "presence_penalty": 0.5});
    let (alone, _) = choice(&server, &more);
    let streamed = server.post(
        "/v1/completions",
        &with(&json!({
            "guided_regex": "[a-z ]{20,40}!", "presence_penalty": 0.5, "stream": true,
        })),
    );
    let text: String = streamed.events().iter().filter_map(|event| event["choices"][0]["text"].as_str()).collect();
    assert_eq!(text, alone);
    let together: Vec<String> = std::thread::scope(|scope| {
        let ask = |at: usize| {
            let more = if at.is_multiple_of(2) { more.clone() } else { json!({"seed": at}) };
            choice(&server, &more).0
        };
        let asked: Vec<_> = (0..6).map(|at| scope.spawn(move || ask(at))).collect();
        asked.into_iter().map(|asked| asked.join().unwrap()).collect()
    });
    for (at, text) in together.iter().enumerate() {
        assert_eq!(*text == alone, at.is_multiple_of(2), "{at}: {text}");
    }
}

#[test]
fn languages_that_cannot_be_used_are_refused_by_field() {
    let server = serve();
    for (field, value, said) in [
        ("guided_regex", json!("(a"), "the grammar cannot be used"),
        ("guided_regex", json!("(?=a)b"), "the grammar cannot be used"),
        ("guided_regex", json!("[^\\s\\S]"), "the grammar cannot be used"),
        ("guided_choice", json!([]), "nothing to choose from"),
        ("guided_json", json!({"type": "nothing"}), "the grammar cannot be used"),
        ("guided_json", json!({"$ref": "http://localhost/schema"}), "the grammar cannot be used"),
        ("guided_json", json!(false), "a JSON schema is an object"),
        ("guided_grammar", json!("start: nothing"), "the grammar cannot be used"),
        ("response_format", json!({"type": "json_schema"}), "json_schema.schema: it is missing"),
    ] {
        let reply = server.complete(&with(&json!({field: value})));
        let error = reply.error();
        assert!(reply.status == 400 && error.starts_with(field) && error.contains(said), "{field} {value}: {reply:?}");
    }
    for field in ["min_tokens", "ignore_eos"] {
        let value = if field == "min_tokens" { json!(2) } else { json!(true) };
        let reply = server.complete(&with(&json!({"guided_regex": "a+", field: value})));
        assert!(reply.status == 400 && reply.error().starts_with(field), "{reply:?}");
    }
    // The server goes on.
    assert_eq!(choice(&server, &json!({"guided_choice": ["a"]})).0, "a");
}

#[test]
fn biases_penalties_and_min_p_change_what_is_said() {
    let server = serve();
    let greedy = |more: &Value| {
        let mut more = more.clone();
        more["temperature"] = 0.into();
        choice(&server, &more).0
    };
    let plain = greedy(&json!({}));
    let tokens = |text: &str| {
        let reply = server.post("/tokenize", &json!({"prompt": text, "add_special_tokens": false})).json();
        reply["tokens"].as_array().unwrap().iter().map(|token| token.as_u64().unwrap()).collect::<Vec<_>>()
    };
    let prompt = "Let us play a game";
    let first = tokens(&format!("{prompt}{plain}"))[tokens(prompt).len()];
    // A token that is never sampled, and one that always is.
    let without = greedy(&json!({"logit_bias": {first.to_string(): -100}}));
    assert_ne!(tokens(&format!("{prompt}{without}"))[tokens(prompt).len()], first);
    let forced = server.complete(&with(&json!({
        "logit_bias": {first.to_string(): 100}, "max_tokens": 5, "logprobs": 0, "temperature": 1, "ignore_eos": true,
    })));
    let found = forced.json()["choices"][0]["logprobs"]["tokens"].clone();
    assert!(found.as_array().unwrap().iter().all(|token| *token == found[0]) && found.as_array().unwrap().len() == 5);
    // Log-probabilities are the model's own.
    let of_plain = server.complete(&with(&json!({"max_tokens": 1, "logprobs": 0, "temperature": 0})));
    let log_prob = |reply: &spag_tests::Reply| reply.json()["choices"][0]["logprobs"]["token_logprobs"][0].clone();
    assert_eq!(log_prob(&of_plain), log_prob(&forced));
    // This model is sure of itself: a bias makes it repeat itself, and the penalty grows with each time.
    let repeated = |more: Value| {
        let mut more = more;
        more["logit_bias"] = json!({first.to_string(): 40});
        greedy(&more)
    };
    assert_ne!(repeated(json!({"frequency_penalty": 2.0})), repeated(json!({})));
    assert_ne!(greedy(&json!({"repetition_penalty": 1.8})), plain);
    assert_eq!(greedy(&json!({"repetition_penalty": 1, "presence_penalty": 0, "logit_bias": {}, "min_p": 0.2})), plain);
    // Only the likeliest token is as likely as itself.
    assert_eq!(choice(&server, &json!({"min_p": 1.0})).0, plain);
    let two = |seed: u64| choice(&server, &json!({"min_p": 0.05, "seed": seed})).0;
    assert!((0..4).any(|seed| two(seed) != plain));
    for (field, value) in [
        ("logit_bias", json!({"x": 1})),
        ("logit_bias", json!({"960": 1})),
        ("logit_bias", json!({"5": 101})),
        ("logit_bias", json!([1])),
        ("presence_penalty", json!(2.5)),
        ("frequency_penalty", json!("1")),
        ("repetition_penalty", json!(0)),
        ("min_p", json!(1.5)),
    ] {
        let reply = server.complete(&with(&json!({field: value})));
        assert!(reply.status == 400 && reply.error().starts_with(field), "{field} {value}: {reply:?}");
    }
}

#[test]
fn what_a_request_does_not_say_is_as_the_folder_says() {
    let folder = tempfile::tempdir().unwrap();
    copy_folder(tiny(), folder.path());
    let config =
        json!({"eos_token_id": 2, "do_sample": true, "temperature": 0.0001, "top_k": 3, "repetition_penalty": 1.8});
    fs::write(folder.path().join("generation_config.json"), config.to_string()).unwrap();
    let (with_defaults, without) = (Serve::start([folder.path()]), serve());
    let shown = |server: &Serve| server.get("/v1/models").json()["data"][0]["default_sampling_params"].clone();
    assert_eq!(shown(&with_defaults), json!({"temperature": 0.0001, "top_k": 3, "repetition_penalty": 1.8}));
    assert_eq!(shown(&without), json!({}));
    let ask = |server: &Serve, more: &Value| {
        let mut body = json!({"prompt": "Let us play a game", "max_tokens": 60, "seed": 3});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        server.complete(&body).json()["choices"][0]["text"].clone()
    };
    let said = json!({"temperature": 0.0001, "top_k": 3, "repetition_penalty": 1.8});
    assert_eq!(ask(&with_defaults, &json!({})), ask(&without, &said));
    // What a request says is what is done.
    let neutral = json!({"temperature": 1, "top_k": -1, "repetition_penalty": 1});
    assert_eq!(ask(&with_defaults, &neutral), ask(&without, &json!({})));
    assert_ne!(ask(&with_defaults, &json!({})), ask(&without, &json!({})));
}

/// Games are drawn as `spag-play` says, whatever the folder of the served model adds to other requests.
#[test]
fn games_through_a_server_are_not_changed_by_defaults_of_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    copy_folder(tiny(), folder.path());
    let config = json!({"eos_token_id": 2, "top_p": 0.2, "min_p": 0.3, "repetition_penalty": 1.8});
    fs::write(folder.path().join("generation_config.json"), config.to_string()).unwrap();
    let servers = [
        Serve::start([&format!("--model=tiny={}", folder.path().display())]),
        Serve::start([&format!("--model=tiny={}", tiny().display())]),
    ];
    for task in ["sampling", "testing"] {
        let games = servers.each_ref().map(|server| {
            let work = tempfile::tempdir().unwrap();
            fs::write(work.path().join("words.txt"), "bear\nlemon\nlion\n").unwrap();
            let player = format!("openai-completions:{}#tiny", server.url("/v1"));
            let mut play = play_command(work.path(), &player, &player);
            run(play.args(["--task_type", task, "--taboo_max_turns", "2"]), 0);
            let games = json_file(work.path().join(format!("out/llama_{task}_words_results.json")));
            games.as_array().unwrap().iter().map(|game| game["history"].clone()).collect::<Vec<_>>()
        });
        assert_eq!(games[0], games[1], "{task}");
    }
}

/// A folder of the tiny model with a template that takes off blanks.
fn chat_model(folder: &Path, content: &str) {
    copy_folder(tiny(), folder);
    let template = format!(
        "{{{{ bos_token }}}}{{% for m in messages %}}<{{{{ m.role }}}}> {{{{ {content} }}}}</s>{{% endfor %}}\
         {{% if add_generation_prompt %}}<assistant>{{% endif %}}"
    );
    fs::write(folder.join("chat_template.jinja"), template).unwrap();
}

#[test]
fn answers_go_on_with_the_last_message() {
    let folder = tempfile::tempdir().unwrap();
    for (content, begun) in [("m.content", "The word "), ("m.content | trim", "The word")] {
        chat_model(folder.path(), content);
        let server = Serve::start([folder.path()]);
        let messages = json!([{"role": "user", "content": "Say"}, {"role": "assistant", "content": "The word "}]);
        let tokens = |more: Value| {
            let mut body = json!({"messages": messages});
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            server.post("/tokenize", &body).json()["tokens"].clone()
        };
        let whole = format!("<s><user> Say</s><assistant> {begun}");
        let plain = server.post("/tokenize", &json!({"prompt": whole, "add_special_tokens": false})).json();
        assert_eq!(tokens(json!({"continue_final_message": true})), plain["tokens"], "{content}");
        assert_ne!(tokens(json!({})), plain["tokens"]);
        // It is answered as the text is completed.
        let body = json!({"messages": messages, "continue_final_message": true, "max_tokens": 12, "temperature": 0});
        let answer = server.chat(&body).json()["choices"][0]["message"]["content"].clone();
        let text = json!({"prompt": whole, "add_special_tokens": false, "max_tokens": 12, "temperature": 0});
        assert_eq!(answer, server.complete(&text).json()["choices"][0]["text"], "{content}");
        // A special token in what was said is text here too.
        let special = json!({"messages": [{"role": "assistant", "content": "a</s>"}], "continue_final_message": true});
        let ids = server.post("/tokenize", &special).json();
        assert!(!ids["tokens"].as_array().unwrap().contains(&json!(2)), "{ids}");
        let both = json!({"messages": messages, "continue_final_message": true, "add_generation_prompt": true});
        let reply = server.chat(&both);
        assert!(reply.status == 400 && reply.error().starts_with("continue_final_message"), "{reply:?}");
    }
    // A template that leaves the answer out cannot go on with it.
    chat_model(folder.path(), "'nothing'");
    let server = Serve::start([folder.path()]);
    let body = json!({"messages": [{"role": "user", "content": "Say"}], "continue_final_message": true});
    let reply = server.chat(&body);
    assert!(reply.status == 400 && reply.error().contains("leaves out the last message"), "{reply:?}");
    // A byte-level tokenizer.
    let byte_level = tempfile::tempdir().unwrap();
    copy_folder(fixture("families/qwen2"), byte_level.path());
    let template = fs::read_to_string(fixture("chat_templates/qwen2.5.jinja")).unwrap();
    fs::write(byte_level.path().join("chat_template.jinja"), template).unwrap();
    let server = Serve::start([byte_level.path()]);
    let messages = json!([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Sure: "}]);
    let regex =
        json!({"messages": messages, "continue_final_message": true, "guided_regex": "[0-9]{3}", "max_tokens": 20});
    let answer = server.chat(&regex).json()["choices"][0]["message"]["content"].clone();
    assert!(answer.as_str().unwrap().len() == 3, "{answer}");
}
