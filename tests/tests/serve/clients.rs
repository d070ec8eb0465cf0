//! `spag serve` with the clients that people use: lm-evaluation-harness and the `openai` package.
//!
//! The tests need these packages and are ignored by default; `-- --ignored` runs them. CLIENTS_PYTHON names the Python that has
//! those of Python, NODE_PATH the folder of those of npm. What lm-evaluation-harness's own backend says of the models was computed with
//! `clients/lm_eval/evaluate.py hf pretrained=FOLDER,dtype=float32,device=cpu,add_bos_token=False OUT`, with folders whose
//! `generation_config.json` has no repetition penalty: that backend and the server apply it to greedy texts.

use std::path::Path;
use std::process::Command;

use spag_tests::{Serve, assert_reports_agree, copy_folder, find_program, fixture, json, root, run};

const NAMES: [&str; 2] = ["python3", "python"];

/// A client's script, with the Python that has the packages.
fn script(name: &str) -> Command {
    let mut command = Command::new(find_program(&NAMES, "CLIENTS_PYTHON"));
    command.arg(root().join("tests/clients").join(name));
    command
}

/// Evaluates a model through a server, with several settings of the client, each with the expected report.
fn evaluate(family: &str, settings: &[(&str, &str, usize, usize)]) {
    let work = tempfile::tempdir().unwrap();
    let folder = work.path().join(family);
    copy_folder(fixture("families").join(family), &folder);
    let mut defaults = json(folder.join("generation_config.json"));
    defaults.as_object_mut().unwrap().remove("repetition_penalty");
    std::fs::write(folder.join("generation_config.json"), defaults.to_string()).unwrap();
    let server = Serve::start([&folder]);
    let url = server.url("");
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
        // The client's own backend decodes a completion alone, and SentencePiece then drops the blank before it.
        let same_text = |found: &str, expected: &str| found.trim_start() == expected;
        let at = format!("{family}, {concurrent} at once, {tokenizer}");
        assert_reports_agree(&json(&out), &expected, &at, same_text);
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

/// Runs a client of the `openai` package against a server of two models, one with a chat template, that asks for a key.
fn use_openai(client: &mut Command) {
    let work = tempfile::tempdir().unwrap();
    let (base, chat, key) = (fixture("families/qwen3"), work.path().join("chat"), work.path().join("key"));
    copy_folder(fixture("families/qwen2"), &chat);
    with_template(&chat);
    std::fs::write(&key, "a-key\n").unwrap();
    let (base, chat) = (format!("base={}", base.display()), format!("chat={}", chat.display()));
    let server = Serve::start(["--model", &base, "--model", &chat, "--api_key_file", key.to_str().unwrap()]);
    let (out, _) = run(client.arg(server.url("")).arg("a-key"), 0);
    assert_eq!(out.trim(), "ok");
}

#[test]
#[ignore = "needs the Python package openai"]
fn openai_client_completes_chats_streams_and_fails_as_documented() {
    use_openai(&mut script("openai_client.py"));
}

#[test]
#[ignore = "needs the npm package openai"]
fn openai_client_of_node_completes_chats_streams_and_fails_as_documented() {
    use_openai(Command::new("node").arg(root().join("tests/clients/openai_client.cjs")));
}
