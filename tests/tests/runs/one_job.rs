//! `spag-play`, `spag run` and `spag arena` play the same games and count them in the same way.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;
use spag_tests::{json, json_lines, program, root, run};

const WORDS: [&str; 8] = ["bear", "beaver", "frog", "goat", "panda", "rabbit", "tiger", "zebra"];
const GAMES: usize = 3 * WORDS.len();
const SAMPLING: [&str; 10] = [
    "--temperature",
    "1.1",
    "--top_k",
    "20",
    "--min_new_tokens",
    "1",
    "--max_new_tokens",
    "24",
    "--prompts",
    "configs/tiny-prompts.json",
];

/// Word and utterances of every game, by its number.
fn said(games: &[Value]) -> BTreeMap<u64, (String, Vec<String>)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let utterances = |game: &Value| game["history"].as_array().unwrap().iter().map(|u| text(&u["content"])).collect();
    games.iter().map(|game| (game["game"].as_u64().unwrap(), (text(&game["target_word"]), utterances(game)))).collect()
}

#[test]
fn three_programs_play_the_same_games_and_count_them_alike() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    // `spag-play` plays one game on each line, the others go through the lines once.
    let words = dir.join("words.txt");
    fs::write(&words, [WORDS; 3].concat().join("\n")).unwrap();
    let path = |name: &str| dir.join(name).display().to_string();
    let words = words.display().to_string();

    let mut command = program("spag");
    command.args(["run", "configs/tiny.toml"]);
    for setting in [
        format!("run_dir={}", path("run")),
        format!("words.file={words}"),
        "epochs=0".into(),
        "imitation.games=160".into(),
        format!("evaluation.games={GAMES}"),
        "evaluation.temperature=1.1".into(),
        "evaluation.top_k=20".into(),
        "benchmarks.limit=4".into(),
    ] {
        command.args(["--set", &setting]);
    }
    run(&mut command, 0);
    let evaluated = dir.join("run/eval/im-vs-im.jsonl");
    let provenance = json(dir.join("run/eval/im-vs-im.jsonl.provenance.json"));
    let seed = provenance["games"][0]["seed"].as_u64().unwrap().to_string();
    let model = path("run/im/model");

    let mut command = program("spag-play");
    command.args(["--attacker_model_name_or_path", &model, "--defender_model_name_or_path", &model]);
    command.args(["--data_path", &words, "--seed", &seed, "--output_dir", &path("play")]).args(SAMPLING);
    run(&mut command, 0);
    let results = json(dir.join("play/llama_sampling_words_results.json"));
    let summary = json(dir.join("play/llama_sampling_words_summary.json"));

    let mut command = program("spag");
    command.args(["arena", "--players", &format!("A={model}"), &format!("B={model}"), "--words", &words]);
    command.args(["--games", &GAMES.to_string(), "--seed", &seed, "--output_dir", &path("arena")]).args(SAMPLING);
    run(&mut command, 0);
    let table = json(dir.join("arena/arena.json"));

    let played = said(results.as_array().unwrap());
    assert_eq!(played.len(), GAMES);
    assert!(played.values().any(|(_, said)| said != &played[&0].1), "the games differ from each other");
    for record in [&evaluated, &dir.join("arena/A_vs_B.jsonl"), &dir.join("arena/B_vs_A.jsonl")] {
        assert_eq!(said(&json_lines(record)), played, "{}", record.display());
    }

    let report = json(dir.join("run/report.json"));
    let report = &report["baseline"];
    assert_eq!((&report["games"], &report["mean_turns"]), (&summary["games"], &summary["mean_turns"]));
    let endings = ["right_guess", "wrong_guess", "said_unknowingly", "broken_rule", "tie"];
    for ending in endings {
        assert_eq!(report[ending]["count"], summary["endings"][ending]["games"], "{ending}");
    }
    let count = |ending: &str| summary["endings"][ending]["games"].as_u64().unwrap();
    let [right, wrong, unknowingly, broken, tied] = endings.map(count);
    for pairing in table["pairings"].as_array().unwrap() {
        let (attacker, defender) = (&pairing["as_attacker"], &pairing["as_defender"]);
        assert_eq!(
            (attacker["win"]["count"].as_u64(), attacker["games"].as_u64()),
            (Some(wrong + unknowingly), Some(GAMES as u64))
        );
        assert_eq!((defender["win"]["count"].as_u64(), defender["ties"].as_u64()), (Some(right + broken), Some(tied)));
        assert_eq!((attacker["broken_rules"].as_u64(), attacker["failed"].as_u64()), (Some(broken), Some(0)));
    }
}

/// A record that a version before wrote is completed to the same files: it holds games in another order, a torn line, and
/// games of other ranks.
#[test]
fn records_of_other_ranks_and_torn_lines_are_merged_by_all_programs() {
    let model = root().join("data/tiny-llama").display().to_string();
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    fs::write(dir.join("words.txt"), WORDS.join("\n")).unwrap();
    let words = dir.join("words.txt").display().to_string();
    let play = |output: &Path| {
        let mut command = program("spag-play");
        command.args(["--attacker_model_name_or_path", &model, "--defender_model_name_or_path", &model]);
        command.args(["--data_path", &words, "--output_dir"]).arg(output).args(SAMPLING);
        run(&mut command, 0);
    };
    let arena = |output: &Path| {
        let mut command = program("spag");
        command.args(["arena", "--players", &format!("A={model}"), &format!("B={model}"), "--words", &words]);
        command.args(["--games", "8", "--output_dir"]).arg(output).args(SAMPLING);
        run(&mut command, 0);
    };
    // The lines of a record: some in this file, the others in that.
    let split = |from: &Path, to: [&Path; 2]| {
        let text = fs::read_to_string(from).unwrap();
        let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
        lines.reverse();
        let torn = &lines[0][..lines[0].len() / 2];
        fs::write(to[0], [&lines[1..3].concat(), torn].concat()).unwrap();
        fs::write(to[1], lines[4..6].concat()).unwrap();
    };
    let (whole, part) = (dir.join("whole"), dir.join("part"));
    fs::create_dir(&part).unwrap();
    let file = |dir: &Path, name: &str| dir.join(format!("llama_sampling_words_{name}"));
    play(&whole);
    split(&file(&whole, "rank0.jsonl"), [&file(&part, "rank0.jsonl"), &file(&part, "rank3.jsonl")]);
    play(&part);
    let bytes = |dir: &Path| fs::read(file(dir, "results.json")).unwrap();
    assert!(bytes(&whole) == bytes(&part));
    assert_eq!(json_lines(file(&part, "rank0.jsonl")).len(), 6, "two of the eight games are of rank 3");

    let (whole, part) = (dir.join("whole-arena"), dir.join("part-arena"));
    fs::create_dir(&part).unwrap();
    arena(&whole);
    split(&whole.join("A_vs_B.jsonl"), [&part.join("A_vs_B.jsonl"), &dir.join("unused.jsonl")]);
    arena(&part);
    let games = |dir: &Path| said(&json_lines(dir.join("A_vs_B.jsonl")));
    assert_eq!(games(&whole), games(&part));
    assert_eq!(json(whole.join("arena.json")), json(part.join("arena.json")));
}
