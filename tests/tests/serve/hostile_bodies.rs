//! `spag serve` and requests that would take much memory or time: refused by name before they do.

use serde_json::{Value, json};
use spag_tests::{Reply, Serve, copy_folder, root};

const MIB: usize = 1 << 20;

fn refused(reply: &Reply, said: &str) {
    assert!(reply.status == 400 && reply.error().contains(said), "{said}: {} {}", reply.status, reply.error());
}

fn serve() -> (tempfile::TempDir, Serve) {
    let folder = tempfile::tempdir().unwrap();
    copy_folder(root().join("data/tiny-llama"), folder.path());
    let template = "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}";
    std::fs::write(folder.path().join("chat_template.jinja"), template).unwrap();
    let server = Serve::start([folder.path()]);
    (folder, server)
}

#[test]
fn texts_that_cannot_fit_are_not_encoded() {
    let (_folder, server) = serve();
    let blanks = " ".repeat(7 * MIB);
    let message = |text: &str| json!([{"role": "user", "content": text}]);
    for (path, field, body) in [
        ("/v1/completions", "prompt", json!({"prompt": blanks})),
        ("/v1/completions", "prompt[1]", json!({"prompt": ["a", blanks]})),
        ("/v1/completions", "", json!({"prompt": vec![1; MIB]})),
        ("/v1/completions", "", json!({"prompt": [vec![1; MIB]]})),
        ("/v1/chat/completions", "messages", json!({"messages": message(&blanks)})),
        ("/tokenize", "prompt", json!({"prompt": blanks})),
        ("/tokenize", "messages", json!({"messages": message(&blanks)})),
    ] {
        let reply = server.post(path, &body);
        refused(&reply, "maximum context length is 384 tokens");
        assert_eq!(reply.json()["error"]["code"], "context_length_exceeded");
        assert!(reply.error().starts_with(field), "{path}: {}", reply.error());
    }
    refused(&server.post("/detokenize", &json!({"tokens": vec![1; MIB]})), "tokens: it has 1048576 tokens");
    // Texts that are longer than the context are measured.
    let counted = server.post("/tokenize", &json!({"prompt": "a b ".repeat(10_000)})).ok();
    assert!(counted["count"].as_u64() > Some(384), "{}", counted["count"]);
}

#[test]
fn bodies_of_many_parts_are_not_parsed() {
    let (_folder, server) = serve();
    let list = |item: &str| format!("[{}]", vec![item; 300_000].join(","));
    let members = |value: &str| {
        let members: Vec<String> = (0..300_000).map(|at| format!("\"{at}\":{value}")).collect();
        format!("{{{}}}", members.join(","))
    };
    let arguments = serde_json::to_string(&format!("{{\"a\":{}}}", list("{}"))).unwrap();
    let calls = format!("[{{\"role\":\"assistant\",\"tool_calls\":[{{\"function\":{{\"arguments\":{arguments}}}}}]}}]");
    let numbers = format!("[{}]", vec!["1"; 3 * MIB].join(","));
    let texts = [
        ("/v1/completions", format!("{{\"prompt\":{}}}", list("{}")), "lists and objects"),
        ("/v1/completions", format!("{{\"prompt\":{numbers}}}"), "values"),
        ("/v1/completions", format!("{{\"prompt\":\"a\",\"logit_bias\":{}}}", members("1")), "members of objects"),
        ("/v1/completions", format!("{{\"metadata\":{}}}", list("[]")), "lists and objects"),
        ("/v1/chat/completions", format!("{{\"messages\":{}}}", list("{\"role\":\"user\",\"content\":\"a\"}")), ""),
        ("/v1/chat/completions", format!("{{\"messages\":{calls}}}"), "lists and objects"),
        ("/tokenize", list("{}"), "lists and objects"),
        ("/detokenize", format!("{{\"tokens\":{numbers}}}"), "values"),
        ("/page/turn", format!("{{\"history\":{}}}", list("{\"role\":\"attacker\"}")), "lists and objects"),
        ("/page/judge", list("{\"a\":1}"), "lists and objects"),
    ];
    for (path, text, said) in texts {
        let reply = server.post_with(path, text.as_bytes(), &[("content-type", "application/json")]);
        if reply.status != 413 {
            refused(&reply, said);
        }
    }
    assert_eq!(server.complete(&json!({"prompt": "a", "max_tokens": 1})).status, 200);
}

#[test]
fn languages_that_are_too_large_are_refused_by_name_and_large_ones_are_kept_to() {
    let (_folder, server) = serve();
    let with = |more: Value| {
        let mut body = json!({"prompt": "a", "max_tokens": 40, "temperature": 0});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        server.complete(&body)
    };
    let choices = |number: usize| (0..number).map(|at| format!("choice {at}")).collect::<Vec<_>>();
    for (field, value) in [
        ("guided_choice", json!(choices(300_000))),
        ("guided_choice", json!(["a".repeat(MIB)])),
        ("guided_regex", json!("(a|b)".repeat(20_000))),
        ("guided_grammar", json!(format!("start: {}", "\"a\" ".repeat(20_000)))),
        ("guided_json", json!({"enum": choices(20_000)})),
        ("guided_json", json!(json!({"enum": choices(20_000)}).to_string())),
        ("structured_outputs", json!({"choice": choices(300_000)})),
        (
            "response_format",
            json!({"type": "json_schema", "json_schema": {"name": "x", "schema": {"enum": choices(20_000)}}}),
        ),
    ] {
        let reply = with(json!({field: value}));
        refused(&reply, "more than");
        assert!(reply.error().starts_with(field), "{}", reply.error());
    }
    let many = choices(16_000);
    let chosen = with(json!({"guided_choice": many})).ok()["choices"][0]["text"].as_str().unwrap().to_owned();
    assert!(many.contains(&chosen), "{chosen}");
    // A library that calls itself for each rule of a chain must not end the server.
    let rules: String = (0..2_500).map(|at| format!("a{at}:a{}\n", at + 1)).collect();
    let chain = with(json!({"guided_grammar": format!("start: a0\n{rules}a2500: \"z\"\n")}));
    assert_eq!(chain.ok()["choices"][0]["text"], "z");
    let items = (0..1_200).map(|at| (at.to_string(), json!({"items": {"$ref": format!("#/$defs/{}", at + 1)}})));
    let defs: serde_json::Map<String, Value> = items.chain([("1200".to_owned(), json!({"type": "null"}))]).collect();
    let deep = with(json!({"guided_json": {"$ref": "#/$defs/0", "$defs": defs}}));
    assert!([200, 400].contains(&deep.status), "{deep:?}");
    assert_eq!(with(json!({})).status, 200);
}
