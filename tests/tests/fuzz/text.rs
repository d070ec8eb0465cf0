//! Parsers of text files: episodes, samples, words, wordings, configurations.

use std::fs;
use std::num::NonZeroUsize;

use spag_chat::PromptEncoder;
use spag_eval::TaskSource;
use spag_game::{EpisodeReader, JudgeKind, PromptSet, Taboo, judge_episode, read_episodes, read_words, word_forms};
use spag_io::JsonlAppender;
use spag_model::checkpoint::load_tokenizer;
use spag_pipeline::{BaseConfig, RunConfig};
use spag_rewards::{AlpacaTemplate, AssignJob, CreditConfig, assign_rewards_in_files, convert_alpaca, read_samples};
use spag_tests::{chat_model, root};
use spag_train::TrainConfig;
use spag_train::deepspeed::{DeepSpeed, RunFacts};
use spag_world::{Lexicon, WordChoice, WordNet, write_lexicon};

use crate::harness::Target;

fn repository_file(name: &str) -> Vec<u8> {
    fs::read(root().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

const EPISODES: &str = r#"[{"history": [{"role": "attacker", "content": "A fruit, yellow and sour?"},
    {"role": "defender", "content": "I know the word! It is lemon!"}], "target_word": "lemon", "max_turns": 5},
  {"history": [{"role": "attacker", "content": "caf\u00e9 \ud83d\ude00"}, {"role": "defender", "content": ""}],
    "target_word": "ice cream", "max_turns": 3, "game": 7, "extra": {"a": [1, 2.5, null]}}]"#;

#[test]
fn episodes() {
    let lines = EPISODES.replace('\n', " ").replace("}]}, {", "}]}\n{");
    let target = Target::new("episodes", vec![EPISODES.into(), lines.into_bytes(), b"[]".to_vec(), Vec::new()]);
    let (input, out) = (target.folder().join("input"), target.folder().join("out.json"));
    let job = AssignJob { input: input.clone(), sft: None, output: out.clone(), outcomes: None };
    target.run(|_| {
        let all = read_episodes(&input);
        let one_by_one = EpisodeReader::open(&input).and_then(|reader| reader.collect::<Result<Vec<_>, _>>());
        assert_eq!(all.is_ok(), one_by_one.is_ok());
        for episode in all.iter().flatten() {
            for kind in [JudgeKind::Paper, JudgeKind::WholeWord] {
                let _ = judge_episode(kind, episode);
            }
        }
        if assign_rewards_in_files(&job, &Taboo::default(), &CreditConfig::default(), NonZeroUsize::MIN).is_ok() {
            for sample in read_samples(&out).unwrap() {
                assert!(sample.reward.is_finite() && sample.weight.is_finite());
            }
        }
    });
}

#[test]
fn samples() {
    let list = r#"[{"query": "A?", "target": "B.", "reward": 0.5, "weight": 0.25, "type": "attacker"},
        {"query": "C", "target": "D", "type": "sft"}]"#;
    let alpaca = r#"[{"instruction": "Add.", "input": "1 2", "output": "3"}]"#;
    let lines = "{\"query\": \"a\", \"target\": \"b\"}\n{\"query\": \"c\", \"target\": \"d\", \"reward\": -1}\n";
    let chat = r#"[{"messages": [{"role": "system", "content": "<|im_end|>a", "said": [[2, 6]]},
        {"role": "user", "content": "b<|im_start|>"}, {"role": "assistant", "content": "c"}], "role": "defender"},
        {"query": "<|im_start|>d<|im_end|>é", "said": [[0, 4], [13, 14]], "target": "e"},
        {"query": "<|im_start|>", "templated": true, "target": "<|im_end|>", "type": "sft"}]"#;
    let target = Target::new("samples", [list, alpaca, lines, chat].map(|text| text.as_bytes().to_vec()).to_vec());
    let (input, out) = (target.folder().join("input"), target.folder().join("out.json"));
    let model = tempfile::tempdir().unwrap();
    let encoder = PromptEncoder::new(load_tokenizer(chat_model(model.path(), "smollm", "smollm2")).unwrap());
    let template = AlpacaTemplate::default();
    target.run(|_| {
        if let Ok(samples) = read_samples(&input) {
            let _ = spag_train::encode(&samples, 0, &encoder, 64);
        }
        let _ = convert_alpaca(&input, &out, &template);
        let _ = AlpacaTemplate::load(&input);
    });
}

const ROWS: &str = r#"{"q": "Is it?", "c": ["yes", "no", "caf\u00e9"], "a": 2, "t": {"x": [1, 2.5, null]}}
{"q": "{{q}} {% raw %}", "c": ["a", "b"], "a": "B", "t": {"x": ["\ud83d\ude00"]}}
{"q": "", "c": ["a", "b"], "a": "0", "t": {"x": []}}
"#;

const TASKS: &str = r#"[[task]]
name = "a"
file = "rows.jsonl"
replace = [["yes", "no"]]
prompt = "{% for x in t.x %}{{x}}{% endfor %} {{q.strip()}}\n"
choices = "{{c}}"
answer = "a"
metrics = ["acc", "mrr"]
few_shot = { number = 1, seed = 7, order = "random", delimiter = "\n" }
[[task]]
name = "b"
subtasks = ["x", "y"]
file = "rows.jsonl"
description = "{{subtask}}"
prompt = "q"
target = "{{c[0]}}"
until = ["x"]
filter = { name = "f", regex = '(a)|(b+)', select = -1 }
exact_match = { ignore = ['\.$'], ignore_case = true }
"#;

#[test]
fn tasks_of_an_evaluation() {
    let target = Target::new("eval_tasks", vec![TASKS.into()]);
    fs::write(target.folder().join("rows.jsonl"), ROWS).unwrap();
    let input = target.folder().join("input");
    target.run(|_| {
        let source = TaskSource::new(&input, None, Some(2));
        for task in source.load().iter().flat_map(|tasks| tasks.iter()) {
            assert!(task.rows() <= 2 && !task.name().is_empty());
        }
    });
}

#[test]
fn rows_of_an_evaluation() {
    let csv = b"q,c,a\n\"a, b\",x,0\n\"c\nd\",y,1\n".to_vec();
    let target = Target::new("eval_rows", vec![ROWS.into(), csv]);
    let folder = target.folder().to_owned();
    fs::write(folder.join("lines.toml"), TASKS.replace("rows.jsonl", "input")).unwrap();
    let choices = "choices = [\"{{c}}\", \"{{q}}\"]\nanswer = \"a\"\nprompt = \"q\"\n";
    fs::write(folder.join("csv.toml"), format!("[[task]]\nname = \"a\"\nfile = \"rows.csv\"\n{choices}")).unwrap();
    target.run(|bytes| {
        fs::write(folder.join("rows.csv"), bytes).unwrap();
        for tasks in ["lines.toml", "csv.toml"] {
            let loaded = TaskSource::new(&folder.join(tasks), None, None).load();
            assert!(loaded.is_err() || loaded.unwrap().iter().all(|task| task.rows() > 0));
        }
    });
}

#[test]
fn episodes_in_progress() {
    let lines = "{\"target_word\": \"tea\", \"max_turns\": 2, \"history\": []}\n{\"target_word\": \"t";
    let target = Target::new("episodes_in_progress", vec![lines.into()]);
    let input = target.folder().join("input");
    target.run(|bytes| {
        let before = spag_io::read_complete_lines::<serde_json::Value>(&input).ok();
        let resumed = JsonlAppender::<serde_json::Value>::resume(&input).ok().map(|(_, rows)| rows);
        assert_eq!(before, resumed);
        // A file of another kind stays as it was.
        assert!(resumed.is_some() || fs::read(&input).unwrap() == bytes);
    });
}

#[test]
fn words() {
    let target = Target::new("words", vec![b"horse\nice cream\n# note\n\ncaf\xc3\xa9\r\n".to_vec()]);
    let input = target.folder().join("input");
    target.run(|_| {
        for word in read_words(&input).iter().flatten().take(100) {
            let _ = word_forms(word);
        }
    });
}

#[test]
fn prompts() {
    let names = ["crates/spag-game/data/prompts.json", "configs/tiny-prompts.json"];
    let target = Target::new("prompts", names.map(repository_file).to_vec());
    let input = target.folder().join("input");
    target.run(|_| {
        if let Ok(prompts) = PromptSet::load(&input) {
            let _ = prompts.playing_query(&[], "horse", 5);
        }
    });
}

#[test]
fn lexicons() {
    let small = "crates/spag-world/data/lexicon.toml";
    let nouns = "[[category]]\nname = \"animal\"\nplural = \"animals\"\n[category.nouns.otter]\nplural = \"otters\"\n\
                 clues = [\"has fur\", \"has a long, thin tail\", \"is part of a holt\"]\n";
    let seeds = vec![repository_file(small)[..4000].to_vec(), repository_file(small), nouns.into()];
    let target = Target::new("lexicons", seeds);
    let input = target.folder().join("input");
    target.run(|_| {
        let _ = Lexicon::load(&input);
    });
}

/// A synset, a line of the index, a count and an irregular plural, each in a file of its own.
const WORDNET: &str = "00000100 05 n 02 otter 0 river_dog 1 003 @ 00000200 n 0000 %p 00000100 n 0000 ;u 00000300 n 0000 | a wet \
    animal (of rivers); \"it dives\"\n00000200 05 n 01 animal 0 001 @ 00000100 n 0000 | a being\n\
    =\notter n 1 2 @ %p 1 1 00000100\nanimal n 1 0 1 0 00000200\n=\notter%1:05:00:: 1 7\nanimal%1:05:00:: 1 2\n=\nottera otter\n";

#[test]
fn wordnet_files() {
    let target = Target::new("wordnet", vec![WORDNET.into()]);
    let folder = target.folder().to_owned();
    target.run(|bytes| {
        let text = String::from_utf8_lossy(bytes);
        let mut parts = text.split("=\n");
        for name in ["data.noun", "index.noun", "cntlist.rev", "noun.exc"] {
            fs::write(folder.join(name), parts.next().unwrap_or_default()).unwrap();
        }
        if let Ok(wordnet) = WordNet::load(&folder) {
            let (choice, output) = (WordChoice { words: None, max_words: 9 }, folder.join("lexicon.toml"));
            if write_lexicon(&wordnet, &choice, &output).is_ok() {
                assert!(Lexicon::load(&output).is_ok());
            }
        }
    });
}

#[test]
fn configurations() {
    let names = ["configs/tiny.toml", "configs/tiny-paper.toml", "configs/tiny-base.toml", "configs/launch/h200.toml"];
    let target = Target::new("configurations", names.map(repository_file).to_vec());
    let input = target.folder().join("input");
    target.run(|bytes| {
        if let Ok(run) = RunConfig::load(&input, &[]) {
            let written = run.to_toml().unwrap();
            fs::write(target.folder().join("resolved.toml"), &written).unwrap();
            let again = RunConfig::load(target.folder().join("resolved.toml"), &[]).unwrap();
            assert_eq!(again.to_toml().unwrap(), written);
        }
        let _ = BaseConfig::load(&input, &[]);
        let setting = String::from_utf8_lossy(&bytes[..bytes.len().min(300)]).into_owned();
        let _ = RunConfig::load(root().join("configs/tiny.toml"), &[setting]);
    });
}

#[test]
fn deepspeed() {
    let names = ["configs/default_offload_opt_param.json", "configs/zero3_offload.json"];
    let target = Target::new("deepspeed", names.map(repository_file).to_vec());
    let input = target.folder().join("input");
    let config = TrainConfig::default();
    let run = RunFacts { config: &config, world_size: 1, total_steps: 10 };
    target.run(|_| {
        let _ = DeepSpeed::load(&input, &run);
    });
}
