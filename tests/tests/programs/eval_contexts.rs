//! `spag eval`: contexts and continuations are those of lm-evaluation-harness, as texts and as chats.
//!
//! `clients/lm_eval/contexts.py` wrote what is expected.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use spag_tests::{copy_folder, fixture, json, json_lines, program, root, run};

/// A template that refuses the system message that a description becomes.
const REFUSES_SYSTEM: &str = "{{ bos_token }}{% for message in messages %}{% if message.role == 'system' %}\
    {{ raise_exception('no system message') }}{% endif %}[{{ message.role }}]{{ message.content }}[/{{ message.role }}]\
    {% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}";

fn eval(model: &Path, tasks: &Path, out: &Path, flags: &[&str]) -> Command {
    let mut command = program("spag");
    command.args(["eval", "--names", "m", "--model"]).arg(model).arg("--tasks").arg(tasks);
    command.arg("--output_dir").arg(out).args(flags);
    command
}

/// The texts of each request of a row.
fn requests(row: &Value) -> Value {
    let arguments = row["arguments"].as_object().unwrap();
    let texts = |request: &Value| {
        let texts = [&request["arg_0"], &request["arg_1"]];
        texts.into_iter().filter(|text| text.is_string()).cloned().collect::<Value>()
    };
    (0..arguments.len()).map(|at| texts(&arguments[&format!("gen_args_{at}")])).collect()
}

fn agrees(family: &str, template: &str) {
    let folder = tempfile::tempdir().unwrap();
    let (model, tasks) = (folder.path().join("model"), root().join("tests/clients/lm_eval/tasks.toml"));
    copy_folder(fixture("families").join(family), &model);
    std::fs::write(model.join("chat_template.jinja"), template).unwrap();
    let expected = json(root().join(format!("tests/clients/lm_eval/expected/contexts-{family}.json")));
    for (name, multiturn, flags) in [
        ("plain", None, &[][..]),
        ("turns", Some(true), &["--apply_chat_template"]),
        ("one_message", Some(false), &["--apply_chat_template", "--fewshot_as_multiturn", "False"]),
    ] {
        let out = folder.path().join(name);
        run(eval(&model, &tasks, &out, flags).args(["--limit", "3"]), 0);
        for (task, rows) in expected[name].as_object().unwrap() {
            let found = json_lines(out.join(format!("m/samples_{task}.jsonl")));
            assert_eq!(found.iter().map(requests).collect::<Value>(), *rows, "{family}: {name}, {task}");
        }
        assert_eq!(expected[name].as_object().unwrap().len(), 7);
        assert_eq!(json(out.join("m/results.json")).get("fewshot_as_multiturn"), multiturn.map(Value::from).as_ref());
    }
    // The answers of one format are not those of another.
    let turns = ["--apply_chat_template", "--fewshot_as_multiturn", "True", "--limit", "3"];
    let (_, error) = run(&mut eval(&model, &tasks, &folder.path().join("one_message"), &turns), 2);
    assert!(error.contains("another"), "{error}");
}

#[test]
fn contexts_are_those_of_lm_eval() {
    agrees("qwen2", &std::fs::read_to_string(fixture("chat_templates/qwen2.5.jinja")).unwrap());
    agrees("llama-linear-rope", REFUSES_SYSTEM);
}

#[test]
fn examples_in_turns_need_chats_and_examples() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |tasks: &str, flags: &[&str], what: &str| {
        let (_, error) = run(&mut eval(&fixture("tiny-llama"), Path::new(tasks), folder.path(), flags), 2);
        assert!(error.contains("--fewshot_as_multiturn") && error.contains(what), "{error}");
    };
    refused("tiny", &["--fewshot_as_multiturn"], "--apply_chat_template");
    refused("games", &["--apply_chat_template", "--fewshot_as_multiturn", "False"], "no few-shot examples");
    refused("tiny", &["--fewshot_as_multiturn", "maybe"], "maybe");
    let (_, error) = run(
        &mut eval(
            &fixture("families/qwen2"),
            Path::new("tiny"),
            folder.path(),
            &["--apply_chat_template", "--fewshot_as_multiturn", "False"],
        ),
        2,
    );
    assert!(error.contains("chat template") && error.contains("qwen2"), "{error}");
}
