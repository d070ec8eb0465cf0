//! No command overwrites an input, a model or results: each that writes is tried with outputs that are taken, and leaves every byte.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use spag_tests::{copy_folder, fixture, program, root, run};

/// A command line with its inputs; `OUT` stands for the output.
struct Writer {
    line: &'static str,
    /// The flag or setting of the output.
    flag: &'static str,
    output: Output,
    /// Files and folders that it reads.
    inputs: &'static [&'static str],
}

#[derive(Clone, Copy, PartialEq)]
enum Output {
    File,
    Folder,
}

/// Every command that writes files.
const WRITERS: [Writer; 16] = [
    folder("spag init-model --config model/config.json --tokenizer tok --output_dir OUT", &["tok"]),
    folder("spag merge --model model --adapter adapter --output_dir OUT", &["model", "adapter"]),
    setting("spag make-base base.toml --set output_dir=OUT", "output_dir", &[]),
    setting("spag run run.toml --set base_model=model --set run_dir=OUT", "run_dir", &["model"]),
    folder("spag eval --model model --tasks tiny --limit 2 --output_dir OUT", &["model"]),
    folder("spag eval --model model --tasks games --game nim --limit 2 --output_dir OUT", &["model"]),
    folder(
        "spag arena --players A=model B=other --words words.txt --games 1 --max_new_tokens 2 --output_dir OUT",
        &["model"],
    ),
    folder(
        "spag-play --attacker_model_name_or_path model --defender_model_name_or_path other --data_path words.txt \
         --max_new_tokens 2 --output_dir OUT",
        &["model"],
    ),
    folder(
        "spag-train --model_name_or_path model --ref_model_name_or_path ref --train_data_path samples.json \
         --train_method SFT --max_steps 1 --save_strategy no --output_dir OUT",
        &["model"],
    ),
    folder("spag-play --man_pages OUT", &[]),
    file(
        "spag generate --model model --input prompts.jsonl --max_new_tokens 2 --output OUT",
        &["prompts.jsonl", "model"],
    ),
    file("spag check --input pairs.jsonl --output OUT", &["pairs.jsonl"]),
    file("spag data imitation --input_data_path games.json --output_data_path OUT", &["games.json"]),
    file(
        "spag data alpaca --input_data_path alpaca.json --template template.json --output_data_path OUT",
        &["alpaca.json", "template.json"],
    ),
    file("spag data lexicon --wordnet net --words words.txt --output_data_path OUT", &["words.txt", "net"]),
    file(
        "spag-assign-rewards --input_data_path games.json --sft_data_path samples.json --prompts p.json \
         --output_data_path OUT --outcomes_path outcomes.jsonl",
        &["games.json", "samples.json", "p.json", "outcomes.jsonl"],
    ),
];

/// Further outputs of commands above, and pages.
const FURTHER: [Writer; 2] = [
    file(
        "spag-assign-rewards --input_data_path games.json --output_data_path new.json --outcomes_path OUT",
        &["games.json", "new.json"],
    ),
    file("spag compare run --page OUT", &["run"]),
];

/// Subcommands that write no files of a user.
const READERS: [&str; 9] = ["watch", "show", "env", "serve", "bench", "launch", "plan", "completions", "help"];

const fn folder(line: &'static str, inputs: &'static [&'static str]) -> Writer {
    Writer { line, flag: "--", output: Output::Folder, inputs }
}

const fn setting(line: &'static str, flag: &'static str, inputs: &'static [&'static str]) -> Writer {
    Writer { line, flag, output: Output::Folder, inputs }
}

const fn file(line: &'static str, inputs: &'static [&'static str]) -> Writer {
    Writer { line, flag: "--", output: Output::File, inputs }
}

impl Writer {
    fn command(&self, dir: &Path, output: &str) -> Command {
        let mut words = self.line.split_whitespace().map(|word| word.replace("OUT", output));
        let mut command = program(&words.next().unwrap());
        command.args(words).current_dir(dir).env("RAYON_NUM_THREADS", "1");
        command
    }

    /// Runs the command with an output that is taken: it must be refused and change nothing.
    fn refuse(&self, dir: &Path, output: &str, words: &[&str]) {
        let before = contents(dir);
        let (_, err) = run(&mut self.command(dir, output), 2);
        for word in words.iter().chain([&self.flag]) {
            assert!(err.contains(word), "{} with {output} should say {word:?}:\n{err}", self.line);
        }
        let after = contents(dir);
        let changed = before.keys().chain(after.keys()).find(|path| before.get(*path) != after.get(*path));
        assert_eq!(changed, None, "{} with {output}", self.line);
    }
}

/// Everything in a folder: files with their bytes, links with their targets, and folders.
fn contents(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let (mut found, mut left) = (BTreeMap::new(), vec![dir.to_owned()]);
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let (path, kind) = (entry.path(), entry.file_type().unwrap());
            let bytes = match kind {
                kind if kind.is_symlink() => fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes(),
                kind if kind.is_dir() => Vec::new(),
                _ => fs::read(&path).unwrap(),
            };
            if kind.is_dir() {
                left.push(path.clone());
            }
            found.insert(path, bytes);
        }
    }
    found
}

/// A folder with the inputs of all commands, and `third`, a model that none of them reads.
fn inputs() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    for name in ["model", "other", "third", "tok"] {
        copy_folder(fixture("tiny-llama"), dir.join(name));
    }
    copy_folder(fixture("tiny-llama/ref"), dir.join("ref"));
    copy_folder(fixture("peft/patterns"), dir.join("adapter"));
    for name in ["config.json", "generation_config.json", "model.safetensors"] {
        fs::remove_file(dir.join("tok").join(name)).unwrap();
    }
    for name in ["run", "net"] {
        fs::create_dir(dir.join(name)).unwrap();
        fs::write(dir.join(name).join("done.json"), "{}").unwrap();
    }
    let game = r#"[{"history": [{"role": "attacker", "content": "What is it?"}, {"role": "defender", "content": "A horse."}],
        "target_word": "horse", "max_turns": 5}]"#;
    for (name, text) in [
        ("words.txt", "horse\n"),
        ("games.json", game),
        ("samples.json", r#"[{"query": "a", "target": "b"}]"#),
        ("alpaca.json", r#"[{"instruction": "Add", "input": "", "output": "2"}]"#),
        ("template.json", r#"{"with_input": "{instruction} {input}", "without_input": "{instruction}"}"#),
        ("pairs.jsonl", "{\"gold\": \"1\", \"answer\": \"1\"}\n"),
        ("prompts.jsonl", "{\"prompt\": \"Hello\"}\n"),
        ("outcomes.jsonl", "kept"),
        ("new.json", "kept"),
        ("base.toml", "seed = 1\n"),
        ("run.toml", "seed = 1\n"),
    ] {
        fs::write(dir.join(name), text).unwrap();
    }
    fs::copy(root().join("crates/spag-pipeline/tests/fixtures/prompts.json"), dir.join("p.json")).unwrap();
    folder
}

#[test]
fn every_command_that_writes_keeps_its_inputs_and_other_models() {
    let folder = inputs();
    let dir = folder.path();
    for writer in WRITERS.iter().chain(&FURTHER) {
        for input in writer.inputs {
            let is_folder = dir.join(input).is_dir();
            let link = dir.join("link");
            symlink(input, &link).unwrap();
            let outputs = match (writer.output, is_folder) {
                (Output::File, true) => {
                    let name = fs::read_dir(dir.join(input)).unwrap().next().unwrap().unwrap().file_name();
                    let name = name.to_str().unwrap();
                    vec![format!("{input}/{name}"), format!("link/{name}"), format!("{input}/new.jsonl")]
                }
                (Output::File, false) => {
                    fs::hard_link(dir.join(input), dir.join("hard")).unwrap();
                    vec![(*input).to_owned(), "link".to_owned(), "hard".to_owned(), format!("model/../{input}")]
                }
                (Output::Folder, _) => {
                    vec![(*input).to_owned(), "link".to_owned(), format!("{input}/"), format!("model/../{input}")]
                }
            };
            outputs.iter().for_each(|output| writer.refuse(dir, output, &[]));
            let _ = fs::remove_file(dir.join("hard"));
            fs::remove_file(link).unwrap();
        }
        symlink("third", dir.join("link")).unwrap();
        let (outputs, what) = match writer.output {
            Output::Folder => (["third", "link"], "holds a model"),
            Output::File => (["third/config.json", "link/model.safetensors"], "a model"),
        };
        outputs.iter().for_each(|output| writer.refuse(dir, output, &[what]));
        fs::remove_file(dir.join("link")).unwrap();
        // The parser of flags refuses an empty value itself.
        writer.refuse(dir, "", if writer.flag == "--" { &[] } else { &["is empty"] });
    }
}

#[test]
fn folders_of_results_are_kept_too() {
    let folder = inputs();
    let dir = folder.path();
    for (name, result) in
        [("of-run", "config.resolved.toml"), ("of-stage", "done.json"), ("of-training", "checkpoint-4")]
    {
        fs::create_dir(dir.join(name)).unwrap();
        fs::write(dir.join(name).join(result), "kept").unwrap();
        let own = |writer: &&Writer| match name {
            "of-run" => writer.flag == "run_dir",
            "of-training" => writer.line.starts_with("spag-train"),
            _ => false,
        };
        for writer in WRITERS.iter().filter(|writer| writer.output == Output::Folder && !own(writer)) {
            writer.refuse(dir, name, &["holds a", result]);
        }
    }
    // A record of a model's answers is in the folder of its name.
    let mut eval = program("spag");
    eval.args(["eval", "--model", "model", "--names", "third", "--tasks", "tiny", "--output_dir", "."]);
    let (_, err) = run(eval.current_dir(dir), 2);
    assert!(err.contains("./third: --output_dir holds a model"), "{err}");
}

#[test]
fn new_outputs_are_written_and_replaced_if_the_command_says_so() {
    let folder = inputs();
    let dir = folder.path();
    let is_cheap = |writer: &&Writer| {
        ["init-model", "merge", "generate", "check", "imitation", "alpaca", "assign", "spag-train", "spag-play --a"]
            .iter()
            .any(|name| writer.line.contains(name))
    };
    let mut written = 0;
    for (index, writer) in WRITERS.iter().filter(is_cheap).enumerate() {
        let output = format!("new-{index}");
        run(&mut writer.command(dir, &output), 0);
        let replaces = ["init-model", "merge", "spag-train"].iter().any(|name| writer.line.contains(name));
        if replaces {
            let model = fs::read(dir.join(&output).join("config.json")).unwrap();
            writer.refuse(dir, &output, &["--overwrite_output_dir"]);
            run(writer.command(dir, &output).args(["--overwrite_output_dir", "True"]), 0);
            assert_eq!(fs::read(dir.join(&output).join("config.json")).unwrap(), model);
        } else {
            // A file is written again, and a run goes on.
            run(&mut writer.command(dir, &output), 0);
        }
        written += 1;
    }
    assert_eq!(written, 9);
}

#[test]
fn no_subcommand_is_left_out() {
    let listed = |command: &str| -> BTreeSet<String> {
        let mut words = command.split(' ');
        let (out, _) = run(program(words.next().unwrap()).args(words).arg("--help"), 0);
        let lines = out.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
        let names = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
        names.map(|line| line.split_whitespace().next().unwrap().to_owned()).collect()
    };
    let tried = |command: &str| -> BTreeSet<String> {
        let lines = WRITERS.iter().chain(&FURTHER).filter_map(|writer| writer.line.strip_prefix(command));
        lines.filter_map(|rest| Some(rest.strip_prefix(' ')?.split(' ').next()?.to_owned())).collect()
    };
    assert_eq!(&listed("spag") - &READERS.map(String::from).into(), tried("spag"));
    assert_eq!(&listed("spag data") - &BTreeSet::from(["help".to_owned()]), tried("spag data"));
}

#[test]
fn configuration_without_settings_or_folder_is_refused() {
    let folder = inputs();
    let dir = folder.path();
    for (name, text) in
        [("empty.toml", ""), ("comments.toml", "# nothing\n[train]\n"), ("extends.toml", "extends = \"empty.toml\"\n")]
    {
        fs::write(dir.join(name), text).unwrap();
        for command in ["run", "make-base"] {
            let before = contents(dir);
            let (_, err) = run(program("spag").current_dir(dir).args([command, name, "--set", "seed=3"]), 2);
            assert!(err.contains(name) && err.contains("no settings"), "{err}");
            assert_eq!(contents(dir), before);
        }
    }
}
