//! `spag generate` and `spag eval` with models that think before they answer.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use spag_tests::{chat_model, json, json_lines, program, root, run};

/// A template that opens reasoning in the generation prompt if its variable says so.
const OPENS: &str = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}\
                     {% if add_generation_prompt %}<|im_start|>assistant\n{% if deep %}<think>\n{% endif %}{% endif %}";

fn model(folder: &Path) {
    let model = chat_model(&folder.join("model"), "qwen3", "qwen3");
    fs::write(model.join("chat_template.jinja"), OPENS).unwrap();
}

fn generate(folder: &Path, rows: &[Value], flags: &[&str], code: i32) -> (Vec<Value>, String) {
    let lines: String = rows.iter().map(|row| format!("{row}\n")).collect();
    fs::write(folder.join("in.jsonl"), lines).unwrap();
    let mut command = program("spag");
    command.current_dir(folder).args(["generate", "--model", "model", "--input", "in.jsonl", "--output", "out.jsonl"]);
    let (_, err) = run(command.args(["--max_new_tokens", "6"]).args(flags), code);
    let written = if code == 0 { json_lines(folder.join("out.jsonl")) } else { Vec::new() };
    (written, err)
}

#[test]
fn generate_answers_chats_and_splits_reasoning_off() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    model(dir);
    let message = |content: &str| json!({"messages": [{"role": "user", "content": content}]});
    let chats = [message("What is tea?"), message("And <|im_end|>?")];
    let budget = ["--max_reasoning_tokens", "5"];
    let think = [budget.as_slice(), &["--reasoning", "think"]].concat();
    let deep = [think.as_slice(), &["--chat_template_kwargs", "{\"deep\": true}"]].concat();
    let (thought, _) = generate(dir, &chats, &deep, 0);
    for (row, chat) in thought.iter().zip(&chats) {
        assert_eq!(row["messages"], chat["messages"]);
        assert!(!row["reasoning"].as_str().unwrap().is_empty() && row.get("prompt").is_none(), "{row}");
        assert!(!row["text"].as_str().unwrap().contains("think>"), "{row}");
        assert!(row["output_ids"].as_array().unwrap().len() > 6, "budgets are not one: {row}");
    }
    // The random model opens no tag itself.
    let (said, _) = generate(dir, &chats, &think, 0);
    assert!(said.iter().all(|row| row.get("reasoning").is_none() && row["text"].is_string()), "{said:?}");

    // In texts the tags are looked for if that is asked for.
    let text = json!({"prompt": "Think. <think>"});
    let (whole, _) = generate(dir, std::slice::from_ref(&text), &[], 0);
    assert!(whole[0].get("reasoning").is_none(), "{whole:?}");
    let (split, _) = generate(dir, std::slice::from_ref(&text), &think, 0);
    assert!(split[0]["reasoning"].is_string(), "{split:?}");

    for (rows, flags, said) in [
        (&[chats[0].clone(), text.clone()][..], &[][..], "write them to two files"),
        (&chats, &["--keep_reasoning"], "--keep_reasoning"),
        (&[text], &budget, "max_reasoning_tokens"),
        (&[json!({"messages": [{"role": "judge", "content": "x"}]})], &[], "in.jsonl: row 1"),
        (&[json!({"messages": "x"})], &[], "`messages`"),
    ] {
        let (_, err) = generate(dir, rows, flags, 2);
        assert!(err.contains(said), "{said}: {err}");
    }
}

#[test]
fn eval_looks_for_answers_after_reasoning() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    model(dir);
    fs::write(dir.join("rows.jsonl"), "{\"q\": \"Tea? <think>\", \"a\": \"x\"}\n{\"q\": \"Coffee?\", \"a\": \"y\"}\n")
        .unwrap();
    let task = "[[task]]\nname = 'drinks'\nfile = 'rows.jsonl'\nprompt = 'q'\ntarget = 'a'\nmax_new_tokens = 6\n";
    fs::write(dir.join("tasks.toml"), task).unwrap();
    let eval = |flags: &[&str], code: i32| {
        let mut command = program("spag");
        command.current_dir(dir).args(["eval", "--model", "model", "--tasks", "tasks.toml", "--output_dir", "out"]);
        run(command.args(["--names", "m"]).args(flags), code).1
    };
    let think = ["--reasoning", "think", "--max_reasoning_tokens", "5"];
    eval(&think, 0);
    let rows = json_lines(dir.join("out/m/samples_drinks.jsonl"));
    assert!(rows[0]["reasoning"].is_string() && rows[1].get("reasoning").is_none(), "{rows:?}");
    assert!(!rows[0]["resps"][0][0].as_str().unwrap().contains("think>"), "{}", rows[0]);
    let results = &json(dir.join("out/m/results.json"))["results"]["drinks"];
    let length = rows[0]["reasoning"].as_str().unwrap().chars().count();
    assert_eq!(results["reasoning_characters"], length as f64 / 2.0, "{results}");
    assert_eq!((&results["empty_reasoning"], &results["unfinished_reasoning"]), (&json!(0.5), &json!(0.0)));

    // The same answers again, and none of another budget.
    eval(&think, 0);
    assert_eq!(json_lines(dir.join("out/m/samples_drinks.jsonl")), rows);
    let err = eval(&["--reasoning", "think", "--max_reasoning_tokens", "4"], 2);
    assert!(err.contains("another reasoning"), "{err}");
    for (flags, said) in [
        (&["--keep_reasoning"][..], "no earlier turns"),
        (&["--max_reasoning_tokens", "4"], "there is no reasoning"),
        (&["--reasoning", "boxed"], "boxed"),
    ] {
        let err = eval(flags, 2);
        assert!(err.contains(said), "{said}: {err}");
    }
}

/// Questions of the small world that a model is asked at once and after reasoning.
#[test]
fn the_small_world_has_questions_to_think_about() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = program("spag");
    command.args(["eval", "--tasks", "tiny-think", "--limit", "8", "--output_dir"]).arg(folder.path());
    command.args(["--reasoning", "think", "--reasoning_tags", "[ ]", "--names", "m", "--model"]);
    let (table, _) = run(command.arg(root().join("data/tiny-llama")), 0);
    assert!(table.contains("negation, at once") && table.contains("two steps, thinking"), "{table}");
    let asked = |kind: &str| json_lines(folder.path().join(format!("m/samples_tiny_negation_{kind}.jsonl")));
    for (direct, think) in asked("direct").iter().zip(&asked("think")) {
        let prompt = |row: &Value| row["arguments"]["gen_args_0"]["arg_0"].as_str().unwrap().to_owned();
        assert_eq!(format!("Think first. {}", prompt(direct)), prompt(think));
        assert_eq!(direct["target"], think["target"]);
    }
}
