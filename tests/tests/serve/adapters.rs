//! Adapters of `spag serve` through HTTP, against the log-probabilities of PEFT: named at the start, loaded and unloaded.

use serde_json::{Value, json};
use spag_tests::{Serve, fixture, json as read_json, program, run};

fn text(path: std::path::PathBuf) -> String {
    path.to_str().unwrap().to_owned()
}

fn serve(flags: &[&str]) -> Serve {
    let model = text(fixture("tiny-llama"));
    let adapter = format!("a={}", text(fixture("peft/attention")));
    Serve::start(["--served_model_name", "base", "--adapter", &adapter, &model].iter().chain(flags))
}

/// The largest distance of a model's log-probabilities from those that PEFT has with an adapter.
fn distance(server: &Serve, model: &str, adapter: &str) -> f64 {
    let expected = read_json(fixture("peft").join(adapter).join("expected.json"));
    let asked = json!({"model": model, "prompt": expected["ids"], "max_tokens": 0, "echo": true, "logprobs": 0});
    let body = server.complete(&asked).ok();
    assert_eq!(body["model"], model);
    let found = body["choices"][0]["logprobs"]["token_logprobs"].as_array().unwrap().clone();
    let wanted = expected["log_probs"].as_array().unwrap();
    assert_eq!(found.len(), wanted.len() + 1);
    let pairs = found[1..].iter().zip(wanted).map(|(a, b)| (a.as_f64().unwrap(), b.as_f64().unwrap()));
    pairs.map(|(a, b)| (a - b).abs() / b.abs()).fold(0.0, f64::max)
}

fn names(server: &Serve) -> Vec<String> {
    let models = server.get("/v1/models").ok();
    models["data"].as_array().unwrap().iter().map(|model| model["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn names_of_requests_choose_adapters_that_come_and_go() {
    let server = serve(&["--allow_adapter_loading"]);
    let load = |body: Value| server.post("/v1/load_lora_adapter", &body);
    let unload = |body: Value| server.post("/v1/unload_lora_adapter", &body);
    let patterns = text(fixture("peft/patterns"));
    assert_eq!(names(&server), ["base", "a"]);
    let described = server.get("/v1/models/a").ok();
    assert_eq!((&described["parent"], &described["root"]), (&json!("base"), &json!(text(fixture("peft/attention")))));
    assert!(distance(&server, "a", "attention") < 1e-5 && distance(&server, "base", "attention") > 0.02);
    assert_eq!(server.complete(&json!({"model": "b", "prompt": "a"})).status, 404);

    let added = load(json!({"lora_name": "b", "lora_path": patterns, "load_inplace": false}));
    assert_eq!((added.status, added.text.as_str()), (200, "Success: LoRA adapter 'b' added successfully."));
    assert_eq!(names(&server), ["base", "a", "b"]);
    for (model, adapter) in [("b", "patterns"), ("a", "attention")] {
        assert!(distance(&server, model, adapter) < 1e-5, "{model}");
    }
    // Requests of all three at once.
    let distances = std::thread::scope(|scope| {
        let asked = [("b", "patterns"), ("a", "attention"), ("base", "patterns")];
        let of = asked.map(|(model, adapter)| scope.spawn(|| distance(&server, model, adapter)));
        of.map(|thread| thread.join().unwrap())
    });
    assert!(distances[0] < 1e-5 && distances[1] < 1e-5 && distances[2] > 0.02, "{distances:?}");
    let tokens = server.post("/tokenize", &json!({"model": "b", "prompt": "a"})).ok();
    assert_eq!(tokens, server.post("/tokenize", &json!({"prompt": "a"})).ok());

    for (body, status, said) in [
        (json!({"lora_name": "b", "lora_path": patterns}), 400, "`b` is the name"),
        (json!({"lora_name": "base", "lora_path": patterns}), 400, "`base` is the name"),
        (json!({"lora_name": "c", "lora_path": "/no/such/folder"}), 404, "No adapter found in /no/such/folder"),
        (json!({"lora_name": "c", "lora_path": text(fixture("tiny-llama"))}), 404, "No adapter found"),
        (json!({"lora_name": "c"}), 400, "Both 'lora_name' and 'lora_path' must be provided"),
        (json!({"lora_name": "", "lora_path": patterns}), 400, "must be provided"),
        (json!({"lora_name": "c d", "lora_path": patterns}), 400, "lora_name"),
        (json!({"lora_name": 3, "lora_path": patterns}), 400, "lora_name: expected a string"),
        (json!({"lora_name": "c", "lora_path": patterns, "load_inplace": true}), 400, "load_inplace"),
        (json!({"lora_name": "c", "lora_path": patterns, "rank": 3}), 400, "rank"),
        (json!({"lora_name": "c", "lora_path": patterns, "base_model_name": "none"}), 404, "`none` does not exist"),
    ] {
        let reply = load(body.clone());
        assert!(reply.status == status && reply.error().contains(said), "{body}: {reply:?}");
    }
    for (body, status, said) in [
        (json!({"lora_name": "base"}), 404, "The lora adapter 'base' cannot be found"),
        (json!({"lora_name": "c"}), 404, "The lora adapter 'c' cannot be found"),
        (json!({}), 400, "'lora_name' needs to be provided"),
    ] {
        let reply = unload(body.clone());
        assert!(reply.status == status && reply.error().contains(said), "{body}: {reply:?}");
    }

    let removed = unload(json!({"lora_name": "b"}));
    assert_eq!((removed.status, removed.text.as_str()), (200, "Success: LoRA adapter 'b' removed successfully."));
    assert_eq!(
        (names(&server), server.complete(&json!({"model": "b", "prompt": "a"})).status),
        (vec!["base".to_owned(), "a".to_owned()], 404)
    );
    // The name is free; keys and values of the adapter that had it are not found.
    assert_eq!(unload(json!({"lora_name": "a"})).status, 200);
    assert_eq!(load(json!({"lora_name": "a", "lora_path": patterns, "base_model_name": "base"})).status, 200);
    assert!(distance(&server, "a", "patterns") < 1e-5);
    assert_eq!(server.metric("spag_http_responses_total", "route=\"/v1/unload_lora_adapter\",status=\"200\""), 2.0);
}

#[test]
fn adapters_are_loaded_over_http_only_if_a_flag_allows_it() {
    let server = serve(&[]);
    let body = json!({"lora_name": "b", "lora_path": text(fixture("peft/patterns"))});
    for path in ["/v1/load_lora_adapter", "/v1/unload_lora_adapter"] {
        let reply = server.post(path, &body);
        assert!(reply.status == 404 && reply.error().contains("--allow_adapter_loading"), "{reply:?}");
        assert_eq!(server.get(path).status, 405);
    }
    assert_eq!(names(&server), ["base", "a"]);
}

#[test]
fn adapters_that_do_not_fit_keep_the_server_from_starting() {
    let (model, adapter) = (text(fixture("tiny-llama")), text(fixture("peft/attention")));
    let other = text(spag_tests::root().join("data/tiny-llama"));
    for (arguments, said) in [
        (vec![other, "--adapter".into(), format!("a={adapter}")], "lora_"),
        (vec![model.clone(), "--adapter".into(), adapter.clone()], "NAME=DIR"),
        (vec![model.clone(), "--adapter".into(), "a=nowhere".into()], "nowhere"),
        (vec![model, "--adapter".into(), format!("tiny-llama={adapter}")], "given twice"),
    ] {
        let (_, err) = run(program("spag").arg("serve").args(["--port", "0"]).args(&arguments), 2);
        assert!(err.contains(said), "{arguments:?}: {err}");
    }
}
