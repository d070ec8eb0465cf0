//! `spag serve` with the clients that people use: lm-evaluation-harness and the `openai` package.
//!
//! The tests need these Python packages and are ignored by default; `-- --ignored` runs them. CLIENTS_PYTHON names the Python
//! that has them. What lm-evaluation-harness's own backend says of the models was computed with
//! `clients/lm_eval/evaluate.py hf pretrained=FOLDER,dtype=float32,device=cpu,add_bos_token=False OUT`, with folders whose
//! `generation_config.json` has no repetition penalty: that backend applies it to greedy texts.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use spag_tests::{Serve, copy_folder, find_program, fixture, json, root, run};

const NAMES: [&str; 2] = ["python3", "python"];

/// A client's script, with the Python that has the packages.
fn script(name: &str) -> Command {
    let mut command = Command::new(find_program(&NAMES, "CLIENTS_PYTHON"));
    command.arg(root().join("tests/clients").join(name));
    command
}

/// Compares two reports: numbers within 1e-4, everything else equal but for a blank before a text. The client's own backend
/// decodes a completion alone, and SentencePiece then drops it.
fn compare(found: &Value, expected: &Value, at: &str) {
    match (found, expected) {
        (Value::Number(found), Value::Number(expected)) => {
            let (found, expected) = (found.as_f64().unwrap(), expected.as_f64().unwrap());
            // Perplexities are exponentials of sums.
            let limit = if at.contains("perplexity") { 1e-3 * expected } else { 1e-4 * expected.abs().max(1.0) };
            assert!((found - expected).abs() <= limit, "{at}: {found}, not {expected}");
        }
        (Value::Array(found), Value::Array(expected)) => {
            assert_eq!(found.len(), expected.len(), "{at}");
            found.iter().zip(expected).enumerate().for_each(|(i, (f, e))| compare(f, e, &format!("{at}[{i}]")));
        }
        (Value::Object(found), Value::Object(expected)) => {
            assert!(found.keys().eq(expected.keys()), "{at}");
            found.iter().zip(expected.values()).for_each(|((key, f), e)| compare(f, e, &format!("{at}.{key}")));
        }
        (Value::String(found), Value::String(expected)) => assert_eq!(found.trim_start(), expected, "{at}"),
        _ => assert_eq!(found, expected, "{at}"),
    }
}

/// Evaluates a model through a server, with several settings of the client, each with the expected report.
fn evaluate(family: &str, settings: &[(&str, &str, usize, usize)]) {
    let folder = fixture("families").join(family);
    let server = Serve::start([&folder]);
    let url = server.url("");
    let work = tempfile::tempdir().unwrap();
    for (expected, tokenizer, concurrent, batch) in settings {
        let expected = json(root().join(format!("tests/clients/lm_eval/expected/{expected}.json")));
        let out = work.path().join("out.json");
        let tokenizer = match *tokenizer {
            "local" => format!("tokenizer_backend=huggingface,tokenizer={}", folder.display()),
            "local with BOS" => {
                format!("tokenizer_backend=huggingface,add_bos_token=True,tokenizer={}", folder.display())
            }
            other => format!("tokenizer_backend={other}"),
        };
        let arguments = format!(
            "model={family},base_url={url}/v1/completions,max_length=512,num_concurrent={concurrent},{tokenizer}"
        );
        let mut client = script("lm_eval/evaluate.py");
        run(client.args(["local-completions", &arguments]).arg(&out).env("BATCH_SIZE", batch.to_string()), 0);
        compare(&json(&out), &expected, &format!("{family}, {concurrent} at once, {tokenizer}"));
    }
}

#[test]
#[ignore = "needs lm-evaluation-harness"]
fn lm_eval_agrees_with_its_own_backend_on_llama() {
    let name = "llama-linear-rope";
    let with_bos = "llama-linear-rope-bos";
    let settings = [
        (name, "remote", 1, 1),
        (name, "remote", 8, 1),
        (name, "local", 1, 4),
        (name, "local", 8, 4),
        (with_bos, "local with BOS", 8, 1),
    ];
    evaluate(name, &settings);
}

#[test]
#[ignore = "needs lm-evaluation-harness"]
fn lm_eval_agrees_with_its_own_backend_on_a_byte_level_tokenizer() {
    let name = "qwen2";
    evaluate(name, &[(name, "remote", 1, 1), (name, "remote", 8, 1), (name, "local", 1, 4), (name, "local", 8, 4)]);
}

/// Gives a folder a chat template.
fn with_template(folder: &Path) {
    let path = folder.join("tokenizer_config.json");
    let mut config = json(&path);
    config["chat_template"] = "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}\
        {% if add_generation_prompt %}assistant:{% endif %}"
        .into();
    std::fs::write(path, config.to_string()).unwrap();
}

#[test]
#[ignore = "needs the Python package openai"]
fn openai_client_completes_chats_streams_and_fails_as_documented() {
    let work = tempfile::tempdir().unwrap();
    let (base, chat, key) = (fixture("families/qwen3"), work.path().join("chat"), work.path().join("key"));
    copy_folder(fixture("families/qwen2"), &chat);
    with_template(&chat);
    std::fs::write(&key, "a-key\n").unwrap();
    let (base, chat) = (format!("base={}", base.display()), format!("chat={}", chat.display()));
    let server = Serve::start(["--model", &base, "--model", &chat, "--api_key_file", key.to_str().unwrap()]);
    let (out, _) = run(script("openai_client.py").arg(server.url("")).arg("a-key"), 0);
    assert_eq!(out.trim(), "ok");
}
