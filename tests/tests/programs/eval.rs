//! `spag eval`: agreement with lm-evaluation-harness, interrupted evaluations, and invalid input.
//!
//! What lm-evaluation-harness's backend `hf` says of the tiny checkpoints was computed with `clients/lm_eval/evaluate.py`, as
//! `serve/clients.rs` describes; the files `more-*` with `BOOTSTRAP_ITERS=100` and its tasks spag_letters, spag_examples and
//! spag_blank.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use spag_run::document::{Document, Part};
use spag_tests::{
    Running, assert_reports_agree, change_tensor, copy_folder, fixture, json, json_lines, long_model, program, root,
    run, wait_until,
};

/// A template that writes BOS, and refuses the system message that a description becomes.
const REFUSES_SYSTEM: &str = "{{ bos_token }}{% for message in messages %}{% if message.role == 'system' %}\
    {{ raise_exception('no system message') }}{% endif %}[{{ message.role }}]{{ message.content }}[/{{ message.role }}]\
    {% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}";

const OLD: [&str; 4] = ["spag_choice", "spag_greedy", "spag_rolling", "spag_answer"];
const MORE: [&str; 3] = ["spag_letters", "spag_examples", "spag_blank"];

fn eval(models: &[&Path], tasks: &Path, out: &Path) -> Command {
    let mut command = program("spag");
    command.args(["eval", "--tasks"]).arg(tasks).arg("--output_dir").arg(out).arg("--model").args(models);
    command
}

/// The answers of a task in the shape of the expected ones.
fn answers(out: &Path, task: &str) -> Vec<Value> {
    let rows = json_lines(out.join(format!("samples_{task}.jsonl")));
    let number = |text: &Value| text.as_str().unwrap().parse::<f64>().unwrap();
    let pair = |pair: &Value| json!([number(&pair[0]), pair[1] == "True"]);
    rows.iter()
        .map(|row| match (task, &row["resps"]) {
            ("spag_answer", texts) => json!([texts[0][0]]),
            ("spag_rolling", totals) => json!([number(&totals[0][0])]),
            (_, pairs) => pairs.as_array().unwrap().iter().map(|each| pair(&each[0])).collect(),
        })
        .collect()
}

/// Evaluates a checkpoint and compares every answer and every metric.
fn agrees(family: &str, bos: &str, expected: &str) {
    let files = [(expected.to_owned(), &OLD[..]), (format!("more-{expected}"), &MORE)];
    let (out, results) = compare(&fixture("families").join(family), &["--add_bos_token", bos], &files);
    let letters = json_lines(out.path().join("m/samples_spag_letters.jsonl"));
    assert_eq!(letters.iter().filter(|row| row["truncated"] == true).count(), 2, "two prompts are too long");
    assert_eq!(results["truncated_prompts"], 2);
}

/// The same with the model's chat template, which examples are turns of.
fn agrees_in_chat(family: &str, bos: &str, template: &str, expected: &str) {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("model");
    copy_folder(fixture("families").join(family), &model);
    std::fs::write(model.join("chat_template.jinja"), template).unwrap();
    let files = [(expected.to_owned(), &[OLD.as_slice(), &MORE].concat()[..])];
    let (_, results) = compare(&model, &["--add_bos_token", bos, "--apply_chat_template"], &files);
    assert_eq!(results["chat_template"], template);
}

/// Evaluates a checkpoint and compares every answer and every metric with those of the files: the output folder and the results.
fn compare(model: &Path, flags: &[&str], files: &[(String, &[&str])]) -> (tempfile::TempDir, Value) {
    let folder = tempfile::tempdir().unwrap();
    let tasks = root().join("tests/clients/lm_eval/tasks.toml");
    run(eval(&[model], &tasks, folder.path()).args(flags).args(["--names", "m"]), 0);
    let out = folder.path().join("m");
    let results = json(out.join("results.json"));
    let mut compared = 0;
    for (file, tasks) in files {
        let expected = json(root().join(format!("tests/clients/lm_eval/expected/{file}.json")));
        for task in *tasks {
            for (row, (found, expected)) in
                answers(&out, task).iter().zip(expected[task]["answers"].as_array().unwrap()).enumerate()
            {
                let expected = if expected.is_array() { expected.clone() } else { json!([expected]) };
                let expected = match *task {
                    "spag_greedy" if !expected[0].is_array() => json!([expected]),
                    _ => expected,
                };
                assert_reports_agree(found, &expected, &format!("{file}: {task}, row {row}"), str::eq);
                compared += 1;
            }
            for (metric, expected) in expected[task]["results"].as_object().unwrap() {
                let found = &results["results"][task][metric];
                assert_reports_agree(found, expected, &format!("{file}: {task}, {metric}"), str::eq);
            }
        }
    }
    assert!(compared >= 70, "{compared}");
    (folder, results)
}

#[test]
fn scores_and_texts_are_those_of_lm_eval_on_llama() {
    agrees("llama-linear-rope", "False", "llama-linear-rope");
}

#[test]
fn scores_and_texts_are_those_of_lm_eval_on_llama_with_bos() {
    agrees("llama-linear-rope", "True", "llama-linear-rope-bos");
}

#[test]
fn scores_and_texts_are_those_of_lm_eval_on_a_byte_level_tokenizer() {
    agrees("qwen2", "False", "qwen2");
}

#[test]
fn scores_and_texts_are_those_of_lm_eval_in_chats() {
    let qwen = std::fs::read_to_string(fixture("chat_templates/qwen2.5.jinja")).unwrap();
    agrees_in_chat("qwen2", "False", &qwen, "chat-qwen2");
    agrees_in_chat("llama-linear-rope", "True", REFUSES_SYSTEM, "chat-llama-linear-rope-bos");
}

#[test]
fn chats_need_a_template() {
    let folder = tempfile::tempdir().unwrap();
    let model = fixture("families/qwen2");
    let (_, error) = run(eval(&[&model], Path::new("tiny"), folder.path()).arg("--apply_chat_template"), 2);
    assert!(error.contains("chat template") && error.contains("qwen2"), "{error}");
}

/// The files below `folder` that must not depend on interruptions.
fn outputs(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                folders.push(path);
            } else if !name.starts_with("record_") && name != "lock" {
                files.push((path.strip_prefix(folder).unwrap().to_owned(), std::fs::read(&path).unwrap()));
            }
        }
    }
    files.sort();
    files
}

fn recorded(folder: &Path) -> usize {
    let record = |path: PathBuf| std::fs::read_to_string(path).unwrap_or_default().lines().count();
    let Ok(models) = std::fs::read_dir(folder) else { return 0 };
    let models = models.filter_map(Result::ok).map(|entry| entry.path()).filter(|path| path.is_dir());
    let records = models.flat_map(|model| std::fs::read_dir(model).unwrap().map(|entry| entry.unwrap().path()));
    records.filter(|path| path.to_string_lossy().contains("record_")).map(record).sum()
}

#[test]
fn killed_evaluation_ends_with_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let (whole, broken) = (folder.path().join("whole"), folder.path().join("broken"));
    let base = root().join("data/tiny-llama");
    let other = folder.path().join("other");
    copy_folder(&base, &other);
    change_tensor(&other, "lm_head.weight", |values, _| values.iter_mut().for_each(|value| *value *= 0.5));
    let command = |out: &Path| {
        let mut command = eval(&[&base, &other], Path::new("tiny"), out);
        command.args(["--limit", "120", "--names", "a", "b"]);
        command
    };
    let (table, _) = run(&mut command(&whole), 0);
    assert!(table.contains("two steps") && table.contains("odd one out"), "{table}");
    // Killed after some rows, several times, in either model.
    for rows in [40, 300, 700, 1000] {
        let mut running = Running::start_quietly(&mut command(&broken));
        wait_until("rows are answered", Duration::from_secs(300), || recorded(&broken) >= rows || running.has_exited());
        running.kill_after(Duration::ZERO);
    }
    let (again, _) = run(&mut command(&broken), 0);
    assert_eq!(again, table);
    assert_eq!(outputs(&broken), outputs(&whole));
    // Finished: nothing is computed again, and a lower limit takes the first rows.
    let before = recorded(&whole);
    run(&mut command(&whole), 0);
    assert_eq!(recorded(&whole), before);
}

#[test]
fn results_of_another_model_task_or_data_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (model, out) = (fixture("families/qwen2"), folder.path().join("out"));
    let other = fixture("families/llama-linear-rope");
    let data = folder.path().join("a.jsonl");
    let rows = |first: &str| {
        let row = |q: &str| json!({"q": q, "c": ["yes", "no"], "a": 0}).to_string();
        std::fs::write(&data, [row(first), row("Is it hot?")].join("\n")).unwrap();
    };
    let tasks = folder.path().join("tasks.toml");
    let task = |prompt: &str| {
        let text =
            format!("[[task]]\nname = 'a'\nfile = 'a.jsonl'\nprompt = '{prompt}'\nchoices = 'c'\nanswer = 'a'\n");
        std::fs::write(&tasks, text).unwrap();
    };
    rows("Is it cold?");
    task("q");
    let command = |model: &Path| {
        let mut command = eval(&[model], &tasks, &out);
        command.args(["--names", "m"]);
        command
    };
    run(&mut command(&model), 0);
    let refused = |command: &mut Command, what: &str| {
        let (_, error) = run(command, 2);
        assert!(error.contains(what) && error.contains("record_a.jsonl"), "{error}");
    };
    refused(&mut command(&other), "another model");
    refused(command(&model).args(["--add_bos_token", "False"]), "another use of BOS");
    refused(command(&model).args(["--max_length", "100"]), "another max_length");
    task("Q: {{q}}");
    refused(&mut command(&model), "another task");
    task("q");
    rows("Is it wet?");
    refused(&mut command(&model), "another data set");
    rows("Is it cold?");
    // Metrics are computed from the same answers.
    let text = std::fs::read_to_string(&tasks).unwrap() + "metrics = ['mrr', 'acc_bytes']\n";
    std::fs::write(&tasks, text).unwrap();
    let (table, _) = run(&mut command(&model), 0);
    assert!(table.contains("mrr") && table.contains("acc_bytes"), "{table}");
}

/// A task file with data, and what the program says of it.
fn refusal(task: &str, name: &str, data: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let tasks = folder.path().join("tasks.toml");
    std::fs::write(&tasks, format!("[[task]]\nname = 'a'\nfile = '{name}'\n{task}")).unwrap();
    std::fs::write(folder.path().join(name), data).unwrap();
    let out = folder.path().join("out");
    let (_, error) = run(&mut eval(&[&fixture("families/qwen2")], &tasks, &out), 2);
    assert!(!out.join("results.json").exists());
    error
}

#[test]
fn invalid_rows_and_tasks_are_refused_with_file_and_row() {
    let choice = "prompt = 'q'\nchoices = 'c'\nanswer = 'a'\n";
    let good = r#"{"q": "Is it?", "c": ["yes", "no"], "a": "no"}"#;
    for (task, name, data, said) in [
        (choice, "a.jsonl", format!("{good}\n{{\"q\": \n"), &["a.jsonl: row 2"][..]),
        (choice, "a.jsonl", format!("{good}\n[]\n"), &["a.jsonl: row 2"]),
        (choice, "a.jsonl", format!("{good}\n{{\"q\": \"x\", \"a\": 0}}\n"), &["a.jsonl: row 2", "no field `c`"]),
        (choice, "a.jsonl", good.replace("\"no\"}", "2}"), &["row 1", "`2` is not one of its 2 choices"]),
        (choice, "a.jsonl", good.replace("\"no\"}", "-1}"), &["row 1", "`-1` is not one of its 2 choices"]),
        (choice, "a.jsonl", good.replace("\"no\"}", "\"C\"}"), &["row 1", "`C` is not one of its 2 choices"]),
        (choice, "a.jsonl", good.replace("\"no\"}", "null}"), &["row 1", "not a number or a text"]),
        (choice, "a.jsonl", good.replace(", \"no\"]", "]"), &["row 1", "1 choices"]),
        (choice, "a.jsonl", String::new(), &["a.jsonl", "empty"]),
        (choice, "a.csv", "q,c,a\nx,y\n".into(), &["a.csv: row 2", "2 columns"]),
        (choice, "a.csv", "q,c,a\nx,y,0\n".into(), &["a.csv: row 2", "`c` is not a list"]),
        ("prompt = '{{q'\nchoices = 'c'\nanswer = 'a'", "a.jsonl", good.into(), &["row 1", "template"]),
        ("prompt = '{{p}}'\nchoices = 'c'\nanswer = 'a'", "a.jsonl", good.into(), &["row 1", "undefined"]),
        ("promt = 'q'", "a.jsonl", good.into(), &["tasks.toml: line 4", "promt"]),
        ("prompt = 'q'\ntarget = 'a'\n[task.filter]\nname = 'x'\nregex = '('", "a.jsonl", good.into(), &["regular"]),
        ("prompt = 'q'\ntarget = 'a'\n[task.few_shot]\nnumber = 1", "a.jsonl", good.into(), &["need 2"]),
        ("prompt = 'q'\ntarget = 'a'\nmax_new_tokens = 100000", "a.jsonl", good.into(), &["row 1", "no room"]),
        ("text = 'q'", "a.jsonl", good.replace("Is it?", ""), &["row 1", "its text is empty"]),
        (&format!("{choice}[[task]]\nname = 'A'\nfile = 'a.jsonl'\n{choice}"), "a.jsonl", good.into(), &["used twice"]),
        (&format!("subtasks = ['../x']\n{choice}"), "a.jsonl", good.into(), &["a_../x", "letters, digits"]),
    ] {
        let error = refusal(task, name, &data);
        assert!(said.iter().all(|part| error.contains(part)), "{task} {data}: {error}");
    }
}

#[test]
fn invalid_flags_and_folders_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (model, out) = (fixture("families/qwen2"), folder.path().join("out"));
    let tiny = Path::new("tiny");
    let refused = |command: &mut Command, code: i32, what: &str| {
        let (_, error) = run(command, code);
        assert!(error.contains(what), "{what}: {error}");
    };
    refused(&mut eval(&[&model, &model], tiny, &out), 2, "used twice");
    refused(eval(&[&model], tiny, &out).args(["--names", "a", "b"]), 2, "1 checkpoints and 2 names");
    refused(eval(&[&model], tiny, &out).args(["--names", "../a"]), 2, "letters, digits");
    refused(eval(&[&model], tiny, &out).args(["--limit", "0"]), 2, "at least 1");
    refused(&mut eval(&[&model], Path::new("absent.toml"), &out), 2, "absent.toml");
    refused(&mut eval(&[&folder.path().join("absent")], tiny, &out), 2, "absent");
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    refused(&mut eval(&[&model], tiny, &file.join("out")), 2, "file");
}

#[test]
fn hostile_rows_are_text_in_the_page_and_the_table() {
    let folder = tempfile::tempdir().unwrap();
    let hostile = "<script>alert(1)</script>\u{1b}[2J\u{202e}\"'&";
    let mut text = String::new();
    for name in ["a", "b", "c"] {
        let alias = serde_json::to_string(&format!("{name} {hostile}")).unwrap();
        text += &format!(
            "[[task]]\nname = '{name}'\nalias = {alias}\nfile = 'a.jsonl'\nprompt = 'q'\nchoices = 'c'\nanswer = 'a'\n"
        );
    }
    let tasks = folder.path().join("tasks.toml");
    std::fs::write(&tasks, text.replace("\\u001b", "\\u001B")).unwrap();
    std::fs::write(folder.path().join("a.jsonl"), json!({"q": hostile, "c": [hostile, "no"], "a": 1}).to_string())
        .unwrap();
    let out = folder.path().join("out");
    let (table, _) = run(&mut eval(&[&fixture("families/qwen2")], &tasks, &out), 0);
    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    assert_eq!(page.matches("<script").count(), 2, "{page}");
    assert!(page.contains(r"\u003cscript>alert(1)"), "{page}");
    let raw = |c: char| (c.is_control() && !matches!(c, '\n' | '\t')) || c == '\u{202e}';
    assert!(!page.contains(raw) && !table.contains(raw), "{table}");
}

/// Three made-up rows in the fields of each benchmark.
fn made_up_benchmarks(folder: &Path) {
    let write = |name: &str, rows: Vec<Value>| {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let lines: Vec<String> = rows.iter().map(Value::to_string).collect();
        std::fs::write(path, lines.join("\n")).unwrap();
    };
    let three = |row: &dyn Fn(usize) -> Value| (0..3).map(row).collect::<Vec<_>>();
    let text = std::fs::read_to_string(root().join("configs/tasks/paper.toml")).unwrap();
    let lists: Vec<&str> = text.split("subtasks = [").skip(1).map(|list| list.split(']').next().unwrap()).collect();
    let names = |list: &str| list.split('"').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
    let four = |i: usize| json!([format!("one {i}"), format!("two {i}"), format!("three {i}"), format!("four {i}")]);
    for subject in names(lists[0]) {
        let row = |i: usize| json!({"question": format!(" What is {i}? "), "choices": four(i), "answer": i});
        write(&format!("mmlu/test/{subject}.jsonl"), three(&row));
        write(&format!("mmlu/dev/{subject}.jsonl"), (0..5).map(|i| row(i % 4)).collect());
    }
    for task in names(lists[1]) {
        write(&format!("bbh/{task}.jsonl"), three(&|i| json!({"input": format!("not {i} is"), "target": "True"})));
        let path = folder.join(format!("bbh/cot-prompts/{task}.txt"));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(
            path,
            "Say {{what}} it is.\n\nQ: not 9 is\nA: Let's think step by step.\nSo the answer is False.\n",
        )
        .unwrap();
    }
    let reply = |i: usize| json!({"article": "m : it 's late .", "options": ["f : yes .", "no", "oh", "ah"], "answers": (["A", "B", "D"][i]), "id": i});
    write("mutual/dev.jsonl", three(&reply));
    let published = |i: usize| {
        let choice = |label: &str| json!({"text": format!("text {label}"), "label": label});
        json!({"id": i, "question": {"stem": "Why?", "choices": (["A", "B", "C"].map(choice))}, "answerKey": "C"})
    };
    write("arc/ARC-Easy-Test.jsonl", three(&published));
    let flat = |_: usize| json!({"question": "Why?", "choices": {"text": ["x", "y", "z", "w"], "label": ["1", "2", "3", "4"]}, "answerKey": "2"});
    write("arc/ARC-Challenge-Test.jsonl", three(&flat));
    let passage =
        |i: usize| json!({"id": i, "text": "All is well.", "question": "Is it?", "options": four(i), "answer": 3});
    write("logiqa2/test.jsonl", three(&passage));
    let blank = |i: usize| json!({"qID": i, "sentence": "The _ is red, not the sky.", "option1": "rose", "option2": "sea", "answer": "2"});
    write("winogrande/dev.jsonl", three(&blank));
    write("piqa/valid.jsonl", three(&|i| json!({"goal": "To eat", "sol1": "open", "sol2": "close", "label": i % 2})));
}

#[test]
fn tasks_of_the_paper_read_the_published_fields() {
    let folder = tempfile::tempdir().unwrap();
    made_up_benchmarks(folder.path());
    let out = folder.path().join("out");
    let tasks = root().join("configs/tasks/paper.toml");
    let model = long_model(&folder.path().join("model"), 4096);
    let mut command = eval(&[&model], &tasks, &out);
    let (table, _) = run(command.args(["--names", "m", "--data_dir"]).arg(folder.path()), 0);
    for name in ["mmlu", "bbh", "mutual", "arc_easy", "arc_challenge", "logiqa2", "winogrande", "piqa"] {
        assert!(table.contains(&format!("\n  {name} ")), "{name}: {table}");
    }
    let first = |task: &str| json_lines(out.join(format!("m/samples_{task}.jsonl"))).remove(0);
    let pair = |task: &str, choice: usize| {
        let sample = first(task);
        let arguments = &sample["arguments"][format!("gen_args_{choice}")];
        (arguments["arg_0"].as_str().unwrap().to_owned(), arguments["arg_1"].as_str().unwrap_or("").to_owned())
    };
    let (context, answer) = pair("mmlu_college_biology", 1);
    assert!(context.starts_with(
        "The following are multiple choice questions (with answers) about college biology.\n\nWhat is 0?\nA. one 0\n"
    ));
    assert!(
        context.contains("D. four 0\nAnswer: A\n\nWhat is 1?") && context.ends_with("D. four 0\nAnswer:"),
        "{context}"
    );
    assert_eq!(answer, " B");
    let (prompt, _) = pair("bbh_navigate", 0);
    let shot = "Say {{what}} it is.\n\nQ: not 9 is\nA: Let's think step by step.\nSo the answer is False.";
    assert_eq!(prompt, format!("{shot}\n\nQ: not 0 is\nA: Let's think step by step.\n"));
    assert_eq!(pair("mutual", 0), ("m: it's late.".to_owned(), " f: yes.".to_owned()));
    assert_eq!(pair("arc_easy", 2), ("Question: Why?\nAnswer:".to_owned(), " text C".to_owned()));
    assert_eq!((first("arc_easy")["target"].clone(), first("arc_challenge")["target"].clone()), (json!(2), json!(1)));
    let (passage, option) = pair("logiqa2", 1);
    assert_eq!(passage, "Passage: All is well.\nQuestion: Is it?\nA. one 0\nB. two 0\nC. three 0\nD. four 0\nAnswer:");
    assert_eq!((option.as_str(), first("logiqa2")["target"].clone()), (" two 0", json!(3)));
    assert_eq!(pair("winogrande", 1), ("The sea".to_owned(), " is red, not the sky.".to_owned()));
    assert_eq!((pair("piqa", 1).1, first("piqa")["target"].clone()), (" close".to_owned(), json!(0)));
    let results = json(out.join("m/results.json"));
    assert_eq!(results["n-samples"]["mmlu_anatomy"], json!({"original": 3, "effective": 3}));
    assert_eq!(results["group_subtasks"]["mmlu"].as_array().unwrap().len(), 57);
    assert!(results["groups"]["bbh"]["exact_match,get-answer"].is_number());
    assert_eq!(results["results"]["mmlu"]["sample_len"], 57 * 3);
    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    let document = Document::of_html(&page).unwrap();
    let parts: Vec<&Part> = document.sections.iter().flat_map(|section| &section.parts).collect();
    assert!(matches!(parts[..], [Part::Charts(_), Part::Table(_), Part::Folded(_)]), "{parts:?}");
}

#[test]
fn tasks_are_chosen_by_name_and_missing_files_are_named_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let (tasks, out) = (folder.path().join("tasks.toml"), folder.path().join("out"));
    let task = |name: &str, rest: &str| {
        format!(
            "[[task]]\nname = \"{name}\"\n{rest}\nprompt = \"{{{{q}}}}\"\nchoices = [\"a\", \"b\"]\nanswer = \"a\"\nmetrics = [\"acc\"]\n"
        )
    };
    let shots = "file = \"there.jsonl\"\nfew_shot = { file = \"shots.jsonl\", order = \"first\", number = 1 }";
    let all = [
        task("letters_there", "file = \"there.jsonl\""),
        task("letters_gone", "file = \"gone.jsonl\""),
        task("shots", shots),
        task("many", "subtasks = [\"there\", \"lost\"]\nfile = \"{{subtask}}.jsonl\""),
    ];
    std::fs::write(&tasks, all.join("\n")).unwrap();
    std::fs::write(folder.path().join("there.jsonl"), "{\"q\": \"Which letter is the first?\", \"a\": 0}\n").unwrap();
    let model = fixture("tiny-llama");
    let with = |flags: &[&str]| {
        let _ = std::fs::remove_dir_all(&out);
        let mut command = eval(&[&model], &tasks, &out);
        command.args(flags);
        command
    };
    let (_, said) = run(&mut with(&[]), 2);
    for file in
        ["missing, 3:", "gone.jsonl", "shots.jsonl", "lost.jsonl", "letters_gone, shots, many_lost", "--skip_missing"]
    {
        assert!(said.contains(file), "{file}: {said}");
    }
    let results = || {
        let all = json(out.join("results.json"))["models"]["tiny-llama"]["results"].clone();
        all.as_object().unwrap().keys().cloned().collect::<Vec<_>>()
    };
    let (_, said) = run(&mut with(&["--skip_missing"]), 0);
    assert!(said.contains("letters_gone is left out") && said.contains("shots.jsonl is missing"), "{said}");
    assert!(results().contains(&"letters_there".to_owned()) && results().contains(&"many_there".to_owned()));
    run(&mut with(&["--only", "*_there,many", "--skip_missing"]), 0);
    assert!(!results().contains(&"letters_gone".to_owned()) && results().len() <= 3, "{:?}", results());
    run(&mut with(&["--only", "letters_there"]), 0);
    assert_eq!(results(), ["letters_there"]);
    let (_, said) = run(&mut with(&["--only", "letters"]), 2);
    assert!(said.contains("no task is called `letters`; there are letters_there, letters_gone, shots, many"), "{said}");
    let (_, said) = run(&mut with(&["--only", "shots", "--skip_missing"]), 2);
    assert!(said.contains("missing, 1:"), "{said}");
}
